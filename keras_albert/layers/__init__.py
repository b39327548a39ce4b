"""Pure Keras layers: nothing here knows of text, files or models."""

from keras_albert.layers.attention import SelfAttention
from keras_albert.layers.embeddings import FactorizedEmbedding
from keras_albert.layers.encoder_stack import EncoderStack
from keras_albert.layers.feed_forward import FeedForward
from keras_albert.layers.heads import MaskedLMHead, Pooler, SentenceOrderHead
from keras_albert.layers.sharing import sharing_plan
from keras_albert.layers.transformer_encoder import TransformerEncoder

__all__ = [
    "EncoderStack",
    "FactorizedEmbedding",
    "FeedForward",
    "MaskedLMHead",
    "Pooler",
    "SelfAttention",
    "SentenceOrderHead",
    "TransformerEncoder",
    "sharing_plan",
]
