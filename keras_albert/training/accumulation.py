"""A step over a batch in micro-batches: gradients are added up, then applied once.

It is the step over the whole batch, in the memory of a micro-batch: losses are divided by the
weights of the whole step, gradients are clipped once, and the schedule counts steps.
`distribution.py` has TensorFlow's, over micro-batches and replicas.
"""

import contextlib
import itertools
import threading

import keras
from keras import ops

from keras_albert.training import ddp
from keras_albert.training.losses import MaskedLMLoss
from keras_albert.training.processes import num_processes

MEANS = ("mean_with_sample_weight", "sum_over_batch_size", "mean")
_step = threading.local()  # TensorFlow traces replicas in threads of their own


@contextlib.contextmanager
def whole_step(totals, parts, replicas=1):
    """Inside, a `StepLoss` is that of a part of a step, scaled so that the mean of parts is exact.

    Args:
        totals: what `weights_of_step` gave for the whole step, added up over all replicas.
        parts: how many micro-batches on all replicas, of equal size.
        replicas: by how many Keras divides its losses; it adds up what replicas return.
    """
    _step.found = (totals, parts, replicas)
    try:
        yield
    finally:
        _step.found = None


class StepLoss(keras.losses.Loss):
    """A loss whose weighted mean is over a whole step, which micro-batches and replicas divide.

    Outside of `whole_step` it is the loss that it is made of.

    Args:
        loss: a `MaskedLMLoss`, or a Keras loss that takes a mean.
        place: among the losses of the model; the same in every process.

    Raises:
        ValueError: it is something else.
    """

    def __init__(self, loss, place=0):
        loss = keras.losses.get(loss)
        reduction = getattr(loss, "reduction", None)
        if not isinstance(loss, MaskedLMLoss) and reduction not in MEANS:
            raise ValueError(
                "Over several devices or micro-batches every loss must be a `keras.losses.Loss` "
                f"with one of the reductions {MEANS}. Received: {loss!r} with "
                f"reduction={reduction!r}"
            )
        super().__init__(name=loss.name, reduction=reduction)
        self.loss = loss
        self.place = place

    def __call__(self, y_true, y_pred, sample_weight=None):
        value = self.loss(y_true, y_pred, sample_weight)
        found = getattr(_step, "found", None)
        if found is None:
            return value
        totals, parts, replicas = found
        if isinstance(self.loss, MaskedLMLoss):
            weights = ops.ones_like(y_true) if sample_weight is None else sample_weight
            own = ops.sum(ops.cast(weights, value.dtype))
            total = totals.get(self.place, own * parts)
            share = (own + self.loss.epsilon) / (total + self.loss.epsilon)
            return value * share * (parts // replicas)  # which Keras does not divide by replicas
        if self.place not in totals or self.reduction != MEANS[0]:
            return value  # a mean over examples, of which parts have equally many
        own = ops.sum(ops.cast(sample_weight, value.dtype))
        return value * ops.divide_no_nan(own, totals[self.place]) * parts


def step_losses(loss):
    """The `loss` of `compile`, each as a `StepLoss`."""
    if loss is None:
        return None
    places = itertools.count()
    return keras.tree.map_structure(lambda one: StepLoss(one, next(places)), loss)


def losses_given(loss):
    """The other way round, for what is saved."""
    return keras.tree.map_structure(
        lambda one: one.loss if isinstance(one, StepLoss) else one, loss
    )


def weights_of_step(losses, sample_weight):
    """The sums of the weights that each `StepLoss` sees, by its place; none without weights."""
    if sample_weight is None:
        return {}
    if isinstance(losses, StepLoss):
        return {losses.place: ops.sum(ops.cast(sample_weight, "float32"))}
    names = losses if isinstance(losses, dict) else range(len(losses))
    nested = isinstance(sample_weight, (dict, list, tuple))
    return {
        losses[name].place: ops.sum(
            ops.cast(sample_weight[name] if nested else sample_weight, "float32")
        )
        for name in names
    }


def micro_batches(batch, count: int):
    """Leaves (B, ...) as (count, B / count, ...): micro-batch k has the rows k, k + count, ...

    Where rows are spread over devices, each device has its share of every micro-batch.
    """

    def divide(leaf):
        if leaf is None:
            return None
        leaf = ops.convert_to_tensor(leaf)
        rows, *rest = ops.shape(leaf)
        if isinstance(rows, int) and rows % count:
            raise ValueError(
                "A batch must divide into `accumulation_steps` micro-batches of equal size. "
                f"Received: {rows} examples, accumulation_steps={count}"
            )
        return ops.swapaxes(ops.reshape(leaf, (-1, count, *rest)), 0, 1)

    return keras.tree.map_structure(divide, batch)


def micro_batch(divided, number):
    """One of what `micro_batches` gave."""
    return keras.tree.map_structure(lambda leaf: None if leaf is None else leaf[number], divided)


def note(model, batch, y_pred, loss):
    """Update the mean loss and the metrics with a micro-batch."""
    x, y, sample_weight = batch
    rows = ops.shape(keras.tree.flatten(x)[0])[0]
    for metric in model.metrics:
        if metric.name == "loss":
            metric.update_state(loss, sample_weight=rows)
    model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)


def jax_step(model, state, data, count: int):
    """`train_step` of JAX: takes and returns the state; see `keras.Model.train_step`."""
    import jax

    batch = keras.utils.unpack_x_y_sample_weight(data)
    trainable, non_trainable, optimizer_variables, metrics = state
    totals = weights_of_step(model.loss, batch[2])
    differentiate = jax.value_and_grad(model.compute_loss_and_updates, has_aux=True)

    def one(carry, batch):
        grads, non_trainable, metrics = carry
        with whole_step(totals, count):
            (_, (loss, y_pred, non_trainable, metrics)), new = differentiate(
                trainable,
                non_trainable,
                metrics,
                *batch,
                training=True,
                optimizer_variables=optimizer_variables,
            )
        with keras.StatelessScope(zip(model.metrics_variables, metrics, strict=True)) as scope:
            note(model, batch, y_pred, loss)
        metrics = [scope.get_current_value(variable) for variable in model.metrics_variables]
        return ([a + b for a, b in zip(grads, new, strict=True)], list(non_trainable), metrics), ()

    zeros = [jax.numpy.zeros_like(value) for value in trainable]
    start = (zeros, list(non_trainable), list(metrics))
    (grads, non_trainable, metrics), _ = jax.lax.scan(one, start, micro_batches(batch, count))
    trainable, optimizer_variables = model.optimizer.stateless_apply(
        optimizer_variables, [grad / count for grad in grads], trainable
    )
    with keras.StatelessScope(zip(model.metrics_variables, metrics, strict=True)):
        logs = model.get_metrics_result()
    return logs, (trainable, non_trainable, optimizer_variables, metrics)


def torch_step(model, data, count: int):
    """`train_step` of PyTorch; see `keras.Model.train_step`."""
    import torch

    batch = keras.utils.unpack_x_y_sample_weight(data)
    totals = ddp.all_reduce_sum(weights_of_step(model.loss, batch[2]))
    divided = micro_batches(batch, count)
    model.zero_grad()
    for number in range(count):
        x, y, sample_weight = micro = micro_batch(divided, number)
        y_pred = model(x, training=True)
        with whole_step(totals, count * num_processes()):
            loss = model.compute_loss(x, y, y_pred, sample_weight)
        note(model, micro, y_pred, loss.detach())
        (model.optimizer.scale_loss(loss) / count).backward()
    weights = model.trainable_weights
    grads = ddp.mean_gradients(variable.value.grad for variable in weights)
    with torch.no_grad():
        model.optimizer.apply(grads, weights)
    return model.get_metrics_result()


def torch_test_step(model, data, step):
    """`test_step` of PyTorch in one of several processes; `step` is Keras' own."""
    sample_weight = keras.utils.unpack_x_y_sample_weight(data)[2]
    totals = ddp.all_reduce_sum(weights_of_step(model.loss, sample_weight))
    with whole_step(totals, num_processes()):
        return step(data)
