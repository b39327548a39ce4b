"""How a server should batch: settings from a latency curve that is measured.

Source: TensorFlow Serving's guide, "Batching"; `BatchingParameters` of its protos.
"""

import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_albert.arguments import check, check_positive_numbers, is_number
from keras_albert.export.manifest import read_about
from keras_albert.whole_files import write_whole

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)
REPEATS = 5
OPTIONS = 4  # of multiple choice


def latency_curve(
    directory: str | os.PathLike, batch_sizes: Sequence[int] = BATCH_SIZES, repeats: int = REPEATS
) -> dict[int, float]:
    """Measure an export on this machine: batch size -> median seconds of a request.

    Texts are as long as the export reads them: shorter ones are answered sooner.

    Args:
        directory: a version directory that `saved_model` wrote.
        batch_sizes: integers, ascending.
        repeats: of each size, after one that is not counted.
    """
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - its ops

    about = read_about(directory)
    loaded = tf.saved_model.load(os.fspath(directory))
    answer = loaded.signatures["serving_default"]
    text = "words and more " * about["sequence_length"]
    curve = {}
    for size in batch_sizes:
        shapes = {name: (size, OPTIONS)[: len(shape)] for name, shape in about["inputs"].items()}
        fed = {name: tf.constant(np.full(shape, text)) for name, shape in shapes.items()}
        answer(**fed)
        seconds = []
        for _ in range(repeats):
            began = time.perf_counter()
            answer(**fed)
            seconds.append(time.perf_counter() - began)
        curve[size] = statistics.median(seconds)
    return curve


def batching_config(curve: dict[int, float], budget: float, num_threads: int) -> str:
    """A server's `batching.config`: the batches that answer most within a time for each request.

    A request waits for others, then for a batch that is ahead of it, then for its own: the largest
    batch is the one with the best throughput among those that take at most half of the budget. Who
    waits for others waits at most as long as a batch takes, and no longer than what is left.

    Args:
        curve: batch size -> seconds, as `latency_curve` gives it.
        budget: seconds that a request may take.
        num_threads: batches that are computed at the same time, as many as the server has cores.

    Returns:
        The text of a `BatchingParameters` message.

    Raises:
        ValueError: `curve` has no batch of 1, or an argument is out of range.

    Example:
    >>> print(batching_config({1: 0.010, 2: 0.012, 4: 0.040}, budget=0.05, num_threads=2))
    max_batch_size { value: 2 }
    batch_timeout_micros { value: 12000 }
    num_batch_threads { value: 2 }
    max_enqueued_batches { value: 8 }
    allowed_batch_sizes: 1
    allowed_batch_sizes: 2
    """
    check(
        "batching_config",
        "a dict of batch sizes, 1 among them, to seconds above 0",
        lambda curve: (
            isinstance(curve, dict)
            and 1 in curve
            and all(is_number(value) and value > 0 for value in curve.values())
        ),
        curve=curve,
    )
    check_positive_numbers("batching_config", budget=budget, num_threads=num_threads)
    allowed = [size for size in sorted(curve) if 2 * curve[size] <= budget] or [1]
    best = max(allowed, key=lambda size: size / curve[size])
    sizes = [size for size in allowed if size <= best]
    wait = max(0.0, min(curve[best], budget - 2 * curve[best]))
    queued = max(1, int(num_threads * budget / curve[best]))
    lines = [
        f"max_batch_size {{ value: {best} }}",
        f"batch_timeout_micros {{ value: {round(1e6 * wait)} }}",
        f"num_batch_threads {{ value: {num_threads} }}",
        f"max_enqueued_batches {{ value: {queued} }}",
        *(f"allowed_batch_sizes: {size}" for size in sizes),
    ]
    return "\n".join(lines) + "\n"


def write_batching(directory: str | os.PathLike, budget: float) -> dict[int, float]:
    """Measure an export, and write `batching.config` into the folder of the server's models.

    Args:
        directory: a version directory, `FOLDER/NAME/VERSION`.
        budget: seconds that a request may take.

    Returns:
        The curve.
    """
    curve = latency_curve(directory)
    text = batching_config(curve, budget, os.cpu_count() or 1)
    write_whole(Path(directory).resolve().parent.parent / "batching.config", text)
    return curve
