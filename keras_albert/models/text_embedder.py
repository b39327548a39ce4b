"""AlbertTextEmbedder: features of a frozen encoder, for tokens or for whole texts.

Shapes: B batch, S sequence, H hidden, D features.
"""

import keras
import keras_hub
from keras import ops

from keras_albert.arguments import check, check_booleans, check_known
from keras_albert.models.task import AlbertTask
from keras_albert.preprocessing.preprocessor import AlbertPreprocessor

LAYERS = ("last", "second_to_last", "sum_last_four", "concat_last_four")
POOLINGS = ("mean", "cls", None)


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTextEmbedder(AlbertTask, keras_hub.models.Task):
    """Vectors of texts, or of their tokens, from an encoder that nothing trains.

    `predict` takes strings, or a tuple of two lists for pairs.

    Args:
        backbone: an `AlbertBackbone`, which is frozen.
        preprocessor: an `AlbertPreprocessor`; None where inputs are token ids.
        layers: which depths' outputs: `"last"`, `"second_to_last"`, `"sum_last_four"` or
            `"concat_last_four"` (D = 4 H; of a shallower encoder the depths that there are).
        pooling: `"mean"` over the tokens that are not padding, [CLS] and [SEP] among them; `"cls"`,
            the first token's; None for a vector for each token.
        normalize: whether vectors are scaled to length 1.
        **kwargs: `name`, `trainable`, `dtype`, `compile`.

    Call arguments:
        The backbone's inputs.

    Returns:
        (B, D) in float32, or (B, S, D) with `pooling=None`.

    Raises:
        ValueError: an argument breaks its rule, or `fit` is called.

    Source: Devlin et al. (2019), section 5.3 and Table 7; mean pooling: Reimers and Gurevych
    (2019), section 3.

    Example:
    ```python
    embedder = keras_albert.AlbertTextEmbedder.from_preset("run/preset", normalize=True)
    a, b = embedder.predict(["A cat sat.", "The cat was sitting."])
    similarity = a @ b
    ```
    """

    preprocessor_cls = AlbertPreprocessor
    uses_pooler = False
    takes = "strings, or a tuple (a, b) of two lists of strings"

    def __init__(
        self, backbone, preprocessor=None, layers="last", pooling="mean", normalize=False, **kwargs
    ):
        self.check_parts(backbone, preprocessor)
        owner = "AlbertTextEmbedder"
        check(owner, f"one of {LAYERS}", lambda value: value in LAYERS, layers=layers)
        check(owner, f"one of {POOLINGS}", lambda value: value in POOLINGS, pooling=pooling)
        check_booleans(owner, normalize=normalize)
        check_known(owner, kwargs, ("name", "trainable", "dtype", "compile"))

        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        backbone.trainable = False
        features = TokenFeatures(backbone.encoder, layers, dtype="float32", name="token_features")
        pool = PooledFeatures(pooling, normalize, dtype="float32", name="pooled_features")

        # === Graph ===
        inputs = backbone.input
        mask = inputs["padding_mask"]
        x = backbone.embedding(inputs["token_ids"], segment_ids=inputs["segment_ids"])
        outputs = pool(features(x, attention_mask=mask), padding_mask=mask)
        kwargs.pop("compile", None)
        super().__init__(inputs=inputs, outputs=outputs, compile=False, **kwargs)

        # === Config ===
        self.feature_layers = layers
        self.pooling = pooling
        self.normalize = normalize

    def compile(self, *args, **kwargs):
        """Nothing: there is nothing to train."""

    def fit(self, *args, **kwargs):
        """Raise: the features are of a frozen encoder; a task model trains one."""
        raise ValueError(
            "An AlbertTextEmbedder has nothing to train: its encoder is frozen. Train a task "
            "model, as AlbertTextClassifier, and make an embedder of its `backbone`."
        )

    @property
    def same_length(self):
        """Whether Keras joins outputs along S."""
        return self.pooling is None

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "layers": self.feature_layers,
                "pooling": self.pooling,
                "normalize": self.normalize,
            }
        )
        return config


class TokenFeatures(keras.layers.Layer):
    """Embedded tokens (B, S, H) to features (B, S, D) of an encoder's depths; see the embedder.

    A layer around the encoder: Keras' graphs do not take one layer with two numbers of outputs.
    """

    def __init__(self, encoder, layers, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder
        self.layers = layers

    def call(self, inputs, attention_mask=None):
        x = ops.cast(inputs, self.encoder.compute_dtype)
        depths = self.encoder(x, attention_mask=attention_mask, return_all_layers=True)
        depths = [ops.cast(depth, self.compute_dtype) for depth in depths]
        if self.layers == "sum_last_four":
            return sum(depths[-4:])
        if self.layers == "concat_last_four":
            return ops.concatenate(depths[-4:], axis=-1)
        return depths[-1] if self.layers == "last" or len(depths) == 1 else depths[-2]


@keras.saving.register_keras_serializable(package="keras_albert")
class PooledFeatures(keras.layers.Layer):
    """Features of tokens (B, S, D) to one vector for each text (B, D); see the embedder."""

    def __init__(self, pooling, normalize, **kwargs):
        super().__init__(**kwargs)
        self.pooling = pooling
        self.normalize = normalize

    def call(self, features, padding_mask):
        x = features
        if self.pooling == "cls":
            x = x[:, 0]
        elif self.pooling == "mean":
            weights_BS1 = ops.expand_dims(ops.cast(padding_mask, x.dtype), -1)
            count_B1 = ops.maximum(ops.sum(weights_BS1, axis=1), 1)  # a row without a token gives 0
            x = ops.sum(x * weights_BS1, axis=1) / count_B1
        return ops.normalize(x, axis=-1) if self.normalize else x

    def get_config(self):
        return {**super().get_config(), "pooling": self.pooling, "normalize": self.normalize}
