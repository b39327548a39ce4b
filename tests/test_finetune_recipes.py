"""Oracles: sets that one word decides, the saved preset's own answers, and counts made by hand."""

import argparse
import importlib
import json
import random

import numpy as np
import pytest

import keras_albert
from keras_albert import datasets
from keras_albert.preprocessing import example_batches

pytest.importorskip("keras_albert_recipes", reason="the package is installed")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
finetuning = importlib.import_module("keras_albert_recipes.finetuning")
glue = importlib.import_module("keras_albert_recipes.finetune_glue")
ner = importlib.import_module("keras_albert_recipes.finetune_ner")
results = importlib.import_module("keras_albert_recipes.finetuning_results")

NOUNS = ("film", "story", "ending", "music")
JUDGED = {"good": 1, "fine": 1, "lovely": 1, "bad": 0, "dull": 0, "awful": 0}
PLACES, PEOPLE = ("paris", "new york", "london"), ("ada", "ada king", "bob")


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A tiny encoder with random weights, and a vocabulary of the words of these tests."""
    folder = tmp_path_factory.mktemp("encoder")
    words = [*NOUNS, *JUDGED, *PLACES, *PEOPLE, "the is in lives was there 0 1 2 3 4 5 6 7 8 9"]
    (folder / "words.txt").write_text("\n".join([" ".join(words)] * 30))
    tokenizer = keras_albert.AlbertTokenizer.train(
        str(folder / "words.txt"), 59, output=folder / "spiece.model"
    )
    backbone = keras_albert.AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=2,
        embedding_dim=16,
        hidden_dim=32,
        intermediate_dim=32,
        initializer_range=0.1,
        max_sequence_length=32,
    )
    preprocessor = keras_albert.AlbertPretrainerPreprocessor(tokenizer, sequence_length=16)
    model = keras_albert.AlbertPretrainer(backbone, preprocessor)
    model.save_to_preset(str(folder / "preset"))
    return folder / "preset"


def reviews(folder, **counts):
    """SST-2 in GLUE's own layout: one word of each sentence decides."""
    rng = random.Random(0)
    (folder / "SST-2").mkdir(parents=True)
    for split, count in counts.items():
        lines = ["index\tsentence" if split == "test" else "sentence\tlabel"]
        for number in range(count):
            word = rng.choice(list(JUDGED))
            text = f"the {rng.choice(NOUNS)} is {word}"
            lines.append(f"{number}\t{text}" if split == "test" else f"{text}\t{JUDGED[word]}")
        (folder / "SST-2" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def options(preset, data, output, *more):
    fixed = ["--preset", preset, "--output", output, "--batch-size", 16, "--learning-rate", 5e-3]
    return [str(part) for part in [*data, *fixed, *more]]


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_glue_from_a_preset_to_a_submission(tmp_path, preset, capsys):
    data = reviews(tmp_path / "glue", train=200, dev=40, test=30)
    run = tmp_path / "run"
    sst = ["sst-2", "--data", data, "--submission", tmp_path / "submission"]
    glue.main(options(preset, sst, run, "--epochs", 7.5, "--seeds", 1))
    found = json.loads((run / "results.json").read_text())
    assert found["runs"][0]["scores"]["accuracy"] > 0.95  # one word decides
    assert found["baselines"]["words (TF-IDF)"]["accuracy"] == 1.0
    dev = datasets.load_glue("SST-2", data, "dev")
    share = max(np.mean(dev.y), 1 - np.mean(dev.y))
    assert found["baselines"]["always the same answer"]["accuracy"] in (share, 1 - share)
    assert found["settings"]["steps"] == 98  # 7.5 times 200 in batches of 16, which are 13
    assert found["settings"]["warmup_steps"] == round(98 * 1256 / 20935)
    assert found["settings"]["sequence_length"] == 32  # the encoder's, below the paper's 512
    history = found["runs"][0]["history"]
    assert len(history["val_accuracy"]) == 8
    assert history["val_accuracy"][-1] == pytest.approx(found["runs"][0]["scores"]["accuracy"])
    assert is_png(run / "curves.png") and is_png(run / "confusion.png")

    # The submission has the test set's rows, and is what the saved model says.
    test = datasets.load_glue("SST-2", data, "test")
    lines = (tmp_path / "submission" / "SST-2.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    rows = [line.split("\t") for line in lines[1:]]
    assert [row[0] for row in rows] == test.ids
    saved = keras_albert.AlbertTextClassifier.from_preset(str(run / "preset"))
    names = [name for name, _ in saved.predict_classes(test.x, verbose=0)]
    written = [("negative", "positive")[int(row[1])] for row in rows]
    assert names == written
    true = [("negative", "positive")[JUDGED[text.split()[-1]]] for text in test.x]
    assert np.mean([a == b for a, b in zip(true, written, strict=True)]) > 0.9

    # An earlier run stays; the same seed gives the same, another seed another model.
    with pytest.raises(ValueError, match="holds an earlier run"):
        glue.main(options(preset, sst, run))
    more = ("--epochs", 7.5, "--seeds", 2, "--overwrite")
    glue.main(options(preset, sst[:3], run, *more))
    again = json.loads((run / "results.json").read_text())
    assert again["runs"][0]["history"] == history
    assert again["runs"][1]["history"]["loss"] != history["loss"]
    assert "ensemble of all" in capsys.readouterr().out


@pytest.mark.backend_free
@pytest.mark.slow
def test_glue_with_early_exits_trains_every_depth(tmp_path, preset):
    """All heads learn the deciding word, and the preset's model leaves early as it stands."""
    deep = keras_albert.AlbertPretrainer.from_preset(str(preset), num_layers=3)
    deep.save_to_preset(str(tmp_path / "deep"))
    data = reviews(tmp_path / "glue", train=200, dev=40)
    run = tmp_path / "run"
    sst = ["SST-2", "--data", data, "--seeds", 1, "--early-exit"]
    glue.main(options(tmp_path / "deep", sst, run, "--epochs", 7))
    score = json.loads((run / "results.json").read_text())["runs"][0]["scores"]["accuracy"]
    saved = keras_albert.AlbertTextClassifier.from_preset(str(run / "preset"))
    dev = datasets.load_glue("SST-2", data, "dev")
    logits, depths = saved.predict_exits(dev.x, patience=1, verbose=0)
    assert np.mean(logits.argmax(-1) == dev.y) > 0.9
    assert 2 <= depths.mean() < 3  # two heads agree on most, and then a third is not asked
    logits, depths = saved.predict_exits(dev.x, verbose=0)
    assert set(depths.tolist()) == {3}
    assert np.mean(logits.argmax(-1) == dev.y) == pytest.approx(score)  # the table's


@pytest.mark.backend_free
@pytest.mark.slow
def test_glue_scores_of_pairs_and_a_start_from_another_task(tmp_path, preset, monkeypatch):
    """STS-B with a held-out part, several pairs in a row: the score is the second text's digit."""
    packed, pack = [], example_batches.pack_texts
    monkeypatch.setattr(
        example_batches, "pack_texts", lambda x: packed.append(pack(x)) or packed[-1]
    )
    rng = random.Random(1)
    lines = ["index\tsentence1\tsentence2\tscore"]
    for number in range(240):
        score = rng.randrange(6)
        lines.append(f"{number}\tthe {rng.choice(NOUNS)}\tthere is {score}\t{score}.0")
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    sts = ["STS-B", "--data", tmp_path / "train.tsv"]
    with pytest.raises(ValueError, match="--held-out 0.1"):
        glue.main(options(preset, sts, tmp_path / "run"))
    sts += ["--held-out", 0.25, "--seeds", 1, "--packing"]
    glue.main(options(preset, sts, tmp_path / "run", "--epochs", 10, "--keep", "best"))
    found = json.loads((tmp_path / "run" / "results.json").read_text())
    scores, history = found["runs"][0]["scores"], found["runs"][0]["history"]
    assert len(packed) >= 10 * 12 and {len(rows["answers"]) for rows in packed[:11]} == {16}
    assert scores["pearson"] > 0.9 and scores["spearman"] > 0.85
    np.testing.assert_allclose(scores["pearson"], max(history["val_pearson"]), rtol=1e-4)
    assert found["baselines"]["always the same answer"] == {"pearson": 0.0, "spearman": 0.0}

    # From that model, with two classes in place of a number: its encoder, and a new head.
    data = reviews(tmp_path / "glue", train=40, dev=20)
    sst = ["SST-2", "--data", data, "--start", tmp_path / "run" / "preset", "--seeds", 1]
    glue.main(options("nothing", sst, tmp_path / "next", "--epochs", 0.1))  # as good as untrained
    old, new = (
        keras_albert.AlbertTextClassifier.from_preset(str(tmp_path / name / "preset"))
        for name in ("run", "next")
    )
    assert new.num_classes == 2
    for one, two in zip(old.backbone.weights, new.backbone.weights, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(two), atol=0.02)


@pytest.mark.backend_free
@pytest.mark.slow
def test_mnli_is_measured_on_both_sets_and_answers_the_diagnostics(tmp_path, preset, capsys):
    rng = random.Random(2)
    labels = {"good": "entailment", "bad": "contradiction", "dull": "neutral"}
    data = tmp_path / "glue" / "MNLI"
    data.mkdir(parents=True)

    def write(path, count, labelled=True):
        lines = ["index\tsentence1\tsentence2" + "\tgold_label" * labelled]
        for number in range(count):
            word = rng.choice(list(labels))
            row = [str(number), f"the {rng.choice(NOUNS)}", f"is {word}"]
            lines.append("\t".join([*row, labels[word]] if labelled else row))
        path.write_text("\n".join(lines) + "\n")

    for split, count in {"train": 120, "dev_matched": 20, "dev_mismatched": 30}.items():
        write(data / f"{split}.tsv", count)
    for split in ("test_matched", "test_mismatched", "diagnostic"):
        write(data / f"{split}.tsv", 6, labelled=False)
    run, submission = tmp_path / "run", tmp_path / "submission"
    mnli = ["MNLI", "--data", data, "--submission", submission]
    glue.main(options(preset, mnli, run, "--epochs", 4, "--seeds", 2))
    found = json.loads((run / "results.json").read_text())["MNLI mismatched"]
    saved = keras_albert.AlbertTextClassifier.from_preset(str(run / "preset"))
    other = datasets.load_glue("MNLI", data, "dev_mismatched")
    right = np.mean(saved.predict(other.x, verbose=0).argmax(-1) == other.y)
    assert pytest.approx(right) in found["runs"] and len(found["runs"]) == 2
    assert f"of all {found['ensemble']:.1%}" in capsys.readouterr().out
    for name in ("MNLI-m", "MNLI-mm", "AX"):
        lines = (submission / f"{name}.tsv").read_text().splitlines()
        assert len(lines) == 7 and {line.split("\t")[1] for line in lines[1:]} <= {*labels.values()}


@pytest.mark.backend_free
@pytest.mark.slow
def test_ner_from_a_preset_to_spans(tmp_path, preset):
    rng = random.Random(0)
    sentences = []
    for _ in range(240):
        person, place = rng.choice(PEOPLE), rng.choice(PLACES)
        words = []
        for text, kind in ((person, "PER"), ("lives in", ""), (place, "LOC")):
            for i, word in enumerate(text.split()):
                words.append((word, f"{'BI'[i > 0]}-{kind}" if kind else "O"))
        sentences.append("\n".join(f"{word} {tag}" for word, tag in words))
    (tmp_path / "train.txt").write_text("\n\n".join(sentences[:180]) + "\n")
    (tmp_path / "dev.txt").write_text("\n\n".join(sentences[180:]) + "\n")
    run = tmp_path / "run"
    files = ["--train", tmp_path / "train.txt", "--dev", tmp_path / "dev.txt"]
    files += ["--test", tmp_path / "dev.txt"]
    ner.main(options(preset, files, run, "--seeds", 1, "--epochs", 14))
    found = json.loads((run / "results.json").read_text())
    scores, history = found["runs"][0]["scores"], found["runs"][0]["history"]
    assert scores["f1"] > 0.95 and scores["test f1"] == scores["f1"] == history["val_f1"][-1]
    assert len(history["val_f1"]) == 14
    assert found["baselines"]["each word's most frequent tag"]["f1"] == 1.0  # no word is ambiguous
    assert is_png(run / "curves.png") and is_png(run / "confusion.png")
    saved = keras_albert.AlbertTokenClassifier.from_preset(str(run / "preset"))
    tags = saved.tag([["ada", "king", "lives", "in", "new", "york"]], verbose=0)
    assert tags == [["B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC"]]
    with pytest.raises(ValueError, match="either --dev, or --held-out"):
        ner.main(options(preset, [*files, "--held-out", 0.1], tmp_path / "other"))


@pytest.mark.backend_free
def test_sentences_of_sst2_are_apart_from_their_phrases():
    """No phrase to train on is in a sentence to measure on, and nothing else is lost."""
    rng = random.Random(0)
    sentences = [" ".join(rng.choices("abcdefgh", k=rng.randint(4, 9))) for _ in range(60)]
    texts = {*sentences}
    for sentence in sentences:
        words = sentence.split()
        start = rng.randrange(len(words) - 1)
        texts.add(" ".join(words[start : start + rng.randint(1, 3)]))
    texts = sorted(texts)
    whole = datasets.Examples(x=texts, y=np.arange(len(texts)) % 2, ids=[*map(str, texts)])
    train, dev = glue.split_sentences(whole, 0.2)
    within = lambda a, b: f" {a} " in f" {b} "
    roots = [t for t in texts if not any(within(t, u) for u in texts if u != t)]
    assert len(dev) == round(0.2 * len(roots)) and set(dev.x) <= set(roots)
    expected = [t for t in texts if not any(within(t, u) for u in dev.x)]
    assert train.x == expected
    assert all(whole.y[texts.index(t)] == y for t, y in zip(dev.x, dev.y, strict=True))


@pytest.mark.backend_free
def test_the_papers_settings_and_what_changes_them():
    def settings(hidden_dim=768, count=8551, **given):
        names = ("learning_rate", "batch_size", "dropout", "epochs", "sequence_length")
        args = argparse.Namespace(**{**dict.fromkeys(names), **given})
        backbone = argparse.Namespace(hidden_dim=hidden_dim, max_sequence_length=512)
        return finetuning.settings_of(args, glue.PAPER["CoLA"], count, backbone, 0.25)

    assert settings() == (1e-5, 16, 0.0, 5336, 320, 512)  # Table 14
    assert settings(hidden_dim=128).learning_rate == 0.25
    assert settings(hidden_dim=128, learning_rate=1e-4).learning_rate == 1e-4
    # Half as many passes: half the steps, half the warm-up.
    assert settings(epochs=4.99)[3:5] == (round(4.99 * 535), round(320 * 2670 / 5336))


@pytest.mark.backend_free
def test_an_ensemble_is_the_mean_of_probabilities():
    runs = [
        finetuning.Run(seed, {"accuracy": score}, {}, {"dev": finetuning.softmax(logits)}, 1.0)
        for seed, score, logits in (
            (0, 0.5, np.log([[0.9, 0.1], [0.4, 0.6]])),
            (1, 0.7, np.log([[0.3, 0.7], [0.3, 0.7]])),
            (2, 0.9, np.log([[0.6, 0.4], [0.9, 0.1]])),
        )
    ]
    chances = glue.mean(runs, "dev")
    np.testing.assert_allclose(chances, [[0.6, 0.4], [1.6 / 3, 1.4 / 3]])
    assert glue.decided(chances).tolist() == [0, 0]  # of the second two of three say 1
    assert finetuning.spread(runs, "accuracy") == (0.7, 0.5, 0.9)


@pytest.mark.backend_free
def test_baselines_of_pairs():
    """Pairs of the same words are class 1: the cosine alone decides. Scores likewise."""
    rng = np.random.default_rng(0)
    words = [f"w{n}" for n in range(400)]
    a = [" ".join(rng.choice(words, 6)) for _ in range(400)]
    same = rng.integers(0, 2, 400)
    b = [text if is_same else " ".join(rng.choice(words, 6)) for text, is_same in zip(a, same)]  # noqa: B905
    train, test = (a[:300], b[:300]), (a[300:], b[300:])
    assert (results.tfidf(train, same[:300], test) == same[300:]).mean() > 0.97
    scores = results.tfidf(train, same[:300].astype("float32"), test)
    assert np.corrcoef(scores, same[300:])[0, 1] > 0.9
    assert results.majority(np.array([2, 1, 1], "int32"), 2).tolist() == [1, 1]
    assert results.majority(np.array([1.0, 2.0]), 2).tolist() == [1.5, 1.5]
