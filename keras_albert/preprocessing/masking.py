"""Masking of n-grams of whole words, as ALBERT's `create_masked_lm_predictions` does it.

What can be done for a whole batch at once is NumPy over all its tokens: finding the words, the
random order, the lengths of the n-grams, the replacements. What is sequential by nature, taking
n-grams until the budget is spent, is a short loop over ints: at 32 rows it beats B-wide NumPy
calls, and it does not slow down for a single row. All randomness comes from the rows' keys.

Shapes: B batch, S sequence, P predictions, V vocabulary, K replacement ids, W words of the batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from keras_albert.arguments import is_integer, is_number
from keras_albert.preprocessing.randomness import (
    STREAM_MASK_KIND,
    STREAM_NGRAM,
    STREAM_REPLACEMENT,
    STREAM_WORD_ORDER,
    bits,
    uniforms,
)

MAX_LENGTH = 2**20  # words of a row are numbered in 20 bits when they are shuffled
_TICKET_NUMBER = np.uint64(MAX_LENGTH - 1)


@dataclass(frozen=True, eq=False)
class MaskingVocabulary:
    """What masking has to know of a vocabulary.

    Args:
        word_starts: `(V,)` bool: ids that begin a word.
        selectable: `(V,)` bool: ids that may be masked; not [CLS], [SEP], [MASK], padding.
        replacements: `(K,)` integers: ids that random tokens are drawn from; no special ids.
        mask_token_id: The id of [MASK].
        pad_token_id: The id of the padding.

    Raises:
        ValueError: If the arrays do not fit together, there are no replacements, or one of them or
            a special id is outside the vocabulary.

    Example:
    >>> selectable = np.arange(9) > 3
    >>> vocabulary = MaskingVocabulary(np.ones(9, bool), selectable, np.arange(4, 9), 3, 0)
    """

    word_starts: np.ndarray
    selectable: np.ndarray
    replacements: np.ndarray
    mask_token_id: int
    pad_token_id: int

    def __post_init__(self):
        shapes = np.shape(self.word_starts), np.shape(self.selectable)
        if len(shapes[0]) != 1 or shapes[0] != shapes[1]:
            raise ValueError(
                "`word_starts` and `selectable` must both be (V,). "
                f"Received: shapes {shapes[0]} and {shapes[1]}."
            )
        ids = [*np.ravel(self.replacements), self.mask_token_id, self.pad_token_id]
        if len(ids) < 3 or min(ids) < 0 or max(ids) >= shapes[0][0]:
            raise ValueError(
                "`replacements` (at least one) and the special ids must be in [0, V). Received: "
                f"replacements={self.replacements}, mask_token_id={self.mask_token_id}, "
                f"pad_token_id={self.pad_token_id}, V={shapes[0][0]}."
            )

    @classmethod
    def from_tokenizer(cls, tokenizer) -> MaskingVocabulary:
        """Read it off a tokenizer of this package.

        [UNK] may be masked, as in the original, but is never a random replacement.
        """
        size = tokenizer.vocabulary_size()
        selectable = np.ones(size, bool)
        selectable[
            [
                tokenizer.cls_token_id,
                tokenizer.sep_token_id,
                tokenizer.pad_token_id,
                tokenizer.mask_token_id,
            ]
        ] = False
        ordinary = selectable.copy()
        ordinary[[tokenizer.unk_token_id, *tokenizer.special_token_ids]] = False
        return cls(
            np.asarray(tokenizer.word_starts(), bool),
            selectable,
            np.flatnonzero(ordinary),
            int(tokenizer.mask_token_id),
            int(tokenizer.pad_token_id),
        )


def default_max_predictions(sequence_length: int, mask_rate: float = 0.15) -> int:
    """Give the number of prediction slots that never cuts `mask_rate` short: ceil(rate * length).

    The original's default of 20 would mask 3.9% of 512 tokens.

    Example:
    >>> default_max_predictions(512)
    77
    """
    return math.ceil(
        round(mask_rate * sequence_length, 6)
    )  # 0.15 * 20 is 3, not 3.0000000000000004


def mask_ngrams(
    token_ids_BS,
    keys_B,
    *,
    vocabulary: MaskingVocabulary,
    mask_rate: float = 0.15,
    max_predictions: int,
    max_ngram: int = 3,
    whole_words: bool = True,
    mask_token_share: float = 0.8,
    random_token_share: float = 0.1,
) -> dict[str, np.ndarray]:
    """Mask random n-grams of whole words.

    Row by row: `mask_rate` of the tokens that are not padding (special tokens count, but are never
    chosen), rounded, are to be predicted; at least 1, at most `max_predictions`. The words are
    visited in random order. At each, n is drawn from 1 to `max_ngram` with p(n) proportional to
    1/n; an n-gram longer than what is left to predict is shortened word by word, and skipped if
    even one word is too long or if it would overlap one already chosen. So words longer than
    `max_predictions` are never chosen, and a row may end up with fewer predictions.

    Two departures from Google's code: an n-gram never runs across an unselectable token ([SEP]),
    and p is renormalised over the n-grams that exist where fewer words are left.

    Args:
        token_ids_BS: `(B, S)` integers in [0, V).
        keys_B: `(B,)` uint64, the rows' keys from `example_keys`. A row's result depends on its
            tokens and its key only, and not on how much padding follows.
        vocabulary: A `MaskingVocabulary`.
        mask_rate: The share of tokens to predict, in (0, 1].
        max_predictions: The number P of slots, >= 1; see `default_max_predictions`.
        max_ngram: The longest n-gram, in words, >= 1.
        whole_words: False takes every token for a word of its own.
        mask_token_share: How many of the chosen tokens, each on its own, become [MASK].
        random_token_share: How many become a random one of `vocabulary.replacements`. The rest
            stay as they are.

    Returns:
        A dict of `token_ids` `(B, S)` int32, `mask_positions` `(B, P)` int32, ascending, `mask_ids`
        `(B, P)` int32, the original ids, and `mask_weights` `(B, P)` float32, 1 for a prediction.
        Unused slots are 0.

    Raises:
        ValueError: If an argument breaks its rule above.

    Example:
    >>> selectable = np.arange(9) > 3
    >>> vocabulary = MaskingVocabulary(np.ones(9, bool), selectable, np.arange(4, 9), 3, 0)
    >>> rows = np.array([[1, 5, 6, 7, 8, 2, 0, 0]])
    >>> out = mask_ngrams(rows, example_keys(0, 0, [0]), vocabulary=vocabulary, max_predictions=2)
    >>> out["mask_weights"].tolist()
    [[1.0, 0.0]]
    """
    token_ids_BS = np.asarray(token_ids_BS)
    check_shares(mask_rate, mask_token_share, random_token_share)
    check_counts(max_predictions, max_ngram)
    _check_tokens(token_ids_BS, keys_B, len(vocabulary.selectable))
    chosen_BS = _choose(
        token_ids_BS, keys_B, vocabulary, mask_rate, max_predictions, max_ngram, whole_words
    )

    rows, columns = np.nonzero(chosen_BS)
    count_B = chosen_BS.sum(1)
    slots = np.arange(len(rows)) - np.repeat(np.cumsum(count_B) - count_B, count_B)
    originals = token_ids_BS[rows, columns]

    kind_BP = uniforms(keys_B, STREAM_MASK_KIND, max_predictions)
    which_BP = uniforms(keys_B, STREAM_REPLACEMENT, max_predictions)
    kind = kind_BP[rows, slots]
    random_ids = vocabulary.replacements[
        (which_BP[rows, slots] * len(vocabulary.replacements)).astype("int64")
    ]
    masked = kind < mask_token_share
    replaced = ~masked & (kind < mask_token_share + random_token_share)

    out = {"token_ids": token_ids_BS.astype("int32")}
    out["token_ids"][rows, columns] = np.where(
        masked, vocabulary.mask_token_id, np.where(replaced, random_ids, originals)
    )
    for name, value, dtype in (
        ("mask_positions", columns, "int32"),
        ("mask_ids", originals, "int32"),
        ("mask_weights", 1, "float32"),
    ):
        out[name] = np.zeros((len(token_ids_BS), max_predictions), dtype)
        out[name][rows, slots] = value
    return out


def _choose(
    token_ids_BS, keys_B, vocabulary, mask_rate, max_predictions, max_ngram, whole_words
) -> np.ndarray:
    """Choose the positions to predict: (B, S) bool."""
    batch, length = token_ids_BS.shape
    selectable_BS = vocabulary.selectable[token_ids_BS]
    begins_BS = selectable_BS.copy()
    if whole_words:
        begins_BS[:, 1:] &= vocabulary.word_starts[token_ids_BS[:, 1:]] | ~selectable_BS[:, :-1]

    # Words, numbered through the batch; `offsets` counts selectable tokens before each.
    first_W = np.flatnonzero(begins_BS)
    num_words = len(first_W)
    if not num_words:
        return np.zeros_like(selectable_BS)
    before = np.cumsum(selectable_BS)  # the tokens up to and with this one
    offset_W = before[first_W] - 1
    offsets = np.append(offset_W, before[-1])
    word_of_token = np.repeat(np.arange(num_words), np.diff(offsets))

    # A run of words ends where the next word is not adjacent or stands in the next row.
    gap_W = np.ones(num_words, bool)
    gap_W[:-1] = (first_W[:-1] + np.diff(offset_W) != first_W[1:]) | (first_W[1:] % length == 0)
    run_ends = np.flatnonzero(gap_W) + 1
    run_end_W = np.repeat(run_ends, np.diff(run_ends, prepend=0))
    ngrams_W = np.minimum(run_end_W - np.arange(num_words), max_ngram)

    # p(n) ∝ 1/n over 1..m: n is where u * H(m) falls among the harmonic numbers.
    harmonic = np.cumsum(1 / np.arange(1, max_ngram + 1))
    u_W = uniforms(keys_B, STREAM_NGRAM, length).ravel()[first_W]
    n_W = np.searchsorted(harmonic[:-1], u_W * harmonic[ngrams_W - 1], "right") + 1
    n_W = np.minimum(n_W, ngrams_W)

    # A ticket is random above and the word's number within its row below: sorting them shuffles.
    row_ends = np.searchsorted(first_W, np.arange(1, batch + 1) * length)
    row_begins = np.append(0, row_ends[:-1])
    number_W = np.arange(num_words) - np.repeat(row_begins, row_ends - row_begins)
    ticket_W = bits(keys_B, STREAM_WORD_ORDER, length).ravel()[first_W]
    ticket_W = ticket_W & ~_TICKET_NUMBER | number_W.astype("uint64")

    num_tokens_B = (token_ids_BS != vocabulary.pad_token_id).sum(1)
    budget_B = np.clip(np.rint(mask_rate * num_tokens_B), 1, max_predictions).astype("int64")

    covered = _take(ticket_W, n_W.tolist(), offsets.tolist(), row_ends.tolist(), budget_B.tolist())
    chosen_BS = np.zeros_like(selectable_BS)
    chosen_BS[selectable_BS] = covered[word_of_token]
    return chosen_BS


def _take(ticket_W, n, offsets, row_ends, budgets) -> np.ndarray:
    """Take n-grams in random order while they fit and do not overlap: (W,) bool, the words taken.

    `n[w]` is the length drawn for the n-gram that begins at word w, `offsets[w]` the number of
    tokens in the words before w.
    """
    covered = bytearray(len(n))
    begin = 0
    for end, budget in zip(row_ends, budgets, strict=True):
        for word in (np.sort(ticket_W[begin:end]) & _TICKET_NUMBER).tolist():
            word += begin
            if covered[word]:
                continue
            stop, most = word + n[word], offsets[word] + budget
            while offsets[stop] > most:
                stop -= 1
            if stop == word or covered.find(1, word, stop) >= 0:
                continue
            covered[word:stop] = b"\1" * (stop - word)
            budget -= offsets[stop] - offsets[word]
            if not budget:
                break
        begin = end
    return np.frombuffer(covered, bool)


def check_shares(mask_rate, mask_token_share, random_token_share):
    """Raise a `ValueError` for shares outside their range."""
    if not is_number(mask_rate) or not 0 < mask_rate <= 1:
        raise ValueError(f"`mask_rate` must be in (0, 1]. Received: {mask_rate!r}.")
    if min(mask_token_share, random_token_share) < 0 or mask_token_share + random_token_share > 1:
        raise ValueError(
            "`mask_token_share` and `random_token_share` must be >= 0 and at most 1 together. "
            f"Received: {mask_token_share} and {random_token_share}."
        )


def check_counts(max_predictions, max_ngram):
    """Raise a `ValueError` for numbers below 1."""
    if not all(is_integer(value) and value >= 1 for value in (max_predictions, max_ngram)):
        raise ValueError(
            "`max_predictions` and `max_ngram` must be integers >= 1. "
            f"Received: max_predictions={max_predictions!r}, max_ngram={max_ngram!r}."
        )


def _check_tokens(token_ids_BS, keys_B, vocabulary_size):
    if token_ids_BS.ndim != 2 or token_ids_BS.dtype.kind not in "iu":
        raise ValueError(
            "`token_ids_BS` must be (B, S) integers. "
            f"Received: dtype={token_ids_BS.dtype}, shape={token_ids_BS.shape}."
        )
    if token_ids_BS.shape[1] > MAX_LENGTH:
        raise ValueError(
            f"A row may have {MAX_LENGTH} tokens at most. Received: {token_ids_BS.shape[1]}."
        )
    if len(keys_B) != len(token_ids_BS):
        raise ValueError(
            "`keys_B` must have one key per row. "
            f"Received: {len(keys_B)} keys, {len(token_ids_BS)} rows."
        )
    if token_ids_BS.size and not 0 <= token_ids_BS.min() <= token_ids_BS.max() < vocabulary_size:
        raise ValueError(
            f"`token_ids_BS` must be in [0, {vocabulary_size}), the vocabulary. Received: "
            f"from {token_ids_BS.min()} to {token_ids_BS.max()}."
        )
