"""Steps whose gradient is not finite: skipped on the device, counted, and watched from outside."""

import collections
import math
import statistics

import keras
from keras import ops

from keras_albert.arguments import check, check_integers, is_number
from keras_albert.training.distribution import in_strategy, skip_together
from keras_albert.training.in_place import global_norm
from keras_albert.training.optimizer_arguments import dense_gradients


@keras.saving.register_keras_serializable(package="keras_albert")
class SkipNonFinite(keras.optimizers.Optimizer):
    """An optimizer that leaves out steps whose gradient has no finite global norm.

    In such a step weights and optimizer stay as they were, the count of steps included, and
    `skipped` counts it. A loss that is not finite has no finite gradient. The seeds of dropout go
    on, and so does the data.

    The norm is that of the gradients as they come: before clipping, summed over the replicas of a
    `tf.distribute` strategy and over `accumulation_steps`. Under `mixed_float16` Keras puts its
    `LossScaleOptimizer` around this one, which then sees the steps that scaling lets through.

    Args:
        optimizer: the `keras.optimizers.Optimizer` that takes the finite steps.
        name: of the optimizer.

    Attributes:
        gradient_norm: variable (), of the last step, finite or not.
        skipped: variable (), how many steps were left out.
        skipped_in_a_row: variable (), how many of them just now, one after the other.

    Raises:
        ValueError: `optimizer` is no Keras optimizer.

    Example:
    ```python
    model.compile(optimizer=keras_albert.SkipNonFinite(keras_albert.Lamb(1e-3)))
    ```
    """

    def __init__(self, optimizer, name="skip_non_finite"):
        check(
            "SkipNonFinite",
            "a keras optimizer",
            lambda value: (
                isinstance(value, keras.optimizers.Optimizer)
                and not isinstance(value, SkipNonFinite)
            ),
            optimizer=optimizer,
        )
        super().__init__(learning_rate=0.0, name=name)
        self.inner = optimizer

    def build(self, variables):
        if self.built:
            return
        self.gradient_norm = self._counter("gradient_norm", "float32")
        self.skipped = self._counter("skipped", "int32")
        self.skipped_in_a_row = self._counter("skipped_in_a_row", "int32")
        self._own = [self.gradient_norm, self.skipped, self.skipped_in_a_row]
        self.inner.build(variables)
        super().build(variables)

    def _counter(self, name, dtype):
        return self.add_variable((), dtype=dtype, initializer="zeros", name=name)

    @property
    def variables(self):
        return self._variables + self.inner.variables

    def apply(self, grads, trainable_variables=None):
        grads = list(grads)
        if not self.built:
            self.build(list(trainable_variables))
        if keras.backend.backend() == "jax":  # whose `cond` takes no side effects
            variables = self.variables + self._trainable_variables
            new_trainable, new_own = self.stateless_apply(
                self.variables, grads, self._trainable_variables
            )
            for variable, value in zip(variables, [*new_own, *new_trainable], strict=True):
                variable.assign(value)
            return
        if in_strategy():
            skip_together(self._measure, self._count, self.inner, grads, trainable_variables)
            return
        norm, finite = self._measure(grads)
        self._count(norm, finite)
        ops.cond(finite, lambda: self.inner.apply(grads, trainable_variables), lambda: None)

    def stateless_apply(self, optimizer_variables, grads, trainable_variables):
        """As `apply`, for JAX: takes and returns values; see `keras.optimizers.Optimizer`."""
        norm, finite = self._measure(grads)
        own = len(self._variables)
        mapping = list(zip(self._variables, optimizer_variables[:own], strict=True))
        with keras.StatelessScope(state_mapping=mapping) as scope:
            self._count(norm, finite)
        counted = [scope.get_current_value(variable) for variable in self._variables]
        # `LossScaleOptimizer` hands over variables.
        inner = [ops.convert_to_tensor(value) for value in optimizer_variables[own:]]
        trainable = [ops.convert_to_tensor(value) for value in trainable_variables]
        new_trainable, new_inner = ops.cond(
            finite,
            lambda: self.inner.stateless_apply(inner, grads, trainable),
            lambda: (trainable, inner),
        )
        return new_trainable, counted + list(new_inner)

    def _measure(self, grads):
        grads = dense_gradients(grads, self._trainable_variables)
        norm = global_norm([grad for grad in grads if grad is not None])
        norm = norm / (self.inner.loss_scale_factor or 1.0)
        return norm, ops.isfinite(norm)

    def _count(self, norm, finite):
        bad = ops.cast(ops.logical_not(finite), "int32")
        self.gradient_norm.assign(norm)
        self.skipped.assign(self.skipped + bad)
        self.skipped_in_a_row.assign((self.skipped_in_a_row + bad) * bad)

    @property
    def learning_rate(self):
        return self.inner.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate):
        self.inner.learning_rate = learning_rate

    @property
    def iterations(self):
        return self.inner.iterations

    def scale_loss(self, loss):
        return self.inner.scale_loss(loss)

    def finalize_variable_values(self, var_list):
        self.inner.finalize_variable_values(var_list)

    def get_config(self):
        inner = keras.saving.serialize_keras_object(self.inner)
        return {"optimizer": inner, "name": self.name}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        inner = keras.saving.deserialize_keras_object(config["optimizer"], custom_objects)
        return cls(inner, name=config["name"])


class GradientWatch:
    """Says what to note of each step: skipped ones, spikes of the norm; ends a run that is stuck.

    Args:
        limit: so many skipped steps in a row end the run.
        spike: a norm above this many times the median of the last 100 is a spike.

    Raises:
        ValueError: an argument outside these rules.
    """

    def __init__(self, limit: int = 10, spike: float = 10.0):
        check_integers("GradientWatch", 1, limit=limit)
        rule = "a number above 1"
        check("GradientWatch", rule, lambda value: is_number(value) and value > 1, spike=spike)
        self.limit, self.spike = limit, spike
        self._norms = collections.deque(maxlen=100)

    def observe(self, step: int, norm: float, skipped: int, in_a_row: int) -> dict | None:
        """What happened in a step.

        Args:
            step: for the messages.
            norm: of its gradient.
            skipped: how many steps were, so far.
            in_a_row: how many of them just now.

        Returns:
            None, or a dict of `event` (`"skipped"` or `"spike"`), `gradient_norm` and its number
            `skipped` or its `median`.

        Raises:
            RuntimeError: at the limit.
        """
        if in_a_row >= self.limit:
            raise RuntimeError(
                f"{in_a_row} steps in a row had a gradient that is not finite, and were skipped. "
                f"Training ends at step {step:,}: weights and optimizer are those of the last "
                "finite step. Lower the learning rate, or look at the data of these steps."
            )
        if not math.isfinite(norm):
            return {"event": "skipped", "gradient_norm": norm, "skipped": skipped}
        # After 20 norms, as the first steps of a run are wild.
        median = statistics.median(self._norms) if len(self._norms) >= 20 else math.inf
        self._norms.append(norm)
        if norm > self.spike * median:
            return {"event": "spike", "gradient_norm": norm, "median": median}
        return None
