"""Encoded examples as rows, and rows as arrays: what preprocessors do without tensors.

Nothing here imports Keras: `keras_albert.runtime` does the same.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Row(NamedTuple):
    """One encoded example: ids of its segments, its label, its weight (None for none)."""

    segments: tuple
    label: Any = None
    weight: Any = None


def as_texts(column, name: str = "x") -> list:
    """A list of `str` or `bytes` from a string, a list, an array or a tensor of strings.

    Raises:
        ValueError: something in it is no string.
    """
    if isinstance(column, (str, bytes)):
        column = [column]
    elif hasattr(column, "numpy"):  # a tensor of TensorFlow
        column = column.numpy()
    if hasattr(column, "tolist"):  # an array, a column of pandas
        column = column.tolist()
    if not isinstance(column, Sequence):
        raise ValueError(
            f"`{name}` must be a string or a list of strings. Received: {type(column).__name__}"
        )
    for i, text in enumerate(column):
        if not isinstance(text, (str, bytes)):
            raise ValueError(
                f"`{name}` must be a list of strings; a pair of texts is a tuple of two lists, "
                f"(a, b). Received at index {i}: {text!r}"
            )
    return list(column)


def same_counts(**columns) -> int:
    """The length that all columns have.

    Raises:
        ValueError: two differ.
    """
    counts = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"There must be as many of each, one for every example. Received: {counts}"
        )
    return next(iter(counts.values()))


def rows_of(segments, y, sample_weight, count: int) -> list[Row]:
    """A row for each tuple of segments, with its label and weight."""
    same_counts(x=range(count), y=y, sample_weight=sample_weight)
    nothing = [None] * count
    labels = nothing if y is None else np.asarray(y).tolist()
    weights = nothing if sample_weight is None else np.asarray(sample_weight).tolist()
    return [Row(*row) for row in zip(segments, labels, weights, strict=True)]


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


def packed_length(segments) -> int:
    """Tokens of one or two segments when they are packed, special tokens included."""
    return 1 + sum(len(segment) + 1 for segment in segments)


def pack_rows(rows, length, start, end, pad, cut: Callable = lambda ids, kept: ids[:kept]):
    """Pack rows of one or two lists of ids, as `SegmentPacker` does.

    Args:
        rows: a list of tuples of lists of ids.
        length: int. S, to which the longer segment of a row is truncated.
        start: list of ids that a row begins with.
        end: list of ids that a segment ends with.
        pad: id of the padding token, which must not occur in a segment.
        cut: a function of a list of ids and of how many to keep.

    Returns:
        The dict of `SegmentPacker.call`, as NumPy arrays.
    """
    token_ids = np.full((len(rows), length), pad, "int32")
    segment_ids = np.zeros((len(rows), length), "int32")
    for i, segments in enumerate(rows):
        first, second = (*segments, ())[:2]
        kept = truncated_lengths(len(first), len(second), length - 1 - len(segments))
        packed, starts = [*start], []
        for segment, size in zip(segments, kept, strict=False):
            starts.append(len(packed))
            packed += [*cut(segment, size), *end]
        token_ids[i, : len(packed)] = packed
        if len(segments) == 2:
            segment_ids[i, starts[1] : len(packed)] = 1
    return {
        "token_ids": token_ids,
        "segment_ids": segment_ids,
        "padding_mask": token_ids != pad,
    }
