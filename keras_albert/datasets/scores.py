"""The scores that GLUE and tagging report, from scikit-learn and SciPy."""

import warnings
from collections.abc import Sequence

import numpy as np

from keras_albert.arguments import check
from keras_albert.datasets.glue_tasks import find_task

_SPAN_STARTS = ("B", "S")
_PREFIXES = ("O", "B", "I", "E", "S")


def glue_scores(task: str, labels: Sequence, predictions: Sequence) -> dict[str, float]:
    """The scores that GLUE reports for a task, as fractions.

    A score that is not defined is 0, with a `UserWarning` that says why: a correlation with
    predictions or labels that are all the same, or F1 where no example is or is predicted to be
    of class 1.

    Args:
        task: a task of GLUE.
        labels: (N,) classes or scores.
        predictions: (N,) classes (not logits) or scores.

    Returns:
        Of `"accuracy"`, `"f1"`, `"matthews"`, `"pearson"` and `"spearman"` those of the task.

    Raises:
        ValueError: where the two are not finite numbers of one length, at least one.
        ImportError: where scikit-learn and SciPy are not installed.

    Example:
    ```python
    glue_scores("MRPC", [1, 0, 1], [1, 1, 1])  # {"accuracy": 0.667, "f1": 0.8}
    ```
    """
    row = find_task(task)
    labels, predictions = _numbers("labels", labels), _numbers("predictions", predictions)
    if len(labels) != len(predictions) or not len(labels):
        raise ValueError(
            "`labels` and `predictions` of glue_scores must be of one length, at least 1. "
            f"Received: {len(labels)} labels and {len(predictions)} predictions"
        )
    if not row.is_regression:
        for name, values in {"labels": labels, "predictions": predictions}.items():
            if not np.isin(values, range(len(row.label_names))).all():
                raise ValueError(
                    f"`{name}` of {row.name} must be classes from 0 to {len(row.label_names) - 1}. "
                    f"Received: {name}={values[:10]!r}"
                )
    return {metric: _score(metric, labels, predictions) for metric in row.metrics}


def _numbers(name: str, values) -> np.ndarray:
    try:
        array = np.asarray(values, "float64")
    except (TypeError, ValueError):
        array = np.array(np.nan)
    rule = "a (N,) sequence of finite numbers"
    check(
        "glue_scores",
        rule,
        lambda _: array.ndim == 1 and np.isfinite(array).all(),
        **{name: values},
    )
    return array


def _score(metric: str, labels: np.ndarray, predictions: np.ndarray) -> float:
    try:
        import scipy.stats
        import sklearn.metrics
    except ImportError:
        raise ImportError(
            'The scores need scikit-learn and SciPy: pip install "keras-albert[finetune]"'
        ) from None
    if metric == "accuracy":
        return float(sklearn.metrics.accuracy_score(labels, predictions))
    if metric == "f1":
        if not (predictions == 1).any() or not (labels == 1).any():
            _warn(metric, "no example is, or none is predicted to be, of class 1")
        return float(sklearn.metrics.f1_score(labels, predictions, zero_division=0.0))
    for name, values in {"predictions": predictions, "labels": labels}.items():
        if (values == values[0]).all():
            _warn(metric, f"all {name} are {values[0]:g}")
            return 0.0
    if metric == "matthews":
        return float(sklearn.metrics.matthews_corrcoef(labels, predictions))
    correlation = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}[metric]
    return float(correlation(labels, predictions).statistic)


def _warn(metric: str, reason: str):
    message = f"{metric} is not defined where {reason}: taken as 0, which says nothing was learned"
    warnings.warn(message, UserWarning, stacklevel=4)


def tag_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """The spans of a sentence as (type, first word, word after the last).

    As in seqeval's default mode: a span may begin with `I-` where no span of its type goes on.
    """
    found, start, kind, previous = [], None, None, "O"
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        if prefix not in _PREFIXES:
            raise ValueError(f"A tag must be O, or B-, I-, E- or S- and a type. Received: {tag!r}")
        begins = prefix in _SPAN_STARTS or (
            prefix != "O" and (previous in ("O", "E", "S") or name != kind)
        )
        if start is not None and (begins or prefix == "O"):
            found.append((kind, start, place))
            start = None
        if begins:
            start, kind = place, name
        previous = prefix
    return found


def span_f1(
    true_tags: Sequence[Sequence[str]], predicted_tags: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Precision, recall and F1 over spans: type and both ends must agree.

    The rules of CoNLL-2003's script and of seqeval's default mode, micro-averaged. Where there are
    no spans a score is 0, with a `UserWarning`.

    Args:
        true_tags: for each sentence its tags, in IOB2 (or IOBES).
        predicted_tags: as many, each as long.

    Returns:
        `{"precision": ..., "recall": ..., "f1": ...}`, as fractions.

    Raises:
        ValueError: where the tags are not as many, or not of these schemes.

    Example:
    ```python
    span_f1([["B-PER", "I-PER", "O"]], [["B-PER", "O", "O"]])["f1"]  # 0.0
    ```
    """
    is_rows = lambda value: (
        isinstance(value, (list, tuple))
        and all(
            isinstance(row, (list, tuple)) and all(isinstance(tag, str) for tag in row)
            for row in value
        )
    )
    rule = "a list of lists of strings"
    check("span_f1", rule, is_rows, true_tags=true_tags, predicted_tags=predicted_tags)
    lengths = [[len(row) for row in rows] for rows in (true_tags, predicted_tags)]
    if lengths[0] != lengths[1]:
        raise ValueError(
            "`true_tags` and `predicted_tags` of span_f1 must be of the same lengths. "
            f"Received: {lengths[0][:10]} and {lengths[1][:10]}"
        )
    true, predicted = (
        {(number, *span) for number, row in enumerate(rows) for span in tag_spans(row)}
        for rows in (true_tags, predicted_tags)
    )
    for name, spans in {"precision": predicted, "recall": true}.items():
        if not spans:
            which = "predicted" if name == "precision" else "true"
            message = f"{name} is not defined where no span is {which}: taken as 0"
            warnings.warn(message, UserWarning, stacklevel=2)
    right = len(true & predicted)
    return {
        "precision": right / max(len(predicted), 1),
        "recall": right / max(len(true), 1),
        "f1": 2 * right / max(len(true) + len(predicted), 1),
    }
