"""Oracles: counts made by hand beside the recipe's, what a saved model says, exit statuses."""

import csv

import keras
import numpy as np
import pytest

import keras_albert
from keras_albert import cli

pretrain = pytest.importorskip("keras_albert.recipes.pretrain", reason="the package is installed")

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


def test_command_line(tmp_path, capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == keras_albert.__version__
    assert cli.main([]) == 0 and "pretrain" in capsys.readouterr().out
    assert cli.main(["pretain"]) == 2 and "no command 'pretain'" in capsys.readouterr().err
    nowhere = ["--files", str(tmp_path / "*.txt"), "--output", str(tmp_path / "run")]
    assert cli.main(["pretrain", *nowhere]) == 1
    assert "No file found for" in capsys.readouterr().err
