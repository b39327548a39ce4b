"""Documents -> pairs of segments, drawn by position instead of by walking the corpus.

Google's `create_pretraining_data.py` walks a document from its first sentence, cutting chunks as it
goes, so the n-th example depends on all before it. Here a document of T tokens gives a number of
examples that is known from T alone, and each of them is drawn from its own key: chunk k of n has
its centre uniformly in the k-th of n equal parts of the document. Chunks therefore differ from
epoch to epoch, and any example can be had without the others.

This module does not read files, shuffle or mask.

Shapes: T tokens of a document, D documents, V vocabulary, B batch, S sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from keras_albert.arguments import is_number
from keras_albert.preprocessing.randomness import (
    STREAM_SEGMENTS,
    STREAM_TRUNCATION,
    bits,
    uniforms,
)

OBJECTIVES = ("sop", "nsp", "none")
FEW_COINS = 128  # for truncation, thrown for all examples of a batch at once
DRAWS = 7  # numbers in [0, 1) that an example's segments take


@dataclass(frozen=True, eq=False)
class Document:
    """One tokenized document.

    Args:
        token_ids: `(T,)` integers.
        sentence_ends: `(n,)` int64, increasing: sentence i ends before token `sentence_ends[i]`,
            and the last is T. Empty if the document is.

    Raises:
        ValueError: If the ends do not rise strictly from above 0 to T.

    Example:
    >>> document = Document(np.array([7, 8, 9, 5]), np.array([3, 4]))
    """

    token_ids: np.ndarray
    sentence_ends: np.ndarray

    @classmethod
    def from_lengths(cls, token_ids: np.ndarray, lengths: np.ndarray) -> Document:
        """Make one from the `(n,)` integer lengths of its sentences, none of them 0: faster."""
        ends = lengths.cumsum(dtype="int64")
        if not len(ends) or ends[-1] != len(token_ids) or not lengths.all():
            return cls(token_ids, ends)  # which says what is wrong, if anything is
        document = object.__new__(cls)
        document.__dict__.update(token_ids=token_ids, sentence_ends=ends)
        return document

    def __post_init__(self):
        ends, length = self.sentence_ends, len(self.token_ids)
        last = ends[-1] if len(ends) else 0
        if last != length or (length and (ends[0] <= 0 or (ends[1:] <= ends[:-1]).any())):
            raise ValueError(
                "`sentence_ends` must rise strictly from above 0 to the number of tokens. "
                f"Received: sentence_ends={ends}, {length} tokens."
            )


def examples_in(num_tokens_D, sequence_length: int) -> np.ndarray:
    """Count the examples that documents of these lengths give in one epoch.

    The length over what one example holds (`sequence_length - 3`), rounded half up, so that on
    average an epoch reads each token about once; at least 1. A document of fewer than 2 tokens
    cannot be split and gives none.

    Args:
        num_tokens_D: `(D,)` integers.
        sequence_length: Integer >= 5.

    Returns:
        `(D,)` int64.

    Raises:
        ValueError: If `sequence_length` < 5 or a length is negative.

    Example:
    >>> examples_in([1, 2, 509, 1200], sequence_length=512).tolist()
    [0, 1, 1, 2]
    """
    _check_sequence_length(sequence_length)
    num_tokens_D = np.asarray(num_tokens_D, "int64")
    if (num_tokens_D < 0).any():
        raise ValueError(f"`num_tokens_D` must be >= 0. Received: {num_tokens_D}.")
    room = sequence_length - 3
    count_D = np.maximum((2 * num_tokens_D + room) // (2 * room), 1)
    return np.where(num_tokens_D >= 2, count_D, 0)


def draw_segments(
    document: Document,
    ordinal: int,
    count: int,
    key,
    *,
    sequence_length: int,
    objective: str = "sop",
    short_sequence_probability: float = 0.1,
    legacy: bool = False,
    random_document: Callable[[float], Document] | None = None,
    word_starts_V: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray | None, int]:
    """Draw one example's segments; a pure function of its arguments.

    As in BERT and ALBERT (`create_instances_from_document`): a chunk of whole sentences of about
    the target length is split at a random sentence boundary; the pair then loses tokens until it
    fits, the longer segment first (the second at a tie), at either end with probability 0.5.

    - "sop": the halves are in order (0) or swapped (1), each with probability 0.5. A chunk of one
      sentence is split inside, at the start of a word where there is one. `legacy=True` does what
      the original does instead: the second half comes from another document, labelled 1.
    - "nsp": the second half is the true continuation (0), or with probability 0.5, and always for
      a chunk of one sentence, sentences from a random place in another document (1).
    - "none": one segment, label 0.

    A sentence longer than an example is read through a window of the target length, placed where
    the draw fell, so that all of it is seen; trimming alone would only ever show its middle.

    Args:
        document: The document, of at least 2 tokens.
        ordinal: Which of its chunks, 0 <= ordinal < count.
        count: How many chunks the document gives, from `examples_in`.
        key: uint64, this example's key from `example_keys`.
        sequence_length: Integer >= 5; two segments hold at most `sequence_length - 3` tokens, one
            at most `sequence_length - 2`.
        objective: "sop", "nsp" or "none".
        short_sequence_probability: How often the target is a random length in [2, the most].
        legacy: See above.
        random_document: Maps a number in [0, 1) to another document, of at least one token.
            Needed for "nsp" and `legacy`.
        word_starts_V: `(V,)` bool, which ids begin a word; without it any token may.

    Returns:
        `(segment_a, segment_b, label)`: two views of token ids, none of them empty, and an int.
        `segment_b` is None with "none".

    Raises:
        ValueError: If an argument breaks its rule above.

    Example:
    >>> from keras_albert.preprocessing.randomness import example_keys
    >>> document = Document(np.arange(20, 30), np.array([4, 7, 10]))
    >>> key = example_keys(0, epoch=0, index_B=[0])[0]
    >>> a, b, label = draw_segments(document, 0, 1, key, sequence_length=16)
    >>> sorted([*a.tolist(), *b.tolist()]) == list(range(20, 30))
    True
    """
    _check_draw(document, ordinal, count)
    return draw_batch(
        [document],
        [ordinal],
        [count],
        np.asarray([key], "uint64"),
        sequence_length=sequence_length,
        objective=objective,
        short_sequence_probability=short_sequence_probability,
        legacy=legacy,
        random_document=random_document and (lambda _, u: random_document(u)),
        word_starts_V=word_starts_V,
    )[0]


def draw_batch(
    documents: Sequence[Document],
    ordinals: Sequence[int],
    counts: Sequence[int],
    keys_B: np.ndarray,
    *,
    sequence_length: int,
    objective: str = "sop",
    short_sequence_probability: float = 0.1,
    legacy: bool = False,
    random_document: Callable[[int, float], Document] | None = None,
    word_starts_V: np.ndarray | None = None,
) -> list[tuple[np.ndarray, np.ndarray | None, int]]:
    """Draw the segments of B examples: for each what `draw_segments` gives for it alone.

    Drawing the numbers of all at once is what makes it faster.

    Args:
        documents: B documents, each of at least 2 tokens.
        ordinals: B integers; see `draw_segments`, as for all that is not named here.
        counts: B integers.
        keys_B: `(B,)` uint64.
        sequence_length: see there.
        objective: see there.
        short_sequence_probability: see there.
        legacy: see there.
        random_document: Maps a row and a number in [0, 1) to another document than the row's.
        word_starts_V: see there.

    Returns:
        A list of B `(segment_a, segment_b, label)`.

    Raises:
        ValueError: If an argument breaks its rule.
    """
    _check_settings(sequence_length, objective, short_sequence_probability)
    needs_other = objective == "nsp" or (legacy and objective == "sop")
    if needs_other and random_document is None:
        raise ValueError(
            "`random_document` must be given for objective 'nsp' and for `legacy`. Received: None."
        )
    draws_B = uniforms(keys_B, STREAM_SEGMENTS, DRAWS).tolist()
    coins_B = [low | high << 64 for low, high in bits(keys_B, STREAM_TRUNCATION, 2).tolist()]
    most = sequence_length - (2 if objective == "none" else 3)
    pairs = []
    for row, (document, ordinal, count) in enumerate(zip(documents, ordinals, counts, strict=True)):
        u_short, u_target, u_centre, u_split, u_label, u_document, u_place = draws_B[row]
        coins = keys_B[row : row + 1], coins_B[row]
        target = _target(u_short, u_target, short_sequence_probability, most)
        begin, end, boundaries = _chunk(document, (ordinal + u_centre) / count, target, most)
        if objective == "none":
            pairs.append((*_trim(document.token_ids[begin:end], None, most, *coins), 0))
            continue

        one_sentence = not len(boundaries)
        take_other = needs_other and (one_sentence or (objective == "nsp" and u_label < 0.5))
        if one_sentence and take_other:
            split = end
        else:
            if one_sentence:
                boundaries = _word_boundaries(document.token_ids[begin:end], begin, word_starts_V)
            split = int(boundaries[int(u_split * len(boundaries))])

        a, b = document.token_ids[begin:split], document.token_ids[split:end]
        label = int(take_other or (objective == "sop" and u_label < 0.5))
        if take_other:
            b = _passage(random_document(row, u_document), u_place, target - len(a))
        elif label:
            a, b = b, a
        pairs.append((*_trim(a, b, most, *coins), label))
    return pairs


def aims_short(keys_B, short_sequence_probability: float) -> np.ndarray:
    """Say which examples `draw_segments` aims at a shorter, random length: (B,) bool.

    Args:
        keys_B: `(B,)` uint64, the examples' keys.
        short_sequence_probability: as in `draw_segments`.

    Example:
    >>> from keras_albert.preprocessing.randomness import example_keys
    >>> bool(aims_short(example_keys(0, 0, [0, 1]), short_sequence_probability=1.0).all())
    True
    """
    return uniforms(keys_B, STREAM_SEGMENTS, 1)[:, 0] < short_sequence_probability


def draws_one_sentence(
    document: Document,
    ordinal: int,
    count: int,
    key,
    *,
    sequence_length: int,
    objective: str = "sop",
    short_sequence_probability: float = 0.1,
) -> bool:
    """Say whether `draw_segments` has a chunk of one sentence to split, for these arguments."""
    draws = uniforms(np.asarray([key], "uint64"), STREAM_SEGMENTS, DRAWS)[0].tolist()
    most = sequence_length - (2 if objective == "none" else 3)
    target = _target(*draws[:2], short_sequence_probability, most)
    return not len(_chunk(document, (ordinal + draws[2]) / count, target, most)[2])


def pack_pairs(
    pairs: Sequence[tuple[np.ndarray, np.ndarray | None]],
    sequence_length: int,
    cls_id: int,
    sep_id: int,
    pad_id: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Write `[CLS] a [SEP] b [SEP]` rows, or `[CLS] a [SEP]` where b is None.

    `keras_hub.layers.MultiSegmentPacker` goes through Python lists and would truncate by its own
    rule; these segments already fit.

    Args:
        pairs: B pairs `(segment_a, segment_b or None)` of 1-D ids. More entries are ignored, so
            that the triples of `draw_segments` can be given as they are.
        sequence_length: The length S of a row.
        cls_id: The id of [CLS].
        sep_id: The id of [SEP].
        pad_id: The id of the padding.

    Returns:
        `token_ids` `(B, S)` int32, `segment_ids` `(B, S)` int32 (1 for b and its [SEP]; padding is
        0), `padding_mask` `(B, S)` bool, True for tokens.

    Raises:
        ValueError: If a pair does not fit in a row.

    Example:
    >>> pack_pairs([([7, 8], [9])], 8, cls_id=2, sep_id=3, pad_id=0)[0].tolist()
    [[2, 7, 8, 3, 9, 3, 0, 0]]
    """
    token_ids_BS = np.full((len(pairs), sequence_length), pad_id, "int32")
    segment_ids_BS = np.zeros((len(pairs), sequence_length), "int32")
    length_B = np.zeros(len(pairs), "int64")
    for row, (a, b, *_) in enumerate(pairs):
        middle = len(a) + 2
        end = middle if b is None else middle + len(b) + 1
        if end > sequence_length:
            raise ValueError(
                "A pair and its special tokens must fit in `sequence_length`. Received: "
                f"{end} tokens in pair {row}, sequence_length={sequence_length}."
            )
        tokens_S = token_ids_BS[row]
        tokens_S[0] = cls_id
        tokens_S[1 : middle - 1] = a
        tokens_S[middle - 1] = sep_id
        if b is not None:
            tokens_S[middle : end - 1] = b
            tokens_S[end - 1] = sep_id
            segment_ids_BS[row, middle:end] = 1
        length_B[row] = end
    return token_ids_BS, segment_ids_BS, np.arange(sequence_length) < length_B[:, None]


def _target(u_short, u_target, short_sequence_probability, most):
    """The length to aim at: the most that fits, or at times a random one from 2 on."""
    return 2 + int(u_target * (most - 1)) if u_short < short_sequence_probability else most


def _chunk(document, centre, target, most):
    """Find the chunk around `centre` (in [0, 1)): its begin, end and inner sentence boundaries."""
    ends, length = document.sentence_ends, len(document.token_ids)
    start = int(centre * length - target / 2)
    start = max(0, min(start, length - target))  # near the end the chunk moves back, not shrinks
    first = int(ends.searchsorted(start, "right"))
    begin = int(ends[first - 1]) if first else 0
    if ends[first] - begin > most:
        start = min(start, int(ends[first]) - target)
        return start, start + target, ends[:0]
    last = min(int(ends.searchsorted(begin + target)), len(ends) - 1)
    return begin, int(ends[last]), ends[first:last]


def _word_boundaries(tokens, begin, word_starts_V):
    if word_starts_V is not None:
        starts = np.flatnonzero(word_starts_V[tokens[1:]])
        if len(starts):
            return starts + (begin + 1)
    return range(begin + 1, begin + len(tokens))


def _passage(document, place, room):
    """Take whole sentences, one or more, from sentence `place` (in [0, 1)) to `room` tokens."""
    ends = document.sentence_ends
    if not len(ends):
        raise ValueError("`random_document` must give a document with tokens. Received: none.")
    first = int(place * len(ends))
    begin = int(ends[first - 1]) if first else 0
    last = max(first, min(int(ends.searchsorted(begin + room)), len(ends) - 1))
    return document.token_ids[begin : int(ends[last])]


def _trim(a, b, most, key_1, coins=None):
    """Cut the pair down to `most` tokens, in one step with the distribution of the token loop.

    The longer segment shrinks to the other's length, then both shrink by turns, b first. Of the
    tokens that a segment loses, each comes from the front or the back by a fair coin: the number
    from the front is the number of ones among as many random bits: of the integer `coins` where
    its `FEW_COINS` are enough, else of as many as need be.
    """
    length_a, length_b = len(a), 0 if b is None else len(b)
    excess = length_a + length_b - most
    if excess <= 0:
        return a, b
    uneven = min(excess, abs(length_a - length_b))
    shared = excess - uneven
    lose_a = shared // 2 + (uneven if length_a > length_b else 0)
    lose_b = excess - lose_a
    if coins is None or excess > FEW_COINS:
        words = bits(key_1, STREAM_TRUNCATION, -(-excess // 64)).astype("<u8")
        coins = int.from_bytes(words.tobytes(), "little")
    front_a = (coins & ((1 << lose_a) - 1)).bit_count()
    front_b = ((coins >> lose_a) & ((1 << lose_b) - 1)).bit_count()
    a = a[front_a : length_a - lose_a + front_a]
    return a, None if b is None else b[front_b : length_b - lose_b + front_b]


def _check_sequence_length(sequence_length):
    if sequence_length < 5:
        raise ValueError(
            "`sequence_length` must be >= 5, two segments of a token and three special tokens. "
            f"Received: {sequence_length}."
        )


def _check_settings(sequence_length, objective, short_sequence_probability):
    _check_sequence_length(sequence_length)
    if objective not in OBJECTIVES:
        raise ValueError(f"`objective` must be one of {OBJECTIVES}. Received: {objective!r}.")
    if not is_number(short_sequence_probability) or not 0 <= short_sequence_probability <= 1:
        raise ValueError(
            "`short_sequence_probability` must be in [0, 1]. "
            f"Received: {short_sequence_probability!r}."
        )


def _check_draw(document, ordinal, count):
    if len(document.token_ids) < 2:
        raise ValueError(
            "`document` must have at least 2 tokens. Received: "
            f"{len(document.token_ids)} (`examples_in` gives 0 for it)."
        )
    if not 0 <= ordinal < count:
        raise ValueError(
            f"`ordinal` must be in [0, count). Received: ordinal={ordinal}, count={count}."
        )
