"""Measure the memory of a training step, with rematerialisation and without, each in a process.

    keras-albert benchmark remat                                    # albert_base_v2, 4 x 512
    KERAS_BACKEND=jax keras-albert benchmark remat --preset albert_large_v2 --batch-size 8

On a CPU it is resident memory, on a GPU what the backend's allocator says. The second step is
measured, so that compiling does not count; what stands there between steps (the program, weights,
LAMB's moments) is taken off, and what remains are activations and gradients. JAX keeps on a CPU
what a step took: there, what stands before the first step is taken off, and its program remains.
"""

import gc
import json
import os
import pathlib
import subprocess
import sys
import time

# Memory that is freed goes back to the system at once: what the first step took does not hide the
# second's.
GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def compare(args):
    """Measure both in new processes, and print a line for each; returns them."""
    rows = []
    for remat in (False, True):
        task = {
            "preset": args.preset,
            "length": args.length,
            "batch_size": args.batch_size,
            "jit": None if args.jit == "auto" else args.jit == "yes",
            "remat": remat,
        }
        process = subprocess.run(
            [sys.executable, "-m", "keras_albert_recipes.training_memory", json.dumps(task)],
            env={**os.environ, **GIVE_BACK},
            stdout=subprocess.PIPE,
            text=True,
        )
        if process.returncode:
            raise RuntimeError(f"Measuring {task} ended with status {process.returncode}")
        row = json.loads(process.stdout.splitlines()[-1])
        if not rows:
            print(
                f"{args.preset} on {row['backend']} ({row['device']}), {args.batch_size} x "
                f"{args.length} tokens, jit_compile={row['jit']}"
            )
        print(
            f"  remat={remat!s:<5} peak {row['peak_mb']:>8,.0f} MB, of it activations and "
            f"gradients {row['step_mb']:>8,.0f} MB; {row['seconds']:.2f} s a step",
            flush=True,
        )
        rows.append({**task, **row})
    ratio = rows[1]["step_mb"] / rows[0]["step_mb"]
    slower = rows[1]["seconds"] / rows[0]["seconds"]
    print(f"  ratio {ratio:.2f} of the memory, {slower:.2f} of the time")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return rows


def measure(task):
    """Train for a few steps in this process: a dict of what it took."""
    import keras
    import numpy as np

    import keras_albert

    length, batch = task["length"], task["batch_size"]
    backbone = keras_albert.AlbertBackbone.from_preset(
        task["preset"], load_weights=False, max_sequence_length=length, remat=task["remat"]
    )
    model = keras_albert.AlbertPretrainer(backbone)
    jit = {} if task["jit"] is None else {"jit_compile": task["jit"]}
    model.compile(keras_albert.Lamb(1e-3), **jit)
    model.optimizer.build(model.trainable_variables)
    generator = np.random.default_rng(0)
    predictions = max(1, round(0.15 * length))
    tokens = generator.integers(5, backbone.vocabulary_size, (batch, length), "int32")
    x = {
        "token_ids": tokens,
        "segment_ids": np.zeros_like(tokens),
        "padding_mask": np.ones(tokens.shape, bool),
        "mask_positions": generator.integers(0, length, (batch, predictions), "int32"),
    }
    y = {"mlm": tokens[:, :predictions], "sentence": np.zeros(batch, "int32")}
    before = now()
    for step in range(2):
        if step == 1:
            if _backend() != "jax":
                gc.collect()  # what the first step left in cycles is not between steps
                before = now()
            start_peak()
        began = time.monotonic()
        model.train_on_batch(x, y)  # returns numbers, so the step is over
        seconds = time.monotonic() - began
    found = peak()
    return {
        "backend": keras.backend.backend(),
        "device": device(),
        "jit": model.jit_compile,
        "peak_mb": found / 1e6,
        "step_mb": (found - before) / 1e6,
        "seconds": seconds,
    }


def device():
    """The kind of device that the backend computes on: `cpu`, `gpu` or `tpu`."""
    if _backend() == "torch":
        import torch

        return "gpu" if torch.cuda.is_available() else "cpu"
    import keras

    return keras.distribution.list_devices()[0].split(":")[0]


def now():
    """Bytes in use."""
    return _bytes("VmRSS", "bytes_in_use", "memory_allocated")


def peak():
    """The most bytes in use since `start_peak`."""
    return _bytes("VmHWM", "peak_bytes_in_use", "max_memory_allocated")


def start_peak():
    """Forget the peak; JAX has no way to on a GPU, where compiling takes none."""
    if device() == "cpu":
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # see proc(5)
    elif _backend() == "torch":
        import torch

        torch.cuda.reset_peak_memory_stats()
    elif _backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.reset_memory_stats("GPU:0")


def _bytes(field, of_jax, of_torch):
    if device() == "cpu":
        status = pathlib.Path("/proc/self/status").read_text()
        return 1024 * int(status.split(f"{field}:")[1].split()[0])
    if _backend() == "torch":
        import torch

        return getattr(torch.cuda, of_torch)()
    if _backend() == "jax":
        import jax

        return jax.devices()[0].memory_stats()[of_jax]
    import tensorflow as tf

    found = tf.config.experimental.get_memory_info("GPU:0")
    return found["current" if of_jax == "bytes_in_use" else "peak"]


def _backend():
    import keras

    return keras.backend.backend()


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
