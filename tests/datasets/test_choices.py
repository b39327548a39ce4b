"""Oracles: the same files read with the json and csv modules; files written by hand."""

import csv
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_albert.datasets import load_race, load_swag

pytestmark = pytest.mark.backend_free


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_real_passages(sample, split):
    folder = sample("race__all") / "RACE"
    lengths = {}
    for level in ("middle", "high", "all"):
        data = load_race(folder, split, level)
        lengths[level] = len(data)
        for name, article, question, options, label in zip(data.ids, *data.x, data.y, strict=True):
            file, number = name.split(".txt-")
            file = file.replace("middle", "middle/").replace("high", "high/")
            passage = json.loads((folder / split / f"{file}.txt").read_text(encoding="utf-8"))
            number = int(number)
            assert article == passage["article"]
            assert question == passage["questions"][number]
            assert options == passage["options"][number]
            assert "ABCD"[label] == passage["answers"][number]
    assert lengths["all"] == lengths["middle"] + lengths["high"] > 0
    files = (folder / split).glob("*/[0-9]*.txt")
    assert lengths["all"] == sum(len(json.loads(f.read_text())["answers"]) for f in files)


def passage(tmp_path, text=None, **changes):
    path = tmp_path / "train/high/1.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    right = {"article": "x", "questions": ["?", "_ ."], "answers": ["C", "A"], "id": "high1.txt"}
    right["options"] = [["p", "q", "r"], ["p", ""]]  # as many as there are; one may be empty
    path.write_text(json.dumps(right | changes) if text is None else text)
    return tmp_path


def test_the_number_of_options_may_vary(tmp_path):
    data = load_race(passage(tmp_path), level="high")
    assert data.x[2] == [["p", "q", "r"], ["p", ""]] and data.y.tolist() == [2, 0]
    assert data.x[1] == ["?", "_ ."]


def test_broken_passages_are_named(tmp_path):
    for changes, message in (
        ({"answers": ["C", "D"]}, "one of A, B. .*1.txt, question 1. Received: 'D'"),
        ({"answers": ["C"]}, "of one length. .*1.txt.* Received"),
        ({"options": [["p"], ["p", "q"]]}, "two options or more.*1.txt, question 0. Received"),
        ({"article": None}, "RACE must have `article`.*1.txt.* Received"),
        ({"text": "{"}, "whole JSON .*1.txt, line 1. Received"),
    ):
        with pytest.raises(ValueError, match=message):
            load_race(passage(tmp_path, **changes), level="high")
    with pytest.raises(ValueError, match=r"needs train/middle/\*.txt \(from https.*Received"):
        load_race(tmp_path, level="all")
    with pytest.raises(ValueError, match="middle, high or all. Received: level='low'"):
        load_race(tmp_path, level="low")
    with pytest.raises(ValueError, match="'train', 'dev' or 'test'. Received"):
        load_race(tmp_path, split="val")


def assert_equals_csv(data, path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert data.x[0] == [row["sent1"] for row in rows]
    assert data.x[1] == [row["sent2"] for row in rows]
    assert data.x[2] == [[row[f"ending{i}"] for i in range(4)] for row in rows]
    if "label" in rows[0]:
        assert data.y.tolist() == [int(row["label"]) for row in rows]
    else:
        assert data.y is None


def test_csv_files(shared_data, sample):
    for name in ("allennlp_swag_fixture.csv", "hellaswag_as_swag_train800.csv"):
        assert_equals_csv(load_swag(shared_data / "choice" / name), shared_data / "choice" / name)
    folder = sample("swag__regular")
    for split, name in {"train": "train", "dev": "val", "test": "test"}.items():
        assert_equals_csv(load_swag(folder, split), folder / f"{name}.csv")


def test_json_lines(shared_data):
    data = load_swag(shared_data / "choice" / "hf_swag_sample.json")
    lines = (shared_data / "choice" / "hf_swag_sample.json").read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    assert data.y.tolist() == [row["label"] for row in rows]
    assert data.x[0] == [row["sent1"] for row in rows]
    assert data.x[2] == [[row[f"ending{i}"] for i in range(4)] for row in rows]


def test_the_full_layout_has_four_or_five_endings(sample):
    folder = sample("swag__full")
    data = load_swag(folder, "train")
    with open(folder / "train_full.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for options, label, row in zip(data.x[2], data.y, rows, strict=True):
        assert options[label] == row["gold-ending"]
        assert len(options) == 5 - (row["distractor-3"] == "")
    assert {len(options) for options in data.x[2]} == {4, 5}


def test_broken_rows_are_named_by_line(tmp_path):
    path = tmp_path / "train.csv"
    header = "sent1,sent2,ending0,ending1,label\n"
    for body, message in (
        ("a,b,c,d,0\na,b,c,d,2\n", "below 2. .*train.csv, line 3.* Received: '2'"),
        ('"a\nb",b,c,d,1\na,b,c,d\n', "must have 5 fields. .*train.csv, line 4. Received"),
        ('a,"b" x,c,d,1\n', "CSV.* line 2. Received"),
    ):
        path.write_text(header + body)
        with pytest.raises(ValueError, match=message):
            load_swag(path)
    with pytest.raises(ValueError, match=r"SWAG dev needs the file val.csv or .*Received"):
        load_swag(tmp_path, "dev")


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=8)
ENDING = TEXT.map(lambda text: text + ".")


@given(st.lists(st.tuples(TEXT, TEXT, st.lists(ENDING, min_size=3, max_size=3)), min_size=1))
def test_what_is_written_is_read(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("swag") / "train.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sent1", "sent2", "ending0", "ending1", "ending2", "label"])
        writer.writerows([a, b, *endings, 2] for a, b, endings in rows)
    data = load_swag(path)
    assert list(zip(*data.x, strict=True)) == rows and set(data.y) == {2}
