"""ALBERT's factorized embedding.

Shapes: B batch, S sequence, E embedding, H hidden, V vocabulary.
"""

import keras
from keras import ops

from keras_albert.arguments import (
    check,
    check_positive_integers,
    check_positive_numbers,
    check_rates,
)
from keras_albert.layers.dropout import Dropout


@keras.saving.register_keras_serializable(package="keras_albert")
class FactorizedEmbedding(keras.layers.Layer):
    """Token + position + segment at size E, LayerNorm, dropout, then a projection to H.

    With E == H there is no projection, and this is BERT's embedding.

    Args:
        vocabulary_size: number of token ids V.
        embedding_dim: size E of the three tables.
        hidden_dim: size H of the output.
        max_sequence_length: number of positions.
        num_segments: number of segment ids.
        dropout: rate of dropout after LayerNorm.
        layer_norm_epsilon: added to the variance.
        initializer_range: standard deviation of the truncated normal of tables and projection.
        project: whether to project to H. None projects where E != H, as Google's code does;
            Hugging Face's ALBERT always projects.

    Call arguments:
        token_ids: (B, S) integers in [0, V).
        segment_ids: (B, S) integers in [0, num_segments).
        position_ids: (B, S) integers in [0, max_sequence_length); None counts from 0.
        training: whether dropout is active.

    Returns:
        (B, S, H) in the compute dtype.

    Raises:
        ValueError: an argument is out of range; S is longer than `max_sequence_length`.

    Source: Lan et al. (2020), section 3.1; `embedding_lookup_factorized` of Google's ALBERT.

    Example:
    ```python
    layer = keras_albert.layers.FactorizedEmbedding(
        vocabulary_size=100, embedding_dim=4, hidden_dim=8, max_sequence_length=16
    )
    layer(token_ids=[[2, 7, 3]], segment_ids=[[0, 0, 0]]).shape  # (1, 3, 8)
    ```
    """

    def __init__(
        self,
        vocabulary_size,
        embedding_dim,
        hidden_dim,
        max_sequence_length=512,
        num_segments=2,
        dropout=0.0,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        project=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive_integers(
            "FactorizedEmbedding",
            vocabulary_size=vocabulary_size,
            embedding_dim=embedding_dim,
            hidden_dim=hidden_dim,
            max_sequence_length=max_sequence_length,
            num_segments=num_segments,
        )
        check_rates("FactorizedEmbedding", dropout=dropout)
        check_positive_numbers(
            "FactorizedEmbedding",
            layer_norm_epsilon=layer_norm_epsilon,
            initializer_range=initializer_range,
        )
        check(
            "FactorizedEmbedding",
            "True, False or None",
            lambda value: value is None or isinstance(value, bool),
            project=project,
        )
        if project is False and embedding_dim != hidden_dim:
            raise ValueError(
                "Without a projection, `embedding_dim` must equal `hidden_dim`. Received: "
                f"project=False, embedding_dim={embedding_dim}, hidden_dim={hidden_dim}"
            )
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.hidden_dim = hidden_dim
        self.max_sequence_length = max_sequence_length
        self.num_segments = num_segments
        self.dropout = dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.project = embedding_dim != hidden_dim if project is None else project

        self.token_embedding = keras.layers.ReversibleEmbedding(
            vocabulary_size,
            embedding_dim,
            embeddings_initializer=self._make_initializer(),
            reverse_dtype="float32",  # logits in bfloat16 lose the differences between tokens
            dtype=self.dtype_policy,
            name="token_embedding",
        )
        self.position_embedding = keras.layers.Embedding(
            max_sequence_length,
            embedding_dim,
            embeddings_initializer=self._make_initializer(),
            dtype=self.dtype_policy,
            name="position_embedding",
        )
        self.segment_embedding = keras.layers.Embedding(
            num_segments,
            embedding_dim,
            embeddings_initializer=self._make_initializer(),
            dtype=self.dtype_policy,
            name="segment_embedding",
        )
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm"
        )
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.projection = None
        if self.project:
            self.projection = keras.layers.Dense(
                hidden_dim,
                kernel_initializer=self._make_initializer(),
                dtype=self.dtype_policy,
                name="projection",
            )

    def _make_initializer(self):
        return keras.initializers.TruncatedNormal(stddev=self.initializer_range)

    def build(self, token_ids_shape, segment_ids_shape=None, position_ids_shape=None):
        self.token_embedding.build(token_ids_shape)
        self.position_embedding.build(token_ids_shape)
        self.segment_embedding.build(token_ids_shape)
        embedded_shape = (*token_ids_shape, self.embedding_dim)
        self.layer_norm.build(embedded_shape)
        if self.projection is not None:
            self.projection.build(embedded_shape)

    def embed(self, token_ids, segment_ids, position_ids=None, training=None):
        """The embedding before the projection: (B, S, E)."""
        length = token_ids.shape[1] if position_ids is None else None
        if length is not None and length > self.max_sequence_length:
            raise ValueError(
                "The input is longer than the model has positions: truncate it, or make the model "
                f"with a larger `max_sequence_length`. Received: input length {length}, "
                f"max_sequence_length={self.max_sequence_length}"
            )
        x_BSE = self.token_embedding(token_ids)
        if position_ids is None:
            position_ids = ops.arange(ops.shape(token_ids)[1])
        x_BSE += self.position_embedding(position_ids)
        x_BSE += self.segment_embedding(segment_ids)
        return self.dropout_layer(self.layer_norm(x_BSE), training=training)

    def call(self, token_ids, segment_ids, position_ids=None, training=None):
        x_BSE = self.embed(token_ids, segment_ids, position_ids, training=training)
        return x_BSE if self.projection is None else self.projection(x_BSE)

    def compute_output_shape(
        self, token_ids_shape, segment_ids_shape=None, position_ids_shape=None
    ):
        return (*token_ids_shape, self.hidden_dim)

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "vocabulary_size": self.vocabulary_size,
                "embedding_dim": self.embedding_dim,
                "hidden_dim": self.hidden_dim,
                "max_sequence_length": self.max_sequence_length,
                "num_segments": self.num_segments,
                "dropout": self.dropout,
                "layer_norm_epsilon": self.layer_norm_epsilon,
                "initializer_range": self.initializer_range,
                "project": self.project,
            }
        )
        return config
