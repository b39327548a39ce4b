"""Oracle: a permutation visits each place once; of a few things, all orders turn up equally."""

import numpy as np
import pytest

from keras_albert.data.shuffling import BLOCK, shuffled, shuffled_run

pytestmark = pytest.mark.backend_free


def test_a_run_is_what_each_place_is_alone():
    size = 3 * BLOCK + 5
    places = np.r_[0:40, BLOCK - 9 : BLOCK + 9, size - 4 : size, 7, 0, 2 * BLOCK]
    epochs = np.r_[np.zeros(40, int), np.arange(len(places) - 40) % 3]
    for seed in (0, 12, np.int64(-3)):
        alone = [
            shuffled(places[n : n + 1], size, seed, epochs[n : n + 1])[0]
            for n in range(len(places))
        ]
        assert shuffled_run(places, size, seed, epochs).tolist() == alone


def test_the_order_is_that_of_earlier_versions():
    """Recorded before it was vectorised: a run that is resumed has to go on in its order."""
    order = shuffled(np.arange(12), 1000, 3, np.array([0] * 6 + [2**33] * 6))
    assert order.tolist() == [701, 462, 632, 933, 482, 519, 4, 443, 170, 585, 671, 109]


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
