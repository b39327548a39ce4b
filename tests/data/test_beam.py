"""Oracle: the bytes of `prepare_corpus`; for the plan, `CorpusWriter`."""

import bz2
import gzip
import json
import logging
import os
import pickle
import shutil
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_albert.data import beam_files, beam_steps, documents, prepare, prepare_corpus
from keras_albert.data.beam_pipeline import LOCAL_RUNNER, prepare_corpus_beam
from keras_albert.data.corpus_writer import CorpusWriter
from keras_albert.data.encoding import EncodedDocument
from keras_albert.data.manifest import Manifest
from keras_albert.preprocessing.encoders import WordPieceEncoder
from recipes import prepare_corpus_beam as recipe
from tests.conftest import ROOT
from tests.data.conftest import made_up_documents
from tests.data.test_resume import bytes_of, pieces

pytest.importorskip("apache_beam")
from apache_beam.io.filesystem import CompressionTypes, FileMetadata, FileSystem  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
)

SETTINGS = {
    "sentences": str.splitlines,
    "max_document_tokens": 300,
    "shard_tokens": 4_000,
    "holdout": 0.2,
    "drop_duplicates": True,
    "on_error": "skip",
}
TWO_PROCESSES = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
ONE_PROCESS = ["--direct_running_mode=multi_processing", "--direct_num_workers=1"]


@pytest.fixture(autouse=True)
def _quiet():
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)


@pytest.fixture(scope="module")
def encoder():
    return WordPieceEncoder(pieces())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Files of three formats with duplicates in and across them, long documents and damage."""
    directory = tmp_path_factory.mktemp("text")
    made = made_up_documents(60, seed=11)
    texts = ["\n".join(document) for document in made]
    long = "\n".join(sentence for document in made_up_documents(30, 12) for sentence in document)
    (directory / "a.txt").write_text("\n\n".join([*texts[:20], long, *texts[3:9]]))
    lines = [json.dumps({"text": text}) for text in texts[15:45]]
    lines[4:4] = ["{broken", json.dumps({"other": "field"}), json.dumps({"text": "\u200b"})]
    (directory / "b.jsonl").write_text("\n".join(lines))
    (directory / "c.txt.gz").write_bytes(gzip.compress("\n\n".join(texts[40:]).encode()))
    cut_off = bz2.compress(("\n\n".join(texts[:5]) * 20).encode())[:-40]
    (directory / "d.txt.bz2").write_bytes(cut_off)
    (directory / "e.txt").write_text("\n\n".join(texts[::-1]))
    return directory


@pytest.fixture(scope="module")
def expected(corpus, encoder, tmp_path_factory):
    directory = tmp_path_factory.mktemp("expected") / "shards"
    manifest = prepare_corpus(corpus, directory, tokenizer=encoder, progress=False, **SETTINGS)
    assert len(manifest.shards) > 3
    assert manifest.inputs["duplicates"] > 60
    assert manifest.inputs["skipped"]["counts"] == {"records": 2, "files": 1}
    return bytes_of(directory)


@pytest.mark.backend_free
@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--direct_running_mode=multi_threading", "--direct_num_workers=2"],
        pytest.param(TWO_PROCESSES, marks=pytest.mark.slow),
    ],
    ids=["in_memory", "two_threads", "two_processes"],
)
def test_it_writes_the_bytes_of_the_local_path(corpus, encoder, expected, tmp_path, flags):
    options = [f"--runner={LOCAL_RUNNER}", *flags]
    output = tmp_path / "shards"
    manifest = prepare_corpus_beam(corpus, output, tokenizer=encoder, options=options, **SETTINGS)
    assert manifest == Manifest.load(output)
    assert bytes_of(output) == expected
    assert "KERAS_ALBERT_LIGHT" not in os.environ


@pytest.mark.backend_free
@pytest.mark.slow
def test_the_command_line_in_another_process_that_loads_no_keras(
    corpus, encoder, expected, tmp_path, monkeypatch
):
    """The sentence function is pickled by value and runs where the text is encoded."""
    here, ran = os.getpid(), tmp_path / "ran"

    def splitlines(text):
        if os.getpid() != here:
            ran.write_text("in another process")
            if "keras" in sys.modules:
                raise RuntimeError("a worker has loaded Keras")
        return text.splitlines()

    splitlines.__module__, splitlines.__qualname__ = "builtins", "str.splitlines"
    encoder.save(tmp_path / "tokenizer")
    parse = recipe.parse

    def parse_with_function(arguments):
        args, flags = parse(arguments)
        args.sentences = splitlines
        return args, flags

    monkeypatch.setattr(recipe, "parse", parse_with_function)
    recipe.main(
        [
            *(str(corpus), "--output", str(tmp_path / "out")),
            *("--tokenizer", str(tmp_path / "tokenizer"), "--max-document-tokens", "300"),
            *("--shard-tokens", "4000", "--holdout", "0.2", "--drop-duplicates"),
            *("--on-error", "skip", *ONE_PROCESS),
        ]
    )
    assert ran.exists()
    assert bytes_of(tmp_path / "out") == expected


def in_memory(files, output, encoder, *flags, **changes):
    options = [f"--runner={LOCAL_RUNNER}", *flags]
    return prepare_corpus_beam(
        files, output, tokenizer=encoder, options=options, **{**SETTINGS, **changes}
    )


@pytest.mark.backend_free
def test_doing_every_bundle_twice_changes_no_byte(corpus, encoder, expected, tmp_path):
    in_memory(corpus, tmp_path / "out", encoder, "--direct_runner_bundle_repeat=1")
    assert bytes_of(tmp_path / "out") == expected


@pytest.mark.backend_free
def test_very_long_documents_in_parts(corpus, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "PART_CHARACTERS", 5_000)
    monkeypatch.setattr(prepare, "BATCH_CHARACTERS", 8_000)  # some parts are in another batch
    files = [corpus / "e.txt", corpus / "a.txt"]
    prepare_corpus(files, tmp_path / "a", tokenizer=encoder, progress=False, **SETTINGS)
    assert sum(source.continues for source in documents.read_sources(files)) > 5
    in_memory(files, tmp_path / "b", encoder)
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


@pytest.mark.backend_free
@st.composite
def encoded_documents(draw):
    """With few digests, on either side of the share, empty ones and parts."""
    count = draw(st.integers(1, 25))
    made = []
    for number in range(count):
        digest = draw(st.integers(0, 5)) * (2**64 // 6) + draw(st.integers(0, 1))
        sizes = draw(st.lists(st.integers(1, 9), max_size=3))
        records = [(bytes([number, size, place]), size) for place, size in enumerate(sizes)]
        continues = number > 0 and draw(st.booleans())
        made.append(EncodedDocument(records, len(sizes), digest, continues))
    return made


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    encoded_documents(),
    st.integers(1, 30),
    st.sampled_from([0.0, 0.5]),
    st.booleans(),
    st.lists(st.integers(0, 25), max_size=6),
    st.randoms(use_true_random=False),
)
def test_the_plan_is_what_one_writer_does(
    tmp_path_factory, monkeypatch, made, shard_tokens, holdout, drop, ends, generator
):
    directory = tmp_path_factory.mktemp("plan")
    monkeypatch.setattr(os, "fsync", lambda file: None)
    options = {"shard_tokens": shard_tokens, "holdout": holdout, "drop_duplicates": drop}
    writer = CorpusWriter(directory / "a", {}, **options)
    for document in made:
        writer.add(document, "")
    writer.finish()
    writer.forget()

    ends = sorted({*(end for end in ends if end < len(made)), len(made)} - {0})
    batches = [
        ((number // 2, number % 2), made[start:end])
        for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]
    records, summaries = {}, [beam_steps.NO_SUMMARY[1]]
    for key, batch in batches:
        encode = beam_steps.Encode(lambda sources: sources, holdout)
        encode.encoder.tokenizer = None
        (_, records[key]), tagged = encode((key, pickle.dumps(batch)))
        summaries.append(tagged.value[1])
    generator.shuffle(summaries)
    *places, totals = beam_steps.plan((0, summaries), shard_tokens, drop)
    generator.shuffle(places)
    shards = {}
    for key, place in places:
        for shard, rows in beam_steps.assign((key, {"records": [records[key]], "places": [place]})):
            shards.setdefault(shard, []).append(rows)
    for item in shards.items():
        beam_steps.write(item, str(directory / "b"))
    (directory / "b").mkdir(exist_ok=True)
    assert bytes_of(directory / "a") == bytes_of(directory / "b")
    parts = [{"documents": p.documents, "sentences": p.sentences} for p in writer.parts.values()]
    assert totals.value["parts"][: len(parts)] == parts
    assert totals.value["duplicates"] == writer.duplicates
    assert totals.value["sources"] == writer.sources


@pytest.mark.backend_free
def test_stopped_while_it_writes_it_leaves_no_manifest_and_can_be_run_again(
    corpus, encoder, expected, tmp_path, monkeypatch
):
    write, calls = beam_steps.write_shard, []

    def failing(directory, number, rows):
        calls.append(number)
        entry = write(directory, number, rows)
        if len(calls) == 3:
            raise OSError("the disk is full")
        return entry

    with monkeypatch.context() as patch:
        patch.setattr(beam_steps, "write_shard", failing)
        with pytest.raises(OSError, match="the disk is full"):
            in_memory(corpus, tmp_path / "out", encoder)
    left = bytes_of(tmp_path / "out")
    assert sum(name.endswith("array_record") for name in left) == 2
    assert not [name for name in left if "manifest" in name or beam_files.ATTEMPT in name]
    (tmp_path / "out" / f"{beam_files.ATTEMPT}killed").mkdir()
    in_memory(corpus, tmp_path / "out", encoder)
    assert bytes_of(tmp_path / "out") == expected


@pytest.mark.backend_free
def test_broken_input_is_named(corpus, encoder, tmp_path):
    with pytest.raises(ValueError, match="b.jsonl, line 5: a line must be a JSON object"):
        in_memory(corpus, tmp_path / "out", encoder, on_error="raise")
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.backend_free
def test_an_output_that_holds_something_is_refused(corpus, encoder, expected, tmp_path):
    for name, data in expected.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match="must not hold a corpus already"):
        in_memory(corpus, tmp_path, encoder)
    assert bytes_of(tmp_path) == expected
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "progress.json").write_text("{}")
    with pytest.raises(ValueError, match="began, it alone can go on"):
        in_memory(corpus, tmp_path, encoder)
    in_memory(corpus, tmp_path, encoder, overwrite=True)
    assert bytes_of(tmp_path) == expected


@pytest.mark.backend_free
def test_arguments_are_checked_before_anything_is_deleted(corpus, encoder, tmp_path):
    (tmp_path / "shard-00000.array_record").write_text("kept")
    refusals = [
        ({"files": iter(["One."])}, "`files` must be paths"),
        ({"files": "/nowhere"}, "No file found"),
        ({"holdout": 1.0}, "`holdout` must be"),
        ({"shard_tokens": 0}, "`shard_tokens`"),
        ({"max_document_tokens": 7}, "`max_document_tokens`"),
        ({"sentences": 3}, "`sentences` must be"),
        ({"document_separator": "page"}, "`document_separator`"),
        ({"text_field": ""}, "`text_field`"),
        ({"on_error": "stop"}, "`on_error`"),
        ({"overwrite": 1}, "overwrite"),
        ({"drop_duplicates": 1}, "drop_duplicates"),
        ({"output": 3}, "output"),
        ({"tokenizer": "vocab.txt"}, "tokenizer"),
    ]
    for changes, message in refusals:
        arguments = {"files": corpus, "output": tmp_path, "tokenizer": encoder, **SETTINGS}
        with pytest.raises(ValueError, match=message):
            prepare_corpus_beam(**{**arguments, **changes})
    assert bytes_of(tmp_path) == {"shard-00000.array_record": b"kept"}


@pytest.mark.backend_free
def test_a_corpus_without_text_is_an_error(encoder, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(ValueError, match="A corpus must have text"):
        in_memory(tmp_path / "empty.txt", tmp_path / "out", encoder)
    (tmp_path / "one.txt").write_text("abc.")
    with pytest.raises(ValueError, match="A corpus must have held-out text"):
        in_memory(tmp_path / "one.txt", tmp_path / "out", encoder, holdout=1e-9)


@pytest.mark.backend_free
def test_without_beam_the_error_says_what_to_install(corpus, encoder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(ImportError, match=r'pip install "keras-albert\[prepare\]"'):
        in_memory(corpus, tmp_path, encoder)


@pytest.mark.backend_free
def test_the_module_is_imported_without_beam_and_keras():
    program = (
        "import sys, keras_albert.data.beam_pipeline;"
        "assert not {'apache_beam', 'keras', 'pyarrow'} & set(sys.modules)"
    )
    environment = {**os.environ, "KERAS_ALBERT_LIGHT": "1"}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True)


class Store(FileSystem):
    """An object store under `store://`, kept in a directory."""

    root = None

    @classmethod
    def scheme(cls):
        return "store"

    def _path(self, name):
        return self.root / name.removeprefix("store://")

    def _list(self, prefix):
        for path in self.root.rglob("*"):
            name = f"store://{path.relative_to(self.root)}"
            if path.is_file() and name.startswith(prefix):
                yield FileMetadata(name, path.stat().st_size)

    def metadata(self, path):
        return FileMetadata(path, self._path(path).stat().st_size)

    def exists(self, path):
        return self._path(path).is_file()

    def create(self, path, mime_type=None, compression_type=None):
        assert compression_type == CompressionTypes.UNCOMPRESSED
        self._path(path).parent.mkdir(parents=True, exist_ok=True)
        return open(self._path(path), "wb")

    def open(self, path, mime_type=None, compression_type=None):
        assert compression_type == CompressionTypes.UNCOMPRESSED
        return open(self._path(path), "rb")

    def delete(self, paths):
        for path in paths:
            self._path(path).unlink()

    def has_dirs(self):
        return False

    mkdirs = split = join = copy = rename = size = last_updated = checksum = None


Store.__abstractmethods__ = frozenset()


@pytest.mark.backend_free
def test_objects_of_a_store(corpus, encoder, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(Store, "root", tmp_path)
    shutil.copytree(corpus, tmp_path / "text")
    manifest = in_memory("store://text/*", "store://out/shards/", encoder)
    found = bytes_of(tmp_path / "out" / "shards")
    assert manifest == Manifest.load(tmp_path / "out" / "shards")
    # Messages name the object; all else is the same.
    here, there = str(corpus).encode(), b"store://text"
    assert {n: d.replace(there, here) for n, d in found.items()} == expected
    with pytest.raises(ValueError, match="must not hold a corpus already"):
        in_memory("store://text/*", "store://out/shards", encoder)
    with pytest.raises(ValueError, match="No object found for: 'store://texts/"):
        in_memory(["store://texts/*"], "store://out/shards", encoder, overwrite=True)
    with pytest.raises(ValueError, match="^store://text/b.jsonl, line 5"):
        in_memory(
            "store://text/b*", "store://out/shards", encoder, overwrite=True, on_error="raise"
        )
    assert not any((tmp_path / "out").rglob("*.*"))
