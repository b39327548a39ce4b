"""LAMB as ALBERT's released code uses it, which is not `keras.optimizers.Lamb`."""

import keras
from keras import ops

from keras_albert.arguments import is_number
from keras_albert.training.in_place import (
    ClipsTogether,
    adam_step,
    add_share,
    global_norm,
    move_average,
    move_average_of_square,
    take_off,
)
from keras_albert.training.optimizer_arguments import (
    Exclusion,
    check_optimizer,
    dense_gradients,
)


@keras.saving.register_keras_serializable(package="keras_albert")
class Lamb(ClipsTogether, keras.optimizers.Optimizer):
    """Layer-wise adaptive moments, without bias correction, with the decay inside the ratio.

    m = beta_1 m + (1 - beta_1) g,   v = beta_2 v + (1 - beta_2) g^2
    update = m / (sqrt(v) + epsilon) + weight_decay * w
    w = w - rate * ratio * update,   ratio = |w| / |update|, or 1 where either norm is 0

    `keras.optimizers.Lamb` corrects the bias, decays outside the ratio, and adapts every variable.
    Here, variables that `exclude` matches (LayerNorm and biases) get no decay and ratio 1.

    Args:
        learning_rate: a float or a `keras.optimizers.schedules.LearningRateSchedule`.
        weight_decay: rate of decay, inside the update. None or 0 for none.
        beta_1, beta_2: decay of the two moments.
        epsilon: added to sqrt(v).
        exclude: regular expressions searched for in a variable's path; a match excludes it from
            decay and adaptation.
        global_clipnorm: gradients are scaled down to this global norm first. None for no clipping.
        name: of the optimizer.
        **kwargs: other arguments of `keras.optimizers.Optimizer`.

    Raises:
        ValueError: a beta outside [0, 1), a negative rate, an expression that does not compile.

    Source: You et al. (2020), Algorithm 2; `LAMBOptimizer` of Google's ALBERT.

    Example:
    ```python
    schedule = keras_albert.WarmupPolynomialDecay(
        1.76e-3, warmup_steps=3125, total_steps=125_000
    )
    model.compile(optimizer=keras_albert.Lamb(schedule, weight_decay=0.01))
    ```
    """

    def __init__(
        self,
        learning_rate=1e-3,
        weight_decay=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        exclude=("layer_norm", "LayerNorm", "bias"),
        global_clipnorm=1.0,
        name="lamb",
        **kwargs,
    ):
        check_optimizer("Lamb", learning_rate, global_clipnorm)
        for argument, value in (("beta_1", beta_1), ("beta_2", beta_2)):
            if not is_number(value) or not 0 <= value < 1:
                raise ValueError(f"`{argument}` must be in [0, 1). Received: {value!r}")
        numbers = (weight_decay or 0, epsilon)
        if not all(map(is_number, numbers)) or numbers[0] < 0 or epsilon <= 0:
            raise ValueError(
                "`weight_decay` must not be negative and `epsilon` must be above 0. "
                f"Received: weight_decay={weight_decay!r}, epsilon={epsilon!r}"
            )
        exclusion = Exclusion("Lamb", exclude)
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay or None,
            global_clipnorm=global_clipnorm,
            name=name,
            **kwargs,
        )
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.exclude = exclusion.exclude
        self._exclusion = exclusion

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._momentums, self._velocities = self.add_optimizer_variables(
            variables, ["momentum", "velocity"]
        )
        # By index: under TensorFlow `update_step` is handed a variable that knows no path.
        self._excluded = [variable in self._exclusion for variable in variables]

    def apply(self, grads, trainable_variables=None):
        variables = list(trainable_variables or self._trainable_variables)
        super().apply(dense_gradients(grads, variables), trainable_variables)

    def _apply_weight_decay(self, variables):
        """Nothing: the decay is part of the update, so that the trust ratio scales it."""

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        dtype = variable.dtype
        rate = ops.cast(learning_rate, dtype)
        gradient = ops.cast(gradient, dtype)
        move_average(self, self._momentums[index], gradient, self.beta_1)
        move_average_of_square(self, self._velocities[index], gradient, self.beta_2)
        weight = ops.convert_to_tensor(variable)
        update = self._update(index, weight)
        if not self._excluded[index]:
            rate = rate * ops.cast(_trust_ratio(weight, update), dtype)
        take_off(self, variable, update, rate)

    def _update(self, index, weight):
        update = adam_step(self._momentums[index], self._velocities[index], self.epsilon)
        if self._excluded[index]:
            return update
        return add_share(update, self.weight_decay or 0.0, weight)

    def trust_ratios(self) -> dict[str, float]:
        """|w| / |update| of every adapted variable, by its path, as weights and moments now stand.

        A ratio that falls towards 0, or another that grows without end, is a layer about to
        diverge. `TrainingLog` writes the least, the median and the largest. The optimizer must have
        been built: by a step, or by `build`.

        Example:
        >>> model.optimizer.trust_ratios()["token_embedding/embeddings"]
        """
        ratios = {}
        for index, variable in enumerate(self._trainable_variables):
            if not self._excluded[index]:
                weight = ops.stop_gradient(ops.convert_to_tensor(variable))
                ratio = _trust_ratio(weight, self._update(index, weight))
                ratios[variable.path] = float(ops.convert_to_numpy(ratio))
        return ratios

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "beta_1": self.beta_1,
                "beta_2": self.beta_2,
                "epsilon": self.epsilon,
                "exclude": self.exclude,
            }
        )
        return config


def _trust_ratio(weight, update):
    weight_norm, update_norm = global_norm([weight]), global_norm([update])
    usable = ops.logical_and(weight_norm > 0, update_norm > 0)
    return ops.where(usable, weight_norm / ops.where(usable, update_norm, 1.0), 1.0)
