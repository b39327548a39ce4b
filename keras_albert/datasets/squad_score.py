"""SQuAD's scores, equal to those of the official `evaluate-v1.1.py` and `evaluate-v2.0.py`.

The two differ: 1.1 takes a missing prediction for wrong and gives F1 0 where nothing is left of an
answer; 2.0 compares what is left, and splits the scores by whether there is an answer.
"""

import collections
import re
import string
import warnings
from collections.abc import Mapping, Sequence

from keras_albert.arguments import check, is_number
from keras_albert.datasets.squad import SquadExample

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def squad_score(
    examples: Sequence[SquadExample],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    threshold: float = 1.0,
    version: str | None = None,
) -> dict[str, float]:
    """Score predicted answers, in percent.

    Args:
        examples: the questions, from `load_squad`.
        predictions: id -> answer; `""` for none (2.0).
        null_odds: id -> how likely there is no answer (2.0), in any unit.
        threshold: an answer whose `null_odds` is above it is scored as none given.
        version: `"1.1"` or `"2.0"`; None is 2.0 where a question has no answer, else 1.1.

    Returns:
        For 1.1 `"exact_match"` and `"f1"`. For 2.0 `"exact"`, `"f1"` and `"total"`; the same with
        `HasAns_` and `NoAns_` where there are such questions; with `null_odds` also `"best_exact"`,
        `"best_exact_thresh"`, `"best_f1"`, `"best_f1_thresh"`: the best threshold on these data.

    Raises:
        ValueError: for predictions that are not strings; for one missing (2.0: the official script
            stops there too; 1.1 counts it as wrong, with a `UserWarning`).

    Example:
    ```python
    scores = squad_score(load_squad("dev-v1.1.json"), {"56be4db0acb8001400a502ec": "Denver"})
    ```
    """
    owner = "squad_score"
    is_examples = lambda v: (
        isinstance(v, (list, tuple))
        and v
        and all(isinstance(example, SquadExample) for example in v)
    )
    check(owner, "a list of SquadExample", is_examples, examples=examples)
    is_texts = lambda v: isinstance(v, Mapping) and all(isinstance(a, str) for a in v.values())
    check(owner, "a dict from ids to strings", is_texts, predictions=predictions)
    is_odds = lambda v: v is None or (isinstance(v, Mapping) and all(map(is_number, v.values())))
    check(owner, "a dict from ids to numbers, or None", is_odds, null_odds=null_odds)
    check(owner, "a number", is_number, threshold=threshold)
    check(owner, "'1.1', '2.0' or None", lambda v: v in ("1.1", "2.0", None), version=version)
    if version is None:
        impossible = any(not example.answers for example in examples)
        version = "2.0" if impossible or null_odds is not None else "1.1"
    missing = [example.id for example in examples if example.id not in predictions]
    if version == "1.1":
        return _score_1(examples, predictions, missing)
    if null_odds is not None:
        missing += [example.id for example in examples if example.id not in null_odds]
    if missing:
        raise ValueError(
            "Every question must have a prediction, and with `null_odds` its odds. "
            f"Received: none for {len(missing)} questions, first {missing[0]!r}"
        )
    return _score_2(examples, predictions, null_odds, threshold)


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation, articles and superfluous white space."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(gold: str, predicted: str) -> int:
    """1 if both are the same once normalised, else 0."""
    return int(normalize_answer(gold) == normalize_answer(predicted))


def token_f1(gold: str, predicted: str) -> float:
    """F1 over the words of both, each as often as it comes; 0 where either has none."""
    gold_words = normalize_answer(gold).split()
    words = normalize_answer(predicted).split()
    common = sum((collections.Counter(gold_words) & collections.Counter(words)).values())
    if not common:
        return 0.0
    precision, recall = common / len(words), common / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def _score_1(examples, predictions, missing) -> dict[str, float]:
    if missing:
        message = f"{len(missing)} questions have no prediction and score 0, first {missing[0]!r}"
        warnings.warn(message, UserWarning, stacklevel=3)
    exact, f1 = 0, 0.0
    for example in examples:
        if example.id in predictions and example.answers:
            predicted = predictions[example.id]
            exact += max(exact_match(gold, predicted) for gold in example.answers)
            f1 += max(token_f1(gold, predicted) for gold in example.answers)
    return {"exact_match": 100 * exact / len(examples), "f1": 100 * f1 / len(examples)}


def _score_2(examples, predictions, null_odds, threshold) -> dict[str, float]:
    raw = {"exact": {}, "f1": {}}
    answerable = {example.id: bool(example.answers) for example in examples}
    for example in examples:
        predicted = predictions[example.id]
        # A gold answer of which nothing is left does not count.
        golds = [gold for gold in example.answers if normalize_answer(gold)] or [""]
        raw["exact"][example.id] = max(exact_match(gold, predicted) for gold in golds)
        raw["f1"][example.id] = max(_f1_or_equal(gold, predicted) for gold in golds)
    scores = raw
    if null_odds is not None:
        scores = {
            name: {
                key: float(not answerable[key]) if null_odds[key] > threshold else score
                for key, score in rows.items()
            }
            for name, rows in raw.items()
        }
    result = _means(scores, list(answerable))
    for prefix, wanted in {"HasAns_": True, "NoAns_": False}.items():
        keys = [key for key, has_answer in answerable.items() if has_answer == wanted]
        if keys:
            result |= {prefix + name: value for name, value in _means(scores, keys).items()}
    if null_odds is not None:
        for name, rows in raw.items():
            best, best_threshold = _best(rows, predictions, null_odds, answerable)
            result |= {f"best_{name}": best, f"best_{name}_thresh": best_threshold}
    return result


def _f1_or_equal(gold: str, predicted: str) -> float:
    gold_words, words = normalize_answer(gold), normalize_answer(predicted)
    return token_f1(gold, predicted) if gold_words and words else float(gold_words == words)


def _means(scores: dict[str, dict], keys: list[str]) -> dict[str, float]:
    result = {name: 100.0 * sum(rows[k] for k in keys) / len(keys) for name, rows in scores.items()}
    return result | {"total": len(keys)}


def _best(rows, predictions, null_odds, answerable) -> tuple[float, float]:
    """The best score over all thresholds: from no answers at all to every one, by rising odds.

    As the official script does, a threshold between equal odds counts too.
    """
    current = best = sum(not has_answer for has_answer in answerable.values())
    best_threshold = 0.0
    for key in sorted((key for key in null_odds if key in rows), key=null_odds.__getitem__):
        current += rows[key] if answerable[key] else -bool(predictions[key])
        if current > best:
            best, best_threshold = current, null_odds[key]
    return 100.0 * best / len(rows), best_threshold
