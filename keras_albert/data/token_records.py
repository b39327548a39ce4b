"""What a shard holds for a document, or for a part of a long one.

    uint32              number of sentences n
    n x uint16          tokens in each sentence
    rest                the token ids, uint16 or uint32 (the manifest's `token_dtype`)

all little-endian.
"""

from collections.abc import Iterator

import numpy as np

MAX_SENTENCE_TOKENS = 65535  # lengths are uint16


def token_dtype(vocabulary_size: int) -> np.dtype:
    """The smallest of uint16 and uint32, little-endian, that holds every id."""
    return np.dtype("<u2" if vocabulary_size <= 65536 else "<u4")


def encode_record(token_ids: np.ndarray, sentence_lengths: np.ndarray, dtype) -> bytes:
    """The bytes of one record.

    Args:
        token_ids: (N,) integers, the sentences one after the other.
        sentence_lengths: (M,) integers that sum to N, each at most 65,535.
        dtype: the dtype that ids are stored in.

    Raises:
        ValueError: where the lengths do not sum to N or do not fit.

    Example:
        >>> record = encode_record(np.array([5, 6, 7]), np.array([2, 1]), "<u2")
        >>> [a.tolist() for a in decode_record(record, "<u2")]
        [[5, 6, 7], [2, 1]]
    """
    token_ids, sentence_lengths = np.asarray(token_ids), np.asarray(sentence_lengths)
    if sentence_lengths.sum() != len(token_ids):
        raise ValueError(
            "`sentence_lengths` must sum to the number of tokens. "
            f"Received: {sentence_lengths.sum()} and {len(token_ids)}"
        )
    if len(sentence_lengths) and sentence_lengths.max() > MAX_SENTENCE_TOKENS:
        raise ValueError(
            f"A sentence holds at most {MAX_SENTENCE_TOKENS} tokens. "
            f"Received: {sentence_lengths.max()}"
        )
    return (
        np.array(len(sentence_lengths), "<u4").tobytes()
        + sentence_lengths.astype("<u2").tobytes()
        + token_ids.astype(dtype).tobytes()
    )


def decode_record(record: bytes, dtype) -> tuple[np.ndarray, np.ndarray]:
    """Returns (token_ids (N,) of `dtype`, sentence_lengths (M,) uint16): views of the record.

    Raises:
        ValueError: where the record is not one that `encode_record` makes.
    """
    dtype = np.dtype(dtype)
    sentences = int.from_bytes(record[:4], "little") if len(record) >= 4 else -1
    start = 4 + 2 * sentences
    if sentences < 0 or start > len(record) or (len(record) - start) % dtype.itemsize:
        raise ValueError(f"Not a record of token ids. Received: {len(record)} bytes")
    return np.frombuffer(record, dtype, offset=start), np.frombuffer(record, "<u2", sentences, 4)


def cuts(lengths_M: np.ndarray, most: int) -> Iterator[int]:
    """Where to cut a document into records of at most `most` tokens and about equal length.

    Args:
        lengths_M: (M,) tokens in each sentence, none above `most`.
        most: tokens in a record at most.

    Yields:
        The numbers of sentences after which a record ends; the last is M.

    Example:
        >>> list(cuts(np.array([4, 4, 4, 4, 4]), 16))
        [3, 5]
    """
    ends_M = np.cumsum(lengths_M)
    first, start = 0, 0
    while first < len(ends_M):
        left = ends_M[-1] - start
        wanted = start + left / -(-left // most)
        after = int(np.searchsorted(ends_M, wanted)) + 1  # the first sentence to reach it, included
        while after > first + 1 and ends_M[after - 1] - start > most:
            after -= 1
        first, start = after, ends_M[after - 1]
        yield after
