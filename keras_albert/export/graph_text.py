"""Strings to model inputs inside a TensorFlow graph: what every served task begins with.

Imported only where TensorFlow is; the ops of tensorflow-text are the tokenizer's alone.

Shapes: B batch, S sequence, W words.
"""

import tensorflow as tf

from keras_albert.preprocessing.normalizer import (
    clean_unicode_tf,
    code_point_ranges,
    re2_class,
)
from keras_albert.preprocessing.packing import SegmentPacker


class GraphText:
    """A tokenizer and a packer for one graph.

    Args:
        tokenizer: an `AlbertTokenizer` or `BertTokenizer`.
        sequence_length: int. S, to which longer rows are truncated.
    """

    def __init__(self, tokenizer, sequence_length):
        self.tokenizer = without_padding(tokenizer)
        self.sequence_length = sequence_length
        self.packer = SegmentPacker(
            sequence_length,
            start_value=tokenizer.cls_token_id,
            end_value=tokenizer.sep_token_id,
            pad_value=tokenizer.pad_token_id,
        )
        # One function, however many signatures call it: it holds the vocabulary.
        self.tokenize = tf.function(
            self.tokenizer.tokenize,
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,
        )

    def pack(self, *segments):
        """One or two ragged tensors of ids (B, None) to a dict of inputs (B, S or less)."""
        inputs = segments if len(segments) == 2 else segments[0]
        return cut_to_longest(self.packer.call(inputs))

    def fit(self, x, least=1):
        """Inputs of ids, cut to `sequence_length`, padded to `least` columns."""
        missing = tf.maximum(least - tf.shape(x["token_ids"])[-1], 0)
        fitted = {}
        for name, values in x.items():
            padding = [[0, 0]] * (values.shape.rank - 1) + [[0, missing]]
            pad = self.packer.pad_value if name == "token_ids" else False
            values = tf.pad(values, padding, constant_values=tf.cast(pad, values.dtype))
            fitted[name] = values[..., : self.sequence_length]
        return fitted


def without_padding(tokenizer):
    """The tokenizer itself, or one that does not pad: packing does."""
    if not tokenizer.sequence_length:
        return tokenizer
    plain = type(tokenizer).from_config({**tokenizer.get_config(), "sequence_length": None})
    if hasattr(tokenizer, "proto"):
        plain.set_proto(tokenizer.proto)
    else:
        plain.set_vocabulary(tokenizer.vocabulary)
    return plain


def cut_to_longest(x):
    """Inputs (..., S) without the columns that are padding in every row; one is kept."""
    lengths = tf.reduce_sum(tf.cast(x["padding_mask"], tf.int32), axis=-1)
    longest = tf.maximum(tf.reduce_max(lengths), 1)  # of no row the maximum is far below 0
    return {name: values[..., :longest] for name, values in x.items()}


def split_at_spaces(text):
    """`str.split` of texts (B,): the words, and the characters where they start and end.

    Returns:
        `(words, starts, ends)`, ragged (B, None): strings, int32, int32. Offsets are in the text
        after invalid bytes have become U+FFFD.
    """
    import tensorflow_text as tf_text

    space = f"[{re2_class(code_point_ranges('space'))}]+"
    parts = tf_text.regex_split(clean_unicode_tf(text), space, keep_delim_regex_pattern=space)
    lengths = parts.with_flat_values(tf.strings.length(parts.flat_values, "UTF8_CHAR"))
    starts = running_total(lengths)
    is_word = parts.with_flat_values(
        tf.logical_not(tf.strings.regex_full_match(parts.flat_values, space))
    )
    columns = (parts, starts, starts + lengths)
    return tuple(tf.ragged.boolean_mask(column, is_word) for column in columns)


def running_total(values):
    """The sum of what stands before each value in its row of a ragged tensor (B, None)."""
    total = tf.cumsum(values.flat_values, exclusive=True)
    firsts = values.row_starts()
    padded = tf.concat([total, [0]], axis=0)  # rows at the end may be empty
    at_first = tf.gather(padded, firsts)
    return values.with_flat_values(total - tf.gather(at_first, values.value_rowids()))
