"""A random order of any number of things, found place by place.

Suffix: B batch.
"""

import numpy as np

from keras_albert.preprocessing.randomness import example_keys


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
    low_mask, high_mask = (1 << low) - 1, (1 << (bits - low)) - 1
    place_B = np.array(place_B, "int64")
    outside = np.arange(len(place_B))
    while len(outside):
        high, right = place_B[outside] >> low, place_B[outside] & low_mask
        epoch = epoch_B[outside]
        for turn in range(1, 5):
            # Seeds far from any that examples use; odd, so that turns differ for every seed.
            turn_seed = seed + turn * 0xD1B54A32D192ED03
            high ^= (example_keys(turn_seed, epoch, right) & high_mask).astype("int64")
            right ^= (example_keys(~turn_seed, epoch, high) & low_mask).astype("int64")
        place_B[outside] = (high << low) | right
        outside = outside[place_B[outside] >= size]
    return place_B
