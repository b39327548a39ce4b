"""Oracles: the original's token loop, closed-form distributions, properties of tokens that count.

Documents here hold the tokens 0, 1, 2, ...: a segment shows where it came from.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.preprocessing import segments
from keras_albert.preprocessing.randomness import example_keys
from keras_albert.preprocessing.segments import Document, draw_segments, examples_in, pack_pairs

pytestmark = pytest.mark.backend_free

N = 10_000
KEYS = example_keys(0, 0, np.arange(N))
FAR = 100_000  # tokens of the other document begin here


def document(*lengths, first=0):
    ends = np.cumsum(lengths, dtype="int64")
    return Document(np.arange(ends[-1] if len(ends) else 0) + first, ends)


OTHER = document(*[4] * 50, first=FAR)


def draw(doc, key=KEYS[0], ordinal=0, count=1, sequence_length=32, **kwargs):
    kwargs.setdefault("random_document", lambda u: OTHER)
    return draw_segments(doc, ordinal, count, key, sequence_length=sequence_length, **kwargs)


def within(share, expected, count, sigmas=5):
    return abs(share - expected) <= sigmas * np.sqrt(expected * (1 - expected) / count)


def rises_by_one(tokens):
    return bool((np.diff(tokens) == 1).all())


def test_examples_in():
    # max(1, the integer nearest to length / 29), halves up; 0 below 2 tokens.
    lengths = np.array([0, 1, 2, 29, 43, 44, 72, 73, 290])
    assert examples_in(lengths, 32).tolist() == [0, 0, 1, 1, 1, 2, 2, 3, 10]
    assert examples_in(lengths, 32).dtype == np.int64
    assert examples_in(44, 32) == 2
    lengths = np.random.default_rng(0).integers(29, 3000, N)
    assert abs(examples_in(lengths, 32).sum() * 29 / lengths.sum() - 1) < 0.01


sentence_lengths = st.lists(st.integers(1, 60), min_size=1, max_size=40).filter(
    lambda lengths: sum(lengths) > 1
)


@settings(max_examples=200, deadline=None)
@given(
    sentence_lengths,
    st.integers(5, 64),
    st.sampled_from(["sop", "nsp", "none"]),
    st.booleans(),
    st.sampled_from([0, 0.5, 1]),
    st.integers(0, N - 1),
    st.randoms(use_true_random=False),
)
def test_properties(lengths, sequence_length, objective, legacy, short, key, random):
    doc = document(*lengths)
    count = int(examples_in(len(doc.token_ids), sequence_length))
    ordinal = random.randrange(count)
    a, b, label = draw(
        doc,
        KEYS[key],
        ordinal,
        count,
        sequence_length,
        objective=objective,
        legacy=legacy,
        short_sequence_probability=short,
    )
    assert len(a) and rises_by_one(a)
    if objective == "none":
        assert b is None and label == 0 and len(a) <= sequence_length - 2
        assert a[-1] < FAR
        return
    assert len(b) and rises_by_one(b) and len(a) + len(b) <= sequence_length - 3
    from_other = b[0] >= FAR
    if objective == "nsp":
        assert from_other == bool(label) and a[-1] < FAR
        assert label or a[-1] < b[0]
    elif legacy and from_other:
        assert label == 1 and a[-1] < FAR
    else:
        assert a[-1] < b[0] if label == 0 else b[-1] < a[0]
    untrimmed = len(a) + len(b) < sequence_length - 3
    if untrimmed and not from_other:
        # Nothing between the halves is missing, and the whole begins and ends with sentences,
        # unless the chunk is a window into a sentence longer than an example.
        first, second = (b, a) if label else (a, b)
        assert second[0] == first[-1] + 1
        starts = [0, *doc.sentence_ends[:-1]]
        window = max(lengths) > sequence_length - 3 and len(a) + len(b) >= 2
        assert window or (first[0] in starts and second[-1] + 1 in doc.sentence_ends)


def test_the_target_is_reached_wherever_the_document_allows():
    doc = document(*[3, 1, 4, 1, 5, 2, 6] * 20)  # 440 tokens, 15 chunks
    for ordinal, key in itertools.product(range(15), KEYS[:100]):
        a, b, _ = draw(doc, key, ordinal, 15, short_sequence_probability=0)
        assert len(a) + len(b) == 29
    short = document(4, 5, 6)
    for key in KEYS[:100]:
        a, b, _ = draw(short, key, short_sequence_probability=0)
        assert sorted([*a, *b]) == list(range(15))  # the whole of it


def test_every_token_is_seen_about_once_an_epoch():
    # Away from the ends, which no chunk can cross, the expected number of visits is equal.
    for doc in (document(*[1] * 290), document(290), document(*[2, 3, 5] * 29)):
        visits = np.zeros(290)
        for ordinal, key in itertools.product(range(10), KEYS[:800]):
            a, b, _ = draw(doc, key, ordinal, 10, short_sequence_probability=0)
            visits[a] += 1
            visits[b] += 1
        visits /= 800
        inner = visits[60:-60]  # two chunks from the ends
        assert visits.min() > 0.3 and inner.min() > 0.85 and inner.max() < 1.15


def test_swaps_half_of_the_time_and_independently_of_length():
    doc = document(*[3] * 9)
    drawn = [draw(doc, key, short_sequence_probability=0) for key in KEYS]
    labels = np.array([label for *_, label in drawn])
    assert within(labels.mean(), 0.5, N)
    first_length = np.array([len(b) if label else len(a) for a, b, label in drawn])
    assert abs(np.corrcoef(labels, first_length)[0, 1]) < 5 / np.sqrt(N)


def test_the_split_is_uniform_over_the_sentence_boundaries():
    doc = document(2, 5, 1, 7, 3)
    firsts = [min(a, b, key=lambda s: s[0]) for a, b, _ in (draw(doc, key) for key in KEYS)
              if len(a) + len(b) == 18]  # fmt: skip
    ends = np.array([first[-1] + 1 for first in firsts])
    assert set(ends) == {2, 7, 8, 15}
    assert all(within((ends == end).mean(), 1 / 4, len(ends)) for end in (2, 7, 8, 15))


def test_random_documents_half_of_the_time_for_nsp():
    doc = document(*[3] * 9)
    drawn = [draw(doc, key, objective="nsp", short_sequence_probability=0) for key in KEYS]
    assert within(np.mean([label for *_, label in drawn]), 0.5, N)
    for a, b, label in drawn:
        if label:  # sentences of 4 from the other document fill up what is left of 29
            room, begins = 29 - len(a), (b[0] - FAR) % 4 == 0
            assert len(b) <= room and (begins or len(b) == room)
    starts = np.array([b[0] - FAR for *_, b, label in drawn if label]) // 4
    # Uniform over its 50 sentences, front tokens may be trimmed.
    counts = np.bincount(starts, minlength=50)
    assert ((counts - len(starts) / 50) ** 2 / (len(starts) / 50)).sum() < 49 + 5 * np.sqrt(98)


def test_random_document_is_asked_with_a_uniform_number():
    asked = []

    def other(u):
        asked.append(u)
        return OTHER

    for key in KEYS[:2000]:
        draw(document(10), key, objective="nsp", random_document=other)
    assert len(asked) == 2000  # a single sentence never has a continuation
    assert abs(np.mean(asked) - 0.5) < 5 * np.sqrt(1 / 12 / 2000)


def test_short_targets():
    doc = document(*[1] * 1000)
    totals = np.array([len(a) + len(b) for a, b, _ in (draw(doc, key) for key in KEYS)])
    # A short target is uniform over 2..29, and may be 29 too.
    assert within((totals < 29).mean(), 0.1 * 27 / 28, N)
    totals = np.array(
        [len(a) + len(b) for a, b, _ in
         (draw(doc, key, short_sequence_probability=1) for key in KEYS)]
    )  # fmt: skip
    counts = np.bincount(totals, minlength=30)
    assert counts[:2].sum() == 0 and len(counts) == 30
    assert ((counts[2:] - N / 28) ** 2 / (N / 28)).sum() < 27 + 5 * np.sqrt(2 * 27)


def test_one_sentence_is_split_at_a_word():
    doc = document(10)
    starts = np.isin(np.arange(10), [0, 3, 7])
    drawn = [draw(doc, key, word_starts_V=starts, short_sequence_probability=0) for key in KEYS]
    ends = np.array([min(a[-1], b[-1]) + 1 for a, b, _ in drawn])
    assert set(ends) == {3, 7} and within((ends == 3).mean(), 0.5, N)
    assert within(np.mean([label for *_, label in drawn]), 0.5, N)
    # No word begins inside, or nothing is known of words: any token.
    for known in (np.arange(10) == 0, None):
        drawn = [draw(doc, key, word_starts_V=known, random_document=None) for key in KEYS[:500]]
        assert {min(a[-1], b[-1]) + 1 for a, b, _ in drawn} == set(range(1, 10))
        assert all(sorted([*a, *b]) == list(range(10)) for a, b, _ in drawn)


def test_legacy_takes_a_random_document_for_one_sentence_and_calls_it_swapped():
    for key in KEYS[:500]:
        a, b, label = draw(document(10), key, legacy=True)
        assert label == 1 and a.tolist() == list(range(10)) and b[0] >= FAR
        a, b, label = draw(document(5, 5), key, legacy=True, short_sequence_probability=0)
        assert a[-1] < FAR and b[-1] < FAR
    with pytest.raises(ValueError, match="`random_document` must be given"):
        draw(document(10), legacy=True, random_document=None)


def test_a_long_sentence_is_seen_as_a_window():
    doc = document(3, 5000, 3)
    firsts = []
    for ordinal, key in itertools.product(range(10), KEYS[:200]):
        a, b, _ = draw(doc, key, ordinal, 10, short_sequence_probability=0)
        assert len(a) + len(b) == 29
        firsts.append(min(a[0], b[0]))
    spread = np.histogram(firsts, bins=10, range=(0, 5006))[0] / len(firsts)
    assert np.abs(spread - 0.1).max() < 0.03


def trim_by_tokens(a, b, most, rng):
    """The original's loop (`truncate_seq_pair`), in other words."""
    a, b = list(a), list(b)
    while len(a) + len(b) > most:
        longer = a if len(a) > len(b) else b
        longer.pop(0 if rng.random() < 0.5 else -1)
    return a, b


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 200), st.integers(1, 200), st.integers(2, 100), st.integers(0, N - 1))
def test_trimmed_lengths_equal_those_of_the_token_loop(length_a, length_b, most, key):
    a, b = np.arange(length_a), np.arange(length_b) + FAR
    expected = trim_by_tokens(a, b, most, np.random.default_rng(0))
    got = segments._trim(a, b, most, KEYS[key : key + 1])
    assert [len(s) for s in got] == [len(s) for s in expected]
    assert all(rises_by_one(s) for s in got)


@pytest.mark.parametrize(("length_a", "length_b", "most"), [(12, 5, 9), (4, 4, 5), (150, 90, 40)])
def test_trimmed_ends_are_distributed_as_those_of_the_token_loop(length_a, length_b, most):
    a, b = np.arange(length_a), np.arange(length_b) + FAR
    rng = np.random.default_rng(0)
    lengths = [len(s) for s in trim_by_tokens(a, b, most, rng)]
    lost = np.array([length_a - lengths[0], length_b - lengths[1]])
    count = 4000
    fronts = np.array(
        [[s[0] % FAR for s in segments._trim(a, b, most, KEYS[i : i + 1])] for i in range(count)]
    )
    # A loss of d tokens takes Binomial(d, 1/2) from the front: mean d/2, variance d/4.
    assert (np.abs(fronts.mean(0) - lost / 2) <= 5 * np.sqrt(lost / 4 / count)).all()
    assert (np.abs(fronts.var(0) - lost / 4) <= 5 * lost / 4 * np.sqrt(2 / count)).all()
    assert abs(np.cov(fronts.T)[0, 1]) <= 5 * np.sqrt(np.prod(lost / 4) / count)
    by_loop = np.array([[s[0] % FAR for s in trim_by_tokens(a, b, most, rng)] for _ in range(300)])
    error = np.sqrt(lost / 4 * (1 / count + 1 / 300))
    assert (np.abs(fronts.mean(0) - by_loop.mean(0)) <= 5 * error).all()


def test_a_single_segment_is_trimmed_too():
    a, b, label = draw(document(20, 20), objective="none", short_sequence_probability=0)
    assert len(a) == 30 and b is None and label == 0 and rises_by_one(a)


def test_an_example_is_a_pure_function_of_its_key():
    doc = document(*[3, 8, 1, 12] * 10)
    forward = [draw(doc, key, objective="nsp") for key in KEYS[:50]]
    backward = [draw(doc, key, objective="nsp") for key in KEYS[:50][::-1]][::-1]
    for one, two in zip(forward, backward, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(one, two, strict=True))
    assert len({(a[0], len(a), b[0]) for a, b, _ in forward}) > 25


def test_golden_example_never_changes():
    a, b, label = draw(document(*[3, 8, 1, 12] * 10), KEYS[4], 3, 8)
    assert (a[0], a[-1], b[0], b[-1], label) == (108, 119, 99, 107, 1)


def test_two_tokens_and_the_shortest_sequence():
    for key in KEYS[:50]:
        a, b, label = draw(document(2), key, sequence_length=5)
        assert sorted([*a, *b]) == [0, 1] and label == int(a[0] == 1)
        a, b, _ = draw(document(1, 50, 1), key, sequence_length=5)
        assert len(a) == len(b) == 1


@pytest.mark.parametrize(
    ("kwargs", "rule"),
    [
        ({"doc": document()}, "at least 2 tokens"),
        ({"doc": document(1)}, "at least 2 tokens"),
        ({"sequence_length": 4}, "`sequence_length` must be >= 5"),
        ({"objective": "mlm"}, "`objective` must be one of"),
        ({"ordinal": 1}, "`ordinal` must be"),
        ({"ordinal": -1}, "`ordinal` must be"),
        ({"short_sequence_probability": 1.5}, "`short_sequence_probability` must be"),
        ({"objective": "nsp", "random_document": None}, "`random_document` must be given"),
        ({"objective": "nsp", "random_document": lambda u: document()}, "a document with tokens"),
    ],
)
def test_wrong_arguments(kwargs, rule):
    with pytest.raises(ValueError, match=rule):
        draw(**{"doc": document(9), **kwargs})


@pytest.mark.parametrize("ends", [[3], [5], [0, 4], [2, 2, 4], [3, 1, 4], []])
def test_wrong_documents(ends):
    with pytest.raises(ValueError, match="`sentence_ends` must rise"):
        Document(np.arange(4), np.array(ends, "int64"))


def test_wrong_counts():
    with pytest.raises(ValueError, match="`num_tokens_D` must be"):
        examples_in([3, -1], 32)
    with pytest.raises(ValueError, match="`sequence_length` must be >= 5"):
        examples_in([3], 4)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(5, 60_000), max_size=6),
            st.none() | st.lists(st.integers(5, 60_000), max_size=6),
        ),
        max_size=5,
    )
)
def test_pack_pairs(pairs):
    arrays = [
        (np.array(a, "uint16"), None if b is None else np.array(b, "uint16"), 1) for a, b in pairs
    ]
    token_ids, segment_ids, padding_mask = pack_pairs(arrays, 15, cls_id=2, sep_id=3, pad_id=1)
    assert (token_ids.dtype, segment_ids.dtype, padding_mask.dtype) == (np.int32, np.int32, bool)
    assert token_ids.shape == segment_ids.shape == padding_mask.shape == (len(pairs), 15)
    for row, (a, b) in enumerate(pairs):
        first = [2, *a, 3]
        second = [] if b is None else [*b, 3]
        rest = 15 - len(first) - len(second)
        assert token_ids[row].tolist() == first + second + [1] * rest
        assert segment_ids[row].tolist() == [0] * len(first) + [1] * len(second) + [0] * rest
        assert padding_mask[row].tolist() == [True] * (15 - rest) + [False] * rest


def test_pack_pairs_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="must fit in `sequence_length`.*6 tokens in pair 1"):
        pack_pairs([([7], [8]), ([7, 7], [8])], 5, 2, 3, 0)
