"""Oracle: the same files read with the json module."""

import json

import pytest

from keras_albert.datasets import SquadExample, load_squad

pytestmark = pytest.mark.backend_free


@pytest.mark.parametrize("name", ["ship_v1.1_10articles.json", "ship_v2.0_10articles.json"])
def test_ten_articles(shared_data, name):
    path = shared_data / "squad" / name
    examples = {example.id: example for example in load_squad(path)}
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    count = 0
    for article in articles:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                example, count = examples[asked["id"]], count + 1
                assert (example.title, example.context) == (article["title"], paragraph["context"])
                assert example.question == asked["question"]
                assert list(example.answers) == [a["text"] for a in asked["answers"]]
                assert list(example.answer_starts) == [a["answer_start"] for a in asked["answers"]]
                assert example.is_impossible == asked.get("is_impossible", False)
    assert count == len(examples)


@pytest.mark.parametrize(
    ("name", "version", "questions", "misplaced"),
    [("squad__plain_text", "1.1", 2, True), ("squad_v2__squad_v2", "2.0", 4, False)],
)
def test_sample_files(sample, name, version, questions, misplaced):
    path = sample(name) / f"dev-v{version}.json"
    if misplaced:
        with pytest.warns(UserWarning, match="do not stand at their offsets"):
            examples = load_squad(path)
    else:
        examples = load_squad(path)
    assert len(examples) == path.read_text().count('"question"')


def stored(tmp_path, **changes):
    asked = {"id": "1", "question": "?", "answers": [{"text": "b", "answer_start": 2}]} | changes
    paragraphs = [{"context": "a b", "qas": [asked]}]
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    return path


def test_an_answer_that_is_not_there_is_counted_and_named(tmp_path):
    for start in (1, -1, 99):
        path = stored(tmp_path, answers=[{"text": "b", "answer_start": start}])
        with pytest.warns(UserWarning, match=r"1 answers of .* First: \[\('1', 'b'\)\]"):
            (example,) = load_squad(path)
        assert example.misplaced == ("b",) and example.answers == ("b",)
    assert load_squad(stored(tmp_path))[0].misplaced == ()


def test_plausible_answers_are_none(tmp_path):
    plausible = [{"text": "b", "answer_start": 2}]
    path = stored(tmp_path, answers=[], is_impossible=True, plausible_answers=plausible)
    assert load_squad(path) == [SquadExample("1", "t", "a b", "?", is_impossible=True)]


def test_broken_files_are_refused_with_their_place(tmp_path):
    place = "article 0, paragraph 0, question 0. Received"
    for changes, message in (
        ({"question": None}, f"a string under 'question'. .*{place}"),
        ({"id": 3}, f"a string under 'id'. .*{place}"),
        ({"answers": [{"text": "b"}]}, f"an integer under 'answer_start'. .*{place}"),
        ({"answers": "b"}, f"a list under 'answers'. .*{place}"),
        ({"is_impossible": True}, f"must have no answers. .*{place}"),
    ):
        with pytest.raises(ValueError, match=message):
            load_squad(stored(tmp_path, **changes))
    path = tmp_path / "train.json"
    path.write_text('{"data": [\n1,')
    with pytest.raises(ValueError, match="whole JSON .*train.json, line 2. Received"):
        load_squad(path)
    path.write_text("[]")
    with pytest.raises(ValueError, match="a list under 'data'. .*Received"):
        load_squad(path)
    with pytest.raises(ValueError, match=r"train-v1.1.json .*\(from https:.*Received"):
        load_squad(tmp_path / "none.json")
    text = stored(tmp_path).read_text()
    part = json.loads(text)["data"]
    path.write_text(json.dumps({"data": part * 2}))
    with pytest.raises(ValueError, match="its own id. .*Received: '1' twice"):
        load_squad(path)


def test_wrong_arguments_are_refused():
    for arguments, message in (
        ((None,), "a path, 'hf' or 'tfds'. Received"),
        (("hf", "test"), "'train' or 'dev'. Received: split='test'"),
        (("hf", "dev", 2.0), "'1.1' or '2.0'. Received: version=2.0"),
    ):
        with pytest.raises(ValueError, match=message):
            load_squad(*arguments)
