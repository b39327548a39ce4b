"""Oracle: the bytes of a preparation that nobody disturbed."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_albert.data import prepare as module
from keras_albert.data import prepare_corpus
from keras_albert.data.shards import read_index
from keras_albert.preprocessing.encoders import WordPieceEncoder
from tests.conftest import ROOT
from tests.data.conftest import made_up_documents

pytestmark = pytest.mark.backend_free

SETTINGS = {
    "max_document_tokens": 300,
    "shard_tokens": 3000,
    "holdout": 0.2,
    "drop_duplicates": True,
    "progress": False,
}


def bytes_of(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def corpus():
    documents = made_up_documents(50, seed=4)
    return documents + documents[10:30] + made_up_documents(20, seed=5)


@pytest.fixture(scope="module")
def undisturbed(corpus, tokenizer, tmp_path_factory):
    directory = tmp_path_factory.mktemp("undisturbed") / "shards"
    manifest = prepare_corpus(iter(corpus), directory, tokenizer=tokenizer, **SETTINGS)
    assert len(manifest.shards) > 2
    return bytes_of(directory)


class Stop(BaseException):
    """Not an error that anything may catch."""


def until(documents, count):
    yield from documents[:count]
    raise Stop


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.integers(0, 90), max_size=4), st.integers(50, 30_000), st.booleans())
def test_stopped_anywhere_and_continued_it_gives_the_same_bytes(
    corpus, tokenizer, undisturbed, tmp_path_factory, stops, batch, saves
):
    directory = tmp_path_factory.mktemp("stopped") / "shards"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BATCH_CHARACTERS", batch)
        patch.setattr(module, "SAVE_SECONDS", 0.0 if saves else 1e9)
        for stop in stops:
            with pytest.raises(Stop):
                prepare_corpus(until(corpus, stop), directory, tokenizer=tokenizer, **SETTINGS)
            assert not (directory / "manifest.json").exists()
        prepare_corpus(iter(corpus), directory, tokenizer=tokenizer, **SETTINGS)
    assert bytes_of(directory) == undisturbed


@pytest.mark.parametrize("place", range(0, 60, 3))
def test_stopped_while_a_file_gets_its_name(
    corpus, tokenizer, undisturbed, tmp_path, monkeypatch, place
):
    """Between any two renames of the run; some places are beyond the last."""
    replace, calls = os.replace, []

    def stopping(*args):
        calls.append(args)
        if len(calls) == place + 1:
            raise Stop
        replace(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stopping)
        patch.setattr(module, "SAVE_SECONDS", 0.0)
        patch.setattr(module, "BATCH_CHARACTERS", 5_000)
        try:
            prepare_corpus(iter(corpus), tmp_path / "s", tokenizer=tokenizer, **SETTINGS)
        except Stop:
            assert not (tmp_path / "s" / "manifest.json").exists()
            prepare_corpus(iter(corpus), tmp_path / "s", tokenizer=tokenizer, **SETTINGS)
        else:
            assert len(calls) <= place
    assert bytes_of(tmp_path / "s") == undisturbed


def test_what_is_known_is_not_tokenized_again(corpus, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 1)
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)
    with pytest.raises(Stop):
        prepare_corpus(until(corpus, 70), tmp_path, tokenizer=tokenizer, **SETTINGS)
    seen, encode = [], type(tokenizer).encode_batch
    monkeypatch.setattr(
        type(tokenizer),
        "encode_batch",
        lambda self, texts: seen.append(texts) or encode(self, texts),
    )
    prepare_corpus(iter(corpus), tmp_path, tokenizer=tokenizer, **SETTINGS)
    assert seen == corpus[70:]


def test_going_on_says_what_is_done(corpus, tokenizer, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 1)
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)
    options = {**SETTINGS, "tokenizer": tokenizer}
    with pytest.raises(Stop):
        prepare_corpus(until(corpus, 70), tmp_path, **options)
    shards = len(list(tmp_path.rglob("*.array_record")))
    assert shards and not capsys.readouterr().out
    prepare_corpus(iter(corpus), tmp_path, **{**options, "progress": True})
    said = " ".join(capsys.readouterr().out.split())
    assert "Going on" in said and "first 70 documents" in said and f"{shards} whole shards" in said
    prepare_corpus(iter(corpus), tmp_path, **{**options, "progress": True, "overwrite": True})
    assert "Going on" not in capsys.readouterr().out


def test_other_settings_and_other_text_are_refused(corpus, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 1)
    with pytest.raises(Stop):
        prepare_corpus(until(corpus, 30), tmp_path, tokenizer=tokenizer, **SETTINGS)
    before = bytes_of(tmp_path)

    def refused(documents, message, **changes):
        with pytest.raises(ValueError, match=message):
            prepare_corpus(
                iter(documents), tmp_path, **{"tokenizer": tokenizer, **SETTINGS, **changes}
            )
        assert bytes_of(tmp_path) == before

    refused(corpus, "holdout: 0.2, now 0.3", holdout=0.3)
    refused(corpus, "tokenizer: 'chunks-1001', now 'chunks-77'", tokenizer=type(tokenizer)(77))
    refused(corpus[:10], "`files` has changed")
    refused([["Other."], *corpus[1:]], "`files` has changed.*first 30")
    manifest = prepare_corpus(
        iter(corpus[:40]),
        tmp_path,
        **{**SETTINGS, "holdout": 0.5},
        tokenizer=tokenizer,
        overwrite=True,
    )
    assert manifest.num_documents + manifest.inputs["duplicates"] < 40


def test_dropping_duplicates_is_preparing_without_them(corpus, tokenizer, tmp_path):
    first = list({tuple(document): document for document in corpus}.values())
    assert len(first) < len(corpus)
    kept = prepare_corpus(iter(corpus), tmp_path / "a", tokenizer=tokenizer, **SETTINGS)
    alone = prepare_corpus(iter(first), tmp_path / "b", tokenizer=tokenizer, **SETTINGS)
    assert kept.shards == alone.shards
    assert kept.inputs["duplicates"] == len(corpus) - len(first)
    assert alone.inputs["duplicates"] == 0


def pieces():
    return [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        ".",
        *"abcdefgh",
        *(f"##{c}" for c in "abcdefgh"),
    ]


@pytest.mark.parametrize("num_workers", [2, 3])
def test_the_number_of_workers_changes_no_byte(corpus, tmp_path, monkeypatch, num_workers):
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 3_000)
    encoder, options = WordPieceEncoder(pieces()), {**SETTINGS, "sentences": str.splitlines}
    texts = ["\n".join(document) for document in corpus]
    for workers, name in ((1, "one"), (num_workers, "several")):
        prepare_corpus(
            iter(texts), tmp_path / name, tokenizer=encoder, num_workers=workers, **options
        )
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "several")


def test_a_worker_that_was_killed_is_told_of_and_nothing_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 3_000)
    documents = made_up_documents(100, seed=6)
    poison = tmp_path / "poison"
    poison.write_text("")

    def split(text):
        if poison.exists() and os.environ.get("KERAS_ALBERT_LIGHT"):  # in a worker
            os.kill(os.getpid(), signal.SIGKILL)
        return text.split("|")

    texts = ["|".join(document) for document in documents]
    options = {**SETTINGS, "sentences": split, "tokenizer": WordPieceEncoder(pieces())}
    with pytest.raises(RuntimeError, match="killed.*num_workers.*exit status -9"):
        prepare_corpus(iter(texts), tmp_path / "a", num_workers=2, **options)
    poison.unlink()
    prepare_corpus(iter(texts), tmp_path / "a", num_workers=2, **options)
    prepare_corpus(iter(texts), tmp_path / "b", num_workers=1, **options)
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


def lines_here(text):
    return text.splitlines()


def test_an_error_in_a_worker_arrives_and_programs_it_starts_do_no_harm(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 3_000)
    texts = ["|".join(document) for document in made_up_documents(100, seed=6)]

    class OfThisProgram(Exception):
        """An error that no other process knows."""

        def __init__(self, one, two):
            super().__init__(one)

    def split(text):
        if os.environ.get("KERAS_ALBERT_LIGHT"):
            print("not among the answers")
            assert subprocess.run(["cat"], capture_output=True).stdout == b""
            raise OfThisProgram("the words of the error", 2)
        return text.split("|")

    options = {**SETTINGS, "sentences": split, "tokenizer": WordPieceEncoder(pieces())}
    with pytest.raises(Exception, match="the words of the error"):
        prepare_corpus(iter(texts), tmp_path / "a", num_workers=2, **options)
    # A function of a module that needs Keras: the error says what to do.
    options = {**options, "sentences": lines_here}
    with pytest.raises(RuntimeError, match="num_workers=1"):
        prepare_corpus(iter(texts), tmp_path / "b", num_workers=2, **options)


def test_two_preparations_do_not_write_to_one_place(corpus, tokenizer, tmp_path):
    output = tmp_path / "s"

    def meanwhile():
        for number, document in enumerate(corpus):
            if number == 20:
                with pytest.raises(ValueError, match="Only one preparation may write"):
                    prepare_corpus(iter(corpus), output, tokenizer=tokenizer, **SETTINGS)
            yield document

    prepare_corpus(meanwhile(), output, tokenizer=tokenizer, **SETTINGS)
    assert not (output / "lock").exists()


def test_what_was_seen_after_the_saved_place_is_forgotten(tokenizer, tmp_path, monkeypatch):
    """A document that was read, not kept, and then mended away is no duplicate of a later one."""
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 1)
    monkeypatch.setattr(module, "SAVE_SECONDS", 1e9)
    documents = made_up_documents(6, seed=11)

    def broken():
        yield from documents[:3]
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk"):
        prepare_corpus(broken(), tmp_path, tokenizer=tokenizer, **SETTINGS)
    mended = [documents[5], *documents[:3], documents[4]]
    manifest = prepare_corpus(
        iter(mended), tmp_path, tokenizer=tokenizer, **{**SETTINGS, "overwrite": False}
    )
    assert manifest.inputs["duplicates"] == 0


def test_a_corpus_in_the_directory_for_held_out_documents_is_kept(corpus, tokenizer, tmp_path):
    options = {**SETTINGS, "tokenizer": tokenizer, "holdout": 0.0}
    prepare_corpus(iter(corpus), tmp_path / "s" / "heldout", **options)
    before = bytes_of(tmp_path / "s")
    with pytest.raises(ValueError, match="held-out documents either"):
        prepare_corpus(iter(corpus), tmp_path / "s", **options)
    assert bytes_of(tmp_path / "s") == before


def test_input_inside_the_output_is_refused(tokenizer, tmp_path):
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "a.txt").write_text("One. Two.")
    (tmp_path / "books" / "shards").mkdir()
    (tmp_path / "books" / "shards" / "b.txt").write_text("Three.")
    with pytest.raises(ValueError, match="must not hold input files.*b.txt"):
        prepare_corpus(
            tmp_path / "books", tmp_path / "books" / "shards", tokenizer=tokenizer, progress=False
        )


KILLED = """
import os, sys
os.environ["KERAS_ALBERT_LIGHT"] = "1"
from keras_albert.data import prepare
from keras_albert.preprocessing.encoders import load_encoder
assert "keras" not in sys.modules
prepare.SAVE_SECONDS, prepare.BATCH_CHARACTERS = 0.02, 5_000
print("ready", flush=True)
prepare.prepare_corpus(
    sys.argv[1], sys.argv[2], tokenizer=load_encoder(sys.argv[3]), sentences="lines",
    num_workers=int(sys.argv[4]), shard_tokens=25_000, holdout=0.1, drop_duplicates=True,
    progress=False,
)
"""


@pytest.mark.slow
def test_killed_twenty_times_it_still_gives_the_same_bytes(tmp_path):
    """SIGKILL at random moments of a process that nothing can catch it in."""
    generator = random.Random(0)
    corpus = tmp_path / "corpus.txt"
    documents = made_up_documents(600, seed=7)
    corpus.write_text("\n\n".join("\n".join(d) for d in documents + documents[:99]))
    (tmp_path / "vocab.txt").write_text("\n".join(pieces()))

    def start(name, workers):
        program = [sys.executable, "-c", KILLED, corpus, tmp_path / name, tmp_path / "vocab.txt"]
        process = subprocess.Popen(
            [*map(str, program), str(workers)], cwd=ROOT, stdout=subprocess.PIPE
        )
        with process.stdout as output:
            assert output.readline() == b"ready\n"
        return process

    began = time.monotonic()
    assert start("whole", 1).wait() == 0
    seconds = time.monotonic() - began
    expected = bytes_of(tmp_path / "whole")
    assert sum(name.endswith(".array_record") for name in expected) > 4

    kills = finished = 0
    while kills < 20:
        process = start(f"killed{finished}", 1 + kills % 2)
        time.sleep(generator.uniform(0, seconds / 2))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        if (tmp_path / f"killed{finished}" / "manifest.json").exists():
            finished += 1
    assert start(f"killed{finished}", 2).wait() == 0
    for number in range(finished + 1):
        assert bytes_of(tmp_path / f"killed{number}") == expected


def test_light_preparation_needs_no_keras(tmp_path):
    """Its memory is that of NumPy and the tokenizer."""
    (tmp_path / "vocab.txt").write_text("\n".join(pieces()))
    documents = made_up_documents(100, seed=8)
    (tmp_path / "corpus.txt").write_text("\n\n".join("\n".join(d) for d in documents))
    program = KILLED + (
        "assert not {'keras', 'keras_hub', 'tensorflow', 'jax', 'torch'} & set(sys.modules)\n"
        "print([line for line in open('/proc/self/status') if 'VmHWM' in line][0].split()[1])"
    )
    arguments = [tmp_path / "corpus.txt", tmp_path / "out", tmp_path / "vocab.txt", 1]
    result = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    if sys.platform == "linux":
        assert int(result.stdout.split()[-1]) < 200_000  # kB; Keras alone has twice that
    assert read_index(tmp_path / "out" / "shard-00000.index")[:, 0].sum() > 0
