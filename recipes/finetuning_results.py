"""What a fine-tuning recipe shows at the end: baselines, a table, pictures, results.json.

majority, tfidf               answers without an encoder, so that one sees what it is worth
score_rows, table             the summary
draw_curves, draw_confusion   PNGs
write_results                 all of it as JSON
"""

import json
import pathlib
import sys

import numpy as np
import rich.console
import rich.table
from keras_albert_recipes.finetuning import spread


def majority(labels, count):
    """The most frequent class (the mean of scores) of the training labels, `count` times."""
    labels = np.asarray(labels)
    if labels.dtype.kind == "f":
        return np.full(count, labels.mean())
    return np.full(count, np.bincount(labels).argmax())


def tfidf(train_x, train_y, x):
    """Predictions of words and word pairs: TF-IDF with logistic regression, of scores with ridge.

    A pair of texts is both vectors, their product and their cosine.

    Args:
        train_x: a list of texts, or a tuple of two lists.
        train_y: integer classes, or scores as floats.
        x: texts to judge, as `train_x`.

    Returns:
        (N,) classes or scores for `x`.
    """
    import scipy.sparse
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge

    columns = train_x if isinstance(train_x, tuple) else (train_x,)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+")
    vectorizer.fit([text for column in columns for text in column])

    def features(x):
        if not isinstance(x, tuple):
            return vectorizer.transform(x)
        a, b = map(vectorizer.transform, x)
        product = a.multiply(b)
        return scipy.sparse.hstack([a, b, product, scipy.sparse.csr_matrix(product.sum(axis=1))])

    is_regression = np.asarray(train_y).dtype.kind == "f"
    model = Ridge() if is_regression else LogisticRegression(C=10.0, max_iter=1000)
    return model.fit(features(train_x).tocsr(), train_y).predict(features(x).tocsr())


def table(title, columns, rows):
    """Print a table; floats are shown as percentages, None as a dash."""
    shown = rich.table.Table(*columns)
    shown.columns[0].no_wrap = True
    for column in shown.columns[1:]:
        column.justify = "right"
    cell = lambda v: "-" if v is None else f"{100 * v:.1f}" if isinstance(v, float) else str(v)
    for row in rows:
        shown.add_row(*map(cell, row))
    print(f"\n{title}")
    # Into a file every column is written whole; a terminal has its own width.
    width = None if sys.stdout.isatty() else 200
    rich.console.Console(width=width).print(shown)


def score_rows(runs, names, ensemble=None):
    """Rows of `table` for the runs: the median, the lowest and highest, and of the ensemble."""
    spreads = [spread(runs, name) for name in names]
    count = f"{len(runs)} seeds" if len(runs) > 1 else "1 seed"
    rows = [(f"encoder, median of {count}", *(middle for middle, _, _ in spreads))]
    if len(runs) > 1:
        rows.append(("  lowest", *(low for _, low, _ in spreads)))
        rows.append(("  highest", *(high for _, _, high in spreads)))
    if ensemble is not None and len(runs) > 1:
        rows.append(("  ensemble of all", *(ensemble[name] for name in names)))
    return rows


def write_results(path, args, settings, runs, **more):
    """Write what was measured as JSON: options, settings, scores of each seed, and `more`."""
    results = {
        "options": vars(args),
        "settings": settings._asdict(),
        "runs": [
            {"seed": r.seed, "minutes": r.minutes, "scores": r.scores, "history": r.history}
            for r in runs
        ],
        **more,
    }
    path = pathlib.Path(path)
    beside = path.with_name(path.name + ".partial")
    beside.write_text(json.dumps(results, indent=1, default=float) + "\n", encoding="utf-8")
    beside.replace(path)


def draw_curves(runs, names, path, baselines=None):
    """Draw the loss and scores of all seeds, epoch by epoch, as a PNG.

    Args:
        runs: a list of `Run`.
        names: the scores in their histories; those of training are drawn where they are there too.
        path: of the PNG.
        baselines: `{label: {name: value}}`, drawn as level lines.
    """
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(
        1, 1 + len(names), figsize=(5 * (1 + len(names)), 4), layout="constrained"
    )
    for axis, name in zip(axes, ("loss", *names), strict=True):
        for run in runs:
            for key, style in ((name, ":"), (f"val_{name}", "-")):
                if key in run.history:
                    epochs = range(1, len(run.history[key]) + 1)
                    label = f"seed {run.seed}, {'training' if style == ':' else 'held out'}"
                    color = f"C{run.seed % 10}"
                    axis.plot(epochs, run.history[key], style, marker=".", color=color, label=label)
        for place, (label, values) in enumerate((baselines or {}).items()):
            if name in values:
                style = ("--", "-.")[place % 2]
                axis.axhline(values[name], color="grey", linestyle=style, label=label)
        axis.set(title=name, xlabel="epoch")
        axis.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        axis.grid(alpha=0.3)
    for axis in (axes[0], axes[-1]):  # the loss of training, and the baselines
        axis.legend(fontsize=8)
    _save(figure, path)


def draw_confusion(labels, predictions, names, path):
    """Draw a confusion matrix as a PNG: counts, coloured by the share of their true class."""
    pyplot = _pyplot()
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (np.asarray(labels), np.asarray(predictions)), 1)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = 3 + 0.7 * len(names)
    figure, axis = pyplot.subplots(figsize=(size + 0.8, size), layout="constrained")
    image = axis.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for (row, column), value in np.ndenumerate(counts):
        color = "white" if share[row, column] > 0.5 else "black"
        axis.text(column, row, f"{value:,}", ha="center", va="center", color=color)
    places = range(len(names))
    axis.set_xticks(places, names, rotation=30, ha="right")
    axis.set_yticks(places, names)
    axis.set(xlabel="predicted", ylabel="true")
    figure.colorbar(image, label="share of the true class", fraction=0.046)
    _save(figure, path)


def _pyplot():
    try:
        import matplotlib
    except ImportError:
        raise ImportError('Pictures need matplotlib: pip install "keras-albert[plots]"') from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def _save(figure, path):
    figure.savefig(path, dpi=100, bbox_inches="tight")
    _pyplot().close(figure)
