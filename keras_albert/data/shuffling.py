"""A random order of any number of things, found place by place.

Suffix: B batch.
"""

import functools

import numpy as np

from keras_albert.preprocessing.randomness import epoch_states, keys_of

BLOCK = 1024  # places next to each other, as batches ask for them: as quick as a few


def shuffled_run(place_B: np.ndarray, size: int, seed: int, epoch_B: np.ndarray) -> np.ndarray:
    """Does what `shuffled` does, quicker where calls ask for neighbouring places."""
    block_B, within_B = np.divmod(place_B, BLOCK)
    found_B = np.empty(len(place_B), "int64")
    for epoch, block in set(zip(epoch_B.tolist(), block_B.tolist(), strict=True)):
        mine = (epoch_B == epoch) & (block_B == block)
        found_B[mine] = _block(block, size, seed, epoch)[within_B[mine]]
    return found_B


@functools.lru_cache(maxsize=64)  # half a megabyte
def _block(block: int, size: int, seed: int, epoch: int) -> np.ndarray:
    places = np.arange(block * BLOCK, min((block + 1) * BLOCK, size))
    return shuffled(places, size, seed, np.full(len(places), epoch))


def shuffled(place_B: np.ndarray, size: int, seed: int, epoch_B: np.ndarray) -> np.ndarray:
    """Maps places to places: for each (seed, epoch) a permutation of `range(size)`.

    A Feistel network over just enough bits, walked until it lands inside the range: any place is
    found at once, without a table of all of them.

    Args:
        place_B: (B,) integers in [0, size).
        size: how many places there are.
        seed: integer.
        epoch_B: (B,) integers.

    Returns:
        (B,) int64.

    Example:
        >>> sorted(shuffled(np.arange(5), 5, seed=0, epoch_B=np.zeros(5, int)).tolist())
        [0, 1, 2, 3, 4]
    """
    bits = (size - 1).bit_length()
    low = bits // 2
    low_mask, high_mask = np.uint64((1 << low) - 1), np.uint64((1 << (bits - low)) - 1)
    low = np.uint64(low)
    # Seeds far from any that examples use; odd, so that turns differ for every seed.
    seeds = [int(seed) + turn * 0xD1B54A32D192ED03 for turn in range(1, 5)]
    epochs, which_B = np.unique(epoch_B, return_inverse=True)
    states_TE = epoch_states([both for one in seeds for both in (one, ~one)], epochs)
    found_B = np.array(place_B, "uint64")
    outside = np.arange(len(found_B))
    while len(outside):
        place = found_B[outside]
        high, right = place >> low, place & low_mask
        # Batches within an epoch, which most are, have one state for all.
        states = states_TE[:, which_B[outside]] if len(epochs) > 1 else states_TE
        for one, other in zip(states[::2], states[1::2], strict=True):
            high ^= keys_of(one, right) & high_mask
            right ^= keys_of(other, high) & low_mask
        found_B[outside] = place = (high << low) | right
        outside = outside[place >= np.uint64(size)]
    return found_B.astype("int64")
