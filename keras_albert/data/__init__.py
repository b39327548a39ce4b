"""Corpora: text -> shards of token ids -> masked batches."""

from keras_albert.data.dataset import PretrainingDataset
from keras_albert.data.documents import read_documents
from keras_albert.data.manifest import Manifest
from keras_albert.data.prepare import prepare_corpus

__all__ = ["Manifest", "PretrainingDataset", "prepare_corpus", "read_documents"]
