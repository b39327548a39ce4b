"""From a span model's outputs to answers: n-best over all windows of a question.

Rules of `run_squad` of BERT and ALBERT: an answer starts at a token with maximum context in its
window, ends in the same window, and is at most `max_answer_length` tokens long. Unlike there, the
n-best are exact: all spans are looked at, not only pairs of the best starts and ends.

Shapes: W windows, S sequence, K starts of the beam, M ends for each.
"""

from dataclasses import replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from keras_albert.arguments import check_booleans, check_positive_integers
from keras_albert.preprocessing.span_predictions import NO_ANSWER, SpanCandidate, SpanPrediction
from keras_albert.preprocessing.squad import SquadWindows

MASKED = -1e30  # ALBERT's logit of a place that cannot be; a model's minus infinity counts as it


def decode_spans(
    windows: SquadWindows,
    start_logits,
    end_logits,
    n_best_size: int = 20,
    max_answer_length: int = 30,
    null_answer: bool = False,
) -> list[SpanPrediction]:
    """Decode the linear head: a span scores start logit + end logit.

    The null score is start + end logit of [CLS], the least over a question's windows; the null odds
    are that minus the best span's score.

    Args:
        windows: the windows that the model was given.
        start_logits: `(W, S)`, in the order of the windows.
        end_logits: `(W, S)`.
        n_best_size: answers with different texts to keep for each question.
        max_answer_length: tokens.
        null_answer: bool. Let no answer stand among the n-best too, as for SQuAD 2.0.

    Returns:
        A `SpanPrediction` for each of `windows.examples`, in their order. A question without any
        possible span has `NO_ANSWER` alone, and the null score as its odds.

    Raises:
        ValueError: an array has another shape or holds NaN, or an argument is out of range.

    Example:
    >>> predictions = decode_spans(windows, start_logits, end_logits)
    >>> predictions[0].answer().text
    'Distributed Adaptive Message Block Switching'
    """
    check_positive_integers(
        "decode_spans", n_best_size=n_best_size, max_answer_length=max_answer_length
    )
    check_booleans("decode_spans", null_answer=null_answer)
    shape = (len(windows), windows.sequence_length)
    starts_WS = _checked("start_logits", start_logits, shape)
    ends_WS = _checked("end_logits", end_logits, shape)
    no_end = np.full(max_answer_length - 1, MASKED)

    predictions = []
    for index, window_range in _windows_of_examples(windows):
        spans, null = [], (np.inf, 0.0, 0.0)
        for w in window_range:
            _, offset, begin, end, first, last = windows.rows[w].tolist()
            null = min(null, (starts_WS[w, 0] + ends_WS[w, 0], starts_WS[w, 0], ends_WS[w, 0]))
            if first == last:
                continue
            place = offset - begin  # of the context's first token, were it in the input
            start_N = starts_WS[w, place + first : place + last]
            ends = np.concatenate([ends_WS[w, place + first : place + end], no_end])
            end_NL = sliding_window_view(ends, max_answer_length)[: len(start_N)]
            n, length = np.nonzero(end_NL > MASKED)
            spans.append((first + n, first + n + length, start_N[n], end_NL[n, length]))
        best = _n_best(windows.contexts[index], spans, n_best_size)
        odds = null[0] - (best[0].start_logit + best[0].end_logit if best else 0.0)
        if null_answer:
            best.append(SpanCandidate("", 0, 0, 0.0, float(null[1]), float(null[2])))
        id = windows.examples[index].id
        predictions.append(SpanPrediction(id, _with_probabilities(best), float(odds)))
    return predictions


def decode_beams(
    windows: SquadWindows,
    start_log_probs,
    start_indexes,
    end_log_probs,
    end_indexes,
    answerability_logits,
    n_best_size: int = 20,
    max_answer_length: int = 30,
) -> list[SpanPrediction]:
    """Decode ALBERT's beam head: K starts in each window, and M ends for each start.

    A span scores the sum of its log-probabilities. The null odds are the answerability logit, the
    least over a question's windows.

    Args:
        windows: the windows that the model was given.
        start_log_probs: `(W, K)`.
        start_indexes: `(W, K)`, places in the input.
        end_log_probs: `(W, K, M)`, of the ends for each start.
        end_indexes: `(W, K, M)`, places in the input.
        answerability_logits: `(W,)`, greater for windows without an answer.
        n_best_size: as in `decode_spans`.
        max_answer_length: as in `decode_spans`.

    Returns:
        As `decode_spans`; in its candidates logits are log-probabilities.

    Raises:
        ValueError: an array has another shape or holds NaN, or an argument is out of range.

    Example:
    >>> outputs = model.predict(windows.inputs())
    >>> predictions = decode_beams(windows, **outputs)
    """
    check_positive_integers(
        "decode_beams", n_best_size=n_best_size, max_answer_length=max_answer_length
    )
    count = len(windows)
    starts_WK = _checked("start_log_probs", start_log_probs, (count, None))
    ends_WKM = _checked("end_log_probs", end_log_probs, (*starts_WK.shape, None))
    start_at_WK = _checked("start_indexes", start_indexes, starts_WK.shape).astype("int64")
    end_at_WKM = _checked("end_indexes", end_indexes, ends_WKM.shape).astype("int64")
    null_W = _checked("answerability_logits", answerability_logits, (count,))

    offset_W11, begin_W11, end_W11, first_W11, last_W11 = windows.rows.T[1:, :, None, None]
    first_WKM = np.broadcast_to(start_at_WK[..., None] - offset_W11 + begin_W11, ends_WKM.shape)
    last_WKM = end_at_WKM - offset_W11 + begin_W11
    possible_WKM = (first_WKM >= first_W11) & (first_WKM < last_W11) & (last_WKM < end_W11)
    length_WKM = last_WKM - first_WKM + 1
    possible_WKM &= (length_WKM >= 1) & (length_WKM <= max_answer_length)

    predictions = []
    for index, window_range in _windows_of_examples(windows):
        spans = []
        for w in window_range:
            k, m = np.nonzero(possible_WKM[w])
            spans.append(
                (first_WKM[w, k, m], last_WKM[w, k, m], starts_WK[w, k], ends_WKM[w, k, m])
            )
        best = _n_best(windows.contexts[index], spans, n_best_size)
        odds = float(null_W[window_range].min())
        id = windows.examples[index].id
        predictions.append(SpanPrediction(id, _with_probabilities(best), odds))
    return predictions


def _checked(name, values, shape):
    """An output as a float64 array; `None` in the shape is any size."""
    array = np.asarray(values, "float64")
    same = len(array.shape) == len(shape)
    if not same or any(s not in (None, n) for n, s in zip(array.shape, shape, strict=True)):
        expected = tuple("any" if size is None else size for size in shape)
        raise ValueError(
            f"`{name}` must have one row for each window, and shape {expected}. "
            f"Received: shape {array.shape}"
        )
    if np.isnan(array).any():
        rows = np.unique(np.argwhere(np.isnan(array))[:, 0])
        raise ValueError(f"`{name}` must not hold NaN. Received: NaN in rows {rows[:5].tolist()}")
    return np.maximum(array, MASKED)


def _windows_of_examples(windows):
    """The index of each example and the range of its windows; every example has one."""
    bounds = np.searchsorted(windows.rows[:, 0], np.arange(len(windows.examples) + 1)).tolist()
    for index, (begin, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        yield index, range(begin, end)


def _n_best(context, spans, n_best_size):
    """The best spans with different texts, of (first, last, start score, end score) arrays."""
    if not spans:
        return []
    first, last, start, end = (np.concatenate(parts) for parts in zip(*spans, strict=True))
    possible = (start > MASKED) & (end > MASKED)
    first, last, start, end = (x[possible] for x in (first, last, start, end))
    score = start + end
    wanted = 4 * n_best_size  # some are left out: an earlier one has the same text
    while True:
        few = np.arange(len(score))
        if wanted < len(score):
            few = np.flatnonzero(score >= np.partition(score, -wanted)[-wanted])
        best = {}
        for at in few[np.argsort(-score[few], kind="stable")].tolist():
            text = context.cut(first[at], last[at])
            if text.strip() and text not in best:
                place = int(context.starts[first[at]]), int(context.ends[last[at]])
                best[text] = SpanCandidate(text, *place, 0.0, float(start[at]), float(end[at]))
            if len(best) == n_best_size:
                break
        if len(best) == n_best_size or len(few) == len(score):
            return list(best.values())
        wanted *= 8


def _with_probabilities(candidates):
    """Sorted, best first, with the softmax of their scores."""
    if not candidates:
        return [NO_ANSWER]
    candidates = sorted(candidates, key=lambda c: -(c.start_logit + c.end_logit))
    score = np.array([c.start_logit + c.end_logit for c in candidates])
    weight = np.exp(score - score[0])
    shares = (weight / weight.sum()).tolist()
    return [replace(c, probability=share) for c, share in zip(candidates, shares, strict=True)]
