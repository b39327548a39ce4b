"""ALBERT for Keras 3: pretrain, fine-tune, convert and serve, on TensorFlow, JAX and PyTorch."""

from keras_albert.light import is_light
from keras_albert.version import __version__

if not is_light():
    from keras_albert import checkpoints, datasets, export, layers, training
    from keras_albert.data import (
        Manifest,
        MixedDataset,
        PretrainingDataset,
        TFRecordDataset,
        prepare_corpus,
        read_documents,
        write_tfrecords,
    )
    from keras_albert.models import (
        AlbertBackbone,
        AlbertMultipleChoice,
        AlbertPretrainer,
        AlbertSpanExtractor,
        AlbertTextClassifier,
        AlbertTextEmbedder,
        AlbertTokenClassifier,
    )
    from keras_albert.preprocessing import (
        AlbertMultipleChoicePreprocessor,
        AlbertPreprocessor,
        AlbertPretrainerPreprocessor,
        AlbertSpanExtractorPreprocessor,
        AlbertTokenClassifierPreprocessor,
        AlbertTokenizer,
        BertTokenizer,
        NGramMaskGenerator,
        SegmentPacker,
    )
    from keras_albert.training import (
        AdamW,
        Lamb,
        MaskedLMLoss,
        SkipNonFinite,
        TrainingLog,
        TrainingState,
        WarmupPolynomialDecay,
        layout_map,
    )

__all__ = [
    "AdamW",
    "AlbertBackbone",
    "AlbertMultipleChoice",
    "AlbertMultipleChoicePreprocessor",
    "AlbertPreprocessor",
    "AlbertPretrainer",
    "AlbertPretrainerPreprocessor",
    "AlbertSpanExtractor",
    "AlbertSpanExtractorPreprocessor",
    "AlbertTextClassifier",
    "AlbertTextEmbedder",
    "AlbertTokenClassifier",
    "AlbertTokenClassifierPreprocessor",
    "AlbertTokenizer",
    "BertTokenizer",
    "Lamb",
    "Manifest",
    "MaskedLMLoss",
    "MixedDataset",
    "NGramMaskGenerator",
    "PretrainingDataset",
    "SegmentPacker",
    "SkipNonFinite",
    "TFRecordDataset",
    "TrainingLog",
    "TrainingState",
    "WarmupPolynomialDecay",
    "__version__",
    "checkpoints",
    "datasets",
    "export",
    "layers",
    "layout_map",
    "prepare_corpus",
    "read_documents",
    "training",
    "write_tfrecords",
]
