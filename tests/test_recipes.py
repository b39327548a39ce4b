"""Oracles: counts made by hand beside the recipe's, what a saved model says, exit statuses."""

import csv
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_albert

cli = pytest.importorskip("keras_albert_recipes.__main__", reason="the package is installed")
pretrain = pytest.importorskip("keras_albert_recipes.pretrain", reason="the package is installed")

PLACES = ("garden", "kitchen", "street", "house", "field", "river")


def corpus(folder):
    """Forty short documents of sentences that name a place and what happened after it."""
    for number in range(40):
        first, second = PLACES[number % 6], PLACES[number * 5 % 6]
        text = f"The cat {number} went to the {first}. Then it came back from the {second}. "
        text += f"In the end the cat slept in the {first} and the dog sat by the {second}."
        (folder / f"{number:02}.txt").write_text(text)
    return str(folder / "*.txt")


def toy(tmp_path, *more):
    files = corpus(tmp_path)
    options = ["--files", files, "--vocabulary-size", "50", "--sequence-length", "32"]
    options += ["--batch-size", "4", "--steps", "5", "--evaluations", "2", "--holdout", "0.3"]
    return [*options, "--output", str(tmp_path / "run"), "--prompts", "the [MASK] sat.", *more]


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["sop", "nsp", "none"])
def test_the_recipe_from_text_to_a_saved_model(tmp_path, capsys, objective):
    pretrain.main(toy(tmp_path, "--objective", objective))
    run = tmp_path / "run"
    rows = list(csv.DictReader((run / "log.csv").read_text().splitlines()))
    assert len(rows) == 2 and float(rows[-1]["val_mlm_accuracy"]) >= 0
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "6 steps of 4 x 32 tokens" in printed  # 5, in two epochs of 3
    assert "most frequent token" in printed and ("always the same" in printed) == (
        objective != "none"
    )

    # What was saved is what was measured: the same held-out accuracy, from both formats.
    heldout = keras_albert.PretrainingDataset(
        run / "shards" / "heldout", 32, 4, objective=objective, static=True
    )
    preset = keras_albert.AlbertPretrainer.from_preset(run / "preset")
    whole = keras.saving.load_model(run / "model.keras")
    assert preset.objective == objective
    scores = [m.evaluate(heldout, return_dict=True, verbose=0) for m in (preset, whole)]
    for score in scores:
        np.testing.assert_allclose(
            score["mlm_accuracy"], float(rows[-1]["val_mlm_accuracy"]), rtol=1e-5
        )
    best = preset.fill_mask("the [MASK] sat.")[0]
    assert f"{best.token} {best.probability:.1%}" in printed

    with pytest.raises(SystemExit):  # an earlier run is not replaced unasked
        pretrain.main(toy(tmp_path))
    assert "--overwrite" in capsys.readouterr().err


def test_baselines_count_what_they_say(tmp_path):
    tokenizer = keras_albert.AlbertTokenizer.train(corpus(tmp_path), vocabulary_size=50)
    keras_albert.prepare_corpus(
        str(tmp_path / "*.txt"),
        tmp_path / "shards",
        tokenizer=tokenizer,
        holdout=0.3,
        progress=False,
    )
    training = keras_albert.PretrainingDataset(tmp_path / "shards", 32, 4, shuffle=False)
    heldout = keras_albert.PretrainingDataset(tmp_path / "shards" / "heldout", 32, 3, static=True)
    received = pretrain.baselines(training, heldout)

    def targets(data, batches):
        rows = [data.example(i) for i in range(min(data.num_examples, batches * data.batch_size))]
        return np.concatenate([row["mask_ids"][row["mask_weights"] > 0] for row in rows]), rows

    # One pass of the training data, then the beginning of the next to fill the last batch.
    seen = [training[step] for step in range(len(training))]
    ids = np.concatenate([y["mlm"][w["mlm"] > 0] for _, y, w in seen])
    most_frequent = np.bincount(ids).argmax()
    held, rows = targets(heldout, len(heldout))
    assert received["tokens"] == len(held) and received["pairs"] == heldout.num_examples
    np.testing.assert_allclose(received["token"], (held == most_frequent).mean())
    swapped = np.mean([row["sentence"] for row in rows])
    np.testing.assert_allclose(received["order"], max(swapped, 1 - swapped))


def test_the_embedded_corpus_is_clean_text():
    documents = list(pretrain.language_reference())
    assert len(documents) > 50 and sum(map(len, documents)) > 300_000
    paragraphs = [paragraph for text in documents for paragraph in text.split("\n")]
    assert not any("  " in p or "***" in p or "===" in p for p in paragraphs)


def test_bad_options_end_before_anything_is_made(tmp_path, capsys):
    for wrong in (["--steps", "0"], ["--evaluations", "0"], ["--holdout", "0"], ["--preset"]):
        with pytest.raises(SystemExit):
            pretrain.main(toy(tmp_path, *wrong))
    assert not (tmp_path / "run").exists()
    capsys.readouterr()


@pytest.mark.slow
def test_a_bad_prompt_is_told_of_before_training(tmp_path, capsys):
    status = cli.main(["pretrain", *toy(tmp_path, "--prompts", "nothing to fill in")])
    output = capsys.readouterr()
    assert status == 1 and "must hold [MASK]" in output.err
    assert not (tmp_path / "run" / "log.csv").exists()


@pytest.mark.slow
def test_two_phases_train_at_two_lengths(tmp_path, capsys):
    pretrain.main(toy(tmp_path, "--sequence-length", "16", "32", "--phase-shares", "0.5", "0.5"))
    rows = list(csv.DictReader((tmp_path / "run" / "log.csv").read_text().splitlines()))
    assert [row["epoch"] for row in rows] == ["0", "1"]
    printed = capsys.readouterr().out
    assert "2 steps of 4 x 16 tokens" in printed and "2 steps of 2 x 32 tokens" in printed
    for wrong in (["--phase-shares", "1"], ["--phase-shares", "0.5", "0.6"]):
        with pytest.raises(SystemExit):
            pretrain.main(toy(tmp_path, "--sequence-length", "16", "32", *wrong))
        assert "--phase-shares" in capsys.readouterr().err


def run(*arguments):
    command = [sys.executable, "-m", "keras_albert_recipes", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_prepare_from_the_command_line_is_prepare_corpus(tmp_path):
    """The light program writes what the library does, bytes for bytes."""
    files = corpus(tmp_path)
    done = run(
        "prepare", files, "--train-tokenizer", 50, "--holdout", 0.3, "--output", tmp_path / "a"
    )
    assert done.returncode == 0, done.stderr
    tokenizer = keras_albert.AlbertTokenizer(tmp_path / "a" / "spiece.model")
    other = run("prepare", files, "--train-tokenizer", 60, "--output", tmp_path / "a")
    assert other.returncode == 1 and "has 50 pieces" in other.stderr
    (tmp_path / "a" / "spiece.model").unlink()
    manifest = keras_albert.prepare_corpus(
        files, tmp_path / "b", tokenizer=tokenizer, holdout=0.3, progress=False
    )
    names = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*"))
    assert names == sorted(p.relative_to(tmp_path / "b") for p in (tmp_path / "b").rglob("*"))
    for name in names:
        if (tmp_path / "a" / name).is_file():
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), (
                name
            )
    assert f"{manifest.num_tokens:,} tokens in 1 shards" in done.stdout
    again = run(
        "prepare", files, "--tokenizer", tmp_path / "a" / "tokenizer", "--output", tmp_path / "a"
    )
    assert again.returncode == 1 and "overwrite=True" in again.stderr
    assert keras_albert.PretrainingDataset(tmp_path / "a", 16, tokenizer=tokenizer).num_examples


def test_command_line(tmp_path, capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == keras_albert.__version__
    assert cli.main([]) == 0 and "pretrain" in capsys.readouterr().out
    assert cli.main(["pretain"]) == 2 and "no command 'pretain'" in capsys.readouterr().err
    nowhere = ["--files", str(tmp_path / "*.txt"), "--output", str(tmp_path / "run")]
    assert cli.main(["pretrain", *nowhere]) == 1
    assert "No file found for" in capsys.readouterr().err
