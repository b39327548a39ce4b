"""One post-LN Transformer block: an attention and a feed-forward sublayer."""

import keras

from keras_albert.layers.attention import SelfAttention, output_shape
from keras_albert.layers.feed_forward import FeedForward


@keras.saving.register_keras_serializable(package="keras_albert")
class TransformerEncoder(keras.layers.Layer):
    """A Transformer block made of two sublayers, which other blocks may share.

    ALBERT applies one instance at every depth. The paper's other sharing strategies are blocks
    that share one sublayer and not the other, so a block is given its sublayers.

    Args:
        attention: a `SelfAttention` layer.
        feed_forward: a `FeedForward` layer.

    Call arguments:
        inputs: (B, S, H), floating point.
        attention_mask, positions: see `SelfAttention`.
        training: whether dropout is active.

    Returns:
        (B, S, H), or (B, P, H) with `positions`, in the compute dtype.

    Source: Lan et al. (2020), section 3.1; `transformer_model` of Google's ALBERT.

    Example:
    ```python
    block = keras_albert.layers.TransformerEncoder(
        keras_albert.layers.SelfAttention(num_heads=2),
        keras_albert.layers.FeedForward(intermediate_dim=32),
    )
    x = keras.random.normal((1, 3, 8))
    for _ in range(12):  # twelve layers, the weights of one
        x = block(x)
    ```
    """

    def __init__(self, attention, feed_forward, **kwargs):
        super().__init__(**kwargs)
        for name, layer, cls in (
            ("attention", attention, SelfAttention),
            ("feed_forward", feed_forward, FeedForward),
        ):
            if not isinstance(layer, cls):
                raise ValueError(
                    f"`{name}` of TransformerEncoder must be a keras_albert.layers.{cls.__name__}. "
                    f"Received: {name}={layer!r}"
                )
        self.attention = attention
        self.feed_forward = feed_forward
        self.supports_masking = True

    def build(self, inputs_shape):
        for sublayer in (self.attention, self.feed_forward):
            if not sublayer.built:  # a shared sublayer was built by the first block that has it
                sublayer.build(inputs_shape)

    def call(self, inputs, attention_mask=None, positions=None, training=None):
        x = self.attention(
            inputs, attention_mask=attention_mask, positions=positions, training=training
        )
        return self.feed_forward(x, training=training)

    def compute_output_shape(self, inputs_shape, attention_mask_shape=None, positions_shape=None):
        return output_shape(inputs_shape, positions_shape)

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "attention": keras.layers.serialize(self.attention),
                "feed_forward": keras.layers.serialize(self.feed_forward),
            }
        )
        return config

    @classmethod
    def from_config(cls, config):
        config = {
            **config,
            "attention": keras.layers.deserialize(config["attention"]),
            "feed_forward": keras.layers.deserialize(config["feed_forward"]),
        }
        return cls(**config)
