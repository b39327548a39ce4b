"""The masked-LM loss: the weighted mean over all masked tokens of the batch."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_albert")
class MaskedLMLoss(keras.losses.Loss):
    """Cross-entropy of the masked tokens: `sum(w * ce) / (sum(w) + 1e-5)`.

    The mean is over masked tokens, not over slots: padding slots have weight 0 and do not dilute
    it. A batch without a masked token gives 0.

    Args:
        name: of the loss.

    Call arguments:
        y_true: (B, P) integer token ids.
        y_pred: (B, P, V) logits.
        sample_weight: (B, P) weights w; None for 1 everywhere.

    Returns:
        A float32 scalar.

    Source: `get_masked_lm_output` of Google's code.

    Example:
    ```python
    loss = keras_albert.training.MaskedLMLoss()
    loss([[1, 0]], [[[0.0, 9.0], [0.0, 0.0]]], sample_weight=[[1.0, 0.0]])  # about 1e-4
    ```
    """

    epsilon = 1e-5  # as in the original code: keeps a batch without masked tokens finite

    def __init__(self, name="masked_lm_loss"):
        super().__init__(name=name, reduction="sum", dtype="float32")

    def __call__(self, y_true, y_pred, sample_weight=None):
        cross_entropy = self.call(y_true, y_pred)
        if sample_weight is None:
            weights = ops.ones_like(cross_entropy)
        else:
            weights = ops.cast(sample_weight, "float32")
        return ops.sum(weights * cross_entropy) / (ops.sum(weights) + self.epsilon)

    def call(self, y_true, y_pred):
        return keras.losses.sparse_categorical_crossentropy(
            y_true, ops.cast(y_pred, "float32"), from_logits=True
        )

    def get_config(self):
        return {"name": self.name}
