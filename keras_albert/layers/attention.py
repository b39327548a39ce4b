"""Multi-head self-attention with its residual connection and LayerNorm.

Shapes: B batch, S sequence (of queries), T sequence (of keys), N heads, D width of a head,
H = N * D hidden.
"""

import keras
from keras import ops

from keras_albert.arguments import (
    check_heads,
    check_positive_integers,
    check_positive_numbers,
    check_rates,
)
from keras_albert.layers.dropout import Dropout
from keras_albert.layers.initializers import get_initializer
from keras_albert.layers.shared_products import project


@keras.saving.register_keras_serializable(package="keras_albert")
class SelfAttention(keras.layers.Layer):
    """The attention sublayer of a post-LN block: `LayerNorm(x + Dropout(Attention(x)))`.

    Scores are scaled by 1/sqrt(D); softmax and LayerNorm are computed in float32 whatever the
    dtype policy, and a row whose every key is masked stays finite. The backend's own attention is
    used unless attention dropout is active, which no backend's kernel offers through Keras, or the
    backend has none (JAX in float16 on a CPU).

    Args:
        num_heads: number of heads N. It must divide the hidden size.
        hidden_dropout: rate of dropout on the sublayer's output.
        attention_dropout: rate of dropout on the attention probabilities.
        layer_norm_epsilon: added to the variance.
        kernel_initializer: of the four projections.

    Call arguments:
        inputs: (B, S, H), floating point.
        attention_mask: bool (B, T) for keys that may be attended to (T = S), or (B, S, T) for
            pairs of query and key. None attends to everything.
        positions: int (B, P): the tokens whose output is asked for. The others are keys and values
            alone, and cost no more than that. None is all.
        training: whether dropout is active.

    Returns:
        (B, S, H), or (B, P, H), in the compute dtype.

    Raises:
        ValueError: `num_heads` does not divide H, a rate is outside [0, 1).

    Source: Vaswani et al. (2017), section 3.2; `attention_layer` of Google's ALBERT.

    Example:
    ```python
    layer = keras_albert.layers.SelfAttention(num_heads=2)
    layer(keras.random.normal((1, 3, 8)), attention_mask=[[True, True, False]]).shape  # (1, 3, 8)
    ```
    """

    def __init__(
        self,
        num_heads,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        layer_norm_epsilon=1e-12,
        kernel_initializer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive_integers("SelfAttention", num_heads=num_heads)
        check_rates(
            "SelfAttention", hidden_dropout=hidden_dropout, attention_dropout=attention_dropout
        )
        check_positive_numbers("SelfAttention", layer_norm_epsilon=layer_norm_epsilon)
        self.num_heads = num_heads
        self.hidden_dropout = hidden_dropout
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.kernel_initializer = get_initializer(kernel_initializer)
        self.supports_masking = True

    def build(self, inputs_shape):
        self.hidden_dim = inputs_shape[-1]
        check_heads("SelfAttention", self.hidden_dim, self.num_heads)
        self.scale = (self.hidden_dim // self.num_heads) ** -0.5
        for name in ("query", "key", "value", "output_dense"):
            dense = keras.layers.Dense(
                self.hidden_dim,
                kernel_initializer=self.kernel_initializer.clone(),
                dtype=self.dtype_policy,
                name=name,
            )
            dense.build(inputs_shape)
            setattr(self, name, dense)
        self.attention_dropout_layer = Dropout(
            self.attention_dropout, dtype=self.dtype_policy, name="attention_dropout"
        )
        self.hidden_dropout_layer = Dropout(
            self.hidden_dropout, dtype=self.dtype_policy, name="hidden_dropout"
        )
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm"
        )
        self.layer_norm.build(inputs_shape)

    def call(self, inputs, attention_mask=None, positions=None, training=None):
        asked = inputs if positions is None else take_tokens(inputs, positions)
        # Scaled here, not after the product, which could overflow in float16.
        q_BSND = self._split_heads(project(self.query, asked)) * self.scale
        k_BTND = self._split_heads(project(self.key, inputs))
        v_BTND = self._split_heads(project(self.value, inputs))
        mask = None if attention_mask is None else _broadcastable(attention_mask, positions)
        drops = training and self.attention_dropout > 0
        if drops or not _has_kernel(self.compute_dtype):
            context_BSND = self._attend(q_BSND, k_BTND, v_BTND, mask, training)
        else:
            context_BSND = ops.dot_product_attention(q_BSND, k_BTND, v_BTND, mask=mask, scale=1.0)
        context = ops.reshape(context_BSND, ops.shape(asked))
        output = self.hidden_dropout_layer(project(self.output_dense, context), training=training)
        return self.layer_norm(asked + output)

    def _split_heads(self, x):
        batch, length = ops.shape(x)[0], ops.shape(x)[1]
        return ops.reshape(x, (batch, length, self.num_heads, self.hidden_dim // self.num_heads))

    def _attend(self, q_BSND, k_BTND, v_BTND, mask, training):
        scores_BNST = ops.einsum("bsnd,btnd->bnst", q_BSND, k_BTND)
        scores_BNST = ops.cast(scores_BNST, "float32")
        if mask is not None:
            scores_BNST = ops.where(mask, scores_BNST, -1e30)
        weights_BNST = ops.cast(ops.softmax(scores_BNST), self.compute_dtype)
        weights_BNST = self.attention_dropout_layer(weights_BNST, training=training)
        return ops.einsum("bnst,btnd->bsnd", weights_BNST, v_BTND)

    def compute_output_shape(self, inputs_shape, attention_mask_shape=None, positions_shape=None):
        return output_shape(inputs_shape, positions_shape)

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "num_heads": self.num_heads,
                "hidden_dropout": self.hidden_dropout,
                "attention_dropout": self.attention_dropout,
                "layer_norm_epsilon": self.layer_norm_epsilon,
                "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            }
        )
        return config


def _has_kernel(dtype):
    """Whether the backend's own attention compiles: JAX's does not in float16 on a CPU."""
    if keras.backend.backend() != "jax" or dtype != "float16":
        return True
    import jax

    return jax.default_backend() != "cpu"


def take_tokens(x, positions):
    """(B, S, ...) at positions (B, P) -> (B, P, ...)."""
    indices = ops.cast(positions, "int32")
    indices = ops.expand_dims(indices, tuple(range(2, len(x.shape))))
    return ops.take_along_axis(x, indices, axis=1)


def output_shape(inputs_shape, positions_shape):
    """The shape of a layer's output that is asked for at positions, which may be None."""
    if positions_shape is None:
        return inputs_shape
    return (inputs_shape[0], positions_shape[1], inputs_shape[2])


def _broadcastable(attention_mask, positions):
    """(B, T) -> (B, 1, 1, T) and (B, S, T) -> (B, 1, S, T): the same for every head."""
    mask = ops.cast(attention_mask, "bool")
    if len(mask.shape) == 2:
        return mask[:, None, None, :]
    return (mask if positions is None else take_tokens(mask, positions))[:, None, :, :]
