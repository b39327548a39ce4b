"""Oracle: a permutation visits each place once; of a few things, all orders turn up equally."""

import numpy as np
import pytest

from keras_albert.data.shuffling import shuffled

pytestmark = pytest.mark.backend_free


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17, 1000])
def test_shuffled_is_a_permutation_that_looks_random(size):
    places = np.arange(size)
    order = shuffled(places, size, 0, np.zeros(size, int))
    assert sorted(order.tolist()) == places.tolist()
    if size == 1000:
        assert abs(np.corrcoef(places, order)[0, 1]) < 0.1
        assert (order == places).sum() < 8  # 1 expected
        other = shuffled(places, size, 1, np.zeros(size, int))
        assert abs(np.corrcoef(other, order)[0, 1]) < 0.1
    if size == 3:  # every permutation turns up about as often
        epochs = np.arange(3000)
        first = shuffled(np.zeros(3000, int), 3, 0, epochs)
        second = shuffled(np.ones(3000, int), 3, 0, epochs)
        counts = np.bincount(first * 3 + second, minlength=9).reshape(3, 3)
        assert (np.diag(counts) == 0).all()
        assert 350 < counts[~np.eye(3, dtype=bool)].min()
