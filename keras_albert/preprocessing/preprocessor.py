"""Texts, or pairs of texts, to model inputs: the base of every task's preprocessor.

Two ways through it, with the same result. `call` takes what Keras hands around: tensors, and
strings inside `tf.data` and `tf.function`. `encode` and `collate` are plain Python and NumPy: texts
are tokenized once, and batches of similar length are packed from the ids (`ExampleBatches`).
"""

import threading

import keras
import keras_hub
import numpy as np

from keras_albert.arguments import check
from keras_albert.preprocessing.packing import SegmentPacker, check_length, check_truncation
from keras_albert.preprocessing.rows import Row, as_texts, packed_length, rows_of, same_counts

_MAKING = threading.Lock()


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertPreprocessor(keras_hub.models.Preprocessor):
    """Texts, or pairs of texts, to the inputs of `AlbertBackbone`.

    A tuple is always a pair of segments and never `(x, y)`: labels and weights are keyword
    arguments. Over a dataset of pairs and labels: `ds.map(lambda x, y: preprocessor(x, y=y))`.

    Args:
        tokenizer: an `AlbertTokenizer` or `BertTokenizer`.
        sequence_length: int. S; longer texts are truncated.
        truncate: `"longest_first"` or `"random"`, see `SegmentPacker`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: a string, a list or tensor of strings, or a tuple `(a, b)` of these.
        y: labels, passed through.
        sample_weight: weights, passed through.

    Returns:
        The dict of `SegmentPacker`; `(dict, y)` or `(dict, y, sample_weight)` if these are given.

    Raises:
        ValueError: a tuple of more than two segments, or labels by position.

    Example:
    >>> preprocessor = AlbertPreprocessor(tokenizer, sequence_length=128)
    >>> x = preprocessor((["A question?"], ["An answer."]))
    >>> x, y = preprocessor(["good", "bad"], y=[1, 0])
    """

    # Both tokenizers serve: a preset names its own in tokenizer.json.
    tokenizer_cls = keras_hub.tokenizers.Tokenizer
    seed = None  # of random truncation; a subclass that draws has one

    def __init__(self, tokenizer, sequence_length=512, truncate="longest_first", **kwargs):
        super().__init__(**kwargs)
        check_truncation(truncate)
        check_length(sequence_length)
        check(
            type(self).__name__,
            "an AlbertTokenizer or BertTokenizer",
            lambda value: isinstance(value, keras_hub.tokenizers.Tokenizer),
            tokenizer=tokenizer,
        )
        self.tokenizer = tokenizer
        self._packer = None
        self.sequence_length = sequence_length
        self.truncate = truncate
        self.built = True  # JAX's trainer would run a model that has it on every batch, to build it

    @property
    def packer(self):
        """The `SegmentPacker` of the tokenizer's special tokens."""
        # Not in the constructor: a saved tokenizer knows its ids once its assets are loaded. Grain
        # calls a layer from many threads, all of which may find that there is none yet.
        with _MAKING:
            if self._packer is None:
                self._packer = SegmentPacker(
                    self.sequence_length,
                    start_value=self.tokenizer.cls_token_id,
                    end_value=self.tokenizer.sep_token_id,
                    pad_value=self.tokenizer.pad_token_id,
                    truncate=self.truncate,
                    seed=self.seed,
                )
            return self._packer

    # KerasHub splits a tuple into (x, y) for every layer that names its first argument `x`.
    def call(self, inputs, *labels, y=None, sample_weight=None):
        check_no_labels(labels)
        segments = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(segments) not in (1, 2):
            raise ValueError(
                "A preprocessor takes texts or a tuple (a, b) of texts; a batch is a list. "
                f"Received: a tuple of {len(segments)}"
            )
        tokens = tuple(self.tokenizer.tokenize(segment) for segment in segments)
        # `call`: Keras would look for tensors in every list of ids first.
        x = self.packer.call(tokens, sequence_length=self.sequence_length)
        return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)

    def encode(self, x, y=None, sample_weight=None) -> list[Row]:
        """Tokenize texts once, for batches of any length.

        Args:
            x: a string, a list or array of strings, or a tuple `(a, b)` of these.
            y: a label for each, or None.
            sample_weight: a weight for each, or None.

        Returns:
            A list of rows, one for each text or pair.

        Raises:
            ValueError: `x` holds something else, or the numbers of texts and labels differ.
        """
        columns = x if isinstance(x, tuple) else (x,)
        if len(columns) not in (1, 2):
            raise ValueError(
                "`x` must be texts, or a tuple (a, b) of two lists of texts. "
                f"Received: a tuple of {len(columns)}"
            )
        columns = [as_texts(column) for column in columns]
        count = same_counts(x=columns[0], **({"b": columns[1]} if len(columns) == 2 else {}))
        encoded = [self.tokenizer.encode_batch(column) for column in columns]
        return rows_of(zip(*encoded, strict=True), y, sample_weight, count)

    def length(self, row: Row) -> int:
        """Tokens of a row when it is packed, special tokens included."""
        return packed_length(row.segments)

    def collate(self, rows: list[Row], sequence_length: int):
        """Pack rows into a batch: `x`, `(x, y)` or `(x, y, sample_weight)`, of NumPy arrays."""
        x = self.packer.pack([row.segments for row in rows], sequence_length)
        return keras.utils.pack_x_y_sample_weight(x, *labels_and_weights(rows))

    def train(self, mode=True):
        """PyTorch's mode of training ends here: a tokenizer's `train` makes a vocabulary."""
        return self

    def get_config(self):
        config = super().get_config()
        config.update({"sequence_length": self.sequence_length, "truncate": self.truncate})
        return config


def check_no_labels(labels: tuple) -> None:
    """Raise a `ValueError` where labels came by position, as a second text would."""
    if labels:
        raise ValueError(
            "Labels and weights are keyword arguments, `preprocessor(x, y=y)`; two segments "
            f"are one tuple, `preprocessor((a, b))`. Received: {1 + len(labels)} arguments"
        )


def labels_and_weights(rows: list[Row]):
    """The arrays of labels and weights of a batch; None where the rows have none."""
    columns = [row.label for row in rows], [row.weight for row in rows]
    return tuple(None if column[0] is None else np.asarray(column) for column in columns)
