"""What the pretraining recipe measures and leaves: a table, a picture, a preset, one file.

baselines, report    held-out accuracies beside answers without a model
write_table, plot    the evaluations
save                 the model
"""

import csv
import itertools
import shutil

import numpy as np


def write_table(history, path):
    """Write the evaluations as a table; `log.jsonl` has the steps between them."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(history[0]))
        writer.writeheader()
        writer.writerows(history)


def baselines(training, heldout):
    """Held-out accuracy without a model: the most frequent token and the more frequent order.

    The most frequent token is that of masked training tokens, the order that of held-out pairs.
    """
    counts = np.zeros(training.manifest.tokenizer["vocabulary_size"], "int64")
    for step in range(min(len(training), 100)):
        _, y, weight = training[step]
        counts += np.bincount(y["mlm"][weight["mlm"] > 0], minlength=len(counts))
    hits = total = swapped = pairs = 0
    for step in range(len(heldout)):
        _, y, weight = heldout[step]
        targets = y["mlm"][weight["mlm"] > 0]
        hits += (targets == counts.argmax()).sum()
        total += len(targets)
        if "sentence" in y:
            swapped += y["sentence"].sum()
            pairs += len(y["sentence"])
    order = max(swapped, pairs - swapped) / pairs if pairs else None
    return {"token": hits / total, "order": order, "tokens": total, "pairs": pairs}


def report(args, scores, baseline, minutes):
    """Print held-out accuracies beside their baselines."""
    tokens = baseline["tokens"]
    rows = [("masked tokens", "mlm", "most frequent token", baseline["token"], tokens, "tokens")]
    if args.objective != "none":
        name, pairs = args.objective.upper(), baseline["pairs"]
        rows.append((name, "sentence", "always the same answer", baseline["order"], pairs, "pairs"))
    print(f"\nTrained for {minutes:.1f} minutes. Accuracy on held-out documents:")
    for name, task, baseline_name, value, count, unit in rows:
        accuracy = scores[f"{task}_accuracy"]
        error = (accuracy * (1 - accuracy) / count) ** 0.5
        print(
            f"  {name:<14} {accuracy:6.1%} +-{error:.1%}   {baseline_name:<22} {value:6.1%}   "
            f"({count:,} {unit})"
        )


def plot(history, baseline, path):
    """Loss and accuracy curves as a PNG; `history` has a dict for each evaluation."""
    try:
        import matplotlib

        matplotlib.use("agg")
        from matplotlib import pyplot as plt
    except ImportError:
        print("No curves drawn: pip install matplotlib")
        return
    tasks = [task for task in ("mlm", "sentence") if f"{task}_accuracy" in history[0]]
    figure, axes = plt.subplots(2, len(tasks), figsize=(5 * len(tasks), 7), squeeze=False)
    steps = [row["step"] for row in history]
    switches = [
        (one["step"], two["length"])
        for one, two in itertools.pairwise(history)
        if one["length"] != two["length"]
    ]
    names = {"mlm": "Masked tokens", "sentence": "Sentence order"}
    chance = {
        "mlm": (baseline["token"], "most frequent token"),
        "sentence": (baseline["order"], "always the same answer"),
    }
    for column, task in enumerate(tasks):
        for row, measure in enumerate(("loss", "accuracy")):
            axis = axes[row][column]
            # With a single task Keras calls its loss "loss".
            name = f"{task}_{measure}" if f"{task}_{measure}" in history[0] else measure
            axis.plot(steps, [row[name] for row in history], label="training")
            axis.plot(steps, [row[f"val_{name}"] for row in history], label="held out")
            for step, length in switches:
                axis.axvline(step, color="grey", linestyle=":", label=f"length {length} from here")
            if measure == "accuracy":
                value, label = chance[task]
                axis.axhline(value, color="grey", linestyle="--", label=label)
                axis.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1))
            axis.set(title=f"{names[task]}: {measure}", xlabel="step")
            axis.legend()
            axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)
    print(f"Curves: {path}")


def save(model, output):
    """Save a preset directory and a `.keras` file, each beside its name first."""
    beside, preset = output / "preset.partial", output / "preset"
    shutil.rmtree(beside, ignore_errors=True)
    model.save_to_preset(str(beside))
    shutil.rmtree(preset, ignore_errors=True)
    beside.rename(preset)
    model.save(output / "partial.keras")
    (output / "partial.keras").replace(output / "model.keras")
    print(f"\nSaved {preset}/ and {output / 'model.keras'}")
