"""Measure this package beside transformers, torch.compile, KerasHub and ONNX, in one run.

    keras-albert benchmark peers                                # all of it
    keras-albert benchmark peers inference latency --threads 1
    keras-albert benchmark peers pretraining --dtype mixed_bfloat16 --plot bars.png

    pretraining  a training step, 8 x 128 tokens: masked-LM and sentence order, AdamW
    short        a pass of pretraining over texts of SST-2's lengths, in batches of 32
    finetuning   a pass over SST-2 with its real lengths, in batches of 32
    inference    8 x 128 tokens
    lengths      a pass over SST-2, QNLI and SQuAD with their real lengths
    latency      one text of 32 tokens
    small        training steps of 1 x 32 and 8 x 32 tokens, by depth
    start        from the start of a process to its first prediction and first step, by depth;
                 "kept": where an earlier process left what JAX had compiled
    memory       of a training step, recomputing (remat) and not
    jit          steps and predictions with jit_compile and without, by backend
    sizes        every size of ALBERT and BERT relative to BERT-large, beside the paper's column

Each side is a process of its own, with the same weights; one computes at a time, in turn. Before
anything is timed, outputs and the losses of the first two steps must agree with those of
transformers. Rates count the operations that the work needs, so that padding, or a head on
positions that are not masked, lowers a side's own rate. KerasHub has no sentence order, and
transformers computes its head on all positions: each side is as it is. On a GPU `--dtype
mixed_bfloat16` measures as one trains there; float32 is whole there, without TF32.

`docs/speed.md` has what was measured of `albert_base_v2` on two cores, beside the goals, and what
stands in the way of those that were not reached.
"""

import argparse
import contextlib
import importlib.util
import os
import pathlib
import tempfile
import time

import numpy as np
from keras_albert_recipes import benchmark_report, benchmark_solo, options
from keras_albert_recipes.benchmark_cases import SETS, SIDES, cases_of
from keras_albert_recipes.benchmark_workers import (
    SideFailed,
    Worker,
    compare,
    compare_losses,
    environment,
    on_cores,
    rounds,
)

STEPS = ("pretraining", "small", "short", "inference", "latency", "lengths", "finetuning")
SOLO = ("start", "memory", "jit", "sizes")  # start processes for every number
NOT_BY_DEFAULT = ("keras_hub-torch", "keras_hub-tensorflow")
MINUTES = 30, 10  # on a CPU, on a GPU
TOLERANCES = {"float32": (1e-4, 1e-3), "mixed_bfloat16": (5e-2, 5e-2)}  # of outputs, of losses


def main(arguments=None):
    """Run the recipe; returns the report, a dict that `--json` writes."""
    args = parser().parse_args(arguments)
    for what in args.what:
        if what not in (*STEPS, *SOLO):
            raise ValueError(f"`what` must be of {(*STEPS, *SOLO)}. Received: {what!r}")
    args.what = [what for what in (*STEPS, *SOLO) if what in (args.what or (*STEPS, *SOLO))]
    for name in ("threads", "repeats", "start_repeats", "examples"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {getattr(args, name)}")
    with tempfile.TemporaryDirectory() as folder, on_cores(args.threads):
        run = Run(args, pathlib.Path(folder))
        run.measure()
    return benchmark_report.write(run.report(), args)


class Run:
    """One run: what it found, what it left out and why."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.records, self.left_out, self.dropped = [], {}, []
        self.asked_for = args.sides is not None
        args.sides = args.sides or [side for side in SIDES if side not in NOT_BY_DEFAULT]
        self.leave_out({side: f"{m} is not installed" for side, m in missing(args.sides).items()})
        if not args.sides:
            raise ValueError(f"`sides` must name one that is installed. Received: {self.left_out}")
        self.began = time.monotonic()

    def measure(self):
        """All of it; what there is no time for is named."""
        with self.prepare() as self.machine:
            self.found = self.machine.answer()
            self.measure_all()

    def measure_all(self):
        """What `measure` does when weights and examples are there."""
        limit = self.args.minutes or MINUTES[self.found["cuda"]]
        self.deadline = self.began + 60 * limit
        if self.args.dtype != "float32" or self.found["cuda"]:
            reason = "ONNX files are measured on the CPU, in float32"
            self.leave_out({s: reason for s in self.args.sides if s.endswith("-onnx")})
        benchmark_report.show_head(self.found, self.args, self.left_out)
        groups = {}
        for what in self.args.what:
            for case in cases_of(what, self.args, self.found) if what in STEPS else ():
                groups.setdefault((case.model, case.layers), []).append(case)
        for (model, layers), cases in groups.items():
            self.measure_group(model, layers, cases)
        for what in self.args.what:
            if what in SOLO:
                getattr(benchmark_solo, what)(self)

    def prepare(self):
        """A process that makes weights and examples, and then knows the machine's peak."""
        args = self.args
        wanted = {"lengths": list(SETS), "finetuning": ["SST-2"], "short": ["SST-2"]}
        task = {
            "task": "prepare",
            "folder": str(self.folder),
            "source": args.data or os.environ.get("KERAS_ALBERT_DATA"),
            "preset": args.preset,
            "depths": {
                "pretrainer": args.depths if "small" in args.what else [],
                "classifier": args.start_depths if "start" in args.what else [],
            },
            "sets": sorted({name for what in args.what for name in wanted.get(what, ())}),
            "examples": args.examples,
            "sizes": args.sizes if "sizes" in args.what else [],
            "seed": args.seed,
        }
        return self.open("keras_albert-torch", task)

    def measure_group(self, model, layers, cases):
        """The cases of the same weights: each side starts once for all of them."""
        if self.is_over([f"{case.what}: {case.name}" for case in cases]):
            return
        wanted = {side for case in cases for side, *_ in case.lanes.values()}
        sides = [side for side in self.args.sides if side in wanted]
        outputs = {side: self.folder / f"{side}-outputs.npz" for side in sides}
        with contextlib.ExitStack() as stack:
            workers = {}
            for side in sides:  # they load at the same time
                task = {"model": model, "folder": str(self.folder / f"{model}-{layers}")}
                worker = self.open(side, {**task, "outputs": str(outputs[side])})
                workers[side] = stack.enter_context(worker)
            for side in sides:
                self.attempt(workers, side, lambda worker: self.greet(worker))
            compare({side: dict(np.load(outputs[side])) for side in workers}, self.tolerances[0])
            trained = False  # afterwards rounding has made the weights differ
            for case in cases:
                if not self.is_over([f"{case.what}: {case.name}"]):
                    self.measure_case(case, workers, case.compares_losses and not trained)
                    trained = trained or case.compares_losses

    def greet(self, worker):
        """Wait until a side has loaded its model."""
        device = worker.answer()["device"]
        if self.found["cuda"] and device == "cpu":
            print(f"({worker.side} computes on the CPU: its backend sees no GPU)")

    def attempt(self, table, name, action):
        """Do something with a row's side; where it fails, the row is taken out, or it is an error.

        What was asked for by name, and this package's own, must not fail.
        """
        try:
            return action(table[name])
        except SideFailed as error:
            if self.asked_for or name.startswith("keras_albert"):
                raise
            table.pop(name)
            self.leave_out({name: str(error)})
            print(f"({name} is left out: {error})", flush=True)

    def measure_case(self, case, workers, compares_losses):
        """Warm up, compare the losses of it, then time one round after the other."""
        lanes = {
            label: (workers[side], workload, scale)
            for label, (side, workload, scale) in case.lanes.items()
            if side in workers and workers[side].is_alive()
        }

        def warm_up(lane):
            worker, workload, _ = lane
            return [worker.ask(workload=workload)["loss"] for _ in range(1 + compares_losses)]

        losses = {label: self.attempt(lanes, label, warm_up) for label in list(lanes)}
        if compares_losses:
            compare_losses({label: losses[label] for label in lanes}, self.tolerances[1])
        seconds = rounds(lanes, self.args.repeats)
        self.add(case.what, case.name, seconds, operations=case.operations, per=case.per)

    def add(self, what, case, values, unit="s", operations=None, per=1, **more):
        """Keep the values of a case, side -> one for each round, and show them."""
        record = {"what": what, "case": case, "unit": unit, "per": per, "operations": operations}
        # Other programs may have come or gone: the peak of this time.
        record["peak"] = self.machine.ask()["peak"]
        found = benchmark_report.summary({**record, "values": values, **more})
        self.records.append(found)
        benchmark_report.show(found)

    def open(self, side, task, more=()):
        """A process for a side, with `more` variables in its environment."""
        variables = {**environment(side, self.args.threads, self.args.dtype), **dict(more)}
        return Worker(side, self.spec(side, task), variables, self.folder)

    def spec(self, side, task):
        """What a side's process is told."""
        args = self.args
        told = {"side": side, "dtype": args.dtype, "jit": args.jit, "threads": args.threads}
        return {**told, "data": str(self.folder), **task}

    @property
    def tolerances(self):
        return TOLERANCES[self.args.dtype]

    def leave_out(self, reasons):
        """Go on without some sides; the report names them."""
        self.left_out.update(reasons)
        self.args.sides = [side for side in self.args.sides if side not in reasons]

    def is_over(self, names):
        """Whether there is no time left; then `names` are what the report calls not measured."""
        if time.monotonic() < self.deadline:
            return False
        self.dropped += names
        return True

    def report(self):
        """All that was found."""
        return {
            "machine": {k: self.found[k] for k in ("device", "cuda", "peak", "has_data")},
            "versions": benchmark_report.versions(),
            "preset": self.args.preset,
            "threads": self.args.threads,
            "dtype": self.args.dtype,
            "minutes": (time.monotonic() - self.began) / 60,
            "left_out": self.left_out,
            "dropped": self.dropped,
            "records": self.records,
        }


def missing(sides):
    """Side -> the first package that it needs and that is not installed."""
    found = {}
    for side in sides:
        absent = [name for name in SIDES[side] if importlib.util.find_spec(name) is None]
        if absent:
            found[side] = absent[0]
    return found


def parser():
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="keras-albert benchmark peers", description=__doc__, formatter_class=options.Help
    )
    add = parser.add_argument
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    add("what", nargs="*", metavar="WHAT", help="see above (default: all of it)")
    add("--sides", nargs="+", choices=SIDES, help=f"(default: all but {NOT_BY_DEFAULT})")
    add("--preset", default="albert_base_v2", help="the architecture, of ALBERT")
    add("--depths", type=int, nargs="+", default=[12, 24], help="layers, for `small`")
    add("--start-depths", type=int, nargs="+", default=[6, 12, 24], help="layers, for `start`")
    add("--sizes", nargs="+", choices=SIZES, default=SIZES, help="for `sizes`")
    add("--repeats", type=int, help="rounds that are timed (default: 2 to 5, about a minute)")
    add("--start-repeats", type=int, default=1, help="rounds of `start`")
    add("--examples", type=int, default=64, help="of `finetuning` and `lengths`; fewer of SQuAD")
    add("--threads", type=int, default=cores, help="cores of a side")
    add("--dtype", default="float32", choices=TOLERANCES, help="Keras' policy; autocast in PyTorch")
    add("--jit", default="auto", choices=("auto", "yes", "no"), help="jit_compile of this package")
    add("--minutes", type=float, help="what is not begun by then is left out (default: 30, GPU 10)")
    add("--data", help="folder of vocab/, glue/ and squad/ (default: KERAS_ALBERT_DATA's)")
    add("--seed", type=int, default=0, help="of weights and examples")
    add("--json", help="file to write all numbers to")
    add("--plot", help="PNG to draw bars into")
    return parser


SIZES = list(benchmark_solo.PAPER)

if __name__ == "__main__":
    main()
