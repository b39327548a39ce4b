"""Segments of ids to model inputs.

B batch, S sequence.
"""

import keras
import keras_hub
import numpy as np

from keras_albert.arguments import check_integers, is_integer
from keras_albert.preprocessing.rows import pack_rows, truncated_lengths
from keras_albert.preprocessing.text_tokenizer import refuse

TRUNCATIONS = ("longest_first", "random")


@keras.saving.register_keras_serializable(package="keras_albert")
class SegmentPacker(keras_hub.layers.MultiSegmentPacker):
    """Pack one segment, or a pair, into `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`.

    Runs without TensorFlow, and inside `tf.data` and `tf.function` with core operations alone (a
    served model needs no tensorflow-text for it).

    Args:
        sequence_length: int. S; longer inputs are truncated, shorter ones padded.
        start_value: int. Id of [CLS].
        end_value: int. Id of [SEP].
        pad_value: int. Id of the padding token, which must not occur in a segment.
        truncate: `"longest_first"`: the longer segment loses its last tokens, as in BERT and
            ALBERT for fine-tuning. `"random"`: each token goes from the front or the back of the
            longer segment with probability 1/2, as in ALBERT's pretraining.
        seed: int or `None`. For `"random"`; Python and graph draw different numbers from it.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: ids of one segment, or a tuple of two; each a list, array or tensor of shape
            `(length,)`, or for a batch a list of lists, a tensor, or a `tf.RaggedTensor`.
        sequence_length: int or `None`. Instead of the constructor's.

    Returns:
        A dict of `token_ids` int32, `segment_ids` int32 (0 and 1; 0 on padding) and `padding_mask`
        bool (true on tokens), each `(B, S)`, or `(S,)` without a batch.

    Raises:
        ValueError: unknown `truncate`, a `sequence_length` without room, or more than two segments.

    Example:
    >>> packer = SegmentPacker(8, start_value=2, end_value=3)
    >>> packer(([11, 12, 13, 14], [21, 22]))["token_ids"]
    [2, 11, 12, 13, 3, 21, 22, 3]
    """

    def __init__(
        self,
        sequence_length,
        start_value,
        end_value,
        pad_value=0,
        truncate="longest_first",
        seed=None,
        **kwargs,
    ):
        refuse(kwargs, ("sep_value", "padding_side"), "[SEP] ends both segments, padding follows")
        check_truncation(truncate)
        check_length(sequence_length)
        ids = {"start_value": start_value, "end_value": end_value, "pad_value": pad_value}
        check_integers("SegmentPacker", 0, **ids)
        if seed is not None:
            check_integers("SegmentPacker", 0, seed=seed)
        super().__init__(
            sequence_length,
            start_value=start_value,
            end_value=end_value,
            pad_value=pad_value,
            **kwargs,
        )
        self.truncate = truncate
        self.seed = seed
        self._generator = np.random.default_rng(seed)
        self.built = True  # see AlbertPreprocessor

    def call(self, inputs, sequence_length=None):
        if isinstance(inputs, tuple) and len(inputs) > 2:
            raise ValueError(
                "A packer takes one segment or a tuple of two; a batch is a list. "
                f"Received: a tuple of {len(inputs)}"
            )
        if sequence_length is not None:
            check_length(sequence_length)
        token_ids, segment_ids = super().call(inputs, sequence_length=sequence_length)
        return {
            "token_ids": token_ids,
            "segment_ids": segment_ids,
            "padding_mask": token_ids != self.pad_value,
        }

    def pack(self, rows, sequence_length=None):
        """Pack rows of lists at once: the same as `call`, in NumPy, and many times faster.

        Args:
            rows: list of tuples of one or two lists of ids, all tuples of the same size.
            sequence_length: int or `None`. Instead of the constructor's.

        Returns:
            The dict of `call`, as NumPy arrays.
        """
        length = sequence_length or self.sequence_length
        check_length(length)
        return pack_rows(
            rows, length, self.start_value, self.end_value, self.pad_value, cut=self._cut
        )

    def _budget(self, inputs, sequence_length):
        return (sequence_length or self.sequence_length) - 1 - len(inputs)

    def _trim_inputs_python(self, inputs, sequence_length=None, **_):
        budget = self._budget(inputs, sequence_length)
        first, second = inputs if len(inputs) == 2 else (*inputs, [[]] * len(inputs[0]))
        trimmed = []
        for rows in zip(first, second, strict=True):
            kept = truncated_lengths(*map(len, rows), budget)
            trimmed.append([self._cut(*pair) for pair in zip(rows, kept, strict=True)])
        return [[rows[i] for rows in trimmed] for i in range(len(inputs))]

    def _cut(self, row, kept):
        start = 0
        if self.truncate == "random" and kept < len(row):
            start = int(self._generator.binomial(len(row) - kept, 0.5))
        return row[start : start + kept]

    def _trim_inputs_tf(self, inputs, sequence_length=None, **_):
        import tensorflow as tf

        budget = self._budget(inputs, sequence_length)
        lengths = [tf.cast(row.row_lengths(), tf.int32) for row in inputs]
        second = lengths[1] if len(inputs) == 2 else tf.zeros_like(lengths[0])
        a = tf.minimum(lengths[0], tf.maximum(budget - second, budget - budget // 2))
        kept = (a, tf.minimum(second, budget - a))
        return [self._cut_tf(*triple) for triple in zip(inputs, lengths, kept, strict=False)]

    def _cut_tf(self, rows, length, kept):
        import tensorflow as tf

        start = tf.zeros_like(length)
        if self.truncate == "random":
            lost = length - kept
            coins = tf.random.uniform([tf.size(lost), tf.reduce_max(lost)], seed=self.seed) < 0.5
            thrown = tf.sequence_mask(lost, tf.reduce_max(lost))
            start = tf.reduce_sum(tf.cast(coins & thrown, tf.int32), axis=1)
        start += tf.cast(rows.row_starts(), tf.int32)
        places = tf.ragged.range(start, start + kept)
        return places.with_flat_values(tf.gather(rows.flat_values, places.flat_values))

    def get_config(self):
        config = super().get_config()
        del config["sep_value"], config["padding_side"]
        config.update({"truncate": self.truncate, "seed": self.seed})
        return config


def check_truncation(truncate):
    """Raise a `ValueError` for a way to truncate that there is not."""
    if truncate not in TRUNCATIONS:
        raise ValueError(f"`truncate` must be one of {TRUNCATIONS}. Received: {truncate!r}")


def check_length(sequence_length):
    """Raise a `ValueError` where a pair of segments would have no room."""
    if not is_integer(sequence_length) or sequence_length < 4:
        raise ValueError(
            "`sequence_length` must leave room for [CLS], two [SEP] and a token, so at least 4. "
            f"Received: {sequence_length!r}"
        )
