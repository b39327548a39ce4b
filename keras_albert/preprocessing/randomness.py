"""Randomness without state: a number is a function of (seed, epoch, index, stream, counter).

NumPy's generators are objects with a position: whoever draws first moves everybody after. Here an
example has a 64-bit key, and its j-th number in a stream is a hash of (key, stream, j). A row is
therefore the same whatever else is in the batch, whichever process draws it and in which order.

The hash is SplitMix64: a Weyl step (golden ratio, odd, so no two counters collide) followed by
Stafford's finaliser "Mix13". It was chosen over Philox because it is five NumPy passes over uint64
instead of ten rounds of 64x64->128-bit products, which NumPy lacks, and because its output passes
BigCrush (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). It is not
for cryptography. Changing a constant here changes every run: a golden test holds it.

Shapes: B examples, N numbers of one example.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
_GOLDEN, _MIX_1, _MIX_2 = np.uint64(GOLDEN), np.uint64(MIX_1), np.uint64(MIX_2)
_SHIFT_30, _SHIFT_27, _SHIFT_31, _SHIFT_11 = (np.uint64(n) for n in (30, 27, 31, 11))
_MASK_64 = 2**64 - 1
_FEW = 16  # up to here Python's ints beat NumPy's call overhead

# One number per purpose, in one place, so that no two purposes share their draws.
STREAM_SEGMENTS = 0
STREAM_TRUNCATION = 1
STREAM_WORD_ORDER = 2
STREAM_NGRAM = 3
STREAM_MASK_KIND = 4
STREAM_REPLACEMENT = 5


def example_keys(seed: int, epoch, index_B) -> np.ndarray:
    """Give each example its 64-bit key.

    Within one seed and epoch the map from index to key is one-to-one.

    Args:
        seed: Any integer; its lowest 64 bits count.
        epoch: Integer >= 0, or `(B,)` integers.
        index_B: `(B,)` integers >= 0.

    Returns:
        `(B,)` uint64.

    Raises:
        ValueError: If an epoch or an index is negative or no integer.

    Example:
    >>> keys = example_keys(0, epoch=0, index_B=[4, 7])
    >>> bool(keys[1] == example_keys(0, 0, [7])[0])
    True
    """
    return keys_of(epoch_states([seed], epoch)[0], _counters("index_B", index_B))


def epoch_states(seeds: Sequence[int], epoch) -> np.ndarray:
    """Give what `keys_of` makes keys from: `(seeds, epochs)` uint64.

    Args:
        seeds: Any integers; of each its lowest 64 bits count.
        epoch: Integer >= 0, or several.

    Raises:
        ValueError: If an epoch is negative or no integer.
    """
    state = _mix(np.array([(int(seed) + GOLDEN) & _MASK_64 for seed in seeds], "uint64"))
    return _absorb(state[:, None], _counters("epoch", epoch))


def keys_of(state_B: np.ndarray, index_B: np.ndarray) -> np.ndarray:
    """Give the keys of examples: `(B,)` uint64, from states `(B,)` or `(1,)` and uint64 indices."""
    return _absorb(state_B, index_B)


def bits(keys_B, stream: int, n: int) -> np.ndarray:
    """Draw `(B, n)` uint64 words of 64 fair bits each.

    The first `m` words do not depend on `n`. See `uniforms` for the arguments.
    """
    if n < 0 or stream < 0:
        raise ValueError(f"`stream` and `n` must be >= 0. Received: stream={stream}, n={n}.")
    keys_B = np.asarray(keys_B)
    if keys_B.dtype != np.uint64 or keys_B.ndim != 1:
        raise ValueError(
            "`keys_B` must be the (B,) uint64 keys of `example_keys`. "
            f"Received: dtype={keys_B.dtype}, shape={keys_B.shape}."
        )
    if len(keys_B) == 1 and n <= _FEW:
        return _few_bits(int(keys_B[0]), stream, n)
    base_B = _absorb(keys_B, np.array([stream], "uint64"))
    return _absorb(base_B[:, None], np.arange(n, dtype="uint64"))


def uniforms(keys_B, stream: int, n: int) -> np.ndarray:
    """Draw uniform numbers, `n` for each example.

    Args:
        keys_B: `(B,)` uint64, from `example_keys`.
        stream: Integer >= 0; different streams are independent. The constants `STREAM_*` name
            those in use.
        n: How many numbers each example gets. The first `m` of them do not depend on `n`.

    Returns:
        `(B, n)` float64 in [0, 1), multiples of 2**-53.

    Raises:
        ValueError: If the keys are not `(B,)` uint64, or `stream` or `n` is negative.

    Example:
    >>> u = uniforms(example_keys(0, 0, [0, 1, 2]), stream=9, n=4)
    >>> u.shape, bool((u < 1).all())
    ((3, 4), True)
    """
    return (bits(keys_B, stream, n) >> _SHIFT_11) * 2.0**-53


def integers(keys_B, stream: int, high) -> np.ndarray:
    """Draw one integer in [0, high) for each example.

    Args:
        keys_B: `(B,)` uint64, from `example_keys`.
        stream: Integer >= 0.
        high: Integer > 0 (at most 2**53), or `(B,)` of them.

    Returns:
        `(B,)` int64. The departure from exact uniformity is below high * 2**-53.

    Raises:
        ValueError: If a `high` is not positive.

    Example:
    >>> bool((integers(example_keys(0, 0, range(100)), stream=9, high=6) < 6).all())
    True
    """
    high = np.asarray(high)
    if not ((high > 0) & (high <= 2**53)).all():
        raise ValueError(f"`high` must be in [1, 2**53]. Received: {high}.")
    return (uniforms(keys_B, stream, 1)[:, 0] * high).astype("int64")


def _few_bits(key: int, stream: int, n: int) -> np.ndarray:
    """Do what `bits` does for one key, on Python's ints: (1, n) uint64."""
    base = _mix_int(key + (stream + 1) * GOLDEN)
    return np.array([[_mix_int(base + j * GOLDEN) for j in range(1, n + 1)]], "uint64")


def _mix_int(x: int) -> int:
    """Do what `_mix` does, for one Python int."""
    x &= _MASK_64
    x = (x ^ x >> 30) * MIX_1 & _MASK_64
    x = (x ^ x >> 27) * MIX_2 & _MASK_64
    return x ^ x >> 31


def _counters(name: str, value) -> np.ndarray:
    value = np.atleast_1d(np.asarray(value))
    if value.size == 0 and value.ndim == 1:
        return value.astype("uint64")
    if value.ndim != 1 or value.dtype.kind not in "iu" or value.min() < 0:
        raise ValueError(f"`{name}` must be an integer >= 0 or (B,) of them. Received: {value}.")
    return value.astype("uint64")


def _absorb(state, counter):
    """Hash `state` together with `counter` (uint64 arrays, wrapping; a fresh array comes back)."""
    return _mix(state + (counter + np.uint64(1)) * _GOLDEN)


def _mix(x: np.ndarray) -> np.ndarray:
    """Scramble uint64 in place, one-to-one: Stafford's Mix13."""
    x ^= x >> _SHIFT_30
    x *= _MIX_1
    x ^= x >> _SHIFT_27
    x *= _MIX_2
    x ^= x >> _SHIFT_31
    return x
