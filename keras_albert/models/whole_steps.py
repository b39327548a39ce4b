"""WholeSteps: one step of a model, cut into micro-batches and over replicas, is still one step."""

import contextlib

import keras
import numpy as np
from keras.src.backend import compute_output_spec

from keras_albert.arguments import check_positive_integers
from keras_albert.layers.dropout import masks_of_replica
from keras_albert.layers.shared_products import one_backward
from keras_albert.models.pipelines import for_keras
from keras_albert.preprocessing.example_batches import ExampleBatches
from keras_albert.training import accumulation, ddp, distribution
from keras_albert.training.processes import check_slices
from keras_albert.training.replica_batches import EvenBatches, check_divides, over_replicas


class WholeSteps:
    """Mixed into every task: `train_step`, `test_step`, and data that divides.

    With one device and one micro-batch, all is Keras' own.
    """

    accumulation_steps = 1

    @property
    def parts(self) -> int:
        """Into how many parts of equal size a batch is cut: replicas times micro-batches."""
        return distribution.replicas_of(self) * self.accumulation_steps

    @property
    def is_divided(self) -> bool:
        """Whether a step is made of parts: here, or in the processes of `torchrun`."""
        return self.parts > 1 or ddp.is_distributed()

    def check_undivided(self, training) -> None:
        """Raise a `ValueError` where packed batches, whose rows differ in number, would be cut.

        Args:
            training: whether `fit` has them: micro-batches are its own.
        """
        layout = keras.distribution.distribution()
        replicas = distribution.replicas_of(self)
        divided = self.is_divided if training else replicas > 1 or ddp.is_distributed()
        if divided or layout is not None:
            raise ValueError(
                "A packed batch cannot be cut into equal parts: leave out `packing`, or use one "
                "device and train without `accumulation_steps`. Received: "
                + (f"{self.parts} parts a process" if layout is None else type(layout).__name__)
            )

    def start_processes(self, data) -> None:
        """Meet the other processes of the run, if there are any, and begin with equal weights."""
        data = getattr(data, "py_dataset", data)  # of the adapter of a `TrainingState`
        if ddp.is_distributed():
            if not hasattr(data, "process_index"):
                raise ValueError(
                    "Under `torchrun` each process must read its own slice of the data: train on a "
                    "`PretrainingDataset` with `process_index` and `num_processes`, or in one "
                    f"process. Received: {type(data).__name__}"
                )
            ddp.initialize()
            ddp.broadcast_weights(self)
        check_slices(data)

    def scope(self):
        """The scope of the model's `tf.distribute` strategy, if it has one."""
        if distribution.replicas_of(self) == 1:
            return contextlib.nullcontext()
        return self.distribute_strategy.scope()

    def check_steps(
        self, optimizer, accumulation_steps, jit_compile="auto", steps_per_execution=1, **_
    ) -> None:
        """Raise a `ValueError` for arguments of `compile` that cannot work."""
        check_positive_integers("compile", accumulation_steps=accumulation_steps)
        while optimizer is not None:
            if steps := getattr(optimizer, "gradient_accumulation_steps", None):
                raise ValueError(
                    "Keras' accumulation takes the mean of micro-batches whose masked tokens "
                    f"differ in number: use `compile(accumulation_steps={steps})` and batches "
                    f"{steps} times as large. Received: gradient_accumulation_steps={steps} of "
                    "the optimizer"
                )
            inner = getattr(optimizer, "inner_optimizer", None)
            optimizer = inner or getattr(optimizer, "inner", None)
        distribution.check_strategy(self, jit_compile, steps_per_execution)

    def train_step(self, *arguments):
        """One step; see `keras.Model.train_step`, whose arguments are the backend's."""
        with one_backward():
            return self._train_step(*arguments)

    def _train_step(self, *arguments):
        if not self.is_divided:
            return super().train_step(*arguments)
        backend, count = keras.backend.backend(), self.accumulation_steps
        if backend == "jax":
            return accumulation.jax_step(self, *arguments, count)
        if backend == "torch":
            return accumulation.torch_step(self, *arguments, count)
        with self._masks():
            return distribution.tensorflow_step(self, *arguments, count)

    def test_step(self, *arguments):
        """One step of evaluation; see `keras.Model.test_step`."""
        if ddp.is_distributed():
            return accumulation.torch_test_step(self, *arguments, super().test_step)
        if distribution.replicas_of(self) == 1:
            return super().test_step(*arguments)
        return distribution.tensorflow_test_step(self, *arguments, super().test_step)

    def get_metrics_result(self):
        """Over all processes of `torchrun`; see `keras.Model.get_metrics_result`."""
        return ddp.metrics_of_all(self, super().get_metrics_result)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        if self._is_plain_tensorflow():
            specs = iterator._distributed_dataset.element_spec if iterator else data_batch
            return self._make_metrics(specs)
        # Keras takes the mean over replicas of a batch to see its shapes, which fails for masks.
        if iterator is not None and distribution.replicas_of(self) > 1:
            for _, _, batches in iterator:
                data_batch = distribution.of_one_replica(next(batches), self.distribute_strategy)
                break
            iterator = None
        super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)

    def make_train_function(self, force=False):
        """See `keras.Model.make_train_function`."""
        # On TensorFlow Keras makes metrics' and the optimizer's variables within the first step,
        # which tf.function then traces a second time. Those of metrics: `_make_metrics`.
        if self._is_plain_tensorflow() and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        return super().make_train_function(force)

    def _is_plain_tensorflow(self):
        return keras.backend.backend() == "tensorflow" and self._distribute_strategy is None

    def _make_metrics(self, batch):
        """Make the variables of metrics, for a batch or its specs."""
        parts = (self._compile_metrics, self._compile_loss)
        if self.run_eagerly or all(part is None or part.built for part in parts):
            return
        batch = keras.tree.map_structure(_symbol, batch)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        arguments = {"x": x, "y": y, "y_pred": self.output, "sample_weight": sample_weight}
        compute_output_spec(self.compute_metrics, **arguments)
        compute_output_spec(self._compute_loss, **arguments, training=False)

    def _masks(self):
        if distribution.replicas_of(self) == 1:
            return contextlib.nullcontext()
        import tensorflow as tf

        return masks_of_replica(tf.distribute.get_replica_context().replica_id_in_sync_group)

    def in_parts(self, data, batch_size, shuffle=False, class_weight=None):
        """What Keras' loops take for `data` of `fit`, cut into equal parts."""
        return self._divided(data, batch_size, self.accumulation_steps, shuffle, class_weight)

    def in_replicas(self, data, batch_size=None):
        """What Keras' loops take for `data` of `evaluate`, which has no micro-batches."""
        return self._divided(data, batch_size, 1, False, None)

    def _divided(self, data, batch_size, count, shuffle, class_weight):
        replicas = distribution.replicas_of(self)
        if data is None or replicas * count == 1:
            return for_keras(data, shuffle, class_weight)
        source = getattr(data, "py_dataset", data)  # of the adapter of a `TrainingState`
        if not isinstance(source, keras.utils.PyDataset):
            rows = len(keras.tree.flatten(data)[0])
            check_divides(min(batch_size, rows), count, replicas)
            check_divides(rows % batch_size, count, replicas, "The last batch of model inputs")
            return data
        if class_weight is not None:
            raise ValueError(
                "`class_weight` must be None where a step is made of parts: give each example its "
                f"`sample_weight`. Received: {class_weight}, in {self.parts} parts"
            )
        if source.num_batches is None:
            check_divides(source.batch_size, count, replicas, "`batch_size` of the dataset")
        elif not isinstance(source, ExampleBatches):  # which the task fills up itself
            data = EvenBatches(data, replicas * count)
        data = for_keras(data)
        return data if replicas == 1 else over_replicas(data, self.distribute_strategy, shuffle)

    def check_texts(self, dataset) -> None:
        """Raise a `ValueError` where batches of tf.data may not divide."""
        if self.parts == 1:
            return
        for spec in keras.tree.flatten(getattr(dataset, "element_spec", ())):
            rows = spec.shape[0] if spec.shape.rank else None
            if rows is None or rows % self.parts:
                raise ValueError(
                    "Batches of a tf.data dataset must all be a multiple of the replicas times "
                    f"`accumulation_steps`, {self.parts}: batch with `drop_remainder=True`. "
                    f"Received: batches of {rows or 'unknown size'}"
                )


def _symbol(leaf):
    if leaf is None or (hasattr(leaf, "value_type") and not hasattr(leaf, "shape")):
        return None  # the second: how tf.data says so
    leaf = leaf if hasattr(leaf, "shape") else np.asarray(leaf)
    return keras.KerasTensor(leaf.shape, keras.backend.standardize_dtype(leaf.dtype))
