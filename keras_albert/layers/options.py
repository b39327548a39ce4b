"""Several options in one example: folded into the batch for the encoder, and scored together.

Shapes: B batch, N options, S sequence, H hidden.
"""

import keras
from keras import ops

_NEVER = -1e9  # the logit of an option that is padding


@keras.saving.register_keras_serializable(package="keras_albert")
class FoldOptions(keras.layers.Layer):
    """(B, N, S) to (B * N, S): every option is a sequence of its own to the encoder.

    Call arguments:
        inputs: (B, N, S).

    Returns:
        (B * N, S).
    """

    def call(self, inputs):
        return ops.reshape(inputs, (-1, ops.shape(inputs)[-1]))

    def compute_output_spec(self, inputs):
        return keras.KerasTensor((None, inputs.shape[-1]), dtype=inputs.dtype)


@keras.saving.register_keras_serializable(package="keras_albert")
class UnfoldScores(keras.layers.Layer):
    """(B * N, 1) to (B, N), with options that are padding far below all others.

    Call arguments:
        scores: (B * N, 1), a logit for every option.
        padding_mask: (B, N, S); an option without a token is padding.

    Returns:
        Logits (B, N) in float32.
    """

    def call(self, scores, padding_mask):
        is_option_BN = ops.any(ops.cast(padding_mask, "bool"), axis=-1)
        scores_BN = ops.reshape(ops.cast(scores, "float32"), ops.shape(is_option_BN))
        return ops.where(is_option_BN, scores_BN, _NEVER)

    def compute_output_spec(self, scores, padding_mask):
        return keras.KerasTensor(padding_mask.shape[:2], dtype="float32")
