"""ALBERT for Keras 3: pretrain, fine-tune, convert and serve, on TensorFlow, JAX and PyTorch."""

from keras_albert.light import is_light
from keras_albert.version import __version__

if not is_light():
    from keras_albert import checkpoints, layers, training
    from keras_albert.data import (
        Manifest,
        MixedDataset,
        PretrainingDataset,
        TFRecordDataset,
        prepare_corpus,
        read_documents,
        write_tfrecords,
    )
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
    "MixedDataset",
    "NGramMaskGenerator",
    "PretrainingDataset",
    "SegmentPacker",
    "TFRecordDataset",
    "WarmupPolynomialDecay",
    "__version__",
    "checkpoints",
    "layers",
    "prepare_corpus",
    "read_documents",
    "training",
    "write_tfrecords",
]
