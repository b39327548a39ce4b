"""Predictions of spans: the answers to one question, the threshold for none, the files."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_albert.whole_files import write_whole


@dataclass(frozen=True)
class SpanCandidate:
    """One possible answer.

    Attributes:
        text: `context[start:end]`; `""` is no answer.
        start, end: its characters in the original context.
        probability: softmax over the question's n-best.
        start_logit, end_logit: the model's; with the beam head log-probabilities.
    """

    text: str
    start: int
    end: int
    probability: float
    start_logit: float
    end_logit: float


NO_ANSWER = SpanCandidate("", 0, 0, 1.0, 0.0, 0.0)


@dataclass(frozen=True)
class SpanPrediction:
    """The answers to one question, and how much speaks for none.

    Attributes:
        id: the example's.
        n_best: `SpanCandidate`s with different texts, best first.
        null_odds: greater for questions without an answer.
    """

    id: str
    n_best: list[SpanCandidate]
    null_odds: float

    def answer(self, null_threshold: float | None = None) -> SpanCandidate:
        """The best answer, or `NO_ANSWER` where `null_odds` is above the threshold.

        Args:
            null_threshold: as `best_threshold` finds it; `None` for SQuAD 1.1, where every
                question has an answer.
        """
        if null_threshold is not None and self.null_odds > null_threshold:
            return NO_ANSWER
        return next((candidate for candidate in self.n_best if candidate.text), NO_ANSWER)


def best_threshold(null_odds, answer_scores, null_scores) -> tuple[float, float]:
    """Find the threshold for no answer that gives the best mean score.

    Args:
        null_odds: `(N,)`, one for each question.
        answer_scores: `(N,)`, exact match or F1 of the best answer with text.
        null_scores: `(N,)`, the same of no answer: 1 where the question has none, else 0.

    Returns:
        `(threshold, score)`: a question is answered where its odds are not above the threshold. The
        lowest threshold of several that are equally good.

    Raises:
        ValueError: the arrays are empty, differ in shape or hold a value that is not finite.

    Example:
    >>> best_threshold([-3.0, 1.0, 4.0], answer_scores=[1, 1, 0], null_scores=[0, 0, 1])
    (1.0, 1.0)
    """
    arrays = [np.asarray(x, "float64") for x in (null_odds, answer_scores, null_scores)]
    shapes = [array.shape for array in arrays]
    if len(set(shapes)) > 1 or arrays[0].ndim != 1 or not len(arrays[0]):
        raise ValueError(
            "`null_odds`, `answer_scores` and `null_scores` must have one number a question. "
            f"Received: shapes {shapes}"
        )
    if not np.isfinite(arrays).all():
        raise ValueError(f"Odds and scores must be finite. Received: {arrays}")
    odds, order = np.unique(arrays[0], return_inverse=True)
    gains = np.bincount(order, arrays[1] - arrays[2])
    totals = arrays[2].sum() + np.concatenate([[0.0], np.cumsum(gains)])
    best = int(totals.argmax())
    threshold = odds[best - 1] if best else np.nextafter(odds[0], -np.inf)
    return float(threshold), float(totals[best] / len(arrays[0]))


def write_predictions(
    directory: str | os.PathLike,
    predictions: Sequence[SpanPrediction],
    null_threshold: float | None = None,
) -> None:
    """Write `predictions.json`, `nbest_predictions.json` and `null_odds.json`.

    They are what the official scripts of SQuAD read: answers by id, `""` for none. A file appears
    under its name only when whole.

    Args:
        directory: where to; made if it does not exist.
        predictions: of `decode_spans` or `decode_beams`.
        null_threshold: as in `SpanPrediction.answer`.

    Raises:
        ValueError: two predictions have the same id.
    """
    files = {
        "predictions.json": {p.id: p.answer(null_threshold).text for p in predictions},
        "nbest_predictions.json": {p.id: [vars(c) for c in p.n_best] for p in predictions},
        "null_odds.json": {p.id: p.null_odds for p in predictions},
    }
    if len(files["null_odds.json"]) < len(predictions):
        ids = [prediction.id for prediction in predictions]
        repeated = next(id for at, id in enumerate(ids) if id in ids[:at])
        raise ValueError(f"Predictions must have ids of their own. Received twice: {repeated!r}")
    directory = Path(directory)
    for name, content in files.items():
        write_whole(directory / name, json.dumps(content, indent=4) + "\n")
