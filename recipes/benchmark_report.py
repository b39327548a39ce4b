"""The tables, the JSON and the bars of `keras-albert benchmark peers`."""

import importlib.metadata
import json
import pathlib
import statistics

PACKAGES = ("keras-albert", "keras", "keras-hub", "torch", "jax", "tensorflow", "transformers")
PACKAGES += ("onnxruntime",)


def summary(record):
    """What a record says: for JSON, for the tables and the bars.

    Args:
        record: a dict of `what`, `case`, `unit`, `per` (examples, of which one is reported),
            `peak` (operations a second of the device), `operations` (a number, a dict by side, or
            None) and `values`, side -> one for each round; perhaps `relative` (`to` a side,
            `values` by side, `paper`'s numbers).

    Returns:
        The dict with `sides`, side -> median, min, max, values (all for one example), `gflops` and
        `share` of the peak; and `ratios`, own side -> peer -> median, min and max of how many times
        as fast as the peer it was in a round; of memory, how many times as much the peer took.
    """
    record = dict(record)
    per, needed = record["per"], record.pop("operations")
    sides = {}
    for side, values in record.pop("values").items():
        sides[side] = spread([value / per for value in values])
        sides[side]["values"] = [value / per for value in values]
        its = needed.get(side) if isinstance(needed, dict) else needed
        if its:
            rate = its / statistics.median(values)
            sides[side] |= {"gflops": rate / 1e9, "share": rate / record["peak"]}
    ratios = {}
    if "relative" not in record:
        own = [side for side in sides if side.startswith("keras_albert")]
        for side in own:
            for peer in [peer for peer in sides if peer not in own]:
                pairs = zip(sides[peer]["values"], sides[side]["values"], strict=True)
                ratios.setdefault(side, {})[peer] = spread(
                    [theirs / ours for theirs, ours in pairs]
                )
    else:
        relative = record["relative"]
        relative["values"] = {side: spread(v) for side, v in relative["values"].items()}
    return {**record, "sides": sides, "ratios": ratios}


def spread(values):
    """Median, least and most."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def table(found):
    """The lines of a summary."""
    scale, unit = units(found)
    rounds = max(len(side["values"]) for side in found["sides"].values())
    noun = "round" if rounds == 1 else "rounds"
    rated = any("gflops" in side for side in found["sides"].values())
    peak = f"; peak {found['peak'] / 1e9:,.0f} GFLOP/s" if rated else ""
    lines = ["", f"{found['what']}: {found['case']} ({rounds} {noun}; {unit}{peak})"]
    heads = f"{'median':>10}  {'min..max':<19}"
    heads += f"{'GFLOP/s':>9}{'of peak':>9}" if rated else ""
    lines.append(f"  {'':<34}{heads}")
    for name, side in found["sides"].items():
        line = f"  {name:<34}{number(side['median'] * scale):>10}  "
        line += f"{number(side['min'] * scale)}..{number(side['max'] * scale)}".ljust(19)
        if "gflops" in side:
            line += f"{side['gflops']:>9,.0f}{side['share']:>9.0%}"
        lines.append(line)
    if found["ratios"]:
        own = {side: side.removeprefix("keras_albert-") for side in found["ratios"]}
        width = 3 + max(len("1.00 (0.90..1.10)"), *map(len, own.values()))
        said = "peer's memory to own of" if unit == "MB" else "peer's time to own of"
        heads = "".join(f"{name:>{width}}" for name in own.values())
        lines.append(f"  {f'ratio, {said}':<34}{heads}")
        for peer in next(iter(found["ratios"].values())):
            cells = "".join(f"{ratio(found['ratios'][side][peer]):>{width}}" for side in own)
            lines.append(f"  {peer:<34}{cells}")
    if relative := found.get("relative"):
        paper = ", and in the paper" if relative["paper"] else ""
        lines.append(f"  times as fast as {relative['to']}{paper}:")
        for name, cell in relative["values"].items():
            line = f"    {name:<28} {ratio(cell):<20} {relative['paper'].get(name, '')}"
            lines.append(line.rstrip())
    return lines


def units(found):
    """How values are shown: what they are multiplied by, and in which unit."""
    if found["unit"] != "s":
        return 1, found["unit"]
    least = min(side["median"] for side in found["sides"].values())
    of = " an example" if found["per"] > 1 else ""
    return (1, f"s{of}") if least >= 1 else (1000, f"ms{of}")


def number(value):
    """Three digits or more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ratio(cell):
    """`1.32 (1.28..1.36)`."""
    return f"{cell['median']:.2f} ({cell['min']:.2f}..{cell['max']:.2f})"


def show_head(found, args, left_out):
    """What is measured where, before it begins."""
    print(f"{args.preset} in {args.dtype} on {found['device']}, threads: {args.threads}")
    print(f"Matrix peak now: {found['peak'] / 1e9:,.0f} GFLOP/s, a large product in PyTorch")
    print(", ".join(f"{name} {version}" for name, version in versions().items()))
    if not found["has_data"]:
        print("(no --data: generated texts in the place of SST-2, QNLI and SQuAD)")
    for side, reason in left_out.items():
        print(f"({side} is left out: {reason})")


def show(found):
    """Print a summary."""
    print("\n".join(table(found)), flush=True)


def versions():
    """Installed versions of what is measured."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def write(report, args):
    """Say what is missing, and write the files that are asked for; returns the report."""
    for what in report["dropped"]:
        print(f"(not measured, --minutes were over: {what})")
    print(f"\n{report['minutes']:.1f} minutes")
    if args.json:
        text = json.dumps(report, indent=1) + "\n"
        whole(args.json, lambda path: path.write_text(text, encoding="utf-8"))
    if args.plot:
        whole(args.plot, lambda path: draw(report, path))
    return report


def whole(path, write_to):
    """Write beside a path, then rename."""
    path = pathlib.Path(path)
    beside = path.with_name(f"{path.stem}.partial{path.suffix}")
    write_to(beside)
    beside.replace(path)


def draw(report, path):
    """A panel of bars for each table: medians, with least and most; own sides in colour."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    records = report["records"]
    counts = [len(record["sides"]) for record in records]
    figure, axes = plt.subplots(
        len(records),
        1,
        figsize=(9, sum(0.28 * count + 0.9 for count in counts)),
        height_ratios=[count + 1.5 for count in counts],
        squeeze=False,
        layout="constrained",
    )
    for axis, record in zip(axes.flat, records, strict=True):
        scale, unit = units(record)
        names, sides = list(record["sides"]), list(record["sides"].values())
        medians = [scale * side["median"] for side in sides]
        spreads = [
            [scale * (side["median"] - side["min"]) for side in sides],
            [scale * (side["max"] - side["median"]) for side in sides],
        ]
        colors = ["C0" if name.startswith(("keras_albert", "albert")) else "0.7" for name in names]
        axis.barh(names, medians, xerr=spreads, color=colors, ecolor="0.3", capsize=2, height=0.7)
        for place, (median, side) in enumerate(zip(medians, sides, strict=True)):
            text = f" {number(median)}" + (f"  {side['share']:.0%}" if "share" in side else "")
            end = scale * side["max"]
            axis.text(end, place, text, va="center", fontsize=8)
        axis.set_xlim(0, 1.18 * max(scale * side["max"] for side in sides))
        axis.invert_yaxis()
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
        title = f"{record['what']}: {record['case']} ({unit})"
        axis.set_title(title, loc="left", fontsize=9, fontweight="bold")
    machine = report["machine"]
    figure.suptitle(
        f"{machine['device']}, threads: {report['threads']}, {report['dtype']}; less is better; "
        "per cent of the matrix peak",
        fontsize=9,
    )
    figure.savefig(path, dpi=110, format="png")
    plt.close(figure)
