"""Oracles: scikit-learn, SciPy and seqeval called directly."""

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import assume, given
from hypothesis import strategies as st
from seqeval import metrics as seqeval

from keras_albert.datasets import glue_scores, span_f1
from keras_albert.datasets.scores import tag_spans

pytestmark = pytest.mark.backend_free


def test_every_task_s_scores():
    rng = np.random.default_rng(0)
    y, p = rng.integers(0, 2, 50), rng.integers(0, 2, 50)
    f1 = sklearn.metrics.f1_score(y, p)
    assert glue_scores("MRPC", y, p) == {"accuracy": (y == p).mean(), "f1": f1}
    assert glue_scores("QQP", y, p) == glue_scores("mrpc", y, p)
    assert glue_scores("CoLA", y, p) == {"matthews": sklearn.metrics.matthews_corrcoef(y, p)}
    assert glue_scores("SST-2", y, p) == {"accuracy": (y == p).mean()}
    three, guess = rng.integers(0, 3, 50), rng.integers(0, 3, 50)
    assert glue_scores("MNLI", three, guess) == {"accuracy": (three == guess).mean()}
    expected = sklearn.metrics.matthews_corrcoef(three, guess)
    assert glue_scores("AX", three, guess) == {"matthews": expected}
    scores, near = rng.uniform(0, 5, 50).round(1), rng.uniform(0, 5, 50)
    assert glue_scores("STS-B", scores, near) == {
        "pearson": scipy.stats.pearsonr(scores, near).statistic,
        "spearman": scipy.stats.spearmanr(scores, near).statistic,
    }


def test_a_constant_prediction_scores_0_with_a_warning():
    for task, labels, predictions, names in (
        ("CoLA", [0, 1, 1], [1, 1, 1], ["matthews"]),
        ("STS-B", [0.0, 1.0, 2.5], [2.0, 2.0, 2.0], ["pearson", "spearman"]),
        ("STS-B", [2.0, 2.0], [1.0, 3.0], ["pearson", "spearman"]),
    ):
        with pytest.warns(UserWarning, match="is not defined where all .* are .: taken as 0"):
            assert glue_scores(task, labels, predictions) == dict.fromkeys(names, 0.0)
    with pytest.warns(UserWarning, match="f1 is not defined where no example is"):
        assert glue_scores("MRPC", [0, 1], [0, 0]) == {"accuracy": 0.5, "f1": 0.0}
    assert glue_scores("MRPC", [0, 1], [1, 1])["f1"] == pytest.approx(2 / 3)  # this is defined


def test_wrong_arguments_are_refused():
    for arguments, message in (
        (("SNLI", [0], [0]), "`task` must be one of"),
        (("RTE", [0, 1], [0]), "one length, at least 1. Received: 2 labels and 1"),
        (("RTE", [], []), "at least 1. Received"),
        (("RTE", [0, 1], [0, 2]), "classes from 0 to 1. Received: predictions="),
        (("RTE", [0.5], [0]), "classes from 0 to 1. Received: labels="),
        (("STS-B", [0.5], [float("nan")]), "`predictions` .*finite numbers. Received"),
        (("STS-B", ["a"], [0]), "`labels` .*finite numbers. Received"),
    ):
        with pytest.raises(ValueError, match=message):
            glue_scores(*arguments)


def test_spans_by_hand():
    cases = {
        "B-A I-A O B-A": [("A", 0, 2), ("A", 3, 4)],
        "B-A B-A": [("A", 0, 1), ("A", 1, 2)],
        "I-A I-A O": [("A", 0, 2)],  # seqeval's default takes a span without B-
        "B-A I-B": [("A", 0, 1), ("B", 1, 2)],  # another type is another span
        "O I-A B-A I-A": [("A", 1, 2), ("A", 2, 4)],
        "B-A E-A S-A I-A": [("A", 0, 2), ("A", 2, 3), ("A", 3, 4)],
        "B-X-Y I-X-Y": [("X-Y", 0, 2)],
        "O O": [],
        "": [],
    }
    for tags, spans in cases.items():
        assert tag_spans(tags.split()) == spans


def test_the_example_of_seqeval():
    # In its README: precision, recall and F1 0.50.
    true = ["O O O B-MISC I-MISC I-MISC O".split(), "B-PER I-PER O".split()]
    predicted = ["O O B-MISC I-MISC I-MISC I-MISC O".split(), "B-PER I-PER O".split()]
    assert span_f1(true, predicted) == {"precision": 0.5, "recall": 0.5, "f1": 0.5}


TAGS = st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B", "E-A", "S-B"]), max_size=8)


@given(st.lists(TAGS, min_size=1, max_size=4), st.randoms())
def test_span_f1_against_seqeval(true, random):
    predicted = [random.choices(["O", "B-A", "I-A", "B-B", "I-B"], k=len(row)) for row in true]
    assume(any(map(tag_spans, true)) and any(map(tag_spans, predicted)))
    ours = span_f1(true, predicted)
    assert ours["precision"] == pytest.approx(seqeval.precision_score(true, predicted))
    assert ours["recall"] == pytest.approx(seqeval.recall_score(true, predicted))
    assert ours["f1"] == pytest.approx(seqeval.f1_score(true, predicted))


@given(st.lists(TAGS, min_size=1, max_size=4))
def test_what_is_predicted_right_scores_1(true):
    assume(any(map(tag_spans, true)))
    assert set(span_f1(true, true).values()) == {1.0}


def test_no_spans_score_0_with_a_warning():
    with pytest.warns(UserWarning, match="precision is not defined where no span is predicted"):
        assert span_f1([["B-A"]], [["O"]]) == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    with pytest.warns(UserWarning, match="recall is not defined where no span is true"):
        assert span_f1([["O"]], [["B-A"]])["f1"] == 0.0


def test_wrong_tags_are_refused():
    for arguments, message in (
        (([["O"]], [["O", "O"]]), r"the same lengths. Received: \[1\] and \[2\]"),
        (([["X-A"]], [["O"]]), "O, or B-, .*Received: 'X-A'"),
        (("O", [["O"]]), "`true_tags` .*a list of lists of strings. Received"),
        (([["O"]], [[0]]), "`predicted_tags` .*a list of lists of strings. Received"),
    ):
        with pytest.raises(ValueError, match=message):
            span_f1(*arguments)
