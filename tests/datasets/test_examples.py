"""Oracles: invariants of taking, shuffling and splitting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_albert.datasets import Examples

pytestmark = pytest.mark.backend_free


def numbered(n):
    texts = [f"text {i}" for i in range(n)]
    return Examples((texts, [f"other {i}" for i in range(n)]), np.arange(n), list(range(n)))


def assert_rows_stay_together(examples):
    for first, second, label, name in zip(*examples.x, examples.y, examples.ids, strict=True):
        assert first == f"text {name}" and second == f"other {name}" and label == name


@given(st.integers(0, 40), st.floats(0.01, 0.99), st.integers(0, 9))
def test_a_split_is_a_partition_and_the_same_for_a_seed(n, fraction, seed):
    first, rest = numbered(n).split(fraction, seed)
    assert sorted(first.ids + rest.ids) == list(range(n))
    assert len(first) == round(fraction * n)
    assert first.ids == numbered(n).split(fraction, seed)[0].ids
    for part in (first, rest):
        assert_rows_stay_together(part)


def test_shuffling_and_taking_keep_rows_together():
    shuffled = numbered(30).shuffled(seed=1)
    assert_rows_stay_together(shuffled)
    assert sorted(shuffled.ids) == list(range(30)) != shuffled.ids
    assert shuffled.ids != numbered(30).shuffled(seed=2).ids
    assert numbered(30).take(3).ids == [0, 1, 2]
    assert len(numbered(2).take(5)) == 2


def test_columns_without_labels_or_with_ragged_ones():
    bare = Examples(["a", "b"], None, [0, 1]).select([1])
    assert (bare.x, bare.y, bare.ids) == (["b"], None, [1])
    tags = Examples([["a"], ["b", "c"]], [np.array([1]), np.array([0, 2])], [0, 1]).select([1])
    assert tags.x == [["b", "c"]] and tags.y[0].tolist() == [0, 2]


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match=r"one length. Received: lengths \[1, 2\]"):
        Examples(["a"], None, [0, 1])
    for fraction in (0, 1, "half", None):
        with pytest.raises(ValueError, match="above 0 and below 1. Received"):
            numbered(3).split(fraction, 0)
    with pytest.raises(ValueError, match="`n` of take .* Received"):
        numbered(3).take(-1)
    with pytest.raises(ValueError, match="`seed` of shuffled .* Received"):
        numbered(3).shuffled(None)
