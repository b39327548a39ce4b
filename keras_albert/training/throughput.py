"""How many operations a training step takes, and how many this device can do."""

import time

import keras
import numpy as np
from keras import ops


def operations_per_step(backbone, rows: int, length: int, predictions: float) -> float:
    """Floating-point operations of the matrix products of one step of masked language modelling.

    A product of (m, k) and (k, n) takes 2 m k n; the way back takes twice the way forth. Shared
    weights are used, and so counted, once at every depth. Embedding look-ups, softmax and norms are
    left out.

    Args:
        backbone: an `AlbertBackbone`, or what has its `num_layers`, `hidden_dim`,
            `intermediate_dim`, `embedding_dim` and `vocabulary_size`.
        rows: of a step; as many as examples, where those are not packed.
        length: tokens of a row.
        predictions: masked positions of a row, on average.

    Source: the definition of the layers; Kaplan et al. (2020), section 2.1, for the factor 3.
    """
    h, i, e = backbone.hidden_dim, backbone.intermediate_dim, backbone.embedding_dim
    block = 2 * (4 * h * h + 2 * h * i) + 2 * 2 * length * h
    tokens = length * (backbone.num_layers * block + (2 * e * h if e != h else 0))
    head = predictions * 2 * (h * e + e * backbone.vocabulary_size)
    return 3.0 * rows * (tokens + head)


def matrix_peak(dtype: str = "float32", seconds: float = 0.3) -> float:
    """Operations a second of this device in a large matrix product; the best of several tries.

    Args:
        dtype: of the matrices.
        seconds: how long to measure.
    """
    size = 1024
    while True:
        x = ops.cast(np.full((size, size), 0.5, "float32"), dtype)
        best, spent = float("inf"), 0.0
        _timed(x)  # the first call compiles
        while spent < seconds:
            taken = _timed(x)
            best, spent = min(best, taken), spent + taken
        if best > 0.01 or size >= 16_384:
            return 2.0 * size**3 / best
        size *= 2  # too small to fill this device


def _timed(x):
    start = time.perf_counter()
    keras.ops.convert_to_numpy(ops.matmul(x, x)[0, 0])  # waits for the device
    return time.perf_counter() - start
