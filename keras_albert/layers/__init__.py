"""Pure Keras layers: nothing here knows of text, files or models."""

from keras_albert.layers.attention import SelfAttention
from keras_albert.layers.embeddings import FactorizedEmbedding
from keras_albert.layers.encoder_stack import EncoderStack
from keras_albert.layers.feed_forward import FeedForward
from keras_albert.layers.heads import MaskedLMHead, Pooler, SentenceOrderHead
from keras_albert.layers.options import FoldOptions, UnfoldScores
from keras_albert.layers.sharing import sharing_plan
from keras_albert.layers.span_heads import BeamSpanHead, LinearSpanHead
from keras_albert.layers.transformer_encoder import TransformerEncoder

__all__ = [
    "BeamSpanHead",
    "EncoderStack",
    "FactorizedEmbedding",
    "FeedForward",
    "FoldOptions",
    "LinearSpanHead",
    "MaskedLMHead",
    "Pooler",
    "SelfAttention",
    "SentenceOrderHead",
    "TransformerEncoder",
    "UnfoldScores",
    "sharing_plan",
]
