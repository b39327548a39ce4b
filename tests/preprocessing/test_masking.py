"""Oracles: a plain sequential version, exact probabilities by enumeration, closed forms."""

import itertools
from collections import Counter

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.preprocessing import randomness
from keras_albert.preprocessing.mask_generator import NGramMaskGenerator
from keras_albert.preprocessing.masking import (
    MaskingVocabulary,
    default_max_predictions,
    mask_ngrams,
)
from keras_albert.preprocessing.randomness import example_keys, uniforms

PAD, UNK, CLS, SEP, MASK = range(5)
SIZE = 1000
IDS = np.arange(SIZE)
SELECTABLE = ~np.isin(IDS, [PAD, CLS, SEP, MASK])
ORDINARY = np.arange(5, SIZE)
SINGLE = MaskingVocabulary(np.ones(SIZE, bool), SELECTABLE, ORDINARY, MASK, PAD)
# Odd ids go on with a word, even ones begin it.
WORDS = MaskingVocabulary(IDS % 2 == 0, SELECTABLE, ORDINARY, MASK, PAD)


def mask(rows, index=None, seed=0, vocabulary=SINGLE, **kwargs):
    rows = np.asarray(rows)
    index = np.arange(len(rows)) if index is None else index
    kwargs.setdefault("max_predictions", default_max_predictions(rows.shape[-1]))
    return mask_ngrams(rows, example_keys(seed, 0, index), vocabulary=vocabulary, **kwargs)


def row_of(*pieces):
    return np.concatenate([np.atleast_1d(p) for p in pieces])


def chosen_of(out, length):
    chosen = np.zeros((len(out["token_ids"]), length), bool)
    rows, slots = np.nonzero(out["mask_weights"])
    chosen[rows, out["mask_positions"][rows, slots]] = True
    return chosen


def within(share, expected, count, sigmas=5):
    return abs(share - expected) <= sigmas * np.sqrt(expected * (1 - expected) / count)


def runs(chosen):
    return [len(list(group)) for value, group in itertools.groupby(chosen) if value]


# A row of tokens, with padding; specials may stand anywhere.
rows_of_tokens = st.builds(
    lambda tokens, padding: np.array([CLS, *tokens, SEP] + [PAD] * padding),
    st.lists(st.sampled_from([CLS, SEP, MASK, UNK, *range(5, 25)]), max_size=40),
    st.integers(0, 5),
)


def sequential(row, key, vocabulary, max_predictions, max_ngram, mask_rate=0.15):
    """The algorithm in words of the docstring, a token at a time, with the same random numbers."""
    key = np.array([key])
    order = uniforms(key, randomness.STREAM_WORD_ORDER, len(row))[0]
    ngram = uniforms(key, randomness.STREAM_NGRAM, len(row))[0]
    runs_of_words = [[]]
    for position, token in enumerate(row):
        if not vocabulary.selectable[token]:
            runs_of_words.append([])
        elif vocabulary.word_starts[token] or not runs_of_words[-1]:
            runs_of_words[-1].append([position])
        else:
            runs_of_words[-1][-1].append(position)
    budget = min(max_predictions, max(1, round(mask_rate * int((row != PAD).sum()))))
    starts = [(run, i) for run in runs_of_words for i in range(len(run))]
    taken = set()
    for run, i in sorted(starts, key=lambda start: order[start[0][start[1]][0]]):
        first = run[i][0]
        if first in taken:
            continue
        weights = [1 / n for n in range(1, min(max_ngram, len(run) - i) + 1)]
        u, n = ngram[first] * sum(weights), 1
        while n < len(weights) and u >= sum(weights[:n]):
            n += 1
        while n and len(sum(run[i : i + n], [])) > budget - len(taken):
            n -= 1
        tokens = sum(run[i : i + n], [])
        if not taken & set(tokens):
            taken |= set(tokens)
    return sorted(taken)


@pytest.mark.backend_free
@settings(max_examples=200, deadline=None)
@given(rows_of_tokens, st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 5))
def test_agrees_with_the_sequential_version(row, index, max_predictions, max_ngram):
    out = mask(
        [row],
        [index],
        vocabulary=WORDS,
        max_predictions=max_predictions,
        max_ngram=max_ngram,
        mask_rate=0.4,
    )
    key = example_keys(0, 0, [index])[0]
    expected = sequential(row, key, WORDS, max_predictions, max_ngram, mask_rate=0.4)
    assert np.flatnonzero(chosen_of(out, len(row))[0]).tolist() == expected


@pytest.mark.backend_free
@settings(max_examples=200, deadline=None)
@given(st.lists(rows_of_tokens, min_size=1, max_size=5), st.integers(0, 99), st.booleans())
def test_properties(rows, seed, whole_words):
    length = max(map(len, rows))
    rows = np.array([np.pad(row, (0, length - len(row))) for row in rows])
    out = mask(rows, seed=seed, vocabulary=WORDS, whole_words=whole_words, mask_rate=0.3)
    slots = out["mask_positions"].shape[1]
    for row, ids, positions, originals, weights in zip(rows, *out.values(), strict=True):
        count = int(weights.sum())
        assert weights.tolist() == [1.0] * count + [0.0] * (slots - count)
        assert not positions[count:].any() and not originals[count:].any()
        positions, originals = positions[:count], originals[:count]
        assert (np.diff(positions) > 0).all()  # ascending, none twice
        assert SELECTABLE[row[positions]].all()
        restored = ids.copy()
        restored[positions] = originals
        np.testing.assert_array_equal(restored, row)
        changed = ids[positions] != originals
        assert np.isin(ids[positions][changed], [MASK, *ORDINARY]).all()
        if whole_words:  # within a run of selectable tokens, a word is chosen whole or not at all
            goes_on = ~WORDS.word_starts[row[1:]] & SELECTABLE[row[1:]] & SELECTABLE[row[:-1]]
            chosen = np.isin(np.arange(length), positions)
            assert (chosen[1:] == chosen[:-1])[goes_on].all()
        else:  # every token is a word: the number is known
            expected = max(1, round(0.3 * (row != PAD).sum()))
            assert count == min(slots, expected, SELECTABLE[row].sum())


@pytest.mark.backend_free
@settings(max_examples=50, deadline=None)
@given(st.lists(rows_of_tokens, min_size=2, max_size=6), st.integers(0, 7))
def test_a_row_depends_on_itself_only(rows, padding):
    length = max(map(len, rows))
    batch = np.array([np.pad(row, (0, length - len(row))) for row in rows])
    index = np.arange(len(rows)) * 3
    together = mask(batch, index, vocabulary=WORDS, max_predictions=6)
    backwards = mask(batch[::-1], index[::-1], vocabulary=WORDS, max_predictions=6)
    for i, row in enumerate(rows):
        alone = mask([np.pad(row, (0, padding))], index[i : i + 1], vocabulary=WORDS,
                     max_predictions=6)  # fmt: skip
        for name, value in alone.items():
            np.testing.assert_array_equal(together[name][i][: len(row)], value[0][: len(row)])
            np.testing.assert_array_equal(backwards[name][-1 - i], together[name][i])


@pytest.mark.backend_free
@pytest.mark.parametrize("budget", [1, 2, 3, 4])
def test_exact_probabilities_of_small_rows(budget):
    # Two runs of words, of 3 and 2 tokens-words; all visiting orders and all draws enumerated.
    words = [(0, 3), (1, 3), (2, 3), (4, 6), (5, 6)]  # position, end of its run
    exact = Counter()
    choices = [[1, 2, 3][: end - position] for position, end in words]
    for lengths in itertools.product(*choices):
        p = np.prod(
            [(1 / n) / sum(1 / m for m in ns) for n, ns in zip(lengths, choices, strict=True)]
        )
        for order in itertools.permutations(range(5)):
            taken, left = set(), budget
            for w in order:
                n = min(lengths[w], left)
                gram = set(range(words[w][0], words[w][0] + n))
                if not taken & {words[w][0]} and not taken & gram:
                    taken |= gram
                    left -= n
            exact[tuple(sorted(taken))] += p / 120
    assert sum(exact.values()) == pytest.approx(1)

    count = 40_000
    rows = np.broadcast_to([10, 11, 12, SEP, 13, 14], (count, 6))
    out = mask(rows, max_predictions=budget, mask_rate=1.0)
    seen = Counter(tuple(np.flatnonzero(row).tolist()) for row in chosen_of(out, 6))
    assert set(seen) == {outcome for outcome, p in exact.items() if p > 0}
    for outcome, p in exact.items():
        assert within(seen[outcome] / count, p, count), (outcome, seen[outcome] / count, p)


@pytest.mark.backend_free
def test_ngram_lengths_follow_one_over_n():
    # Three tokens to predict in a long row of one-token words. The first n-gram is not shortened:
    # it is of 3 with p = 2/11, and the row is done; else what remains is filled by the next.
    count, length = 10_000, 400
    outcomes = Counter()
    for part in range(10):
        rows = np.full((count // 10, length), 10)
        index = np.arange(count // 10) + count // 10 * part
        positions = mask(rows, index, max_predictions=3)["mask_positions"]
        outcomes.update((np.diff(positions, axis=1) == 1).sum(1).tolist())
    one, two, three = 6 / 11, 3 / 11, 2 / 11
    expected = {2: three, 1: two + one * (two + three), 0: one * one}
    for gap, p in expected.items():
        tolerance = 5 * np.sqrt(p * (1 - p) / count) + 6 / length  # chance neighbours
        assert abs(outcomes[gap] / count - p) < tolerance, (gap, outcomes[gap] / count, p)


@pytest.mark.backend_free
def test_golden_masks_never_change():
    # Recorded when this was written: a run resumed with a later version must see the same masks.
    out = mask([np.arange(5, 45)], [4], seed=2, vocabulary=WORDS)
    assert out["mask_positions"].tolist() == [[0, 25, 26, 33, 34, 39]]
    assert out["token_ids"][0, out["mask_positions"][0]].tolist() == [5, 4, 4, 4, 903, 881]


@pytest.mark.backend_free
def test_share_of_masked_tokens():
    for length in (16, 100, 128, 512):
        rows = np.full((20, length), 10)
        out = mask(rows)
        assert (out["mask_weights"].sum(1) == round(0.15 * length)).all()
    # 20 slots at 512 would mask 3.9%; the default follows the length.
    assert [default_max_predictions(n) for n in (1, 20, 128, 512)] == [1, 3, 20, 77]
    # Words of one to three tokens: the budget is met up to what no word fits.
    rng = np.random.default_rng(0)
    rows = rng.integers(5, SIZE, (200, 512))
    count = mask(rows, vocabulary=WORDS)["mask_weights"].sum(1)
    assert (count <= 77).all() and count.mean() > 76.9


@pytest.mark.backend_free
def test_every_position_is_equally_likely():
    count, length = 4000, 40
    out = mask(np.full((count, length), 10), max_ngram=1)
    share = chosen_of(out, length).mean(0)
    assert all(within(s, 6 / 40, count) for s in share)


@pytest.mark.backend_free
def test_eighty_ten_ten():
    rows = np.random.default_rng(1).integers(5, SIZE, (1000, 512))
    out = mask(rows)
    now = out["token_ids"][np.arange(1000)[:, None], out["mask_positions"]]
    count = now.size
    assert out["mask_weights"].all() and count == 77_000
    same_by_chance = 0.1 / len(ORDINARY)
    assert within((now == MASK).mean(), 0.8, count)
    assert within((now == out["mask_ids"]).mean(), 0.1 + same_by_chance, count)
    replaced = now[(now != MASK) & (now != out["mask_ids"])]
    assert within(len(replaced) / count, 0.1 - same_by_chance, count)
    # The kinds are drawn per token: a neighbour in the same row says nothing.
    masked = now == MASK
    assert abs(np.corrcoef(masked[:, 1:].ravel(), masked[:, :-1].ravel())[0, 1]) < 5 / 270
    # Random tokens are uniform over the ordinary ids.
    counts = np.bincount(replaced, minlength=SIZE)
    assert not counts[:5].any()
    expected = len(replaced) / len(ORDINARY)
    chi_square = ((counts[5:] - expected) ** 2 / expected).sum()
    degrees = len(ORDINARY) - 1
    assert abs(chi_square - degrees) < 5 * np.sqrt(2 * degrees)


@pytest.mark.backend_free
@pytest.mark.parametrize(("mask_share", "random_share"), [(1, 0), (0, 1), (0, 0)])
def test_shares_at_their_ends(mask_share, random_share):
    out = mask(
        np.full((50, 64), 4 + SIZE // 2),
        mask_token_share=mask_share,
        random_token_share=random_share,
    )
    now = np.take_along_axis(out["token_ids"], out["mask_positions"], 1)
    if mask_share:
        assert (now == MASK).all()
    elif random_share:
        assert (now != MASK).all() and (now != 4 + SIZE // 2).mean() > 0.95
    else:
        assert (now == 4 + SIZE // 2).all()


@pytest.mark.backend_free
@pytest.mark.parametrize(
    "row",
    [[PAD] * 6, [CLS, SEP, SEP, PAD], [MASK] * 5, []],
    ids=["padding", "specials", "masks", "no tokens"],
)
def test_nothing_to_mask(row):
    rows = np.array([row, row], "int64")
    out = mask(rows, max_predictions=3)
    np.testing.assert_array_equal(out["token_ids"], rows)
    assert not any(out[name].any() for name in ("mask_positions", "mask_ids", "mask_weights"))
    assert out["mask_positions"].shape == (2, 3)


@pytest.mark.backend_free
def test_no_rows():
    assert mask(np.zeros((0, 8), int))["mask_positions"].shape == (0, 2)


@pytest.mark.backend_free
def test_words_longer_than_the_budget_are_left():
    long_word = np.array([10, 11, 13, 15])
    out = mask([row_of(CLS, long_word, long_word, SEP)], vocabulary=WORDS, max_predictions=3)
    assert not out["mask_weights"].any()
    out = mask([row_of(CLS, long_word, 12, long_word, SEP)] * 50, vocabulary=WORDS,
               max_predictions=1)  # fmt: skip
    assert (out["mask_positions"] == 5).all() and out["mask_weights"].all()


@pytest.mark.backend_free
def test_one_prediction_at_least_and_at_most():
    out = mask([[CLS, 10, SEP]], max_predictions=4)
    assert out["mask_positions"].tolist() == [[1, 0, 0, 0]]
    assert out["mask_ids"].tolist() == [[10, 0, 0, 0]]
    assert mask(np.full((5, 400), 9), max_predictions=1)["mask_weights"].sum() == 5


@pytest.mark.backend_free
def test_dtypes():
    out = mask(np.full((2, 20), 9, "uint16"))
    assert {k: str(v.dtype) for k, v in out.items()} == {
        "token_ids": "int32",
        "mask_positions": "int32",
        "mask_ids": "int32",
        "mask_weights": "float32",
    }


@pytest.mark.backend_free
@pytest.mark.parametrize(
    ("kwargs", "rule"),
    [
        ({"mask_rate": 0}, "`mask_rate` must be"),
        ({"mask_rate": 1.1}, "`mask_rate` must be"),
        ({"max_predictions": 0}, "`max_predictions` and `max_ngram`"),
        ({"max_ngram": 0}, "`max_predictions` and `max_ngram`"),
        ({"mask_token_share": 0.95}, "at most 1 together"),
        ({"rows": [9, 9]}, r"must be \(B, S\) integers"),
        ({"rows": [[9.0]]}, r"must be \(B, S\) integers"),
        ({"rows": [[SIZE]]}, "the vocabulary"),
        ({"rows": [[-1]]}, "the vocabulary"),
        ({"rows": np.ones((1, 2**20 + 1), "int8")}, "1048576 tokens at most"),
        ({"index": [0, 1]}, "one key per row"),
    ],
)
def test_wrong_arguments(kwargs, rule):
    kwargs = {"rows": [[9, 9]], "index": [0], "max_predictions": 1, **kwargs}
    with pytest.raises(ValueError, match=rule):
        mask(**kwargs)


@pytest.mark.backend_free
def test_wrong_vocabularies():
    every = np.ones(9, bool)
    with pytest.raises(ValueError, match=r"must both be \(V,\)"):
        MaskingVocabulary(every, every[:8], np.arange(5, 9), 4, 0)
    for replacements, mask_id in (([], 4), ([9], 4), ([-1], 4), ([5], 9)):
        with pytest.raises(ValueError, match=r"must be in \[0, V\)"):
            MaskingVocabulary(every, every, np.array(replacements), mask_id, 0)


@keras.saving.register_keras_serializable(package="keras_albert_test")
class ToyTokenizer(keras.layers.Layer):
    """What the layer asks of a tokenizer."""

    pad_token_id, unk_token_id, cls_token_id, sep_token_id, mask_token_id = range(5)
    special_token_ids = (PAD, UNK, CLS, SEP, MASK)

    def vocabulary_size(self):
        return SIZE

    def word_starts(self):
        return WORDS.word_starts


ROWS = np.random.default_rng(3).integers(5, SIZE, (4, 40)).astype("int32")


def equal(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(
            keras.ops.convert_to_numpy(a[name]), keras.ops.convert_to_numpy(b[name])
        )


def test_layer_is_mask_ngrams_with_the_tokenizers_vocabulary():
    layer = NGramMaskGenerator(ToyTokenizer(), seed=5)
    out = layer(ROWS, index=np.arange(4) + 9, epoch=2)
    keys = example_keys(5, 2, np.arange(4) + 9)
    equal(out, mask_ngrams(ROWS, keys, vocabulary=WORDS, max_predictions=6))
    assert all(isinstance(v, np.ndarray) for v in out.values())

    tensors = layer(keras.ops.convert_to_tensor(ROWS), index=np.arange(4) + 9, epoch=2)
    assert all(keras.ops.is_tensor(v) for v in tensors.values())
    equal(tensors, out)
    equal(layer(ROWS[1], index=10, epoch=2), {k: v[1] for k, v in out.items()})
    equal(layer(ROWS.tolist(), index=range(9, 13), epoch=2), out)


@pytest.mark.backend_free
def test_unknown_may_be_masked_but_never_put_in():
    vocabulary = MaskingVocabulary.from_tokenizer(ToyTokenizer())
    np.testing.assert_array_equal(vocabulary.selectable, SELECTABLE)
    np.testing.assert_array_equal(vocabulary.replacements, ORDINARY)


def test_layer_without_index_is_reproducible_and_moves_on():
    first, second = (NGramMaskGenerator(ToyTokenizer(), seed=5) for _ in range(2))
    draws = [first(ROWS) for _ in range(3)]
    for draw in draws:
        equal(draw, second(ROWS))
    positions = [draw["mask_positions"].tolist() for draw in draws]
    assert positions[0] != positions[1] != positions[2]
    assert (
        positions[0] != NGramMaskGenerator(ToyTokenizer(), seed=6)(ROWS)["mask_positions"].tolist()
    )


def test_layer_serialization():
    layer = NGramMaskGenerator(
        ToyTokenizer(),
        max_ngram=2,
        mask_rate=0.2,
        max_predictions=5,
        whole_words=False,
        seed=3,
        name="masker",
    )
    config = keras.saving.serialize_keras_object(layer)
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == layer.get_config()
    base = keras.layers.Layer().get_config().keys()
    assert set(layer.get_config()) - set(base) == {
        "tokenizer", "max_ngram", "mask_rate", "max_predictions", "whole_words", "seed",
    }  # fmt: skip
    equal(again(ROWS, index=range(4)), layer(ROWS, index=range(4)))


def test_layer_arguments():
    with pytest.raises(ValueError, match="`mask_rate` must be"):
        NGramMaskGenerator(ToyTokenizer(), mask_rate=2)
    with pytest.raises(ValueError, match="`max_predictions` and `max_ngram`"):
        NGramMaskGenerator(ToyTokenizer(), max_ngram=0)


def test_layer_in_tf_data():
    tf = pytest.importorskip("tensorflow")
    layer = NGramMaskGenerator(ToyTokenizer(), seed=5)
    data = tf.data.Dataset.from_tensor_slices((ROWS, np.arange(4)))
    eager = layer(ROWS, index=range(4), epoch=1)
    batches = data.batch(2).map(lambda x, i: layer(x, index=i, epoch=1))
    assert batches.element_spec["mask_ids"].shape.as_list() == [None, 6]
    assert batches.element_spec["token_ids"].shape.as_list() == [None, 40]
    got = [{k: v.numpy() for k, v in batch.items()} for batch in batches]
    equal({k: np.concatenate([batch[k] for batch in got]) for k in got[0]}, eager)

    singles = data.map(lambda x, i: layer(x, index=i, epoch=1))
    assert singles.element_spec["mask_positions"].shape.as_list() == [6]
    got = list(singles.as_numpy_iterator())
    equal({k: np.stack([row[k] for row in got]) for k in got[0]}, eager)

    counted = list(data.map(lambda x, i: layer(x)).as_numpy_iterator())
    equal(counted[2], layer(ROWS[2], index=2))


def test_layer_in_grain():
    grain = pytest.importorskip("grain")
    layer = NGramMaskGenerator(ToyTokenizer(), seed=5)
    data = grain.MapDataset.range(4).map(lambda i: layer(ROWS[i], index=i)).batch(4)
    equal(data[0], layer(ROWS, index=range(4)))
    assert isinstance(data[0]["token_ids"], np.ndarray)
