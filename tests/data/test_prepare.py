"""Oracles: the tokenizer's own ids of every sentence, and hashlib over the files."""

import hashlib
import json
import re

import numpy as np
import pytest

from keras_albert.data import Manifest, prepare_corpus
from keras_albert.data import prepare as module
from keras_albert.data.token_records import cuts, decode_record, encode_record

pytestmark = pytest.mark.backend_free


def records_of(directory):
    """Yields (token ids, sentence lengths, document number) of each record."""
    reader, index = Manifest.load(directory).open(directory)
    records = reader.read(np.arange(len(index)))
    for (ids, lengths), (tokens, document) in zip(records, index.tolist(), strict=True):
        assert len(ids) == lengths.sum() == tokens
        yield ids, lengths, document


def prepared(documents, directory, tokenizer, **settings):
    return prepare_corpus(
        iter(documents), directory, tokenizer=tokenizer, progress=False, **settings
    )


def test_records_hold_every_token_of_every_sentence(shards, tokenizer, documents):
    """Reading the shards from first to last gives the corpus back."""
    found = {}
    for ids, lengths, document in records_of(shards):
        assert len(ids) <= 500
        found.setdefault(document, []).extend(np.split(ids, np.cumsum(lengths)[:-1]))
    assert list(found) == list(range(len(documents)))
    for number, document in enumerate(documents):
        assert [s.tolist() for s in found[number]] == tokenizer.encode_batch(document)


def test_manifest_counts_and_checksums(shards, tokenizer, documents):
    manifest = Manifest.load(shards)
    encoded = [tokenizer.encode_batch(document) for document in documents]
    assert manifest.num_documents == len(documents)
    assert manifest.num_sentences == sum(map(len, encoded))
    assert manifest.num_tokens == sum(len(s) for d in encoded for s in d)
    assert manifest.num_records == sum(s["num_records"] for s in manifest.shards) > len(documents)
    assert manifest.tokenizer["fingerprint"] == tokenizer.fingerprint()
    assert manifest.token_dtype == "uint16"
    assert len(manifest.shards) > 2
    for shard in manifest.shards:
        data = (shards / shard["name"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == shard["sha256"]
        assert shard["num_tokens"] >= 6000 or shard is manifest.shards[-1]


def test_the_bytes_are_the_same_each_time_and_whatever_the_batches(
    shards, tokenizer, documents, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 100)
    prepared(documents, tmp_path / "again", tokenizer, max_document_tokens=500, shard_tokens=6000)
    files = sorted(p.relative_to(shards) for p in shards.rglob("*") if p.is_file())
    again = tmp_path / "again"
    assert files == sorted(p.relative_to(again) for p in again.rglob("*") if p.is_file())
    for name in files:
        assert (shards / name).read_bytes() == (again / name).read_bytes(), name


def test_held_out_documents_are_whole_and_chosen_by_their_text(tokenizer, documents, tmp_path):
    doubled = documents + documents[::-1]
    manifest = prepared(doubled, tmp_path / "a", tokenizer, holdout=0.3, max_document_tokens=100)
    held_out = Manifest.load(tmp_path / "a" / "heldout")
    assert 0.15 < held_out.num_documents / len(doubled) < 0.45
    sides = []
    for directory, how_many in (("a", manifest), ("a/heldout", held_out)):
        texts = {}
        for ids, _, document in records_of(tmp_path / directory):
            texts.setdefault(document, []).extend(ids.tolist())
        assert len(texts) == how_many.num_documents
        sides.append([tuple(text) for text in texts.values()])
    whole = [tuple(i for s in tokenizer.encode_batch(d) for i in s) for d in doubled]
    assert sorted(sides[0] + sides[1]) == sorted(whole)
    assert not set(sides[0]) & set(sides[1])


@pytest.mark.parametrize("when", ["tokenizing", "second shard", "manifest"])
def test_an_interrupted_preparation_is_not_a_corpus(
    tokenizer, documents, tmp_path, monkeypatch, when
):
    class Stop(BaseException):
        pass

    def stop(*args, **kwargs):
        raise Stop

    settings = {"max_document_tokens": 500, "shard_tokens": 2000, "holdout": 0.2}
    with monkeypatch.context() as patch:
        if when == "tokenizing":
            patch.setattr(module, "BATCH_CHARACTERS", 20_000)
            patch.setattr(
                type(tokenizer), "encode_batch", _stops_after(tokenizer.encode_batch, 2, stop)
            )
        elif when == "second shard":
            patch.setattr("keras_albert.data.shards.sha256", _stops_after(lambda p: "", 3, stop))
        else:
            patch.setattr("os.replace", _stops_at_manifest(stop))
        with pytest.raises(Stop):
            prepared(documents, tmp_path / "shards", tokenizer, **settings)
    assert not (tmp_path / "shards" / "manifest.json").exists()
    with pytest.raises(ValueError, match=r"must hold manifest\.json"):
        Manifest.load(tmp_path / "shards")

    prepared(documents, tmp_path / "shards", tokenizer, **settings)
    prepared(documents, tmp_path / "fresh", tokenizer, **settings)
    names = lambda d: sorted(str(p.relative_to(d)) for p in d.rglob("*"))
    assert names(tmp_path / "shards") == names(tmp_path / "fresh")


def _stops_after(function, times, stop):
    calls = []

    def stopping(*args):
        calls.append(0)
        return stop() if len(calls) > times else function(args[-1])

    return stopping


def _stops_at_manifest(stop):
    import os

    replace = os.replace
    return lambda a, b: stop() if str(b).endswith("manifest.json") else replace(a, b)


def test_a_corpus_is_not_overwritten_unasked(tokenizer, documents, tmp_path):
    prepared(documents[:9], tmp_path, tokenizer, holdout=0.5, shard_tokens=300)
    (tmp_path / "notes.txt").write_text("mine")
    before = (tmp_path / "manifest.json").read_bytes()
    with pytest.raises(ValueError, match="overwrite=True"):
        prepared(documents[:5], tmp_path, tokenizer)
    assert (tmp_path / "manifest.json").read_bytes() == before
    with pytest.raises(ValueError, match="No file found"):
        prepare_corpus("nowhere", tmp_path, tokenizer=tokenizer, overwrite=True)
    assert (tmp_path / "manifest.json").read_bytes() == before
    assert prepared(documents[:5], tmp_path, tokenizer, overwrite=True).num_documents == 5
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "manifest.json",
        "notes.txt",
        "shard-00000.array_record",
        "shard-00000.index",
        "tokenizer",
    ]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["notes.txt", "tokenizer/mine.txt", "manifest.json"])
def test_a_directory_of_something_else_is_left_alone(
    tokenizer, documents, tmp_path, name, overwrite
):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text('{"name": "a web page"}')
    before = {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")}
    with pytest.raises(ValueError, match=rf"new, empty or of a corpus.*{name.split('/')[0]}"):
        prepared(documents[:5], tmp_path, tokenizer, overwrite=overwrite)
    assert before == {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")}
    (tmp_path / name).unlink()
    if name.startswith("tokenizer"):
        (tmp_path / "tokenizer").rmdir()
    (tmp_path / ".hidden").write_text("of the system")
    assert prepared(documents[:5], tmp_path, tokenizer).num_documents == 5


def test_files_and_documents_give_the_same_tokens(tokenizer, documents, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join("\n".join(d) for d in documents))
    settings = {"tokenizer": tokenizer, "sentences": "lines", "progress": False}
    from_files = prepare_corpus(path, tmp_path / "a", **settings)
    from_documents = prepare_corpus(iter(documents), tmp_path / "b", **settings)
    assert from_files.shards == from_documents.shards
    assert from_files.inputs["bytes"] == path.stat().st_size


def test_a_long_document_read_in_parts_stays_one(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_albert.data.documents.PART_CHARACTERS", 100)
    path = tmp_path / "corpus.txt"
    path.write_text("a b c d e f g h\n" * 100 + "\nlast\n")
    manifest = prepare_corpus(path, tmp_path / "a", tokenizer=tokenizer, progress=False)
    assert manifest.num_documents == 2
    assert manifest.num_records > 10


def test_cuts_are_even_and_within_the_limit():
    random = np.random.default_rng(0)
    for _ in range(300):
        most = int(random.integers(8, 200))
        lengths = random.integers(1, most + 1, size=random.integers(1, 60))
        places = list(cuts(lengths, most))
        sums = [part.sum() for part in np.split(lengths, places[:-1])]
        assert places[-1] == len(lengths)
        assert max(sums) <= most
    ones = np.ones(1001, int)
    assert np.ptp(np.diff([0, *cuts(ones, 500)])) <= 1  # 334, 334, 333; not 500, 500, 1


def test_a_sentence_beyond_the_limit_is_cut(tokenizer, tmp_path):
    words = [f"{i:03d}" for i in range(100)]
    prepared([[" ".join(words), "end"]], tmp_path, tokenizer, max_document_tokens=30)
    records = list(records_of(tmp_path))
    assert all(len(ids) <= 30 for ids, _, _ in records)
    expected = sum(tokenizer.encode_batch([" ".join(words), "end"]), [])
    assert np.concatenate([ids for ids, _, _ in records]).tolist() == expected


def test_record_layout_is_as_documented():
    record = encode_record([7, 65535, 2], [1, 2], "<u2")
    assert record == bytes.fromhex("02000000 0100 0200 0700 ffff 0200")
    for damaged in (b"", record[:5], record[:-1]):
        with pytest.raises(ValueError, match="Not a record"):
            decode_record(damaged, "<u2")
    with pytest.raises(ValueError, match="sum"):
        encode_record([1, 2], [1], "<u2")


def test_large_vocabularies_take_32_bits(tokenizer, tmp_path):
    large = type(tokenizer)(70_001)
    manifest = prepared([["some words here", "more"]], tmp_path, large)
    assert manifest.token_dtype == "uint32"
    ((ids, _, _),) = records_of(tmp_path)
    assert ids.tolist() == sum(large.encode_batch(["some words here", "more"]), [])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"holdout": 1.0}, "Received: 1.0"),
        ({"holdout": 0.001}, "held-out"),
        ({"max_document_tokens": 70_000}, "Received: 70000"),
        ({"shard_tokens": 0}, "Received: shard_tokens=0"),
        ({"num_workers": 0}, "Received: num_workers=0"),
        ({"on_error": "ignore"}, "'ignore'"),
        ({"sentences": "English"}, "'English'"),
    ],
)
def test_wrong_arguments_are_named(settings, message, tokenizer, documents, tmp_path):
    with pytest.raises(ValueError, match=message):
        prepared(documents[:3], tmp_path, tokenizer, **settings)
    assert not (tmp_path / "manifest.json").exists()


def test_a_corpus_without_text_is_refused(tokenizer, tmp_path):
    (tmp_path / "a.txt").write_text("\n \n")
    with pytest.raises(ValueError, match="must have text"):
        prepare_corpus(tmp_path / "a.txt", tmp_path / "s", tokenizer=tokenizer, progress=False)


def test_progress_shows_tokens_and_rate(tokenizer, documents, tmp_path, capsys):
    manifest = prepare_corpus(iter(documents), tmp_path, tokenizer=tokenizer)
    shown = capsys.readouterr().out
    assert f"{manifest.num_tokens:,} tokens" in shown
    assert re.search(r"[\d,]+/s", shown)


def test_a_manifest_of_another_format_is_refused(tmp_path):
    for text, message in (("{", "not valid JSON"), ('{"format_version": 2}', "Received: 2")):
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            Manifest.load(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"format_version": 1, "x": 1}))
    with pytest.raises(ValueError, match="not a manifest"):
        Manifest.load(tmp_path)
