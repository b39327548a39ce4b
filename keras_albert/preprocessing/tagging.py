"""Words to the inputs of `AlbertTokenClassifier`, with a label at the first piece of each word.

Shapes: B batch, S sequence.
"""

from typing import Any, NamedTuple

import keras
import numpy as np

from keras_albert.arguments import is_integer
from keras_albert.preprocessing.preprocessor import AlbertPreprocessor
from keras_albert.preprocessing.rows import same_counts
from keras_albert.preprocessing.word_rows import as_sentences, encode_words


class TagRow(NamedTuple):
    """A stretch of a sentence that fits: ids, labels of words, weight, where words start."""

    segments: tuple
    label: Any
    weight: Any
    starts: list
    sentence: int


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTokenClassifierPreprocessor(AlbertPreprocessor):
    """Sentences of words to pieces; the first piece of a word stands for it.

    A sentence with more pieces than fit is cut between words into several rows, so that every word
    gets its label.

    Args:
        tokenizer: an `AlbertTokenizer` or `BertTokenizer`.
        sequence_length: int. S.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: a list of sentences, each a list of words or a string that white space divides.
        y: a list of integers for each sentence, one for each word.
        sample_weight: a weight for each sentence.

    Returns:
        The dict of `SegmentPacker`; with `y` also labels int (B, S) and weights (B, S), which are 0
        but at the first piece of a word.

    Raises:
        ValueError: a sentence without words, or another number of labels than of words.

    Source: Devlin et al. (2019), section 5.3.

    Example:
    >>> preprocessor = AlbertTokenClassifierPreprocessor(tokenizer, sequence_length=64)
    >>> x, y, weights = preprocessor([["Ada", "lives", "here"]], y=[[1, 0, 0]])
    """

    def __init__(self, tokenizer, sequence_length=128, **kwargs):
        super().__init__(tokenizer, sequence_length=sequence_length, **kwargs)

    def call(self, inputs, *labels, y=None, sample_weight=None):
        rows = self.encode(inputs, *labels, y=y, sample_weight=sample_weight)
        return self.collate(rows, self.sequence_length)

    def encode(self, x, y=None, sample_weight=None):
        """Rows of pieces: one for each sentence, more for those that do not fit."""
        sentences = as_sentences(x)
        same_counts(x=sentences, y=y, sample_weight=sample_weight)
        stretches = encode_words(
            sentences,
            self.tokenizer.encode_batch,
            self.tokenizer.unk_token_id,
            self.sequence_length - 2,
        )
        if y is not None:
            y = [_labels_of(y[i], words, i) for i, words in enumerate(sentences)]
        return [
            TagRow(
                (stretch.ids,),
                None if y is None else y[stretch.sentence][stretch.first : stretch.end],
                None if sample_weight is None else float(sample_weight[stretch.sentence]),
                stretch.starts,
                stretch.sentence,
            )
            for stretch in stretches
        ]

    def collate(self, rows, sequence_length):
        x = self.packer.pack([row.segments for row in rows], sequence_length)
        if rows[0].label is None:
            return x
        labels = np.zeros((len(rows), sequence_length), "int32")
        weights = np.zeros((len(rows), sequence_length), "float32")
        for i, row in enumerate(rows):
            labels[i, row.starts] = row.label
            weights[i, row.starts] = 1.0 if row.weight is None else row.weight
        return x, labels, weights

    def get_config(self):
        config = super().get_config()
        del config["truncate"]
        return config


def _labels_of(labels, words, i):
    labels = np.asarray(labels).tolist() if labels is not None else []
    if not isinstance(labels, list) or len(labels) != len(words):
        raise ValueError(
            "`y` must hold a list of labels for every sentence, one for each word. "
            f"Received at index {i}: {labels!r} for the words {words!r}"
        )
    if not all(map(is_integer, labels)):
        raise ValueError(
            f"`y` must hold integers, the indices of tags. Received at index {i}: {labels!r}"
        )
    return labels
