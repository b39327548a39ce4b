"""AdamW for fine-tuning: Keras' own, with decay left out by patterns that are saved with it."""

import keras
from keras import ops

from keras_albert.arguments import check, check_positive_numbers, is_number
from keras_albert.training.in_place import (
    ClipsTogether,
    adam_step,
    adamw_steps,
    is_torch,
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
class AdamW(ClipsTogether, keras.optimizers.AdamW):
    """`keras.optimizers.AdamW` without decay on LayerNorm and biases.

    Keras' `exclude_from_weight_decay` looks at a variable's last name alone and is lost when the
    model is saved; `exclude` looks at the whole path and is part of the configuration.

    Args:
        learning_rate: a float or a `keras.optimizers.schedules.LearningRateSchedule`.
        weight_decay: rate of decay.
        exclude: regular expressions searched for in a variable's path; a match has no decay.
        epsilon: added to sqrt(v); 1e-6 as in BERT's optimizer.
        global_clipnorm: gradients are scaled down to this global norm first. None for no clipping.
        name: of the optimizer.
        **kwargs: other arguments of `keras.optimizers.AdamW`.

    Raises:
        ValueError: a rate is negative, `exclude` holds something that is no regular expression.

    Source: Devlin et al. (2019), appendix A.2; `AdamWeightDecayOptimizer` of Google's BERT.

    Example:
    ```python
    schedule = keras_albert.WarmupPolynomialDecay(2e-5, warmup_steps=100, total_steps=1000)
    model.compile(optimizer=keras_albert.AdamW(schedule))
    ```
    """

    def __init__(
        self,
        learning_rate=2e-5,
        weight_decay=0.01,
        exclude=("layer_norm", "LayerNorm", "bias"),
        epsilon=1e-6,
        global_clipnorm=1.0,
        name="adamw",
        **kwargs,
    ):
        check_optimizer("AdamW", learning_rate, global_clipnorm)
        check(
            "AdamW",
            "a number of at least 0, or None for no decay",
            lambda rate: rate is None or (is_number(rate) and rate >= 0),
            weight_decay=weight_decay,
        )
        check_positive_numbers("AdamW", epsilon=epsilon)
        exclusion = Exclusion("AdamW", exclude)
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay or 0.0,  # Keras takes no None
            epsilon=epsilon,
            global_clipnorm=global_clipnorm,
            name=name,
            **kwargs,
        )
        self.exclude = exclusion.exclude
        self._exclusion = exclusion

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        # By key: under TensorFlow `_use_weight_decay` is handed a variable that knows no path.
        self._excluded = {self._var_key(v) for v in variables if v in self._exclusion}

    def apply(self, grads, trainable_variables=None):
        variables = list(trainable_variables or self._trainable_variables)
        super().apply(dense_gradients(grads, variables), trainable_variables)

    def _apply_weight_decay(self, variables):
        if not self._is_fused(variables):
            super()._apply_weight_decay(variables)

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        if not self._is_fused(trainable_variables):
            super()._backend_update_step(grads, trainable_variables, learning_rate)
            return
        indices = [self._get_variable_index(variable) for variable in trainable_variables]
        moments = [(self._momentums[i], self._velocities[i]) for i in indices]
        decay = self.weight_decay or 0.0
        decays = [decay * self._use_weight_decay(variable) for variable in trainable_variables]
        steps, rates = int(self.iterations) + 1, (float(learning_rate), decays)
        betas = self.beta_1, self.beta_2
        adamw_steps(trainable_variables, grads, moments, steps, rates, *betas, self.epsilon)

    def _is_fused(self, variables):
        """Whether all is in float32 on a CPU, where asking for numbers costs nothing."""
        return (
            is_torch()
            and not self.amsgrad
            and all(variable.dtype == "float32" for variable in variables)
            and all(v.value.device.type == "cpu" and v.value.is_contiguous() for v in variables)
        )

    def update_step(self, gradient, variable, learning_rate):
        if not is_torch() or self.amsgrad:
            super().update_step(gradient, variable, learning_rate)
            return
        index = self._get_variable_index(variable)
        m, v = self._momentums[index], self._velocities[index]
        gradient = ops.cast(gradient, variable.dtype)
        move_average(self, m, gradient, self.beta_1)
        move_average_of_square(self, v, gradient, self.beta_2)
        step = ops.cast(self.iterations + 1, variable.dtype)
        corrections = 1 - ops.power(self.beta_1, step), ops.sqrt(1 - ops.power(self.beta_2, step))
        rate = ops.cast(learning_rate, variable.dtype) * corrections[1] / corrections[0]
        take_off(self, variable, adam_step(m, v, self.epsilon), rate)

    def _use_weight_decay(self, variable):
        return self._var_key(variable) not in self._excluded

    def get_config(self):
        return {**super().get_config(), "exclude": self.exclude}
