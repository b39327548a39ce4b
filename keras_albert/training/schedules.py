"""Learning-rate schedules of the original code."""

import keras
from keras import ops

from keras_albert.arguments import check_integers, check_positive_numbers, is_number


@keras.saving.register_keras_serializable(package="keras_albert")
class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from 0, then polynomial decay counted from step 0.

    rate(t) = peak * t / warmup_steps                                          for t < warmup_steps
    rate(t) = (peak - end) * (1 - min(t, total) / total) ** power + end        afterwards

    The decay is counted from step 0, not from the end of the warm-up: the rate falls by a small
    step where the two meet, as in Google's code.

    Args:
        learning_rate: the peak rate.
        warmup_steps: optimizer steps of warm-up; 0 for none.
        total_steps: optimizer steps after which the rate is `end_learning_rate`.
        power: 1.0 is linear.
        end_learning_rate: the last rate.
        name: of the schedule.

    Raises:
        ValueError: `warmup_steps` is negative or not below `total_steps`, or a rate is negative.

    Source: `create_optimizer` of Google's code; Lan et al. (2020), section 4.1 (peak 1.76e-3,
    3,125 steps of 125,000).

    Example:
    ```python
    schedule = keras_albert.WarmupPolynomialDecay(1e-3, warmup_steps=10, total_steps=100)
    float(schedule(5)), float(schedule(50))  # 0.0005, 0.0005
    ```
    """

    def __init__(
        self,
        learning_rate,
        warmup_steps,
        total_steps,
        power=1.0,
        end_learning_rate=0.0,
        name="WarmupPolynomialDecay",
    ):
        super().__init__()
        check_integers("WarmupPolynomialDecay", 1, total_steps=total_steps)
        check_integers("WarmupPolynomialDecay", 0, warmup_steps=warmup_steps)
        check_positive_numbers("WarmupPolynomialDecay", power=power)
        if warmup_steps >= total_steps:
            raise ValueError(
                "`warmup_steps` must be less than `total_steps`. "
                f"Received: warmup_steps={warmup_steps}, total_steps={total_steps}"
            )
        if not all(is_number(r) and r >= 0 for r in (learning_rate, end_learning_rate)):
            raise ValueError(
                "Learning rates must be numbers and must not be negative. Received: "
                f"learning_rate={learning_rate!r}, end_learning_rate={end_learning_rate!r}"
            )
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps
        self.power = power
        self.end_learning_rate = end_learning_rate
        self.name = name

    def __call__(self, step):
        step = ops.cast(step, "float32")
        left = 1.0 - ops.minimum(step, float(self.total_steps)) / float(self.total_steps)
        decayed = (self.learning_rate - self.end_learning_rate) * ops.power(left, self.power)
        decayed = decayed + self.end_learning_rate
        if self.warmup_steps == 0:
            return decayed
        warming = self.learning_rate * step / float(self.warmup_steps)
        return ops.where(step < float(self.warmup_steps), warming, decayed)

    def get_config(self):
        return {
            "learning_rate": self.learning_rate,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
            "power": self.power,
            "end_learning_rate": self.end_learning_rate,
            "name": self.name,
        }
