"""Text -> token ids -> model inputs. Nothing here knows of models."""

from keras_albert.light import is_light

if not is_light():
    from keras_albert.preprocessing.albert_tokenizer import AlbertTokenizer
    from keras_albert.preprocessing.bert_tokenizer import BertTokenizer
    from keras_albert.preprocessing.mask_generator import NGramMaskGenerator
    from keras_albert.preprocessing.multiple_choice import AlbertMultipleChoicePreprocessor
    from keras_albert.preprocessing.packing import SegmentPacker
    from keras_albert.preprocessing.preprocessor import AlbertPreprocessor
    from keras_albert.preprocessing.pretraining import AlbertPretrainerPreprocessor
    from keras_albert.preprocessing.span_extraction import AlbertSpanExtractorPreprocessor
    from keras_albert.preprocessing.tagging import AlbertTokenClassifierPreprocessor

__all__ = [
    "AlbertMultipleChoicePreprocessor",
    "AlbertPreprocessor",
    "AlbertPretrainerPreprocessor",
    "AlbertSpanExtractorPreprocessor",
    "AlbertTokenClassifierPreprocessor",
    "AlbertTokenizer",
    "BertTokenizer",
    "NGramMaskGenerator",
    "SegmentPacker",
]
