"""`tf.distribute` under `fit`: a step over replicas is the step of one device over their batches.

Keras leaves to each replica its own mean of the loss, its own clipping and the same dropout masks.
Here weights of losses and gradients are added up over the replicas, then clipped, then applied.
"""

import keras
from keras import ops

from keras_albert.training.accumulation import (
    micro_batch,
    micro_batches,
    note,
    weights_of_step,
    whole_step,
)
from keras_albert.training.optimizer_arguments import dense_gradients

STRATEGIES = ("mirrored", "multiworker", "tpu")


def make_strategy(name: str):
    """A `tf.distribute.Strategy` over all devices, by name.

    Args:
        name: `"mirrored"`, the GPUs of this machine; `"multiworker"`, those of the machines that
            TF_CONFIG names, of which each runs the same program; `"tpu"`, the TPU that TPU_NAME
            or this machine has (the code path only: never run on a TPU).

    Raises:
        ValueError: another name, or another backend than TensorFlow.
    """
    if name not in STRATEGIES:
        raise ValueError(f"A strategy must be one of {STRATEGIES}. Received: {name!r}")
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            "`tf.distribute` strategies need KERAS_BACKEND=tensorflow; JAX has "
            f"`keras.distribution`. Received: {name!r} on {keras.backend.backend()}"
        )
    import tensorflow as tf

    if name == "mirrored":
        return tf.distribute.MirroredStrategy()
    if name == "multiworker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    return tf.distribute.TPUStrategy(resolver)


def replicas_of(model) -> int:
    """The number of replicas that a model trains on; 1 without `tf.distribute`."""
    if keras.backend.backend() != "tensorflow":
        return 1
    return model.distribute_strategy.num_replicas_in_sync


def workers_of(model) -> int:
    """The number of processes of a model's `MultiWorkerMirroredStrategy`; 1 of any other."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    strategy = model.distribute_strategy
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 1
    return max(1, len(strategy.cluster_resolver.cluster_spec().as_dict().get("worker", ())))


def check_strategy(model, jit_compile, steps_per_execution) -> None:
    """Raise a `ValueError` for what cannot work under a model's strategy, naming what does."""
    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    strategy = model.distribute_strategy
    name = type(strategy).__name__
    if tf.distribute.has_strategy() and tf.distribute.get_strategy() is not strategy:
        raise ValueError(
            "A model must be made and compiled in the `scope()` of one strategy: make it there "
            f"too. Received: a model of {name}, compiled under "
            f"{type(tf.distribute.get_strategy()).__name__}"
        )
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        raise ValueError(
            "Training must be synchronous: use `MirroredStrategy`, `MultiWorkerMirroredStrategy` "
            f"or `TPUStrategy`. Received: {name}"
        )
    replicas = strategy.num_replicas_in_sync
    if replicas == 1 or isinstance(strategy, tf.distribute.TPUStrategy):
        return
    if jit_compile is True:
        raise ValueError(
            "Under several replicas `jit_compile` must be 'auto' or False: XLA cannot compile what "
            f"replicas exchange. Received: jit_compile=True under {name} of {replicas} replicas"
        )
    if steps_per_execution != 1:
        raise ValueError(
            "Under several replicas `steps_per_execution` must be 1. Received: "
            f"steps_per_execution={steps_per_execution} under {name} of {replicas} replicas"
        )
    if model.dtype_policy.name == "mixed_float16":
        raise ValueError(
            "Under several replicas use 'mixed_bfloat16', which needs no loss scaling. Received: "
            f"dtype 'mixed_float16' under {name} of {replicas} replicas"
        )


def of_one_replica(batch, strategy):
    """What one of the replicas of this process gets of a batch."""
    local = strategy.experimental_local_results
    return keras.tree.map_structure(lambda leaf: local(leaf)[0], batch)


def sum_over_replicas(tensors):
    """Each tensor of a structure summed over the replicas, on every replica."""
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1 or not keras.tree.flatten(tensors):
        return tensors
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)


def apply_sums(optimizer, grads, variables) -> None:
    """Apply gradients that were summed over the replicas; they are clipped here.

    The optimizer adds up once more what replicas give it, so each gives its part of the sum. What
    was clipped as a whole is below the limit in parts, so the optimizer does not clip again.
    """
    import tensorflow as tf

    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if replicas > 1:
        grads = _clipped(optimizer, grads)
        grads = [grad if grad is None else grad / replicas for grad in grads]
    optimizer.apply(grads, variables)


def in_strategy() -> bool:
    """Whether this is called under a `tf.distribute` strategy, be it of one replica."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return tf.distribute.has_strategy()


def skip_together(measure, count, optimizer, grads, variables) -> None:
    """Apply gradients of all replicas where their sum is finite: all replicas do, or none.

    Args:
        measure: from summed gradients to their norm and whether it is finite.
        count: takes both, on every replica.
        optimizer: the optimizer that takes finite gradients.
        grads: of this replica.
        variables: that they are of.
    """
    import tensorflow as tf

    grads = summed_gradients(grads)
    norm, finite = measure(grads)
    count(norm, finite)

    def apply():
        apply_sums(optimizer, grads, variables)

    if tf.__internal__.distribute.strategy_supports_no_merge_call():
        ops.cond(finite, apply, lambda: None)
        return

    # Replicas can meet in no branch of theirs, only in one of all together.
    def together(strategy, finite, grads):
        first = strategy.experimental_local_results(finite)[0]
        each = strategy.extended.call_for_each_replica
        ops.cond(
            first,
            lambda: each(lambda grads: apply_sums(optimizer, grads, variables), args=(grads,)),
            lambda: None,
        )

    tf.distribute.get_replica_context().merge_call(together, args=(finite, grads))


def _clipped(optimizer, grads):
    import tensorflow as tf

    if optimizer.global_clipnorm:
        return tf.clip_by_global_norm(grads, optimizer.global_clipnorm)[0]
    if optimizer.clipnorm:
        return [g if g is None else tf.clip_by_norm(g, optimizer.clipnorm) for g in grads]
    if optimizer.clipvalue:
        limit = optimizer.clipvalue
        return [g if g is None else tf.clip_by_value(g, -limit, limit) for g in grads]
    return grads


def tensorflow_step(model, data, count: int):
    """`train_step` of TensorFlow, of one replica, in `count` micro-batches.

    Returns:
        The logs; see `keras.Model.train_step`.
    """
    import tensorflow as tf

    from keras_albert.training.safety import SkipNonFinite

    replicas = tf.distribute.get_replica_context().num_replicas_in_sync
    batch = keras.utils.unpack_x_y_sample_weight(data)
    totals = sum_over_replicas(weights_of_step(model.loss, batch[2]))
    weights = model.trainable_weights
    # Seeds of dropout. They go through the loop by hand: replicas can meet only outside of it.
    known = {id(variable) for variable in model.weights}
    seeds = [v for v in model.non_trainable_variables if id(v) not in known]

    def one(batch, values):
        x, y, sample_weight = batch
        with tf.GradientTape() as tape:
            with keras.StatelessScope(list(zip(seeds, values, strict=True))) as scope:
                y_pred = model(x, training=True)
            with whole_step(totals, count * replicas, replicas):
                loss = model.compute_loss(x, y, y_pred, sample_weight)
            scaled = model.optimizer.scale_loss(loss) / count
        note(model, batch, y_pred, loss * replicas)
        # Sparse ones could not be added up in a loop.
        grads = dense_gradients(tape.gradient(scaled, weights), weights)
        return grads, [scope.get_current_value(variable) for variable in seeds]

    divided = micro_batches(batch, count)
    grads, values = one(micro_batch(divided, 0), [tf.convert_to_tensor(seed) for seed in seeds])
    if count > 1:
        used = [place for place, grad in enumerate(grads) if grad is not None]

        def more(number, sums, values):
            new, values = one(micro_batch(divided, number), values)
            sums = [old + new[place] for old, place in zip(sums, used, strict=True)]
            return number + 1, sums, values

        start = (tf.constant(1), [grads[place] for place in used], values)
        _, sums, values = tf.while_loop(
            lambda number, *_: number < count, more, start, parallel_iterations=1
        )
        grads = [None] * len(weights)
        for place, total in zip(used, sums, strict=True):
            grads[place] = total
    for seed, value in zip(seeds, values, strict=True):
        seed.assign(value)
    if isinstance(model.optimizer, SkipNonFinite):  # which looks at the sums itself
        model.optimizer.apply(grads, weights)
    else:
        apply_sums(model.optimizer, summed_gradients(grads), weights)
    return _logs(model.get_metrics_result())


def tensorflow_test_step(model, data, step):
    """`test_step` of TensorFlow, of one of several replicas; `step` is Keras' own."""
    import tensorflow as tf

    replicas = tf.distribute.get_replica_context().num_replicas_in_sync
    sample_weight = keras.utils.unpack_x_y_sample_weight(data)[2]
    totals = sum_over_replicas(weights_of_step(model.loss, sample_weight))
    with whole_step(totals, replicas, replicas):
        return _logs(step(data))


def summed_gradients(grads):
    """Gradients summed over the replicas; None where a variable has none."""
    sums = iter(sum_over_replicas([grad for grad in grads if grad is not None]))
    return [None if grad is None else next(sums) for grad in grads]


def _logs(logs):
    """Of several workers Keras takes the mean along an axis, which numbers lack."""
    import tensorflow as tf

    if not isinstance(tf.distribute.get_strategy(), tf.distribute.MultiWorkerMirroredStrategy):
        return logs
    return {name: tf.reshape(value, [1]) for name, value in logs.items()}
