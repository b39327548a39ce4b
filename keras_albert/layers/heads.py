"""The heads that pretraining needs: pooler, masked-LM head, sentence-order head.

Shapes: B batch, S sequence, H hidden, E embedding, P predictions, V vocabulary.
"""

import keras
from keras import ops

from keras_albert.arguments import check, check_positive_numbers
from keras_albert.layers.activations import get_activation, serialize_activation
from keras_albert.layers.attention import take_tokens
from keras_albert.layers.initializers import get_initializer


@keras.saving.register_keras_serializable(package="keras_albert")
class Pooler(keras.layers.Layer):
    """A tanh Dense of size H on the first token, [CLS].

    Args:
        kernel_initializer: of the projection.

    Call arguments:
        inputs: (B, S, H), the last layer's output.

    Returns:
        (B, H) in the compute dtype.

    Source: `AlbertModel` of Google's code; Devlin et al. (2019), section 4.1.

    Example:
    ```python
    keras_albert.layers.Pooler()(keras.random.normal((2, 5, 8))).shape  # (2, 8)
    ```
    """

    def __init__(self, kernel_initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.kernel_initializer = get_initializer(kernel_initializer)

    def build(self, inputs_shape):
        self.dense = keras.layers.Dense(
            inputs_shape[-1],
            activation="tanh",
            kernel_initializer=self.kernel_initializer,
            dtype=self.dtype_policy,
            name="dense",
        )
        self.dense.build((inputs_shape[0], inputs_shape[-1]))

    def call(self, inputs):
        return self.dense(inputs[:, 0, :])

    def compute_output_shape(self, inputs_shape):
        return (inputs_shape[0], inputs_shape[-1])

    def get_config(self):
        config = super().get_config()
        config["kernel_initializer"] = keras.initializers.serialize(self.kernel_initializer)
        return config


@keras.saving.register_keras_serializable(package="keras_albert")
class MaskedLMHead(keras.layers.Layer):
    """Logits over the vocabulary at the masked positions, through the tied embedding table.

    Gather -> Dense(E) -> activation -> LayerNorm -> transposed embedding table + bias[V].
    Only the P asked positions are computed.

    Args:
        token_embedding: the model's `keras.layers.ReversibleEmbedding`, whose table is used again.
        activation: see `FeedForward`.
        layer_norm_epsilon: added to the variance.
        kernel_initializer: of the Dense.

    Call arguments:
        sequence_output: (B, S, H).
        mask_positions: (B, P) integers in [0, S). Padding positions may hold any valid index. None
            where `sequence_output` holds the asked positions alone, P = S.

    Returns:
        Logits (B, P, V) in float32.

    Source: `get_masked_lm_output` of Google's code.

    Example:
    ```python
    table = keras.layers.ReversibleEmbedding(100, 4)
    table.build()
    head = keras_albert.layers.MaskedLMHead(table)
    head(keras.random.normal((2, 5, 8)), mask_positions=[[1, 2], [3, 0]]).shape  # (2, 2, 100)
    ```
    """

    def __init__(
        self,
        token_embedding,
        activation="gelu_tanh",
        layer_norm_epsilon=1e-12,
        kernel_initializer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check(
            "MaskedLMHead",
            "a keras.layers.ReversibleEmbedding, as `backbone.token_embedding` is",
            lambda layer: isinstance(layer, keras.layers.ReversibleEmbedding),
            token_embedding=token_embedding,
        )
        check_positive_numbers("MaskedLMHead", layer_norm_epsilon=layer_norm_epsilon)
        self.token_embedding = token_embedding
        self.activation = get_activation(activation)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.kernel_initializer = get_initializer(kernel_initializer)
        self.dense = keras.layers.Dense(
            token_embedding.output_dim,
            activation=self.activation,
            kernel_initializer=self.kernel_initializer,
            dtype=self.dtype_policy,
            name="dense",
        )
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm"
        )

    def build(self, sequence_output_shape, mask_positions_shape=None):
        batch, _, hidden_dim = sequence_output_shape
        if not self.token_embedding.built:
            self.token_embedding.build()
        self.dense.build((batch, None, hidden_dim))
        self.layer_norm.build((batch, None, self.token_embedding.output_dim))
        self.bias = self.add_weight(
            shape=(self.token_embedding.input_dim,),
            initializer="zeros",
            autocast=False,  # added to float32 logits
            name="bias",
        )

    def call(self, sequence_output, mask_positions=None):
        x_BPH = sequence_output
        if mask_positions is not None:
            x_BPH = take_tokens(sequence_output, mask_positions)
        x_BPE = self.layer_norm(self.dense(x_BPH))
        logits_BPV = self.token_embedding(x_BPE, reverse=True)
        return ops.cast(logits_BPV, "float32") + self.bias

    def compute_output_spec(self, sequence_output, mask_positions=None):
        asked = sequence_output.shape[:2] if mask_positions is None else mask_positions.shape
        shape = (*asked, self.token_embedding.input_dim)
        return keras.KerasTensor(shape, dtype="float32")

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "token_embedding": keras.layers.serialize(self.token_embedding),
                "activation": serialize_activation(self.activation),
                "layer_norm_epsilon": self.layer_norm_epsilon,
                "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            }
        )
        return config

    @classmethod
    def from_config(cls, config):
        token_embedding = keras.layers.deserialize(config["token_embedding"])
        return cls(**{**config, "token_embedding": token_embedding})


@keras.saving.register_keras_serializable(package="keras_albert")
class SentenceOrderHead(keras.layers.Layer):
    """Two logits from the pooled output: 0 in order, 1 swapped (or, for NSP, 1 random).

    Args:
        kernel_initializer: of the projection.

    Call arguments:
        pooled_output: (B, H).

    Returns:
        Logits (B, 2) in float32.

    Source: Lan et al. (2020), section 3.1; `get_sentence_order_output` of Google's code, which
    applies no dropout.

    Example:
    ```python
    keras_albert.layers.SentenceOrderHead()(keras.random.normal((2, 8))).shape  # (2, 2)
    ```
    """

    def __init__(self, kernel_initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.kernel_initializer = get_initializer(kernel_initializer)
        self.dense = keras.layers.Dense(
            2, kernel_initializer=self.kernel_initializer, dtype=self.dtype_policy, name="dense"
        )

    def build(self, pooled_output_shape):
        self.dense.build(pooled_output_shape)

    def call(self, pooled_output):
        return ops.cast(self.dense(pooled_output), "float32")

    def compute_output_spec(self, pooled_output):
        return keras.KerasTensor((pooled_output.shape[0], 2), dtype="float32")

    def get_config(self):
        config = super().get_config()
        config["kernel_initializer"] = keras.initializers.serialize(self.kernel_initializer)
        return config
