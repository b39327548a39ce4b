"""Text -> token ids -> model inputs. Nothing here knows of models."""

from keras_albert.light import is_light

if not is_light():
    from keras_albert.preprocessing.albert_tokenizer import AlbertTokenizer
    from keras_albert.preprocessing.bert_tokenizer import BertTokenizer
    from keras_albert.preprocessing.mask_generator import NGramMaskGenerator
    from keras_albert.preprocessing.packing import AlbertPreprocessor, SegmentPacker
    from keras_albert.preprocessing.pretraining import AlbertPretrainerPreprocessor

__all__ = [
    "AlbertPreprocessor",
    "AlbertPretrainerPreprocessor",
    "AlbertTokenizer",
    "BertTokenizer",
    "NGramMaskGenerator",
    "SegmentPacker",
]
