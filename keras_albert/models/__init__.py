"""Functional models over the layers, on KerasHub's base classes."""

from keras_albert.models.backbone import AlbertBackbone
from keras_albert.models.multiple_choice import AlbertMultipleChoice
from keras_albert.models.pretrainer import AlbertPretrainer
from keras_albert.models.span_extractor import AlbertSpanExtractor
from keras_albert.models.text_classifier import AlbertTextClassifier
from keras_albert.models.text_embedder import AlbertTextEmbedder
from keras_albert.models.token_classifier import AlbertTokenClassifier
from keras_albert.preprocessing import AlbertPreprocessor, AlbertTokenizer, BertTokenizer

_TASKS = (
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanExtractor,
    AlbertTextClassifier,
    AlbertTextEmbedder,
    AlbertTokenClassifier,
)

# KerasHub finds a preset's classes by their backbone; preprocessing itself knows of no models.
for _class in (AlbertTokenizer, BertTokenizer, AlbertPreprocessor):
    _class.backbone_cls = AlbertBackbone
for _task in _TASKS:
    _task.preprocessor_cls.backbone_cls = AlbertBackbone

__all__ = ["AlbertBackbone", *(_task.__name__ for _task in _TASKS)]
