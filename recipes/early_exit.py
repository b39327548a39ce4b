"""Measure what early exits save: speed against accuracy, for every patience, as a picture.

    keras-albert finetune-glue SST-2 --preset run/preset --data glue --early-exit --output run-SST-2
    keras-albert early-exit run-SST-2/preset --task SST-2 --examples glue/SST-2/dev.tsv
    keras-albert early-exit model.keras --examples dev.tsv --output curve.png --save faster.keras

The model must have been made and trained with `early_exit=True`. Without `--task` the examples are
a TSV with a header: one or two columns of texts, then `label`, a class by its number or its name.

Times are of whole predictions of all examples, strings to logits, at every patience in turn,
`--repeats` times, of which the median counts; a first round, which compiles, does not. The patience
that is chosen is the smallest whose accuracy is within `--tolerance` of that of all depths.

Measured on 688 held-out sentences of SST-2, PyTorch, batches of 32: a deep and narrow encoder (12
layers, H 128, trained on 59,644 phrases from random weights, two epochs) is right on 80.8% with all
depths and on 80.5% with the patience of 2 that is chosen, at 2.22 times the speed: texts leave
after 3.1 depths. In batches of 128 it is 2.77 times the speed. `albert_tiny`, fine-tuned as
`finetune_glue.py` says, leaves after 2.04 of 4 depths with a patience of 1 (77.9%, all depths
77.3%): 1.37 times the speed on PyTorch and 1.02 on JAX, since calls of so few depths take as long
as the products.
"""

import argparse
import os
import pathlib
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # the start-up notes of TensorFlow

import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras_albert_recipes import finetuning_results as results  # noqa: E402
from keras_albert_recipes import options  # noqa: E402

import keras_albert  # noqa: E402
from keras_albert import datasets  # noqa: E402
from keras_albert.datasets.reading import refuse, text_lines  # noqa: E402

OUTPUT = "early_exit.png"
TOLERANCE = 0.005
REPEATS = 5


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parser().parse_args(arguments)
    for name, value in (("repeats", args.repeats), ("batch_size", args.batch_size)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}")
    if args.save and args.save.suffix != ".keras":
        raise ValueError(f"`save` must end with .keras. Received: save={str(args.save)!r}")

    # 1. Model and examples.
    if pathlib.Path(args.source).suffix == ".keras":
        model = keras.saving.load_model(args.source)
    else:
        model = keras_albert.AlbertTextClassifier.from_preset(args.source)
    if not getattr(model, "early_exit", False):
        raise ValueError(
            "The model must have a head after every depth: fine-tune it with early_exit=True "
            f"(keras-albert finetune-glue --early-exit). Received: {args.source}"
        )
    x, y = read(args.examples, args.task, model)

    # 2. Accuracy and depth of every patience, from one pass; then the times.
    rows = model.choose_patience(x, y, args.tolerance, batch_size=args.batch_size, verbose=0)
    chosen = model.patience
    patiences = [row.patience for row in rows]
    seconds = measure(model, x, patiences, args.repeats, args.batch_size)
    model.patience = chosen

    # 3. What came out.
    speeds = {patience: len(y) / seconds[patience] for patience in patiences}
    shown = [
        (
            f"{name_of(row, model)}{'  <- chosen' if row.patience == chosen else ''}",
            row.accuracy,
            f"{row.depth:.2f}",
            f"{1e3 / speeds[row.patience]:.2f}",
            f"{speeds[row.patience] / speeds[None]:.2f}x",
        )
        for row in rows
    ]
    title = f"{len(y):,} examples, batches of {args.batch_size}, {keras.backend.backend()}"
    columns = ("patience", "accuracy %", "mean depth", "ms an example", "speed")
    results.table(title, columns, shown)
    draw(rows, speeds, chosen, args.tolerance, model, args.output)
    print(f"Drawn: {args.output}")
    if args.save:
        beside = args.save.with_name(f"{args.save.stem}.partial.keras")
        model.save(beside)
        beside.replace(args.save)
        print(f"Saved with patience={chosen}: {args.save}")


def read(path, task, model):
    """Texts, or a pair of lists of texts, and int labels."""
    if task:
        splits = datasets.find_task(task).splits
        examples = datasets.load_glue(task, path, "dev" if "dev" in splits else splits[1])
        return examples.x, examples.y
    lines = text_lines(path)
    header = next(lines, (1, ""))[1].split("\t")
    if len(header) not in (2, 3) or header[-1] != "label":
        rule = "The header must be one or two columns of texts, then 'label' (or pass --task)"
        refuse(path, 1, rule, "\t".join(header))
    names = list(model.class_names or ())
    *texts, labels = [[] for _ in header]
    for number, line in lines:
        *parts, label = line.split("\t")
        if len(parts) != len(texts):
            refuse(path, number, f"A row must have {len(header)} fields, as the header", line)
        if label in names:
            label = names.index(label)
        elif label.isdecimal() and int(label) < model.num_classes:
            label = int(label)
        else:
            rule = f"A label must be from 0 to {model.num_classes - 1}, or one of {names}"
            refuse(path, number, rule, label)
        for column, part in zip((*texts, labels), (*parts, label), strict=True):
            column.append(part)
    if not labels:
        refuse(path, 1, "The file must hold at least one example", "\t".join(header))
    return (tuple(texts) if len(texts) > 1 else texts[0]), np.array(labels, "int32")


def measure(model, x, patiences, repeats, batch_size):
    """The median seconds of a prediction of all of `x`, at each patience; None is all depths."""
    times = {patience: [] for patience in patiences}
    for _ in range(1 + repeats):
        for patience, measured in times.items():
            model.patience = patience
            started = time.perf_counter()
            model.predict(x, batch_size=batch_size, verbose=0)
            measured.append(time.perf_counter() - started)
    return {patience: statistics.median(measured[1:]) for patience, measured in times.items()}


def name_of(row, model):
    """`3`, or what None means."""
    return f"all {model.backbone.num_layers} depths" if row.patience is None else str(row.patience)


def draw(rows, speeds, chosen, tolerance, model, output):
    """Write a PNG: accuracy over speed, a point for each patience."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import PercentFormatter

    figure, axis = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    whole = rows[-1]
    label = f"at most {100 * tolerance:g} points below all depths"
    band = {"color": "C2", "alpha": 0.12, "linewidth": 0, "label": label}
    axis.axhspan(whole.accuracy - tolerance, whole.accuracy, **band)
    early = rows[:-1]
    points = [[speeds[row.patience] for row in early], [row.accuracy for row in early]]
    axis.plot(*points, marker="o", color="C0", label="early exit, by patience")
    style = {"marker": "s", "linestyle": "none", "color": "C3"}
    axis.plot(speeds[None], whole.accuracy, **style, label=name_of(whole, model))
    for number, row in enumerate(early):  # neighbours above and below in turn
        place = (speeds[row.patience], row.accuracy)
        offset = (0, (11, -19)[number % 2])
        style = {"textcoords": "offset points", "fontsize": 9, "ha": "center"}
        axis.annotate(str(row.patience), place, offset, **style)
    best = next(row for row in rows if row.patience == chosen)
    ring = {"marker": "o", "markersize": 14, "linestyle": "none", "fillstyle": "none"}
    axis.plot(speeds[chosen], best.accuracy, **ring, color="black", label="chosen")
    axis.set(xlabel="examples a second", ylabel="accuracy")
    axis.margins(x=0.12, y=0.15)
    axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    gain = speeds[chosen] / speeds[None]
    title = (
        f"{name_of(best, model)}: {gain:.2f} times the speed, {best.depth:.1f} depths on average"
    )
    prefix = "" if chosen is None else "patience "
    axis.set_title(prefix + title, loc="left", fontsize=11, fontweight="bold")
    beside = output.with_name(f"{output.stem}.partial.png")
    figure.savefig(beside, dpi=110)
    beside.replace(output)
    plt.close(figure)


def parser():
    """The command line; its defaults are the constants above."""
    parser = argparse.ArgumentParser(
        prog="keras-albert early-exit", description=__doc__, formatter_class=options.Help
    )
    add = parser.add_argument
    add("source", metavar="MODEL", help="a .keras file, or a preset's directory")
    add("--examples", required=True, help="with labels, and not trained on")
    add("--task", help="of GLUE, whose columns --examples has")
    add("--output", type=pathlib.Path, default=pathlib.Path(OUTPUT), help="the picture, a PNG")
    add("--tolerance", type=float, default=TOLERANCE, help="accuracy that may be lost")
    add("--repeats", type=int, default=REPEATS, help="measurements of each patience")
    add("--batch-size", type=int, default=32, help="examples in a batch")
    add("--save", type=pathlib.Path, help="write the model with its patience to this .keras file")
    return parser


if __name__ == "__main__":
    main()
