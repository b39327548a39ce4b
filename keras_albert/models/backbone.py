"""AlbertBackbone: embedding, encoder and pooler as one functional model. BERT is the same class."""

import keras
import keras_hub
from keras import ops

from keras_albert.arguments import (
    check_booleans,
    check_heads,
    check_known,
    check_positive_integers,
    check_positive_numbers,
    check_rates,
)
from keras_albert.layers.activations import get_activation, serialize_activation
from keras_albert.layers.embeddings import FactorizedEmbedding
from keras_albert.layers.encoder_stack import EncoderStack
from keras_albert.layers.heads import Pooler
from keras_albert.models.presets import PRESETS, load_preset


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertBackbone(keras_hub.models.Backbone):
    """ALBERT's encoder, and BERT's: embedding, Transformer blocks under a sharing plan, pooler.

    `embedding_dim == hidden_dim` with `sharing="none"` is BERT.

    Args:
        vocabulary_size: number of token ids V.
        num_layers: depth L.
        num_heads: attention heads; must divide `hidden_dim`.
        embedding_dim: size E of the embedding tables.
        hidden_dim: size H of the encoder.
        intermediate_dim: width of the feed-forward sublayer.
        sharing: `"all"`, `"attention"`, `"ffn"` or `"none"`.
        num_groups: groups of depths that share; must divide `num_layers`.
        num_inner_repetitions: blocks per depth, each with its own weights.
        hidden_dropout: rate of dropout on the embedding and on every sublayer's output.
        attention_dropout: rate of dropout on the attention probabilities.
        activation: `"gelu_tanh"` as released by Google; `"gelu"` is the exact form.
        max_sequence_length: number of positions.
        num_segments: number of segment ids.
        layer_norm_epsilon: added to the variance; 1e-12 in every released checkpoint.
        initializer_range: standard deviation of the truncated normal of every kernel and table.
        project_embeddings: None projects where E != H; True always, as Hugging Face's ALBERT does.
        remat: whether training computes every block again for its gradients, which takes much less
            memory and a third more operations; see `keras_albert.layers.EncoderStack`.
        dtype: a Keras dtype policy, as `"mixed_bfloat16"`.

    Call arguments:
        A dict of `"token_ids"` int (B, S), `"segment_ids"` int (B, S) and `"padding_mask"` bool
        or int (B, S), true for tokens that are not padding.

    Returns:
        A dict of `"sequence_output"` (B, S, H) and `"pooled_output"` (B, H).

    Raises:
        ValueError: an argument is out of range; S is longer than `max_sequence_length`.

    Source: Lan et al. (2020), section 3.1; `AlbertModel` of Google's code.

    Example:
    ```python
    backbone = keras_albert.AlbertBackbone.from_preset("albert_tiny", load_weights=False)
    outputs = backbone(
        {
            "token_ids": np.array([[2, 51, 3, 0]]),
            "segment_ids": np.array([[0, 0, 0, 0]]),
            "padding_mask": np.array([[1, 1, 1, 0]]),
        }
    )
    outputs["sequence_output"].shape, outputs["pooled_output"].shape  # (1, 4, 256), (1, 256)
    ```
    """

    def __init__(
        self,
        vocabulary_size=30000,
        num_layers=12,
        num_heads=12,
        embedding_dim=128,
        hidden_dim=768,
        intermediate_dim=3072,
        sharing="all",
        num_groups=1,
        num_inner_repetitions=1,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation="gelu_tanh",
        max_sequence_length=512,
        num_segments=2,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        project_embeddings=None,
        remat=False,
        dtype=None,
        **kwargs,
    ):
        check_known("AlbertBackbone", kwargs, ("name", "trainable"))
        check_positive_integers(
            "AlbertBackbone", hidden_dim=hidden_dim, num_heads=num_heads, num_layers=num_layers
        )
        check_heads("AlbertBackbone", hidden_dim, num_heads)
        check_rates(
            "AlbertBackbone", hidden_dropout=hidden_dropout, attention_dropout=attention_dropout
        )
        check_positive_numbers(
            "AlbertBackbone",
            layer_norm_epsilon=layer_norm_epsilon,
            initializer_range=initializer_range,
        )

        # === Layers ===
        self.embedding = FactorizedEmbedding(
            vocabulary_size,
            embedding_dim,
            hidden_dim,
            max_sequence_length=max_sequence_length,
            num_segments=num_segments,
            dropout=hidden_dropout,
            layer_norm_epsilon=layer_norm_epsilon,
            initializer_range=initializer_range,
            project=project_embeddings,
            dtype=dtype,
            name="embedding",
        )
        self.token_embedding = self.embedding.token_embedding
        self.encoder = EncoderStack(
            num_layers,
            num_heads,
            intermediate_dim,
            sharing=sharing,
            num_groups=num_groups,
            num_inner_repetitions=num_inner_repetitions,
            activation=activation,
            hidden_dropout=hidden_dropout,
            attention_dropout=attention_dropout,
            layer_norm_epsilon=layer_norm_epsilon,
            initializer_range=initializer_range,
            remat=remat,
            dtype=dtype,
            name="encoder",
        )
        self.pooler = Pooler(
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=initializer_range),
            dtype=dtype,
            name="pooler",
        )

        # === Graph ===
        token_ids = keras.Input((None,), dtype="int32", name="token_ids")
        segment_ids = keras.Input((None,), dtype="int32", name="segment_ids")
        padding_mask = keras.Input((None,), dtype="bool", name="padding_mask")
        x = self.embedding(token_ids, segment_ids=segment_ids)
        sequence_output = self.encoder(x, attention_mask=padding_mask)
        super().__init__(
            inputs={
                "token_ids": token_ids,
                "segment_ids": segment_ids,
                "padding_mask": padding_mask,
            },
            outputs={
                "sequence_output": sequence_output,
                "pooled_output": self.pooler(sequence_output),
            },
            dtype=dtype,
            **kwargs,
        )

        # === Config ===
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.embedding_dim = embedding_dim
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.sharing = sharing
        self.num_groups = num_groups
        self.num_inner_repetitions = num_inner_repetitions
        self.hidden_dropout = hidden_dropout
        self.attention_dropout = attention_dropout
        self.activation = get_activation(activation)
        self.max_sequence_length = max_sequence_length
        self.num_segments = num_segments
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.project_embeddings = project_embeddings
        self.remat = remat

    def outputs_at(self, inputs, positions, training=None):
        """The last layer's output at some tokens alone: what a head needs that reads only these.

        It is `sequence_output` there, at less cost: the last block computes no other token.

        Args:
            inputs: see the class; or rows of several texts, as
                `keras_albert.preprocessing.packed_rows.pack_texts` makes them.
            positions: int (B, P), indices of tokens in [0, S).
            training: whether dropout is active.

        Returns:
            (B, P, H) in the compute dtype.

        Example:
        ```python
        backbone.outputs_at(inputs, np.array([[0, 2]])).shape  # (1, 2, 256), of tokens 0 and 2
        ```
        """
        x = self.embedding(
            inputs["token_ids"],
            segment_ids=inputs["segment_ids"],
            position_ids=inputs.get("position_ids"),
            training=training,
        )
        mask = inputs["padding_mask"]
        if "text_ids" in inputs:
            texts = inputs["text_ids"]
            # Padding is text 0, and attends to itself.
            mask = ops.equal(texts[:, :, None], texts[:, None, :])
        return self.encoder(x, attention_mask=mask, positions=positions, training=training)

    def outputs_of_texts(self, inputs, positions, training=None):
        """The last layer's output at the tokens that heads read, of texts that share rows.

        Args:
            inputs: what `keras_albert.preprocessing.packed_rows.pack_texts` gives: N texts in fewer
                rows, M places of each.
            positions: its `"positions"` (R, K).
            training: whether dropout is active.

        Returns:
            (N, M, H) in the compute dtype: row n is of text n.
        """
        x_RKH = self.outputs_at(inputs, positions, training=training)
        return ops.take(ops.reshape(x_RKH, (-1, self.hidden_dim)), inputs["answers"], axis=0)

    def pooled(self, inputs):
        """`pooled_output` (B, H) alone, for which the last block computes [CLS] alone.

        Args:
            inputs: see the class.

        Returns:
            (B, H) in the compute dtype.
        """
        first = ops.zeros_like(inputs["token_ids"][:, :1])
        return self.pooler(self.outputs_at(inputs, first))

    def enable_lora(self, rank, target_layer_names=None):
        """Freeze the backbone and learn low-rank updates of some of its kernels instead.

        Everything else is frozen, biases among it; a task's head still learns. Enable it before
        the model is compiled or fitted. A saved model holds the kernels with the updates merged.

        Args:
            rank: of the updates.
            target_layer_names: names of Dense layers: `"query"`, `"key"`, `"value"`,
                `"output_dense"` (of both sublayers) or `"intermediate_dense"`. None is query and
                value.

        Raises:
            ValueError: `rank` is not an integer of at least 1, or no layer has one of the names.

        Source: Hu et al. (2022), section 4.

        Example:
        ```python
        classifier.backbone.enable_lora(rank=8)
        classifier.fit(texts, labels)
        classifier = classifier.merge_lora()
        ```
        """
        check_positive_integers("enable_lora", rank=rank)
        super().enable_lora(rank, target_layer_names)
        adapted = [layer for layer in self._flatten_layers() if getattr(layer, "lora_enabled", 0)]
        if not adapted:
            raise ValueError(
                "`target_layer_names` must name Dense layers of the encoder, as 'query'. "
                f"Received: {target_layer_names!r}"
            )
        for layer in adapted:
            if getattr(layer, "bias", None) is not None:
                layer.bias.trainable = False  # KerasHub leaves it to be learned

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "vocabulary_size": self.vocabulary_size,
                "num_layers": self.num_layers,
                "num_heads": self.num_heads,
                "embedding_dim": self.embedding_dim,
                "hidden_dim": self.hidden_dim,
                "intermediate_dim": self.intermediate_dim,
                "sharing": self.sharing,
                "num_groups": self.num_groups,
                "num_inner_repetitions": self.num_inner_repetitions,
                "hidden_dropout": self.hidden_dropout,
                "attention_dropout": self.attention_dropout,
                "activation": serialize_activation(self.activation),
                "max_sequence_length": self.max_sequence_length,
                "num_segments": self.num_segments,
                "layer_norm_epsilon": self.layer_norm_epsilon,
                "initializer_range": self.initializer_range,
                "project_embeddings": self.project_embeddings,
                "remat": self.remat,
            }
        )
        return config

    @classmethod
    def from_preset(cls, preset, load_weights=True, **kwargs):
        """A backbone from the table of architectures, a preset, or a checkpoint of another program.

        Args:
            preset: a name of `keras_albert.models.presets.PRESETS`; a directory that
                `save_to_preset` wrote; a checkpoint of Google's ALBERT or BERT (a prefix, a
                directory, the `.tar.gz` or `.zip` as released) or TF-Hub; a directory of Hugging
                Face's transformers or of KerasHub; `"hf://owner/name"`.
            load_weights: whether to load the weights. The names of the table carry none, so they
                need `load_weights=False`.
            **kwargs: arguments that replace those of the preset, where its weights allow it. Of
                checkpoints also `num_layers`, `sharing`, `num_groups`, `max_sequence_length`,
                `positions` and `vocabulary` (see `keras_albert.checkpoints.change_architecture`);
                `strict=True` for an error instead of a warning where model and checkpoint do not
                have the same variables; `allow_nonfinite=True` for weights that are infinite or
                NaN.

        Raises:
            ImportError: the library that reads the format is not installed.
            ValueError: the name is unknown, weights are asked of a name that has none, or the
                checkpoint is broken, unsafe or of another architecture.

        Example:
        ```python
        keras_albert.AlbertBackbone.from_preset("albert_base_v2", load_weights=False)
        keras_albert.AlbertBackbone.from_preset("albert_base_v2.tar.gz")
        ```
        """
        check_booleans("from_preset", load_weights=load_weights)
        preset = str(preset)
        if preset not in PRESETS:
            return load_preset(cls, super().from_preset, preset, load_weights, **kwargs)
        if load_weights:
            raise ValueError(
                f"{preset!r} names an architecture; its weights are not part of this package. Pass "
                "`load_weights=False` for random weights, or the path of a saved preset."
            )
        return cls(**{**PRESETS[preset], **kwargs})
