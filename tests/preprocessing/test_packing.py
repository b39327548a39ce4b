"""Oracles: Google's truncation loops written out, the closed form, the other path's arrays."""

import collections

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.preprocessing import AlbertPreprocessor
from keras_albert.preprocessing.packing import (
    SegmentPacker,
    truncated_lengths,
)

IDS = st.lists(st.integers(5, 99), max_size=20)
PAIRS = st.lists(st.tuples(IDS, IDS), min_size=1, max_size=8)


def google_truncate(a, b, budget):
    """`_truncate_seq_pair` of Google's `run_classifier.py`."""
    a, b = list(a), list(b)
    while len(a) + len(b) > budget:
        (a if len(a) > len(b) else b).pop()
    return a, b


def expected(a, b, length):
    if b is None:
        a = a[: length - 2]
        ids, segments = [2, *a, 3], [0] * (len(a) + 2)
    else:
        a, b = google_truncate(a, b, length - 3)
        ids, segments = [2, *a, 3, *b, 3], [0] * (len(a) + 2) + [1] * (len(b) + 1)
    rest = length - len(ids)
    return ids + [0] * rest, segments + [0] * rest, [True] * len(ids) + [False] * rest


def rows(packed):
    names = ("token_ids", "segment_ids", "padding_mask")
    arrays = [keras.ops.convert_to_numpy(packed[name]) for name in names]
    assert [str(array.dtype) for array in arrays] == ["int32", "int32", "bool"]
    return [tuple(array[i].tolist() for array in arrays) for i in range(len(arrays[0]))]


@pytest.mark.backend_free
@settings(deadline=None)
@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 60))
def test_closed_form_of_the_truncation_loop(a, b, budget):
    kept = tuple(map(len, google_truncate(range(a), range(b), budget)))
    assert truncated_lengths(a, b, budget) == kept


@settings(deadline=None)
@given(PAIRS, st.integers(4, 40))
def test_pairs(pairs, length):
    a, b = map(list, zip(*pairs, strict=True))
    packed = SegmentPacker(length, start_value=2, end_value=3)((a, b))
    assert rows(packed) == [expected(*pair, length) for pair in pairs]


@settings(deadline=None)
@given(st.lists(IDS, min_size=1, max_size=8), st.integers(4, 20))
def test_single_segments(batch, length):
    packed = SegmentPacker(length, start_value=2, end_value=3)(batch)
    assert rows(packed) == [expected(row, None, length) for row in batch]


def test_unbatched():
    packed = SegmentPacker(8, start_value=2, end_value=3)(([11, 12, 13, 14], [21, 22]))
    assert [keras.ops.convert_to_numpy(packed[name]).tolist() for name in packed] == [
        [2, 11, 12, 13, 3, 21, 22, 3],
        [0, 0, 0, 0, 0, 1, 1, 1],
        [True] * 8,
    ]


@pytest.mark.backend_free
@pytest.mark.parametrize("length", [4, 9, 30])
def test_graph_equals_python(length):
    tf = pytest.importorskip("tensorflow")
    packer = SegmentPacker(length, start_value=2, end_value=3)
    spec = tf.RaggedTensorSpec([None, None], tf.int32)
    pack = tf.function(lambda a, b: (packer((a, b)), packer(a)), input_signature=[spec, spec])

    @settings(max_examples=20, deadline=None)
    @given(PAIRS)
    def check(pairs):
        a, b = map(list, zip(*pairs, strict=True))
        ragged = [tf.ragged.constant(x, ragged_rank=1, dtype=tf.int32) for x in (a, b)]
        for in_graph, eager in zip(pack(*ragged), (packer((a, b)), packer(a)), strict=True):
            for name, value in eager.items():
                np.testing.assert_array_equal(in_graph[name], keras.ops.convert_to_numpy(value))

    check()


def random_starts(pack, repeats=400):
    """Pack 0..29 and 100..106 into 10 places many times; count the first token of the first."""
    a, b = [list(range(30))] * repeats, [list(range(100, 107))] * repeats
    ids = keras.ops.convert_to_numpy(pack(a, b)["token_ids"])
    starts = collections.Counter()
    for row in ids.tolist():
        first, second = row[1:5], row[6:9]
        assert first == list(range(first[0], first[0] + 4))
        assert second == list(range(second[0], second[0] + 3))
        starts[first[0]] += 1
    return starts


def check_binomial(starts):
    """26 tokens go, each from the front with probability 1/2: mean 13, deviation 2.55."""
    drawn = np.array(list(starts.elements()))
    assert abs(drawn.mean() - 13) < 5 * 2.55 / len(drawn) ** 0.5
    assert abs(drawn.std() - 2.55) < 0.5


@pytest.mark.backend_free
def test_random_truncation():
    def pack(seed):
        packer = SegmentPacker(10, 2, 3, truncate="random", seed=seed)
        return random_starts(lambda a, b: packer((a, b)))

    check_binomial(pack(0))
    assert pack(0) == pack(0) != pack(1)


@pytest.mark.backend_free
def test_random_truncation_in_graph():
    tf = pytest.importorskip("tensorflow")
    packer = SegmentPacker(10, 2, 3, truncate="random", seed=0)
    pack = tf.function(lambda a, b: packer((a, b)))
    check_binomial(random_starts(lambda a, b: pack(tf.ragged.constant(a), tf.ragged.constant(b))))


def test_random_truncation_leaves_short_pairs():
    packer = SegmentPacker(10, 2, 3, truncate="random")
    assert rows(packer(([[5, 6]], [[7]]))) == [expected([5, 6], [7], 10)]


def test_packer_arguments():
    with pytest.raises(ValueError, match="'longest_first', 'random'.*Received: 'first'"):
        SegmentPacker(8, 2, 3, truncate="first")
    with pytest.raises(ValueError, match="at least 4. Received: 3"):
        SegmentPacker(3, 2, 3)
    with pytest.raises(ValueError, match="tuple of two.*tuple of 3"):
        SegmentPacker(8, 2, 3)(([1], [2], [3]))
    packer = SegmentPacker(8, 2, 3, pad_value=1, truncate="random", seed=7)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(packer))
    assert again.get_config() == packer.get_config()
    assert (again.truncate, again.seed, again.pad_value) == ("random", 7, 1)


# --- texts --------------------------------------------------------------------------------------

TEXTS = ["The quick brown fox", "", "1,000 dogs, too"]
OTHERS = ["say", "In 2010, a fox", ""]


@pytest.fixture
def preprocessor(tokenizer):
    return AlbertPreprocessor(tokenizer, sequence_length=16)


def pair_rows(tokenizer):
    ids = zip(tokenizer.encode_batch(TEXTS), tokenizer.encode_batch(OTHERS), strict=True)
    return [expected(*pair, 16) for pair in ids]


@pytest.mark.parametrize("kind", [list, np.array])
def test_a_tuple_is_a_pair(preprocessor, kind):
    x = preprocessor((kind(TEXTS), kind(OTHERS)))
    assert rows(x) == pair_rows(preprocessor.tokenizer)
    assert [keras.ops.convert_to_numpy(v).ndim for v in preprocessor(("a", "b")).values()] == [
        1
    ] * 3


def test_single_texts(preprocessor):
    ids = preprocessor.tokenizer.encode_batch(TEXTS)
    assert rows(preprocessor(TEXTS)) == [expected(row, None, 16) for row in ids]
    assert rows(preprocessor((TEXTS,))) == rows(preprocessor(TEXTS))


def test_labels_are_keywords(preprocessor):
    x, y = preprocessor((TEXTS, OTHERS), y=[1, 0, 1])
    assert rows(x) == pair_rows(preprocessor.tokenizer)
    assert y == [1, 0, 1]
    x, y, weight = preprocessor(TEXTS, y=[1, 0, 1], sample_weight=[1.0, 2.0, 3.0])
    assert (y, weight) == ([1, 0, 1], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"y=y.*\(\(a, b\)\).*2 arguments"):
        preprocessor(TEXTS, [1, 0, 1])
    with pytest.raises(ValueError, match="tuple of 3"):
        preprocessor((TEXTS, OTHERS, TEXTS))


def test_in_a_tf_data_pipeline(preprocessor):
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    data = tf.data.Dataset.from_tensor_slices((TEXTS, OTHERS))
    single = data.map(lambda a, b: preprocessor((a, b), y=1)).batch(3)
    batched = data.batch(3).map(lambda a, b: preprocessor((a, b), y=1))
    for pipeline in (single, batched):
        x, _ = next(iter(pipeline))
        names = ("token_ids", "segment_ids", "padding_mask")
        got = [tuple(x[name][i].numpy().tolist() for name in names) for i in range(3)]
        assert got == pair_rows(preprocessor.tokenizer)
    with pytest.raises(ValueError, match="y=y"):
        data.map(preprocessor)


def test_in_a_grain_pipeline(preprocessor):
    grain = pytest.importorskip("grain")
    pairs = list(zip(TEXTS, OTHERS, strict=True))
    examples = list(grain.MapDataset.source(pairs).map(preprocessor))
    assert all(isinstance(value, np.ndarray) for x in examples for value in x.values())
    names = ("token_ids", "segment_ids", "padding_mask")
    got = [tuple(x[name].tolist() for name in names) for x in examples]
    assert got == pair_rows(preprocessor.tokenizer)


def test_sequence_length_can_be_changed(preprocessor):
    preprocessor(TEXTS)
    preprocessor.sequence_length = 6
    assert preprocessor(TEXTS)["token_ids"].shape == (3, 6)


def test_config_and_preset(preprocessor, tmp_path):
    config = preprocessor.get_config()
    assert (config["sequence_length"], config["truncate"]) == (16, "longest_first")
    again = AlbertPreprocessor.from_config(config)
    preprocessor.save_to_preset(tmp_path / "preset")
    again.load_preset_assets(str(tmp_path / "preset"))
    assert again.tokenizer.fingerprint() == preprocessor.tokenizer.fingerprint()
    assert rows(again(TEXTS)) == rows(preprocessor(TEXTS))
