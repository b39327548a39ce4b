"""Draw what a run's `log.jsonl` says, as a PNG beside it.

    keras-albert plot run/                       # run/log.png
    keras-albert plot run/phase-1 run/phase-2    # two logs in one picture, run/phase-1/log.png
    python recipes/plot.py run/ --output a.png

`keras_albert.TrainingLog` writes the log, while a run goes on too: draw it at any time.
"""

import argparse
import pathlib

from keras_albert_recipes import options

from keras_albert.training.log import NAME, read_log

PANELS = (  # title, names in the log, settings of the axis
    ("Loss", ("mlm_loss", "sentence_loss", "loss"), {}),
    ("Accuracy", ("mlm_accuracy", "sentence_accuracy", "accuracy"), {"percent": True}),
    ("Gradient norm, before clipping", ("gradient_norm",), {"log": True}),
    (
        "LAMB's trust ratios: least, median, largest",
        ("trust_ratio_min", "trust_ratio", "trust_ratio_max"),
        {"log": True},
    ),
    ("Learning rate", ("learning_rate",), {"plain": True}),
    ("Tokens per second", ("tokens_per_second",), {"zero": True}),
    ("Share of the matrix peak", ("peak_share",), {"zero": True, "percent": True}),
)
LABELS = {"mlm": "masked tokens", "sentence": "sentence order"}
RATIOS = {"trust_ratio_min": "least", "trust_ratio": "median", "trust_ratio_max": "largest"}
SMOOTHING = 25  # lines of the log in a running median, where there are more than four times as many


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parser().parse_args(arguments)
    logs = {}
    for directory in args.directories:
        path = directory / NAME
        if not path.is_file():
            raise ValueError(f"A run to plot must hold {NAME}. Received: {str(directory)!r}")
        logs[directory.name or str(directory)] = rows = read_log(path)
        if not any("learning_rate" in row for row in rows):
            raise ValueError(f"{path} has no steps yet: wait for the first line of a step")
    output = args.output or args.directories[0] / "log.png"
    draw(logs, output)
    print(f"Drawn: {output}")


def draw(logs, output):
    """Write a PNG of the panels that the logs have numbers for."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import EngFormatter, PercentFormatter

    rows = [row for log in logs.values() for row in log]
    panels = [panel for panel in PANELS if any(name in row for name in panel[1] for row in rows)]
    height = -(-len(panels) // 2)
    figure, axes = plt.subplots(
        height, 2, figsize=(12, 3.4 * height), sharex=True, squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    colors = {"": "C0"}  # by label: a task has one in all panels
    for axis, (title, names, settings) in zip(axes.flat, panels, strict=False):
        for run, log in logs.items():
            for name in names:
                label = " ".join(filter(None, (run if len(logs) > 1 else "", label_of(name))))
                draw_line(axis, log, name, label, colors)
            if "gradient_norm" in names:
                draw_events(axis, log)
        axis.set_title(title, loc="left", fontsize=11, fontweight="bold")
        if settings.get("percent"):
            axis.yaxis.set_major_formatter(PercentFormatter(1))
        elif not settings.get("log") and not settings.get("plain"):
            axis.yaxis.set_major_formatter(EngFormatter(sep=""))
        if settings.get("log"):
            axis.set_yscale("log")
        if settings.get("zero"):
            axis.set_ylim(bottom=0)
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        if len(axis.get_legend_handles_labels()[0]) > 1:
            axis.legend(frameon=False, fontsize=9)
    for axis in axes.flat[max(len(panels) - 2, 0) : len(panels)]:
        axis.set_xlabel("step")
        axis.tick_params(labelbottom=True)
    figure.suptitle(", ".join(headline(run, log) for run, log in logs.items()), fontsize=10)
    beside = output.with_name(f"{output.stem}.partial.png")
    figure.savefig(beside, dpi=110)
    beside.replace(output)
    plt.close(figure)


def draw_line(axis, log, name, label, colors):
    """One number over the steps: as logged and, of long logs, its running median; validation."""
    points = [(row["step"], row[name]) for row in log if name in row and "event" not in row]
    if not points:
        return
    steps, values = zip(*points, strict=True)
    color = colors.setdefault(label, f"C{(len(colors) - 1) % 10}")
    if len(points) > 4 * SMOOTHING:
        axis.plot(steps, values, color=color, alpha=0.25, linewidth=0.8)
        axis.plot(steps, running_median(values), color=color, linewidth=1.6, label=label)
    else:
        axis.plot(steps, values, color=color, linewidth=1.4, label=label)
    held_out = [(row["step"], row[f"val_{name}"]) for row in log if f"val_{name}" in row]
    if held_out:
        style = {"color": color, "marker": "o", "markersize": 4, "linestyle": "--"}
        axis.plot(*zip(*held_out, strict=True), **style, label=f"{label}, held out")


def draw_events(axis, log):
    """Skipped steps as ticks at the foot, spikes as triangles at their norm."""
    skipped = [row["step"] for row in log if row.get("event") == "skipped"]
    spikes = [(row["step"], row["gradient_norm"]) for row in log if row.get("event") == "spike"]
    if skipped:
        foot = {"transform": axis.get_xaxis_transform(), "clip_on": False, "zorder": 3}
        label = f"{len(skipped)} skipped"
        axis.scatter(skipped, [0.02] * len(skipped), marker="x", color="C3", label=label, **foot)
    if spikes:
        label = f"{len(spikes)} spikes"
        axis.scatter(
            *zip(*spikes, strict=True), marker="^", s=22, color="C1", label=label, zorder=3
        )


def running_median(values):
    """The median of each value and those around it."""
    import numpy as np

    half = SMOOTHING // 2
    padded = np.pad(np.asarray(values, float), half, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)


def label_of(name):
    """Which task a number is about, in words; nothing where there is no other."""
    if name in RATIOS:
        return RATIOS[name]
    task, _, measure = name.rpartition("_")
    return LABELS.get(task, "sum" if name == "loss" else "")


def headline(run, log):
    """The last step of a run, and how long it has to go."""
    text = f"{run}: step {log[-1]['step']:,}"
    left = next((row["seconds_left"] for row in reversed(log) if "seconds_left" in row), 0)
    if left > 0:
        hours, minutes = divmod(round(left / 60), 60)
        text += f", {hours} h {minutes:02d} min left"
    return text


def parser():
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="keras-albert plot", description=__doc__, formatter_class=options.Help
    )
    parser.add_argument("directories", nargs="+", type=pathlib.Path, help="of runs")
    parser.add_argument("--output", type=pathlib.Path, help="(default: log.png in the first)")
    return parser


if __name__ == "__main__":
    main()
