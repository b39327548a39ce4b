"""Oracles: SplitMix64's published outputs, the uniform distribution, recorded values."""

import numpy as np
import pytest

from keras_albert.preprocessing import randomness
from keras_albert.preprocessing.randomness import bits, example_keys, integers, uniforms

pytestmark = pytest.mark.backend_free

N = 100_000


def keys(count=N, seed=0, epoch=0):
    return example_keys(seed, epoch, np.arange(count))


def test_the_hash_is_splitmix64():
    # The first outputs of Vigna's splitmix64.c for seed 1234567, as published on Rosetta Code.
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    state, counters = np.array([1234567], "uint64"), np.arange(5, dtype="uint64")
    assert randomness._absorb(state, counters).tolist() == published
    assert [randomness._mix_int(1234567 + j * randomness.GOLDEN) for j in range(1, 6)] == published


def test_golden_values_never_change():
    # Recorded when this was written. If they change, no interrupted run can be resumed exactly.
    k = example_keys(7, 3, [0, 1, 10**12])
    assert k.tolist() == [6875110694074790513, 8291948987866145469, 455928988594136569]
    assert bits(k, 5, 2).tolist() == [
        [8095164617595532616, 17443306722041154686],
        [16444925908916733305, 6556976439739912132],
        [13320440337386685711, 6711433209404037354],
    ]
    assert integers(k, 5, 1000).tolist() == [438, 891, 722]


@pytest.mark.parametrize("stream", [0, 1, 17])
def test_uniform_moments_and_kolmogorov_smirnov(stream):
    for u in (uniforms(keys(), stream, 1)[:, 0], uniforms(keys(1), stream, N)[0]):
        assert u.min() >= 0 and u.max() < 1
        assert abs(u.mean() - 1 / 2) < 5 * np.sqrt(1 / 12 / N)
        assert abs(u.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / N)  # var of (u - 1/2)^2 is 1/180
        grid = np.arange(N + 1) / N
        u = np.sort(u)
        distance = max((grid[1:] - u).max(), (u - grid[:-1]).max())
        assert distance * np.sqrt(N) < 2.23  # p = 1e-4


def test_every_bit_is_fair():
    words = bits(keys(), 2, 1)[:, 0]
    for bit in range(64):
        share = ((words >> np.uint64(bit)) & np.uint64(1)).mean()
        assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(N)


def test_neighbours_are_uncorrelated():
    u = uniforms(keys(), 0, 2)
    others = {
        "index": np.roll(u[:, 0], 1),
        "number": u[:, 1],
        "stream": uniforms(keys(), 1, 1)[:, 0],
        "epoch": uniforms(keys(epoch=1), 0, 1)[:, 0],
        "seed": uniforms(keys(seed=1), 0, 1)[:, 0],
    }
    for name, other in others.items():
        correlation = np.corrcoef(u[:, 0], other)[0, 1]
        assert abs(correlation) < 5 / np.sqrt(N), name


def test_indices_epochs_and_seeds_have_their_own_keys():
    assert len(np.unique(keys())) == N
    square = np.concatenate([keys(100, s, e) for s in range(30) for e in range(30)])
    assert len(np.unique(square)) == len(square)


def test_a_row_depends_on_itself_only():
    epochs = np.arange(50) % 3
    k = example_keys(3, epochs, np.arange(50))
    u = uniforms(k, 4, 40)
    for row in range(0, 50, 7):
        alone = example_keys(3, int(epochs[row]), [row])
        assert alone[0] == k[row]
        for n in (1, 16, 17, 40):  # few numbers of one key take another path
            np.testing.assert_array_equal(uniforms(alone, 4, n)[0], u[row, :n])
    np.testing.assert_array_equal(uniforms(k[::-1], 4, 40), u[::-1])


def test_seeds_are_taken_modulo_two_to_the_64():
    assert example_keys(-1, 0, [0]) == example_keys(2**64 - 1, 0, [0])
    assert example_keys(np.int64(5), np.int32(0), np.array([0], "uint16")) == keys(1, 5)


def test_integers_are_uniform():
    counts = np.bincount(integers(keys(), 0, 10), minlength=10)
    chi_square = ((counts - N / 10) ** 2 / (N / 10)).sum()
    assert len(counts) == 10 and chi_square < 33.7  # 9 degrees of freedom, p = 1e-4
    high = np.arange(N) % 5 + 1
    drawn = integers(keys(), 0, high)
    assert drawn.dtype == np.int64
    assert ((drawn >= 0) & (drawn < high)).all()
    assert (drawn[high == 1] == 0).all() and (drawn == high - 1).any()


def test_no_examples():
    assert uniforms(example_keys(0, 0, []), 0, 3).shape == (0, 3)
    assert uniforms(keys(2), 0, 0).shape == (2, 0)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: example_keys(0, -1, [0]), "`epoch` must be"),
        (lambda: example_keys(0, 0, [1, -1]), "`index_B` must be"),
        (lambda: example_keys(0, 0, [0.5]), "`index_B` must be"),
        (lambda: example_keys(0, 0, [[0]]), "`index_B` must be"),
        (lambda: uniforms(np.arange(3), 0, 1), "`keys_B` must be"),
        (lambda: uniforms(keys(3), -1, 1), "`stream` and `n`"),
        (lambda: integers(keys(3), 0, 0), "`high` must be"),
    ],
)
def test_wrong_arguments(call, rule):
    with pytest.raises(ValueError, match=rule):
        call()
