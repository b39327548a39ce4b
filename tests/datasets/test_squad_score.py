"""Oracles: scores that transformers 4.57's port of evaluate-v2.0 gave; values worked out by hand.

The recorded file has random questions made of articles, punctuation and a few words.
"""

import json
import pathlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_albert.datasets import SquadExample, load_squad, squad_score
from keras_albert.datasets.squad_score import normalize_answer, token_f1

pytestmark = pytest.mark.backend_free
GOLDEN = pathlib.Path(__file__).parent / "golden"
ARTICLES = {  # of the random answers below
    "exact": 54.22210849539406,
    "f1": 54.407694119823084,
    "total": 3908,
    "HasAns_f1": 31.07427955642241,
    "NoAns_f1": 75.33980582524272,
    "best_exact": 56.52507676560901,
    "best_f1": 56.93776422330854,
    "best_f1_thresh": 0.9905325627055622,
}


def example(name, *answers):
    return SquadExample(name, "t", "c", "?", answers, (0,) * len(answers), not answers)


def test_version_2_equals_the_recorded_scores_to_the_last_digit():
    rows = json.loads((GOLDEN / "squad_v2_scores.json").read_text(encoding="utf-8"))
    for row in rows:
        examples = [example(str(i), *golds) for i, golds in enumerate(row["golds"])]
        predictions = {str(i): text for i, text in enumerate(row["predictions"])}
        odds = {str(i): value for i, value in enumerate(row["odds"])}
        ours = squad_score(examples, predictions, odds, row["threshold"], version="2.0")
        assert ours == row["scores"]


WORDS = st.lists(st.sampled_from("a the cat Cat, é ... An U.S. dog".split()), max_size=4)
TEXT = WORDS.map(" ".join)


@given(TEXT, TEXT)
def test_token_f1_is_symmetric_and_1_for_the_same_words(first, second):
    assert token_f1(first, second) == pytest.approx(token_f1(second, first), abs=1e-15)
    same = sorted(normalize_answer(first).split()) == sorted(normalize_answer(second).split())
    assert (token_f1(first, second) == 1.0) == (same and bool(normalize_answer(first)))


def test_ten_articles(shared_data):
    examples = load_squad(shared_data / "squad" / "ship_v2.0_10articles.json")
    draw = random.Random(0)
    predictions, odds = {}, {}
    for e in examples:
        words = e.context.split()
        start = draw.randrange(len(words))
        guess = " ".join(words[start : start + draw.randrange(1, 6)])
        predictions[e.id] = draw.choice(["", guess, *e.answers])
        odds[e.id] = draw.random()
    scores = squad_score(examples, predictions, odds, 0.5)
    assert {name: scores[name] for name in ARTICLES} == ARTICLES
    gold = {e.id: e.answers[0] if e.answers else "" for e in examples}
    scores = squad_score(examples, gold)
    assert scores["exact"] == scores["f1"] == scores["NoAns_f1"] == 100.0
    first = load_squad(shared_data / "squad" / "ship_v1.1_10articles.json")
    gold = {e.id: e.answers[-1] for e in first}
    empty = [text for text in gold.values() if not normalize_answer(text)]
    assert len(empty) == 1  # the answer ".": equal to itself, but 1.1 gives it F1 0
    expected = {"exact_match": 100.0, "f1": 100.0 * (len(first) - 1) / len(first)}
    assert squad_score(first, gold) == expected


def test_normalisation_by_its_rules():
    for text, expected in {
        "The  Cat,\tsat!": "cat sat",
        "A.n": "",  # punctuation goes before articles
        "U.S.": "us",
        "theatre an other": "theatre other",
        "«the»": "« »",  # only ASCII punctuation
        "$5,000": "5000",
        "": "",
    }.items():
        assert normalize_answer(text) == expected


def test_version_1_by_hand():
    examples = [example("1", "the black cat", "a dog"), example("2", "x y z"), example("3", "The")]
    predictions = {"1": "black cat sat", "2": "x", "3": "an"}
    # 1: 2 words in common of 3 and 2: 0.8; 2: of 1 and 3: 0.5; 3: nothing is left of both.
    scores = squad_score(examples, predictions)
    assert scores["exact_match"] == 100 * 1 / 3
    assert scores["f1"] == pytest.approx(100 * (0.8 + 0.5 + 0.0) / 3, abs=1e-12)
    assert token_f1("x x", "x") == pytest.approx(2 / 3)  # each word as often as it comes
    with pytest.warns(UserWarning, match="2 questions have no prediction and score 0, first '2'"):
        assert squad_score(examples, {"1": "dog"})["exact_match"] == 100 / 3


def test_version_2_where_nothing_is_left_of_an_answer():
    examples = [example("1", "The", "cat"), example("2"), example("3", "a")]
    scores = squad_score(examples, {"1": "the", "2": "", "3": "an"})
    # 1: "The" does not count; 3: no gold is left, so no answer is right.
    assert (scores["HasAns_exact"], scores["NoAns_exact"]) == (50.0, 100.0)
    assert scores["total"] == 3 and scores["HasAns_total"] == 2


def test_the_threshold_and_the_best_one_by_hand():
    examples = [example("1", "x"), example("2"), example("3", "y")]
    predictions = {"1": "x", "2": "wrong", "3": "y"}
    odds = {"1": 0.1, "2": 0.9, "3": 0.4}
    assert squad_score(examples, predictions, odds, 1.0)["exact"] == 200 / 3
    assert squad_score(examples, predictions, odds, 0.2)["exact"] == 200 / 3
    scores = squad_score(examples, predictions, odds, 0.4)  # "above", so 3 keeps its answer
    assert (scores["exact"], scores["best_exact"], scores["best_exact_thresh"]) == (100, 100, 0.4)


def test_wrong_arguments_are_refused():
    right = {"examples": [example("1", "x")], "predictions": {"1": "x"}}
    for arguments, message in (
        ({"examples": []}, "a list of SquadExample. Received"),
        ({"examples": [{"id": "1"}]}, "a list of SquadExample. Received"),
        ({"predictions": {"1": None}}, "ids to strings. Received"),
        ({"predictions": ["x"]}, "ids to strings. Received"),
        ({"null_odds": {"1": "high"}}, "ids to numbers, or None. Received"),
        (
            {"null_odds": {}},
            "Every question must have a prediction.*its odds. Received: none for 1",
        ),
        ({"threshold": None}, "`threshold` .*a number. Received"),
        ({"version": "1"}, "'1.1', '2.0' or None. Received"),
        ({"predictions": {}, "version": "2.0"}, "Received: none for 1 questions, first '1'"),
    ):
        with pytest.raises(ValueError, match=message):
            squad_score(**{**right, **arguments})
