"""ALBERT for Keras 3: pretrain, fine-tune, convert and serve, on TensorFlow, JAX and PyTorch."""

from keras_albert import checkpoints, layers, training
from keras_albert.data import Manifest, PretrainingDataset, prepare_corpus
from keras_albert.models import AlbertBackbone, AlbertPretrainer
from keras_albert.preprocessing import (
    AlbertPreprocessor,
    AlbertPretrainerPreprocessor,
    AlbertTokenizer,
    BertTokenizer,
    NGramMaskGenerator,
    SegmentPacker,
)
from keras_albert.training import Lamb, MaskedLMLoss, WarmupPolynomialDecay
from keras_albert.version import __version__

__all__ = [
    "AlbertBackbone",
    "AlbertPreprocessor",
    "AlbertPretrainer",
    "AlbertPretrainerPreprocessor",
    "AlbertTokenizer",
    "BertTokenizer",
    "Lamb",
    "Manifest",
    "MaskedLMLoss",
    "NGramMaskGenerator",
    "PretrainingDataset",
    "SegmentPacker",
    "WarmupPolynomialDecay",
    "__version__",
    "checkpoints",
    "layers",
    "prepare_corpus",
    "training",
]
