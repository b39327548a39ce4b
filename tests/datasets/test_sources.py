"""Oracles: rows written by pyarrow in Hugging Face's layouts; `datasets` itself, of a local hub.

TFDS, which the tests do not install, is a stand-in.
"""

import json
import sys
import types

import numpy as np
import pytest

from keras_albert.datasets import load_conll, load_glue, load_race, load_squad, load_swag

pytestmark = pytest.mark.backend_free

RTE = [
    {"sentence1": "a", "sentence2": "b", "label": 1, "idx": 0},
    {"sentence1": "c", "sentence2": "d", "label": 0, "idx": 1},
]


def write(rows, path, kind):
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import ipc, parquet

    table = pyarrow.Table.from_pylist(rows)
    if kind == "parquet":
        parquet.write_table(table, path)
        return
    new = ipc.new_stream if kind == "arrow stream" else ipc.new_file
    with new(str(path), table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("train-00000-of-00001.parquet", "parquet"),
        ("train/data-00000-of-00001.arrow", "arrow stream"),
        ("train.arrow", "arrow file"),
        ("rte/train.jsonl", "jsonl"),
    ],
)
def test_files_of_hugging_face(tmp_path, name, kind):
    write(RTE, tmp_path / name, kind)
    data = load_glue("RTE", tmp_path)
    assert data.x == (["a", "c"], ["b", "d"]) and data.y.tolist() == [1, 0]
    assert data.ids == ["0", "1"]


def test_a_split_whose_name_begins_another(tmp_path):
    write(RTE[:1], tmp_path / "validation.jsonl", "jsonl")
    rows = [{"premise": "p", "hypothesis": "h", "label": -1, "idx": 5}]
    write(rows, tmp_path / "test_matched.jsonl", "jsonl")
    assert len(load_glue("RTE", tmp_path, "dev")) == 1
    matched = load_glue("MNLI", tmp_path, "test_matched")
    assert matched.x == (["p"], ["h"]) and matched.y is None


def test_broken_rows_and_files_are_named(tmp_path):
    write([RTE[0], {**RTE[1], "label": 2}], tmp_path / "train.jsonl", "jsonl")
    with pytest.raises(ValueError, match=r"below 2.* train.jsonl, line 2.*|line 2.*Received: '2'"):
        load_glue("RTE", tmp_path)
    (tmp_path / "train.jsonl").write_text('{"sentence1": ')
    with pytest.raises(ValueError, match="a JSON object .*train.jsonl, line 1. Received"):
        load_glue("RTE", tmp_path)
    (tmp_path / "train.jsonl").unlink()
    for name in ("train.parquet", "train.arrow"):
        pytest.importorskip("pyarrow")
        (tmp_path / name).write_bytes(b"no such format")
        with pytest.raises(ValueError, match=f"must be whole .*{name}.* Received"):
            load_glue("RTE", tmp_path)
        (tmp_path / name).unlink()


def library(monkeypatch, name, rows_of):
    """A stand-in that records its calls."""
    calls, module = [], types.ModuleType(name)

    def load(*arguments, split):
        calls.append((*arguments, split))
        return rows_of

    module.load_dataset = module.load = load
    module.as_numpy = lambda rows: rows
    monkeypatch.setitem(sys.modules, name, module)
    return calls


RACE = {"example_id": "h1", "article": "x", "question": "_ ?", "options": ["p", "q"], "answer": "B"}
SQUAD = {"id": "1", "title": "t", "context": "a b", "question": "?"}
SWAG = {"sent1": "a", "sent2": "b", "startphrase": "a b", "gold-source": "gold", "label": 2}
SWAG |= {"video-id": "v", "fold-ind": "1"} | {f"ending{n}": f"e{n}" for n in range(4)}
# repository on the hub, configuration, split, rows
HUB = [
    ("nyu-mll/glue", "rte", "validation", RTE),
    ("nyu-mll/glue", "sst2", "test", [{"sentence": "fine ", "label": -1, "idx": 0}]),
    ("nyu-mll/glue", "mnli", "validation_matched",
     [{"premise": "a", "hypothesis": "b", "label": 2}]),
    ("rajpurkar/squad", "plain_text", "train",
     [SQUAD | {"answers": {"text": ["b"], "answer_start": [2]}}]),
    ("rajpurkar/squad_v2", "squad_v2", "validation",
     [SQUAD | {"answers": {"text": [], "answer_start": []}},
      SQUAD | {"id": "2", "answers": {"text": ["b"], "answer_start": [2]}}]),
    ("ehovy/race", "all", "train", [RACE]),
    ("ehovy/race", "high", "test", [RACE]),
    ("allenai/swag", "regular", "train", [SWAG]),
]  # fmt: skip


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A directory with the sets under the names of the hub, which the library takes for the hub."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    configurations = {}
    for repository, configuration, split, rows in HUB:
        write(rows, tmp_path / repository / configuration / f"{split}-0.parquet", "parquet")
        files = {"split": split, "path": f"{configuration}/{split}-*"}
        configurations.setdefault(repository, {}).setdefault(configuration, []).append(files)
    for repository, found in configurations.items():
        found = [{"config_name": name, "data_files": files} for name, files in found.items()]
        card = f"---\n{json.dumps({'configs': found})}\n---\n"  # JSON is YAML
        (tmp_path / repository / "README.md").write_text(card)


def test_hugging_face_by_name(hub):
    assert load_glue("RTE", "hf", "dev").y.tolist() == [1, 0]
    unlabelled = load_glue("SST-2", "hf", "test")
    assert (unlabelled.x, unlabelled.y) == (["fine "], None)
    assert load_glue("MNLI", "hf", "dev_matched").y.tolist() == [2]
    (example,) = load_squad("hf")
    assert (example.answers, example.answer_starts) == (("b",), (2,))
    examples = load_squad("hf", "dev", version="2.0")
    assert [example.is_impossible for example in examples] == [True, False]
    assert load_race("hf").y.tolist() == load_race("hf", "test", level="high").y.tolist() == [1]
    data = load_swag("hf")
    assert (data.x[2], data.y.tolist()) == ([["e0", "e1", "e2", "e3"]], [2])
    with pytest.raises(ValueError, match="train"):
        load_glue("RTE", "hf", "train")


def test_tfds_by_name_gives_bytes_and_arrays(monkeypatch):
    rows = [{"sentence": b"caf\xc3\xa9", "label": np.int64(1), "idx": np.int32(3)}]
    calls = library(monkeypatch, "tensorflow_datasets", rows)
    data = load_glue("SST-2", "tfds")
    assert (data.x, data.y.tolist(), data.ids) == (["café"], [1], ["3"])
    assert calls == [("glue/sst2", "train")]
    answers = {"text": np.array([b"b"], object), "answer_start": np.array([2])}
    row = {"id": b"7", "title": b"t", "context": b"a b", "question": b"q?", "answers": answers}
    calls = library(monkeypatch, "tensorflow_datasets", [row])
    (example,) = load_squad("tfds", "dev")
    assert (example.answers, example.answer_starts, example.misplaced) == (("b",), (2,), ())
    assert calls == [("squad/v1.1", "validation")]
    with pytest.raises(ValueError, match="TFDS has no set allenai/swag.* Received"):
        load_swag("tfds")


@pytest.mark.parametrize(
    ("source", "library"), [("hf", "datasets"), ("tfds", "tensorflow_datasets")]
)
def test_a_missing_library_is_named(monkeypatch, source, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"{library}`: pip install"):
        load_glue("RTE", source)


def test_other_sets_from_files_of_hugging_face(tmp_path):
    row = {"id": "1", "title": "t", "context": "a b", "question": "?"}
    full, none = {"text": ["b"], "answer_start": [2]}, {"text": [], "answer_start": []}
    write(
        [row | {"answers": full}, row | {"id": "2", "answers": none}],
        tmp_path / "s/train.jsonl",
        "jsonl",
    )
    examples = load_squad(tmp_path / "s")
    assert [example.is_impossible for example in examples] == [False, True]
    tagged = [{"tokens": ["a", "b"], "ner_tags": [0, 1]}]
    write(tagged, tmp_path / "train.parquet", "parquet")
    data = load_conll(tmp_path / "train.parquet", ["O", "B-X"])
    assert data.x == [["a", "b"]] and data.y[0].tolist() == [0, 1]
    with pytest.raises(ValueError, match="Tags as integers need `label_names`.*Received"):
        load_conll(tmp_path / "train.parquet")
