"""Oracles: the published files' row counts and labels, and files written by hand."""

import collections
import csv
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_albert.datasets import GLUE_TASKS, load_glue, write_submission

pytestmark = pytest.mark.backend_free

# Rows of each class in the training files, counted with `cut` and `sort | uniq -c`.
TRAIN = {
    "CoLA": {0: 2528, 1: 6023},
    "SST-2": {0: 29780, 1: 37569},
    "RTE": {0: 1249, 1: 1241},
    "WNLI": {0: 323, 1: 312},
}


@pytest.mark.parametrize("task", TRAIN)
def test_whole_training_files(shared_data, task):
    data = load_glue(task, shared_data / "glue")
    assert collections.Counter(data.y.tolist()) == TRAIN[task]
    assert len(set(data.ids)) == len(data)


def test_stsb_agrees_with_the_csv_module(shared_data):
    data = load_glue("sts_b", shared_data / "glue" / "STS-B")
    with open(shared_data / "glue/STS-B/train.tsv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(data) == len(rows) == 5749
    assert data.x[0] == [row["sentence1"] for row in rows]
    assert data.x[1] == [row["sentence2"] for row in rows]
    np.testing.assert_array_equal(data.y, np.array([row["score"] for row in rows], "float32"))


def test_one_file_and_its_label_names(shared_data):
    data = load_glue("QNLI", shared_data / "glue" / "QNLI" / "sample.tsv", split="dev")
    text = (shared_data / "glue/QNLI/sample.tsv").read_text(encoding="utf-8")
    assert len(data) == 4000 and data.label_names == ("entailment", "not_entailment")
    assert (data.y == 1).sum() == text.count("\tnot_entailment\n")


COUNTS = {  # rows in the samples by split, counted by eye
    "cola": ("CoLA", {"train": 3, "dev": 2, "test": 1}),
    "sst2": ("SST-2", {"train": 3, "dev": 2, "test": 1}),
    "qqp": ("QQP", {"train": 3, "dev": 2, "test": 1}),
    "stsb": ("STS-B", {"train": 3, "dev": 2, "test": 1}),
    "qnli": ("QNLI", {"train": 3, "dev": 2, "test": 1}),
    "rte": ("RTE", {"train": 3, "dev": 2, "test": 1}),
    "wnli": ("WNLI", {"train": 3, "dev": 2, "test": 1}),
    "mnli": (
        "MNLI",
        {"train": 3, "dev_matched": 2, "dev_mismatched": 2, "test_matched": 1}
        | {"test_mismatched": 1},
    ),
    "ax": ("AX", {"test": 3}),
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_layout_of_real_rows(sample, name):
    task, counts = COUNTS[name]
    folder = sample(f"glue__{name}")
    for split, count in counts.items():
        data = load_glue(task, folder, split)
        assert (len(data), data.y is None) == (count, split.startswith("test"))


def test_pairs_and_labels_of_mnli(sample):
    data = load_glue("MNLI", sample("glue__mnli"))
    assert data.x[0][0].startswith("Conceptually cream skimming has two basic dimensions")
    assert data.x[1][0].startswith("Product and geography are what make cream skimming work")
    assert [data.label_names[label] for label in data.y] == ["neutral", "entailment", "entailment"]


def mrpc(sample, folder):
    """Microsoft's layout; the sample spells the byte order mark out."""
    folder.mkdir()
    source = sample("glue__mrpc") / "MRPC"
    for name, target in (("train", "train"), ("test", "test")):
        text = (source / name).read_text(encoding="utf-8").replace("BOMQuality", "\ufeffQuality")
        (folder / f"msr_paraphrase_{target}.txt").write_bytes(
            text.replace("\n", "\r\n").encode("utf-8")
        )
    return source


def test_mrpc_in_both_layouts(sample, tmp_path):
    source = mrpc(sample, tmp_path / "MRPC")
    (tmp_path / "MRPC/dev_ids.tsv").write_text("702876\t702977\n1330381\t1330521\n")
    everything = [line.split("\t") for line in (source / "train").read_text().splitlines()[1:]]
    dev = load_glue("MRPC", tmp_path, "dev")
    train = load_glue("MRPC", tmp_path / "MRPC", "train")
    assert dev.x[0] == [row[3] for row in everything if row[1] in ("702876", "1330381")]
    assert train.x[1] == [row[4] for row in everything if row[1] not in ("702876", "1330381")]
    assert train.y.tolist() == [
        int(row[0]) for row in everything if row[1] not in ("702876", "1330381")
    ]
    assert '" the witness "' in dev.x[0][0]  # quotes are text
    test = load_glue("MRPC", tmp_path, "test")
    assert test.y is not None  # Microsoft's test file has labels

    (tmp_path / "MRPC/dev_ids.tsv").unlink()
    assert len(load_glue("MRPC", tmp_path, "train")) == len(everything)
    with pytest.raises(ValueError, match="MRPC dev needs dev_ids.tsv .* Received"):
        load_glue("MRPC", tmp_path, "dev")

    rows = ["index\t#1 ID\t#2 ID\t#1 String\t#2 String", "0\t7\t8\tone .\tanother ."]
    shutil.rmtree(tmp_path / "MRPC")
    (tmp_path / "test.tsv").write_text("\n".join(rows))
    glue = load_glue("MRPC", tmp_path, "test")
    assert (glue.x, glue.y, glue.ids) == ((["one ."], ["another ."]), None, ["0"])


BROKEN = {
    "a label of no class": ("a\t0\nb\t2\n", "SST-2", r"train.tsv, line 3. Received: '2'"),
    "a field too few": ("a\t0\nb\n", "SST-2", r"must have 2 fields .*line 3. Received: 'b'"),
    "a field too many": ("a\t0\tx\n", "SST-2", r"must have 2 fields .*line 2. Received"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_rows_are_named_or_skipped(tmp_path, case):
    body, task, message = BROKEN[case]
    (tmp_path / "train.tsv").write_text("sentence\tlabel\n" + body + "good\t1\n")
    with pytest.raises(ValueError, match=message):
        load_glue(task, tmp_path)
    with pytest.warns(UserWarning, match="1 broken rows of SST-2 train were left out. First: .*"):
        data = load_glue(task, tmp_path, on_error="skip")
    assert data.x[-1] == "good" and len(data) == body.count("\n")


def test_bytes_that_are_not_utf8_are_named(tmp_path):
    (tmp_path / "train.tsv").write_bytes(b"sentence\tlabel\nfine\t1\nbad \xff\t0\n")
    with pytest.raises(ValueError, match=r"UTF-8 \(byte 4: .*train.tsv, line 3. Received"):
        load_glue("SST-2", tmp_path)


def test_scores_outside_their_range_are_refused(tmp_path):
    for score in ("5.1", "-0.5", "nan", "high"):
        (tmp_path / "train.tsv").write_text(f"sentence1\tsentence2\tscore\na\tb\t{score}\n")
        with pytest.raises(ValueError, match=rf"0 to 5. .*line 2. Received: '{score}'"):
            load_glue("STS-B", tmp_path)


def test_wrong_arguments_are_refused(tmp_path):
    calls = [
        (("SNLI", tmp_path), "`task` must be one of CoLA, .*Received: task='SNLI'"),
        (("MNLI", tmp_path, "dev"), "one of train, dev_matched, .*Received: split='dev'"),
        (("RTE", 3), "a path, 'hf' or 'tfds'. Received: source=3"),
        (("RTE", tmp_path), r"RTE train needs the file train.tsv \(from https://.*Received"),
        (("MRPC", tmp_path, "test"), "train.tsv|test.tsv or msr_paraphrase_test.txt"),
        (("RTE", tmp_path, "train", "ignore"), "'raise' or 'skip'. Received"),
    ]
    for arguments, message in calls:
        with pytest.raises(ValueError, match=message):
            load_glue(*arguments)
    (tmp_path / "train.tsv").write_text("index\tsentence1\tlabel\n")
    with pytest.raises(ValueError, match="a column 'sentence2'. .*line 1. Received"):
        load_glue("RTE", tmp_path)


FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"), max_size=9)


@given(st.lists(st.tuples(FIELD, FIELD, st.sampled_from(["0", "1"])), min_size=1, max_size=8))
def test_what_is_written_is_read(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("qqp") / "train.tsv"
    lines = ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"]
    lines += [f"{i}\t0\t0\t{a}\t{b}\t{label}" for i, (a, b, label) in enumerate(rows)]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8"))
    data = load_glue("QQP", path)
    assert list(zip(*data.x, map(str, data.y), strict=True)) == rows


def test_submissions_have_the_server_s_names_and_labels(tmp_path):
    cases = {
        "CoLA": ([1, 0], "CoLA.tsv", "1 0"),
        "sst2": (np.array([1, 0]), "SST-2.tsv", "1 0"),
        "MNLI-m": ([2, 1], "MNLI-m.tsv", "contradiction neutral"),
        "MNLI-mm": ([0, 1], "MNLI-mm.tsv", "entailment neutral"),
        "AX": ([0, 2], "AX.tsv", "entailment contradiction"),
        "RTE": ([1, 0], "RTE.tsv", "not_entailment entailment"),
        "WNLI": ([1, 0], "WNLI.tsv", "1 0"),
        "STS-B": (np.array([5.7, 1.23456], "float32"), "STS-B.tsv", "5.000 1.235"),
    }
    for task, (predictions, name, labels) in cases.items():
        path = write_submission(task, ["0", "1"], predictions, tmp_path / "new")
        first, second = labels.split()
        assert path == tmp_path / "new" / name
        assert path.read_text() == f"index\tprediction\n0\t{first}\n1\t{second}\n"
    assert len(list((tmp_path / "new").iterdir())) == len(cases)  # nothing left beside


def test_a_submission_is_written_whole_or_not_at_all(tmp_path):
    calls = [
        (("MNLI", ["0"], [0], tmp_path), "MNLI-m or MNLI-mm. Received"),
        (("RTE", ["0"], [2], tmp_path), "a class from 0 to 1. Received: 2 for 0"),
        (("RTE", ["0"], [0.5], tmp_path), "a class from 0 to 1. Received: 0.5"),
        (("STS-B", ["0"], [float("nan")], tmp_path), "a finite number. Received: nan"),
        (("RTE", ["0", "1"], [1], tmp_path), "one length. Received: 2 ids and 1"),
        (("RTE", 3, [1], tmp_path), "a sequence. Received: ids=3"),
        (("RTE", ["0"], [1], None), "a directory's path. Received"),
    ]
    for arguments, message in calls:
        with pytest.raises(ValueError, match=message):
            write_submission(*arguments)
    assert not list(tmp_path.iterdir())


def test_the_table_has_the_benchmark_s_tasks_and_metrics():
    # Table 1 of Wang et al. (2019).
    assert {task.name: task.metrics for task in GLUE_TASKS} == {
        "CoLA": ("matthews",),
        "SST-2": ("accuracy",),
        "MRPC": ("accuracy", "f1"),
        "STS-B": ("pearson", "spearman"),
        "QQP": ("accuracy", "f1"),
        "MNLI": ("accuracy",),
        "QNLI": ("accuracy",),
        "RTE": ("accuracy",),
        "WNLI": ("accuracy",),
        "AX": ("matthews",),
    }
