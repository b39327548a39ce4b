"""Segments of ids to model inputs, and texts to model inputs.

B batch, S sequence.
"""

import threading

import keras
import keras_hub
import numpy as np

from keras_albert.arguments import check, check_integers, is_integer
from keras_albert.preprocessing.text_tokenizer import refuse

TRUNCATIONS = ("longest_first", "random")
_BUILDING = threading.Lock()


def truncated_lengths(length_a, length_b, budget):
    """How long two segments are after the longer one has lost tokens until both fit.

    Closed form of BERT's `_truncate_seq_pair` and ALBERT's `truncate_seq_pair`: while the sum is
    above the budget the longer segment, and of two equal ones the second, loses a token.

    Args:
        length_a: int. Tokens of the first segment.
        length_b: int. Tokens of the second segment.
        budget: int. Tokens that there is room for.

    Returns:
        A pair of ints.

    Example:
    >>> truncated_lengths(100, 7, 21)
    (14, 7)
    """
    a = min(length_a, max(budget - length_b, budget - budget // 2))
    return a, min(length_b, budget - a)


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
        _check_truncation(truncate)
        _check_length(sequence_length)
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

    def call(self, inputs, sequence_length=None):
        if isinstance(inputs, tuple) and len(inputs) > 2:
            raise ValueError(
                "A packer takes one segment or a tuple of two; a batch is a list. "
                f"Received: a tuple of {len(inputs)}"
            )
        if sequence_length is not None:
            _check_length(sequence_length)
        token_ids, segment_ids = super().call(inputs, sequence_length=sequence_length)
        return {
            "token_ids": token_ids,
            "segment_ids": segment_ids,
            "padding_mask": token_ids != self.pad_value,
        }

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


def _check_truncation(truncate):
    if truncate not in TRUNCATIONS:
        raise ValueError(f"`truncate` must be one of {TRUNCATIONS}. Received: {truncate!r}")


def _check_length(sequence_length):
    if not is_integer(sequence_length) or sequence_length < 4:
        raise ValueError(
            "`sequence_length` must leave room for [CLS], two [SEP] and a token, so at least 4. "
            f"Received: {sequence_length!r}"
        )


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertPreprocessor(keras_hub.models.Preprocessor):
    """Texts, or pairs of texts, to the inputs of `AlbertBackbone`.

    A tuple is always a pair of segments and never `(x, y)`: labels and weights are keyword
    arguments. Over a dataset of pairs and labels: `ds.map(lambda x, y: preprocessor(x, y=y))`.

    Args:
        tokenizer: an `AlbertTokenizer` or `BertTokenizer`.
        sequence_length: int. S.
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
        _check_truncation(truncate)
        _check_length(sequence_length)
        check(
            type(self).__name__,
            "an AlbertTokenizer or BertTokenizer",
            lambda value: isinstance(value, keras_hub.tokenizers.Tokenizer),
            tokenizer=tokenizer,
        )
        self.tokenizer = tokenizer
        self.packer = None
        self.sequence_length = sequence_length
        self.truncate = truncate

    def build(self, input_shape):
        # Not in the constructor: a saved tokenizer knows its ids once its assets are loaded. Grain
        # calls a layer from many threads, all of which may find it not yet built.
        with _BUILDING:
            if self.packer is None:
                self.packer = SegmentPacker(
                    self.sequence_length,
                    start_value=self.tokenizer.cls_token_id,
                    end_value=self.tokenizer.sep_token_id,
                    pad_value=self.tokenizer.pad_token_id,
                    truncate=self.truncate,
                    seed=self.seed,
                )

    # KerasHub splits a tuple into (x, y) for every layer that names its first argument `x`.
    def call(self, inputs, *labels, y=None, sample_weight=None):
        if labels:
            raise ValueError(
                "Labels and weights are keyword arguments, `preprocessor(x, y=y)`; two segments "
                f"are one tuple, `preprocessor((a, b))`. Received: {1 + len(labels)} arguments"
            )
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

    def get_config(self):
        config = super().get_config()
        config.update({"sequence_length": self.sequence_length, "truncate": self.truncate})
        return config
