"""The measurements of `keras-albert benchmark peers` that start processes for every number."""

import contextlib
import json
import os
import subprocess
import sys
import time

from keras_albert_recipes import training_memory
from keras_albert_recipes.benchmark_cases import FULL, OWN, SHORT, masked, operations
from keras_albert_recipes.benchmark_workers import SideFailed, environment, rounds

START_SHAPE = (1, 32)  # examples and tokens of the first batch
MEMORY_SHAPES = ((8, 128), (2, 512))
SIZES_SHAPE = (1, 128)  # few tokens, so that the largest fits into memory
REFERENCE = "bert_large_uncased"
PAPER = {  # Lan et al. (2020), Table 2: speed of training relative to BERT-large
    "bert_base_uncased": 4.7,
    "bert_large_uncased": 1.0,
    "albert_base_v2": 5.6,
    "albert_large_v2": 1.7,
    "albert_xlarge_v2": 0.6,
    "albert_xxlarge_v2": 0.3,
}
CACHES = {"keras_albert-jax": "JAX_COMPILATION_CACHE_DIR"}  # side -> what names the folder
JIT = {"yes": "jit_compile", "no": "without"}
EVENTS = {
    "imported": "import",
    "predicted": "first prediction",
    "trained": "first training step",
}


def start(run):
    """Seconds from the start of a process, one process for each number of layers and repeat.

    Where the backend keeps what it compiled, also of a process that finds it (`CACHES`).
    """
    rows, length = START_SHAPE
    lanes = {side: (side, {}) for side in run.args.sides if not side.endswith("-onnx")}
    for side in [side for side in lanes if side in CACHES]:
        lanes[f"{side}, kept"] = side, {CACHES[side]: str(run.folder / "compiled")}
    labels = list(lanes)
    for depth in run.args.start_depths:
        name = f"{rows} x {length} tokens, {depth} layers"
        if run.is_over([f"start: {name}"]):
            continue
        task = {"task": "start", "model": "classifier", "batch": rows, "length": length}
        task["folder"] = str(run.folder / f"classifier-{depth}")

        def once(label, task=task):
            side, variables = lanes[label]
            began = time.time()
            with run.open(side, task, variables) as worker:
                answer = worker.answer()
            return {event: answer[event] - began for event in EVENTS}

        for label in labels:
            if lanes[label][1]:
                once(label)  # which compiles
        found = {event: {label: [] for label in labels} for event in EVENTS}
        for number in range(run.args.start_repeats):
            first = number % len(labels)
            for label in labels[first:] + labels[:first]:
                for event, seconds in once(label).items():
                    found[event][label].append(seconds)
        for event, title in EVENTS.items():
            run.add("start", f"{title}, {name}", found[event])


def memory(run):
    """MB that a training step takes beyond what stands in memory between steps."""
    offered = (*OWN, "transformers") if run.asked_for else ("keras_albert-torch", "transformers")
    sides = [side for side in run.args.sides if side in offered]
    for rows, length in MEMORY_SHAPES:
        name = f"training step, {rows} x {length} tokens, beyond weights and optimizer"
        if run.is_over([f"memory: {name}"]):
            continue
        found, times = {}, {}
        for side in sides:
            # transformers 5 raises for ALBERT: it has no activation checkpointing of it.
            for remat in (False, True) if side in OWN else (False,):
                task = {"length": length, "batch_size": rows, "remat": remat}
                label = side + (", remat" if remat else "")
                answer = memory_of(run, side, task)
                found[label], times[label] = [answer["step_mb"]], [answer["seconds"]]
        run.add("memory", name, found, unit="MB", seconds=times)


def memory_of(run, side, task):
    """The measurement of one process."""
    variables = {**environment(side, run.args.threads, run.args.dtype), **training_memory.GIVE_BACK}
    if side == "transformers":
        layers = run.found["sizes"][run.args.preset]["num_layers"]
        model = {"model": "pretrainer", "folder": str(run.folder / f"pretrainer-{layers}")}
        module, spec = "benchmark_sides", run.spec(side, {"task": "memory", **model, **task})
    else:
        jit = {"auto": None, "yes": True, "no": False}[run.args.jit]
        module, spec = "training_memory", {"preset": run.args.preset, "jit": jit, **task}
    process = subprocess.run(
        [sys.executable, "-m", f"keras_albert_recipes.{module}", json.dumps(spec)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise SideFailed(f"{side}: {process.stderr.strip().splitlines()[-1]}")
    return json.loads(process.stdout.splitlines()[-1])


def jit(run):
    """Steps and predictions of this package with `jit_compile` and without it, by backend."""
    sides = [side for side in run.args.sides if side in OWN]
    if not sides:
        raise ValueError(f"`jit` must have one of {OWN}. Received: sides={run.args.sides}")
    task = {"model": "pretrainer", "preset": run.args.preset}
    lanes = {(side, jit): f"{side}, {JIT[jit]}" for side in sides for jit in JIT}
    with contextlib.ExitStack() as stack:
        workers = {}
        for (side, jit), label in lanes.items():
            workers[label] = stack.enter_context(run.open(side, {**task, "jit": jit}))
        for worker in workers.values():
            worker.answer()
        for rows, length in (FULL, SHORT):
            for train in (True, False):
                name = f"{'training step' if train else 'prediction'}, {rows} x {length} tokens"
                if run.is_over([f"jit: {name}"]):
                    continue
                workload = {"train": train, "batch": rows, "length": length}
                asked = {label: (worker, workload, 1.0) for label, worker in workers.items()}
                rounds(asked, 1)  # the first compiles
                found = rounds(asked, run.args.repeats)
                faster = {
                    side: quotients(found[lanes[side, "no"]], found[lanes[side, "yes"]])
                    for side in sides
                }
                config, predictions = run.found["sizes"][run.args.preset], masked(length)
                run.add(
                    "jit",
                    name,
                    found,
                    operations=operations(config, rows, length, predictions, train),
                    relative={"to": "without jit_compile", "values": faster, "paper": {}},
                )


def sizes(run):
    """Each size beside BERT-large, in rounds of the two: no more are in memory at a time."""
    side = next((s for s in run.args.sides if s in OWN), None)
    if side is None:
        raise ValueError(f"`sizes` must have one of {OWN}. Received: sides={run.args.sides}")
    rows, length = SIZES_SHAPE
    found = {train: {REFERENCE: []} for train in (True, False)}
    ratios = {train: {REFERENCE: [1.0]} for train in (True, False)}
    with run.open(side, {"model": "pretrainer", "preset": REFERENCE}) as reference:
        reference.answer()
        for size in run.args.sizes:
            if size == REFERENCE or run.is_over([f"sizes: {size}"]):
                continue
            with run.open(side, {"model": "pretrainer", "preset": size}) as worker:
                worker.answer()
                for train in found:
                    workload = {"train": train, "batch": rows, "length": length}
                    lanes = {REFERENCE: (reference, workload, 1.0), size: (worker, workload, 1.0)}
                    rounds(lanes, 1)  # the first compiles
                    seconds = rounds(lanes, run.args.repeats)
                    found[train][REFERENCE] += seconds[REFERENCE]
                    found[train][size] = seconds[size]
                    ratios[train][size] = quotients(seconds[REFERENCE], seconds[size])
    for train, values in found.items():
        if not values[REFERENCE]:
            continue
        predictions = masked(length)
        needed = {
            size: operations(run.found["sizes"][size], rows, length, predictions, train)
            for size in values
        }
        name = f"{'training step' if train else 'prediction'}, {rows} x {length} tokens, {side}"
        run.add(
            "sizes",
            name,
            values,
            operations=needed,
            relative={"to": REFERENCE, "values": ratios[train], "paper": PAPER if train else {}},
        )


def quotients(theirs, ours):
    """How many times as long the first took, round by round."""
    return [their / our for their, our in zip(theirs, ours, strict=True)]
