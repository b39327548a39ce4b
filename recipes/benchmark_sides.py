"""One side of `keras-albert benchmark peers`, in a process of its own; that command starts it.

    python -m keras_albert_recipes.benchmark_sides '{"side": "keras_albert-jax", ...}'

The process loads its model, answers with its outputs on a fixed input, and then, for each line on
its standard input, runs a workload once and answers with the seconds that it took. The clock stops
when numbers are on the host. Lines are JSON, both ways.

A workload is a step on one batch (`batch` x `length` tokens), or a pass over a list of examples
(`examples`), as a user of that side would make it: here sorted by length or packed into rows, in
transformers padded to the longest of a batch (`arrival`) or to a fixed length (`fixed`), as in
KerasHub.
Of a fixed length the first batch alone is computed, since every batch then costs the same.
"""

import functools
import gc
import json
import os
import pathlib
import sys
import time

import numpy as np
from keras_albert_recipes.benchmark_cases import masked

# Of AdamW, on each side. PyTorch adds epsilon after the correction of the bias, Keras before: with
# a small one their steps are the same.
RATE, DECAY, EPSILON, CLIP = 1e-4, 0.01, 1e-10, 1.0
OURS, HUB, OTHERS = "keras_albert", "keras_hub", "transformers"


def main(arguments=None):
    """Answer until the standard input ends."""
    spec = json.loads((sys.argv[1:] if arguments is None else arguments)[0])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(**found):
        print(json.dumps(found), file=answers, flush=True)

    if spec.get("task") == "prepare":
        from keras_albert_recipes import benchmark_material

        answer(**benchmark_material.prepare(spec))
        for _ in sys.stdin:  # afterwards it measures the peak, as often as it is asked
            answer(peak=benchmark_material.matrix_peak(spec["dtype"]))
        return None
    if spec.get("task") == "memory":
        return answer(**memory(spec))
    side = open_side(spec)
    if spec.get("task") == "start":
        return answer(**start(side, spec))
    if path := spec.get("outputs"):
        np.savez(path, **side.outputs())
    answer(ready=True, device=side.device)
    workloads = {}
    for line in sys.stdin:
        task = json.loads(line)
        key = json.dumps(task["workload"], sort_keys=True)
        if key not in workloads:
            workloads[key] = make_workload(side, task["workload"])
        began = time.perf_counter()
        loss = workloads[key]()
        seconds = time.perf_counter() - began
        answer(seconds=seconds, loss=loss)


def open_side(spec):
    """The side that a specification names, with its model."""
    # They import this module, and each imports what only its own side needs.
    from keras_albert_recipes.benchmark_keras_side import KerasSide
    from keras_albert_recipes.benchmark_torch_sides import OnnxSide, TransformersSide

    package, _, kind = spec["side"].partition("-")
    if kind == "onnx":
        return OnnxSide(spec)
    return TransformersSide(spec) if package == OTHERS else KerasSide(spec)


def make_workload(side, workload):
    """A function that runs a workload once, and returns its loss or None."""
    if "examples" in workload:
        return side.over_examples(workload)
    if workload["train"]:
        x, y = batch_of(side, workload["batch"], workload["length"])
        return functools.partial(side.train, *side.given(x, y))
    x, _ = batch_of(side, workload["batch"], workload["length"])
    x = side.given(x)[0]

    def infer():
        side.infer(x)

    return infer


def batch_of(side, rows, length, seed=0, lengths=None):
    """Random ids, `lengths` of a row or all of them, with labels of its model."""
    rng = np.random.default_rng(seed)
    mask = np.arange(length)[None] < np.broadcast_to(lengths or [length], (rows,))[:, None]
    ids = rng.integers(5, side.vocabulary_size, (rows, length))
    x = {
        "token_ids": (ids * mask).astype("int32"),
        "segment_ids": np.zeros((rows, length), "int32"),
        "padding_mask": mask,
    }
    classes = rng.integers(0, 2, rows).astype("int32")
    if not side.pretrains:
        return x, classes
    count, shortest = masked(length), min(lengths or [length])
    drawn = [np.sort(rng.permutation(shortest)[:count]) for _ in range(rows)]
    x["mask_positions"] = np.stack(drawn).astype("int32")
    tokens = rng.integers(5, side.vocabulary_size, (rows, count)).astype("int32")
    return x, {"mlm": tokens, "sentence": classes}


class Side:
    """What the sides share: a fixed input to compare outputs on."""

    def __init__(self, spec):
        self.spec = spec
        self.package, _, self.kind = spec["side"].partition("-")
        self.pretrains = spec["model"] == "pretrainer"
        self.mixed = spec["dtype"] == "mixed_bfloat16"
        self.device = "cpu"
        if folder := spec.get("folder"):
            config = json.loads(pathlib.Path(folder, "config.json").read_text())
            self.vocabulary_size = config["vocab_size"]

    def outputs(self):
        """Outputs by name, of rows with padding."""
        x, _ = batch_of(self, 4, 16, seed=1, lengths=[16, 11, 16, 7])
        found = self.infer(self.given(x)[0])
        return found if isinstance(found, dict) else {"logits": found}

    def examples(self, name):
        """Packed ids of a list of examples, its labels, and how they are batched."""
        with np.load(pathlib.Path(self.spec["data"], f"{name}.npz")) as file:
            arrays = dict(file)
        y, size = arrays.pop("labels"), int(arrays.pop("batch"))
        if self.pretrains:
            arrays["mask_positions"], tokens = to_predict(arrays)
            y = {"mlm": tokens, "sentence": y}
        return arrays, y, size

    def rows(self, name):
        """The same as rows of this package."""
        from keras_albert.preprocessing.rows import Row

        text = pathlib.Path(self.spec["data"], f"{name}.json").read_text()
        return [Row(tuple(segments), label) for segments, label in json.loads(text)]

    def cut(self, workload):
        """Batches in the order of the list, padded as the workload says."""
        arrays, y, size = self.examples(workload["examples"])
        count, length = arrays["token_ids"].shape
        for begin in range(0, size if workload["padding"] == "fixed" else count, size):
            rows = slice(begin, begin + size)
            x = {name: value[rows] for name, value in arrays.items()}
            if workload["padding"] == "arrival":
                longest = int(x["padding_mask"].sum(1).max())
                x |= {name: v[:, :longest] for name, v in x.items() if v.shape[1] == length}
            one = {name: v[rows] for name, v in y.items()} if self.pretrains else y[rows]
            yield self.given(x, one)

    def over_examples(self, workload):
        """One batch after the other; a side with a loop of its own has its own method."""
        batches = list(self.cut(workload))

        def run():
            for x, y in batches:
                if workload["train"]:
                    self.train(x, y)
                else:
                    self.infer(x)

        return run


def to_predict(arrays, seed=0):
    """Positions (N, M) that a masked-LM head reads, and tokens; -100 where a text has fewer."""
    lengths, rng = arrays["padding_mask"].sum(1), np.random.default_rng(seed)
    positions = np.zeros((len(lengths), masked(lengths.max())), "int32")
    tokens = np.full(positions.shape, -100, "int32")
    for row, length in enumerate(lengths):
        drawn = np.sort(rng.permutation(length - 2)[: masked(length)]) + 1  # not [CLS] and [SEP]
        positions[row, : len(drawn)] = drawn
        tokens[row, : len(drawn)] = arrays["token_ids"][row, drawn]
    return positions, tokens


def start(side, spec):
    """When the first prediction and the first training step were done; seconds of the clock."""
    x, y = batch_of(side, spec["batch"], spec["length"])
    x, y = side.given(x, y)
    before = time.time()
    side.infer(x)
    predicted = time.time()
    side.train(x, y)
    # The step is counted as if nothing had been predicted before.
    return {
        "imported": side.imported,
        "predicted": predicted,
        "trained": time.time() - (predicted - before),
    }


def memory(spec):
    """What the second training step of transformers takes; as `training_memory.measure`."""
    from keras_albert_recipes import training_memory

    training_memory._backend = lambda: "torch"  # without Keras in this process
    side = open_side(spec)
    x, y = batch_of(side, spec["batch_size"], spec["length"])
    x, y = side.given(x, y)
    for step in range(2):
        if step == 1:
            gc.collect()
            before = training_memory.now()
            training_memory.start_peak()
        began = time.monotonic()
        side.train(x, y)
        seconds = time.monotonic() - began
    peak = training_memory.peak()
    return {"peak_mb": peak / 1e6, "step_mb": (peak - before) / 1e6, "seconds": seconds}


if __name__ == "__main__":
    main()
