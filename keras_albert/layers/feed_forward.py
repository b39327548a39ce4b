"""The position-wise feed-forward sublayer with its residual connection and LayerNorm."""

import keras

from keras_albert.arguments import check_positive_integers, check_positive_numbers, check_rates
from keras_albert.layers.activations import get_activation, serialize_activation
from keras_albert.layers.dropout import Dropout
from keras_albert.layers.initializers import get_initializer
from keras_albert.layers.shared_products import project


@keras.saving.register_keras_serializable(package="keras_albert")
class FeedForward(keras.layers.Layer):
    """The feed-forward sublayer of a post-LN block: `LayerNorm(x + Dropout(W2 act(W1 x)))`.

    Args:
        intermediate_dim: width between the two projections (4H in every released model).
        activation: `"gelu_tanh"` as released, `"gelu"` for the exact form, or a Keras activation.
        hidden_dropout: rate of dropout on the sublayer's output.
        layer_norm_epsilon: added to the variance.
        kernel_initializer: of both projections.

    Call arguments:
        inputs: (B, S, H), floating point.
        training: whether dropout is active.

    Returns:
        (B, S, H) in the compute dtype.

    Raises:
        ValueError: an argument is out of range, or the activation is unknown.

    Source: Vaswani et al. (2017), section 3.3; `attention_ffn_block` of Google's ALBERT.

    Example:
    ```python
    layer = keras_albert.layers.FeedForward(intermediate_dim=32)
    layer(keras.random.normal((1, 3, 8))).shape  # (1, 3, 8)
    ```
    """

    def __init__(
        self,
        intermediate_dim,
        activation="gelu_tanh",
        hidden_dropout=0.0,
        layer_norm_epsilon=1e-12,
        kernel_initializer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive_integers("FeedForward", intermediate_dim=intermediate_dim)
        check_rates("FeedForward", hidden_dropout=hidden_dropout)
        check_positive_numbers("FeedForward", layer_norm_epsilon=layer_norm_epsilon)
        self.intermediate_dim = intermediate_dim
        self.activation = get_activation(activation)
        self.hidden_dropout = hidden_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.kernel_initializer = get_initializer(kernel_initializer)
        self.supports_masking = True

    def build(self, inputs_shape):
        hidden_dim = inputs_shape[-1]
        self.intermediate_dense = keras.layers.Dense(
            self.intermediate_dim,
            activation=self.activation,
            kernel_initializer=self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name="intermediate_dense",
        )
        self.intermediate_dense.build(inputs_shape)
        self.output_dense = keras.layers.Dense(
            hidden_dim,
            kernel_initializer=self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name="output_dense",
        )
        self.output_dense.build((*inputs_shape[:-1], self.intermediate_dim))
        self.hidden_dropout_layer = Dropout(
            self.hidden_dropout, dtype=self.dtype_policy, name="hidden_dropout"
        )
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm"
        )
        self.layer_norm.build(inputs_shape)

    def call(self, inputs, training=None):
        output = project(self.output_dense, project(self.intermediate_dense, inputs))
        return self.layer_norm(inputs + self.hidden_dropout_layer(output, training=training))

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "intermediate_dim": self.intermediate_dim,
                "activation": serialize_activation(self.activation),
                "hidden_dropout": self.hidden_dropout,
                "layer_norm_epsilon": self.layer_norm_epsilon,
                "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            }
        )
        return config
