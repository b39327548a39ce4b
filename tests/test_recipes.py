"""Oracles: counts made by hand beside the recipe's, what a saved model says, exit statuses."""

import csv
import importlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest

import keras_albert

cli = pytest.importorskip("keras_albert_recipes.__main__", reason="the package is installed")
options = pytest.importorskip("keras_albert_recipes.options", reason="the package is installed")
prepare = pytest.importorskip(
    "keras_albert_recipes.prepare_corpus", reason="the package is installed"
)
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
@pytest.mark.parametrize(
    "objective",
    ["sop", *[pytest.param(o, marks=pytest.mark.backend_free) for o in ("nsp", "none")]],
)
def test_the_recipe_from_text_to_a_saved_model(tmp_path, capsys, objective):
    packing = ["--packing"] if objective == "nsp" else []
    pretrain.main(toy(tmp_path, "--objective", objective, *packing))
    run = tmp_path / "run"
    rows = list(csv.DictReader((run / "log.csv").read_text().splitlines()))
    assert len(rows) == 2 and float(rows[-1]["val_mlm_accuracy"]) >= 0
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "6 steps of 4 x 32 tokens" in printed  # 5, in two epochs of 3
    assert ("a pass, packed into" in printed) == bool(packing)
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


@pytest.mark.slow
@pytest.mark.parametrize("step", [pytest.param(3, marks=pytest.mark.backend_free), 6])
def test_a_run_that_was_cut_off_goes_on_as_if_it_was_not(tmp_path, monkeypatch, step):
    """In the first phase and in the second: the same evaluations, to the last digit."""
    phases = ["--sequence-length", "16", "32", "--phase-shares", "0.5", "0.5", "--evaluations", "4"]
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    pretrain.main(toy(tmp_path / "whole", *phases, "--steps", "8"))
    steps = iter(range(100))
    log = keras_albert.TrainingLog.on_train_batch_end

    def cut_off(self, batch, logs=None):
        log(self, batch, logs)
        if next(steps) == step:
            raise KeyboardInterrupt

    options = toy(tmp_path / "cut", *phases, "--steps", "8")
    with monkeypatch.context() as patched:
        patched.setattr(keras_albert.TrainingLog, "on_train_batch_end", cut_off)
        with pytest.raises(KeyboardInterrupt):
            pretrain.main(options)
    with pytest.raises(SystemExit):
        pretrain.main(options)  # it would be mixed with the run that is there
    pretrain.main([*options, "--resume"])
    tables = [(tmp_path / name / "run" / "log.csv").read_text() for name in ("whole", "cut")]
    assert tables[0] == tables[1] and tables[0].count("\n") == 5
    logged = (tmp_path / "cut" / "run" / "log.jsonl").read_text().splitlines()
    done = [row["step"] for row in map(json.loads, logged) if "learning_rate" in row]
    assert done == sorted(set(done)), done


def test_the_embedded_corpus_is_clean_text():
    documents = list(pretrain.language_reference())
    assert len(documents) > 50 and sum(map(len, documents)) > 300_000
    paragraphs = [paragraph for text in documents for paragraph in text.split("\n")]
    assert not any("  " in p or "***" in p or "===" in p for p in paragraphs)


def test_bad_options_end_before_anything_is_made(tmp_path, capsys):
    for wrong in (
        ["--steps", "0"],
        ["--evaluations", "0"],
        ["--holdout", "0"],
        ["--preset"],
        ["--packing", "--global-batch-size", "8"],
    ):
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


@pytest.mark.slow
@pytest.mark.backend_free
def test_a_second_phase_may_be_deeper(tmp_path, capsys):
    phases = ["--sequence-length", "16", "16", "--phase-shares", "0.5", "0.5", "--depths", "1", "2"]
    pretrain.main(toy(tmp_path, *phases))
    printed = capsys.readouterr().out
    assert "albert_tiny: 1 layers" in printed and "2 layers from here" in printed
    preset = tmp_path / "run" / "preset"
    assert keras_albert.AlbertPretrainer.from_preset(preset).backbone.num_layers == 2
    with pytest.raises(SystemExit):
        pretrain.main(toy(tmp_path, "--depths", "1", "2"))
    assert "--depths must have a number of layers" in capsys.readouterr().err


def run(*arguments):
    command = [sys.executable, "-m", "keras_albert_recipes", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.backend_free
def test_prepare_from_the_command_line_is_prepare_corpus(tmp_path):
    """The light program writes what the library does, bytes for bytes."""
    files = corpus(tmp_path)
    done = run(
        "prepare", files, "--train-tokenizer", 50, "--holdout", 0.3, "--output", tmp_path / "a"
    )
    assert done.returncode == 0, done.stderr
    tokenizer = keras_albert.AlbertTokenizer(tmp_path / "a" / "spiece.model")
    (tmp_path / "a" / "spiece.model").unlink()
    (tmp_path / "a" / "spiece.json").unlink()
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
    assert f"{manifest.num_tokens:,} tokens in 1 shard\n" in done.stdout
    assert f"Held out: {40 - manifest.num_documents} documents" in done.stdout
    again = run(
        "prepare", files, "--tokenizer", tmp_path / "a" / "tokenizer", "--output", tmp_path / "a"
    )
    assert again.returncode == 1 and "pass --overwrite" in again.stderr
    assert "overwrite=True" not in again.stderr and "`" not in again.stderr
    assert keras_albert.PretrainingDataset(tmp_path / "a", 16, tokenizer=tokenizer).num_examples


def prepared(tmp_path, capsys, *more):
    """Exit status, standard output and errors of `keras-albert prepare` in this process."""
    arguments = [*more, "--output", str(tmp_path / "out"), "--num-workers", "1"]
    status = cli.main(["prepare", str(tmp_path / "*.txt"), *arguments])
    return status, *capsys.readouterr()


@pytest.mark.backend_free
def test_a_tokenizer_of_an_earlier_run_is_used_only_for_the_same(tmp_path, capsys, monkeypatch):
    """Interrupted after training it: the same goes on with it, all else says what differs."""
    corpus(tmp_path)

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(prepare, "prepare_corpus", stop)
        status, _, error = prepared(tmp_path, capsys, "--train-tokenizer", "50")
    assert status == 130 and "the same command, without --overwrite, goes on" in error
    model = (tmp_path / "out" / "spiece.model").read_bytes()
    for changed, message in (
        (["--train-tokenizer", "50", "--cased"], "cased: False, now True"),
        (["--train-tokenizer", "60"], "pieces: 50, now 60"),
    ):
        status, _, error = prepared(tmp_path, capsys, *changed)
        assert status == 1 and message in error and "or --overwrite to train another" in error
        assert (tmp_path / "out" / "spiece.model").read_bytes() == model
    (tmp_path / "new.txt").write_text("Another document. It is new.")
    status, _, error = prepared(tmp_path, capsys, "--train-tokenizer", "50")
    assert status == 1 and "'files': 40" in error and "'files': 41" in error
    (tmp_path / "new.txt").unlink()
    status, printed, _ = prepared(tmp_path, capsys, "--train-tokenizer", "50")
    assert status == 0 and "of an earlier run" in printed
    assert (tmp_path / "out" / "tokenizer" / "vocabulary.spm").read_bytes() == model
    more = ["--train-tokenizer", "60", "--cased", "--overwrite"]
    status, _, _ = prepared(tmp_path, capsys, *more)
    tokenizer = keras_albert.data.manifest.load_tokenizer(tmp_path / "out" / "tokenizer")
    assert status == 0 and tokenizer.vocabulary_size() == 60 and not tokenizer.lowercase


@pytest.mark.backend_free
def test_nothing_is_made_in_a_directory_of_something_else(tmp_path, capsys):
    corpus(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    status, _, error = prepared(tmp_path, capsys, "--train-tokenizer", "50", "--overwrite")
    assert status == 1 and "thesis.tex" in error
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]


@pytest.mark.backend_free
def test_duplicates_are_counted_as_what_they_are(tmp_path, capsys):
    corpus(tmp_path)
    for number in range(3):
        (tmp_path / f"copy{number}.txt").write_text((tmp_path / "07.txt").read_text())
    model = tmp_path / "spiece.model"
    keras_albert.AlbertTokenizer.train(str(tmp_path / "*.txt"), 50, output=model)
    options = ["--tokenizer", str(model), "--drop-duplicates", "--holdout", "0.3"]
    status, printed, _ = prepared(tmp_path, capsys, *options)
    kept, held_out, dropped = (
        int(re.search(pattern, printed)[1])
        for pattern in (r"out: (\d+) documents", r"Held out: (\d+)", r"Dropped: (\d+)")
    )
    assert status == 0 and (kept + held_out, dropped) == (40, 3)


@pytest.mark.backend_free
def test_messages_are_in_the_words_of_the_command_line():
    say = lambda message: cli.in_options(message, prepare.parser())
    assert say("`shard_tokens` of prepare_corpus must be 1. Received: shard_tokens=0") == (
        "--shard-tokens must be 1. Received: --shard-tokens 0"
    )
    assert say("Pass `overwrite=True`, or `num_workers=1`.") == (
        "Pass --overwrite, or --num-workers 1."
    )
    assert say("Every entry of `files`") == "Every entry of FILES"
    unknown = "`strict=True` and `seed` are no options here: x=1"
    assert say(unknown) == unknown


@pytest.mark.backend_free
@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_shows_the_defaults_that_the_parser_has(command, capsys):
    recipe = importlib.import_module(f"keras_albert_recipes.{cli.COMMANDS[command][0]}")
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "None)" not in shown and "False)" not in shown
    for action in recipe.parser()._actions:
        if isinstance(action.default, (int, float)) and action.default is not False:
            assert f"(default: {action.default})" in shown, action.dest


@pytest.mark.backend_free
def test_the_beam_recipe_leaves_the_environment_as_it_was():
    pytest.importorskip("apache_beam")
    program = (
        "import os, sys; import keras_albert_recipes.prepare_corpus_beam;"
        "assert 'KERAS_ALBERT_LIGHT' not in os.environ, os.environ['KERAS_ALBERT_LIGHT'];"
        "assert 'keras' not in sys.modules"
    )
    environment = {k: v for k, v in os.environ.items() if k != "KERAS_ALBERT_LIGHT"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


@pytest.mark.backend_free
def test_both_preparations_have_the_same_options():
    beam = importlib.import_module("keras_albert_recipes.prepare_corpus_beam")
    words = ["x.txt", "--tokenizer", "t", "--output", "o", "--holdout", "0.1", "--on-error", "skip"]
    one, (other, flags) = prepare.parse(words), beam.parse([*words, "--runner=Flink"])
    assert options.preparation(one) == options.preparation(other) and flags == ["--runner=Flink"]
    accepted = inspect.signature(keras_albert.prepare_corpus).parameters
    assert set(options.preparation(one)) <= set(accepted)
    assert options.preparation(one)["holdout"] == 0.1


@pytest.mark.backend_free
def test_a_checkpoint_is_not_a_corpus(tmp_path, capsys):
    (tmp_path / "manifest.json").write_text("{}")
    assert cli.main(["checkpoint", "inspect", str(tmp_path)]) == 1
    assert "keras-albert inspect" in capsys.readouterr().err
    assert cli.main(["checkpoint", "inspect", str(tmp_path / "albert.tar.gz")]) == 1
    assert "no such archive" in capsys.readouterr().err


@pytest.mark.backend_free
@pytest.mark.slow
def test_ctrl_c_ends_prepare_quietly_and_it_goes_on(tmp_path):
    """SIGINT to all processes, as a terminal sends it; then the bytes of an undisturbed run."""
    text = "\n\n".join(f"Document {n} is here. It says {n * n} things." for n in range(150_000))
    (tmp_path / "big.txt").write_text(text)
    (tmp_path / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "document", "is", "here", "."])
    )
    command = [sys.executable, "-m", "keras_albert_recipes", "prepare", str(tmp_path / "big.txt")]
    command += ["--tokenizer", str(tmp_path / "vocab.txt"), "--num-workers", "2", "--output"]
    process = subprocess.Popen(
        [*command, str(tmp_path / "a")],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with process.stderr:
        while not list(tmp_path.glob("a/*.journal")):
            time.sleep(0.05)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)
        error = process.stderr.read()
    assert process.wait() == 130
    assert "Traceback" not in error and "the same command, without --overwrite, goes on" in error
    for name in ("a", "b"):
        subprocess.run([*command, str(tmp_path / name)], check=True, capture_output=True)
    for path in (tmp_path / "b").rglob("*.*"):
        assert path.read_bytes() == (tmp_path / "a" / path.relative_to(tmp_path / "b")).read_bytes()


@pytest.mark.backend_free
def test_command_line(tmp_path, capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == keras_albert.__version__
    assert cli.main([]) == 0 and "pretrain" in capsys.readouterr().out
    assert cli.main(["pretain"]) == 2 and "no command 'pretain'" in capsys.readouterr().err
    nowhere = ["--files", str(tmp_path / "*.txt"), "--output", str(tmp_path / "run")]
    assert cli.main(["pretrain", *nowhere]) == 1
    assert "No file found for" in capsys.readouterr().err
