"""Corpora: text -> shards of token ids -> masked batches."""

from keras_albert.light import is_light

if not is_light():
    from keras_albert.data.dataset import PretrainingDataset
    from keras_albert.data.documents import read_documents
    from keras_albert.data.manifest import Manifest
    from keras_albert.data.mixture import MixedDataset
    from keras_albert.data.prepare import prepare_corpus
    from keras_albert.data.tfrecord_dataset import TFRecordDataset
    from keras_albert.data.tfrecord_writer import write_tfrecords

__all__ = [
    "Manifest",
    "MixedDataset",
    "PretrainingDataset",
    "TFRecordDataset",
    "prepare_corpus",
    "read_documents",
    "write_tfrecords",
]
