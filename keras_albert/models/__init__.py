"""Functional models over the layers, on KerasHub's base classes."""

from keras_albert.models.backbone import AlbertBackbone
from keras_albert.models.pretrainer import AlbertPretrainer
from keras_albert.preprocessing import (
    AlbertPreprocessor,
    AlbertPretrainerPreprocessor,
    AlbertTokenizer,
    BertTokenizer,
)

# KerasHub finds a preset's classes by their backbone; preprocessing itself knows of no models.
for _class in (AlbertTokenizer, BertTokenizer, AlbertPreprocessor, AlbertPretrainerPreprocessor):
    _class.backbone_cls = AlbertBackbone

__all__ = ["AlbertBackbone", "AlbertPretrainer"]
