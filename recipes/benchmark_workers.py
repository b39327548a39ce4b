"""The processes of `keras-albert benchmark peers`: started, asked in turn, compared."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

LEAST, MOST, SECONDS = 2, 5, 60  # rounds of a case, and when no further one is begun


class SideFailed(RuntimeError):
    """A side's process ended instead of answering."""


class Worker:
    """A process of `benchmark_sides`, which answers in lines of JSON.

    Args:
        side: its name.
        spec: what it is to do; see `benchmark_sides`.
        environment: variables beside this process' own.
        folder: for what it says besides.
    """

    def __init__(self, side, spec, environment, folder):
        self.side = side
        self.log = pathlib.Path(folder, f"{side}-{os.urandom(4).hex()}.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "keras_albert_recipes.benchmark_sides", json.dumps(spec)],
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def ask(self, **task):
        """Give it a task, and wait for the answer."""
        with contextlib.suppress(BrokenPipeError):  # the answer then says why
            print(json.dumps(task), file=self.process.stdin, flush=True)
        return self.answer()

    def answer(self):
        """Its next line.

        Raises:
            SideFailed: it ended.
        """
        line = self.process.stdout.readline()
        if not line:
            lines = self.log.read_text(errors="replace").strip().splitlines()
            status = self.process.wait()
            raise SideFailed(f"{self.side}: {lines[-1] if lines else f'status {status}'}")
        return json.loads(line)

    def is_alive(self):
        """Whether it can still be asked."""
        return self.process.poll() is None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        if error[0] is not None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def environment(side, threads, dtype):
    """The variables that a side is started with."""
    backend = side.partition("-")[2]
    count = str(threads)
    found = {
        "KERAS_BACKEND": backend if backend in ("jax", "tensorflow") else "torch",
        "OMP_NUM_THREADS": count,
        "TF_NUM_INTRAOP_THREADS": count,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # Several sides share a GPU's memory.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "HF_HUB_OFFLINE": "1",
    }
    if dtype == "float32":  # and no TF32 in its place
        found |= {"NVIDIA_TF32_OVERRIDE": "0", "JAX_DEFAULT_MATMUL_PRECISION": "highest"}
    return found


@contextlib.contextmanager
def on_cores(threads):
    """Inside, this process and those that it starts have so many cores."""
    if not hasattr(os, "sched_getaffinity"):  # not on Linux
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:threads])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def rounds(lanes, repeats=None):
    """Seconds of several rounds: in each, every lane once, and another one first.

    Args:
        lanes: label -> (worker, workload, what its seconds are multiplied by).
        repeats: number of rounds; None makes as many as `SECONDS` have room for, 2 to 5.

    Returns:
        label -> a list of seconds, one for each round.
    """
    seconds, labels, began = {label: [] for label in lanes}, list(lanes), time.monotonic()
    for number in range(repeats or MOST):
        if repeats is None and number >= LEAST and time.monotonic() - began > SECONDS:
            break
        first = number % len(labels)
        for label in labels[first:] + labels[:first]:
            worker, workload, scale = lanes[label]
            seconds[label].append(scale * worker.ask(workload=workload)["seconds"])
    return seconds


def compare(outputs, tolerance):
    """Raise a `ValueError` that names a side whose outputs are not those of the others.

    Args:
        outputs: side -> name -> array. transformers' are the reference, or the first side's.
        tolerance: how far a number may be off, as a share of the largest of the reference.
    """
    reference = "transformers" if "transformers" in outputs else next(iter(outputs))
    for side, found in outputs.items():
        for name, values in found.items():
            wanted = outputs[reference].get(name)
            if wanted is None:
                continue
            if values.shape != wanted.shape:
                raise ValueError(
                    f"All sides must give the same outputs. Received: {name!r} of {side} has "
                    f"shape {values.shape}, of {reference} {wanted.shape}"
                )
            off = np.abs(values - wanted).max() / np.abs(wanted).max()
            if not off <= tolerance:
                raise ValueError(
                    f"All sides must give the same outputs, to {tolerance:g} of the largest. "
                    f"Received: {name!r} of {side} is {off:.2g} from that of {reference}"
                )


def compare_losses(losses, tolerance):
    """Raise a `ValueError` that names a side whose first steps trained otherwise.

    Args:
        losses: label -> its losses; None where a side has another loss.
        tolerance: how far a loss may be off, as a share.
    """
    known = {label: found for label, found in losses.items() if None not in found}
    if not known:
        return
    reference = "transformers" if "transformers" in known else next(iter(known))
    for label, found in known.items():
        if not np.allclose(found, known[reference], rtol=tolerance, atol=0):
            raise ValueError(
                f"The first steps must have the same losses, to {tolerance:g}. "
                f"Received: {found} of {label}, {known[reference]} of {reference}"
            )
