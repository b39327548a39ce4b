"""The steps and passes that `keras-albert benchmark peers` times, and the operations they need."""

import dataclasses

SIDES = {  # name -> what must be installed
    "keras_albert-torch": ("torch",),
    "keras_albert-jax": ("jax",),
    "keras_albert-tensorflow": ("tensorflow",),
    "keras_albert-onnx": ("torch", "onnx", "onnxruntime"),
    "transformers": ("torch", "transformers"),
    "transformers-compile": ("torch", "transformers"),
    "transformers-onnx": ("torch", "transformers", "onnx", "onnxruntime"),
    "keras_hub-jax": ("jax", "keras_hub"),
    "keras_hub-torch": ("torch", "keras_hub"),
    "keras_hub-tensorflow": ("tensorflow", "keras_hub"),
}
OWN = ("keras_albert-torch", "keras_albert-jax", "keras_albert-tensorflow")
FULL, SHORT = (8, 128), (1, 32)  # examples and tokens of a batch
SMALL = ((1, 32), (8, 32))
SETS = {  # name -> (tokens of a row at most, examples of a batch, share of --examples)
    "SST-2": (128, 32, 1.0),
    "QNLI": (128, 16, 0.5),
    "SQuAD": (384, 8, 0.25),
}
SHARE_MASKED = 0.15


@dataclasses.dataclass
class Case:
    """One table: the same work on each side.

    Attributes:
        what, name: the measurement and the row of it.
        model, layers: which weights.
        lanes: label -> (side, workload, what its seconds are multiplied by).
        operations: that the work needs, however a side does it.
        per: examples, where the time of one is reported; 1 reports the time of all.
        compares_losses: whether the first two steps have the same losses on all sides.
    """

    what: str
    name: str
    model: str
    layers: int
    lanes: dict
    operations: float
    per: int = 1
    compares_losses: bool = False


def operations(config, rows, length, predictions=0, training=False):
    """Floating-point operations of the matrix products that a batch needs.

    A product of (m, k) and (k, n) takes 2 m k n. Counted are the projection of embeddings, the
    blocks with scores and contexts of attention, and the masked-LM head on `predictions` positions
    of a row; the way back takes twice the way forth. As `training.throughput` counts, which would
    load Keras here.
    """
    h, i, e = config["hidden_dim"], config["intermediate_dim"], config["embedding_dim"]
    block = 2 * (4 * h * h + 2 * h * i) + 2 * 2 * length * h
    tokens = length * (config["num_layers"] * block + (2 * e * h if e != h else 0))
    head = predictions * 2 * (h * e + e * config["vocabulary_size"])
    return (3.0 if training else 1.0) * rows * (tokens + head)


def masked(length):
    """Masked positions of a row."""
    return max(1, round(SHARE_MASKED * length))


def cases_of(what, args, found):
    """The cases of a measurement; `found` is what `benchmark_material.prepare` returned."""
    config = found["sizes"][args.preset]
    layers = config["num_layers"]
    if what == "pretraining":
        return [batch(what, "pretrainer", layers, FULL, True, args, config)]
    if what == "small":
        return [
            batch(what, "pretrainer", depth, shape, True, args, config)
            for depth in args.depths
            for shape in SMALL
        ]
    if what in ("inference", "latency"):
        shape = FULL if what == "inference" else SHORT
        return [batch(what, "classifier", layers, shape, False, args, config)]
    names = list(found["lengths"]) if what == "lengths" else ["SST-2"]
    return [examples(what, name, args, config, found) for name in names]


def batch(what, model, layers, shape, train, args, config):
    """A step, or a prediction, on one batch of full-length rows."""
    rows, length = shape
    workload = {"train": train, "batch": rows, "length": length}
    return Case(
        what,
        f"{'training step' if train else 'prediction'}, {rows} x {length} tokens, {layers} layers",
        model,
        layers,
        {side: (side, workload, 1.0) for side in offering(train, args)},
        operations(
            {**config, "num_layers": layers}, rows, length, masked(length) if train else 0, train
        ),
        compares_losses=train,
    )


def examples(what, name, args, config, found):
    """A pass over texts of real lengths."""
    lengths, size = found["lengths"][name]["tokens"], found["lengths"][name]["batch"]
    pretrains, train, lanes = what == "short", what != "lengths", {}
    for side in offering(train, args):
        for padding in paddings(side, pretrains):
            label = side if padding == "sorted" else f"{side}, {PADDINGS[padding]}"
            # Of a fixed length one batch is computed, and stands for all.
            scale = len(lengths) / size if padding == "fixed" else 1.0
            workload = {"train": train, "examples": name, "padding": padding}
            lanes[label] = (side, workload, scale)
    source = name if found["has_data"] else f"texts as in {name}"
    return Case(
        what,
        f"{'pretraining' if pretrains else 'training' if train else 'prediction'}, {source}, "
        f"{len(lengths)} examples of "
        f"{sum(lengths) / len(lengths):.0f} tokens on average",
        "pretrainer" if pretrains else "classifier",
        config["num_layers"],
        lanes,
        sum(
            operations(config, 1, length, masked(length) if pretrains else 0, train)
            for length in lengths
        ),
        len(lengths),
    )


PADDINGS = {"arrival": "as they come", "fixed": "to the limit", "packed": "packed"}


def paddings(side, pretrains):
    """How a side's users pad: its own way, or the ways that there are."""
    if pretrains and not side.startswith("transformers"):
        return ["fixed", "packed"] if side.startswith("keras_albert") else []
    if side.startswith("keras_albert"):
        return ["sorted"] if side.endswith("-onnx") else ["sorted", "packed"]
    if side.startswith("keras_hub"):
        return ["fixed"]
    return ["arrival", "fixed"] if side == "transformers" else ["arrival"]


def offering(train, args):
    """The sides that can do it: ONNX files do not train."""
    return [side for side in args.sides if not (train and side.endswith("-onnx"))]
