"""Oracles: the model's own predictions at each patience, a clock that only the model moves."""

import importlib
import types

import keras
import numpy as np
import pytest

import keras_albert as ka

pytest.importorskip("keras_albert_recipes", reason="the package is installed")
pytest.importorskip("matplotlib")
early_exit = importlib.import_module("keras_albert_recipes.early_exit")

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "good",
    "fine",
    "bad",
    "awful",
    "film",
    "the",
]


def classifier(early=True, num_layers=4):
    backbone = ka.AlbertBackbone(
        vocabulary_size=len(WORDS),
        num_layers=num_layers,
        num_heads=2,
        embedding_dim=8,
        hidden_dim=12,
        intermediate_dim=16,
        max_sequence_length=16,
        sharing="none",
        initializer_range=0.4,
    )
    preprocessor = ka.AlbertPreprocessor(ka.BertTokenizer(WORDS), sequence_length=12)
    names = ["negative", "positive"]
    return ka.AlbertTextClassifier(backbone, 2, preprocessor, class_names=names, early_exit=early)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model, its file, and examples of which all depths are right of three quarters."""
    folder = tmp_path_factory.mktemp("early")
    keras.utils.set_random_seed(0)
    model = classifier()
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS[5:], rng.integers(1, 9))) for _ in range(20)]
    logits = model.predict_depths(texts, verbose=0)
    middle_LC = np.median(logits, axis=0)  # no class is that of most texts
    model.exits.bias.assign(-middle_LC[:-1])
    model.classifier.bias.assign(-middle_LC[-1])
    labels = model.predict(texts, verbose=0).argmax(axis=-1)
    labels[:5] = 1 - labels[:5]
    names = ["negative", 1]  # either way
    lines = [f"{text}\t{names[label]}" for text, label in zip(texts, labels, strict=True)]
    (folder / "dev.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    model.save(folder / "model.keras")
    return types.SimpleNamespace(folder=folder, model=model, texts=texts, labels=labels)


def run(saved, *more):
    source, examples = saved.folder / "model.keras", saved.folder / "dev.tsv"
    early_exit.main([str(part) for part in (source, "--examples", examples, *more)])


@pytest.mark.backend_free
def test_a_table_a_picture_and_a_model_with_its_patience(saved, tmp_path, capsys):
    files = ("--output", tmp_path / "curve.png", "--save", tmp_path / "faster.keras")
    run(saved, "--repeats", 1, "--tolerance", 1.0, *files)
    table = [line.split("│") for line in capsys.readouterr().out.splitlines() if "│" in line]
    rows = {row[1].split()[0]: [cell.strip() for cell in row[2:6]] for row in table}
    seen = set()
    for patience in (1, 2, 4):
        logits, depths = saved.model.predict_exits(saved.texts, patience, verbose=0)
        accuracy = 100 * np.mean(logits.argmax(axis=-1) == saved.labels)
        shown = rows["all" if patience == 4 else str(patience)]
        assert shown[:2] == [f"{accuracy:.1f}", f"{depths.mean():.2f}"]
        seen.add(shown[1])
    assert len(seen) == 3 and rows["all"][0] == "75.0" and rows["all"][3] == "1.00x"
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert keras.saving.load_model(tmp_path / "faster.keras").patience == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curve.png", "faster.keras"]


def test_times_are_medians_of_rounds_of_all_patiences(monkeypatch):
    clock, seen = [0.0], []
    slow = iter([99, 99, 99, 1, 1, 1, 5, 1, 1, 1, 1, 7])  # the first round compiles

    class Model:
        def predict(self, x, **_):
            seen.append(self.patience)
            clock[0] += next(slow) * (self.patience or 10)

    monkeypatch.setattr(early_exit.time, "perf_counter", lambda: clock[0])
    found = early_exit.measure(Model(), ["a"], [1, 2, None], repeats=3, batch_size=8)
    assert seen == [1, 2, None] * 4
    assert found == {1: 1, 2: 2, None: 10}


def test_pairs_and_broken_rows(saved, tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text("a\tb\tlabel\nfine\tthe film\t1\nbad\tthe film\tnegative\n")
    x, y = early_exit.read(path, None, saved.model)
    assert x == (["fine", "bad"], ["the film", "the film"]) and y.tolist() == [1, 0]
    for text, message in (
        ("sentence\tclass\n", "then 'label'.*line 1.*sentence"),
        ("sentence\tlabel\nfine\t1\nbad\n", "must have 2 fields.*line 3.*'bad'"),
        ("sentence\tlabel\nfine\t2\n", "from 0 to 1, or one of.*line 2.*'2'"),
        ("sentence\tlabel\n", "at least one example"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            early_exit.read(path, None, saved.model)


def test_glue_columns(saved, tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text("sentence\tlabel\nfine film\t1\nbad\t0\n")
    x, y = early_exit.read(path, "SST-2", saved.model)
    assert x == ["fine film", "bad"] and y.tolist() == [1, 0]


def test_what_cannot_be_measured_is_said_at_once(saved, tmp_path):
    with pytest.raises(ValueError, match="`repeats` must be at least 1"):
        run(saved, "--repeats", 0)
    with pytest.raises(ValueError, match="`save` must end with .keras"):
        run(saved, "--save", "model.h5")
    classifier(early=False, num_layers=1).save(saved.folder / "plain.keras")
    with pytest.raises(ValueError, match="a head after every depth.*Received: .*plain.keras"):
        early_exit.main([str(saved.folder / "plain.keras"), "--examples", "dev.tsv"])
