"""Oracles: the plain file beside the compressed one; what was written into JSON and Parquet."""

import bz2
import gzip
import json
import lzma
import re
import sys
import tracemalloc

import hypothesis
import pytest
from hypothesis import strategies as st

from keras_albert.data import documents, formats, lines
from keras_albert.data.documents import Skipped, read_documents, read_sources

pytestmark = pytest.mark.backend_free

zstd = pytest.importorskip(
    "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd", reason="no zstd"
)
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd.compress}
SUFFIXES = pytest.mark.parametrize("suffix", COMPRESS)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Zs", "Zl", "Zp", "Cc"]))
LINES = st.lists(WORDS, max_size=30)
BODY = "\n\n".join(f"Document {i} has {i * i} words – {i**9 % 9973}." for i in range(60))


def texts(files, **settings):
    return [source.text for source in read_sources(files, **settings)]


def skipping(files, **settings):
    skipped = Skipped()
    return texts(files, on_error="skip", skipped=skipped, **settings), skipped


@SUFFIXES
@hypothesis.given(found=LINES, cut=st.floats(0, 1), chunk=st.integers(1, 99))
def test_compressed_files_read_as_the_plain_file(tmp_path_factory, suffix, found, cut, chunk):
    folder = tmp_path_factory.mktemp("compressed")
    data = "\n".join(found).encode()
    plain, compressed = folder / "a.txt", folder / f"a.txt{suffix}"
    plain.write_bytes(data)
    at = int(cut * len(data))  # as parallel compressors write: streams one after the other
    streams = [COMPRESS[suffix](part) for part in (data[:at], b"", data[at:])]
    compressed.write_bytes(b"".join(streams))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "CHUNK_BYTES", chunk)
        patch.setattr(formats, "_STORED_BYTES", chunk)
        assert texts(compressed) == texts(plain)
        assert b"".join(formats.StoredFile(compressed).chunks()) == data


@SUFFIXES
def test_the_suffix_before_the_compression_says_the_format(tmp_path, suffix):
    contents = {
        "a.md": "# T\n\nOne.\n\nTwo.",
        "a.JSONL": '{"text": "One.\\nTwo."}',
        "a": "One.\nTwo.",
    }
    for name, content in contents.items():
        path = tmp_path / f"{name}{suffix.upper() if name == 'a' else suffix}"
        path.write_bytes(COMPRESS[suffix](content.encode()))
        [source] = read_sources(path)
        assert source.text == "One.\nTwo."
        assert source.bytes_read == path.stat().st_size


@SUFFIXES
def test_files_cut_short_are_named_and_lose_only_what_is_cut(tmp_path, suffix):
    path = tmp_path / f"short.txt{suffix}"
    data = COMPRESS[suffix](BODY.encode())
    whole = BODY.split("\n\n")
    for size in [*range(0, len(data), 41), *range(len(data) - 9, len(data))]:
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match=rf"short\.txt\{suffix}, at or before byte {size}: "):
            texts(path)
        kept, skipped = skipping(path)
        assert kept == whole[: len(kept)]
        assert skipped.counts == {"files": 1}
        assert path.name in skipped.first[0]
    path.write_bytes(data)
    assert texts(path) == whole


@SUFFIXES
def test_damage_after_a_whole_stream_is_not_taken_for_the_end(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    first, second = (COMPRESS[suffix](f"{name}.\n\n".encode()) for name in ("One", "Two"))
    path.write_bytes(first + b"\0" * 8 + second + b"\0" * 4)  # zeros are padding
    assert texts(path) == ["One.", "Two."]
    for damaged in (b"rubbish" + second, b"\x01" + second[1:], second[:-1]):
        path.write_bytes(first + damaged)
        with pytest.raises(ValueError, match=rf"a\.txt\{suffix}, at or before byte \d+"):
            texts(path)
        kept, skipped = skipping(path)
        assert kept[:1] == ["One."]
        assert skipped.counts == {"files": 1}


@SUFFIXES
def test_plain_text_under_a_compressed_name_is_refused(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    path.write_text("Not compressed.")
    with pytest.raises(ValueError, match=rf"ends in \{suffix} must hold whole compressed data"):
        texts(path)


def test_the_next_file_is_read_after_a_broken_one(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"One.\n\nTwo.\n\n")[:-3])
    (tmp_path / "b.txt").write_text("Three.")
    kept, skipped = skipping(tmp_path)
    assert kept == ["One.", "Two.", "Three."]
    assert skipped.counts == {"files": 1}


RECORDS = st.lists(st.one_of(WORDS, st.lists(WORDS, max_size=4)), max_size=20)


@hypothesis.given(RECORDS, st.booleans())
def test_json_lines_give_back_what_was_written(tmp_path_factory, records, ascii):
    path = tmp_path_factory.mktemp("json") / "a.jsonl"
    rows = [json.dumps({"n": 1, "body": r}, ensure_ascii=ascii) for r in records]
    path.write_text("\n\n".join(rows), encoding="utf-8")
    assert texts(path, text_field="body") == [r for r in records if r]


@hypothesis.given(st.lists(WORDS, max_size=200), st.sampled_from([None, "zstd", "snappy"]))
@hypothesis.settings(max_examples=30)
def test_parquet_gives_back_what_was_written(tmp_path_factory, records, compression):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    for column in (
        pa.array(records, pa.string()),
        pa.array(records, pa.large_string()),
        pa.array([r.encode() for r in records], pa.binary()),
        pa.array([[r, "x"] for r in records], pa.list_(pa.string())),
    ):
        table = pa.table({"id": list(range(len(records))), "body": column})
        pq.write_table(table, path, row_group_size=70, compression=compression)
        nested = pa.types.is_list(column.type)
        expected = [[r, "x"] for r in records] if nested else [r for r in records if r]
        sources = list(read_sources(path, text_field="body"))
        assert [source.text for source in sources] == expected
        assert all(source.bytes_read <= path.stat().st_size for source in sources)


BAD_LINES = {
    b'{"text": "cut': "a JSON object .Unterminated string.*at character 9",
    b"[1, 2]": "a JSON object. Received",
    b'"a string"': "a JSON object. Received",
    b'{"body": "x"}': r"'text'; fields: \['body'\]",
    b'{"text": null}': "a string or a list of strings. Received: 'None'",
    b'{"text": ["a", 1]}': "a string or a list of strings",
    b'{"text": "caf\xe9"}': "0xe9",
    b'{"text": "\\ud800"}': "surrogates",
    b'{"text": ' + b"[" * 100_000: "recursion",
    b'{"text": "' + b"x" * 200_000 + b'"}': "no longer than 150,000 bytes",
}


@pytest.mark.parametrize("bad", BAD_LINES, ids=lambda line: line[:20].decode("latin-1"))
def test_bad_lines_of_json_are_named_or_skipped(tmp_path, monkeypatch, bad):
    monkeypatch.setattr(formats, "RECORD_BYTES", 150_000)
    monkeypatch.setattr(formats, "CHUNK_BYTES", 1000)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "One."}\n\n' + bad + b'\n{"text": "Two."}')
    message = rf"(?s)rows\.jsonl, line 3: .*{BAD_LINES[bad]}"
    with pytest.raises(ValueError, match=message):
        texts(path)
    kept, skipped = skipping(path)
    assert kept == ["One.", "Two."]
    assert skipped.counts == {"records": 1}
    assert re.search(message, skipped.first[0])


def test_bad_rows_and_columns_of_parquet_are_named_or_skipped(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    values = ["One."] * 100 + [None] + ["Two."]
    pq.write_table(pa.table({"text": values, "id": list(range(102))}), path)
    with pytest.raises(ValueError, match=r"rows\.parquet, row 100 .*'None'"):
        texts(path)
    kept, skipped = skipping(path)
    assert kept == ["One."] * 100 + ["Two."]
    assert skipped.counts == {"records": 1}
    with pytest.raises(ValueError, match=r"rows\.parquet: .*'body'; columns: \['text', 'id'\]"):
        texts(path, text_field="body")
    broken = pa.array([b"ok", b"caf\xe9"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": broken}), path)
    with pytest.raises(ValueError, match=r"rows\.parquet, row 1 .*0xe9"):
        texts(path)


def test_broken_parquet_is_named_or_skipped(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    whole = tmp_path / "whole.parquet"
    table = pa.table({"text": [f"Document {i}." for i in range(500)]})
    pq.write_table(table, whole, row_group_size=100, write_page_checksum=True)
    data = whole.read_bytes()
    path = tmp_path / "broken.parquet"
    for size in (0, 3, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match=r"broken\.parquet, after 0 rows"):
            texts(path)
        assert skipping(path)[0] == []
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1  # in the third group of rows
    path.write_bytes(flipped)
    kept, skipped = skipping(path)
    assert kept == table["text"].to_pylist()[: len(kept)]
    assert 100 <= len(kept) < 300
    assert skipped.counts == {"files": 1}
    with pytest.raises(ValueError, match=rf"broken\.parquet, after {len(kept)} rows: .*CRC"):
        texts(path)
    path.rename(tmp_path / "broken.parquet.gz")
    with pytest.raises(ValueError, match="must not be compressed again"):
        texts(tmp_path / "broken.parquet.gz")


def test_a_missing_library_says_what_to_install(tmp_path, monkeypatch):
    for module in ("pyarrow", "pyarrow.parquet", "mwparserfromhell", zstd.__name__):
        monkeypatch.setitem(sys.modules, module, None)
    for name in ("a.parquet", "a.xml", "a.txt.zst"):
        (tmp_path / name).write_bytes(b"<mediawiki/>")
        with pytest.raises(ImportError, match=r"keras-albert\[prepare\]"):
            texts(tmp_path / name)


def _megabytes(kind, count):
    line = "All work and no play makes Jack a dull boy.\n" * 4
    if kind == "long line":
        line = line.replace("\n", " ")
    elif kind == "json":
        line = json.dumps({"text": line}) + "\n"
    return line * (count * 2**20 // len(line))


@pytest.mark.parametrize("kind", ["one document", "long line", "json"])
def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(formats, "CHUNK_BYTES", 1 << 14)
    monkeypatch.setattr(lines, "LINE_BYTES", 1 << 14)
    monkeypatch.setattr(documents, "PART_CHARACTERS", 1 << 15)
    peaks, characters = [], 0
    for count in (1, 4):
        path = tmp_path / ("a.jsonl.gz" if kind == "json" else "a.txt.gz")
        path.write_bytes(gzip.compress(_megabytes(kind, count).encode(), 1))
        tracemalloc.start()
        characters = sum(len(d.text) for d in read_sources(path))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert characters > 3 * 2**20
    assert peaks[1] < 1.2 * peaks[0] < 2**20


def test_compressed_zeros_do_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "CHUNK_BYTES", 1 << 14)
    for suffix, compress in COMPRESS.items():
        path = tmp_path / f"bomb.jsonl{suffix}"
        path.write_bytes(compress(b"0" * 2**24))
        monkeypatch.setattr(formats, "RECORD_BYTES", 1 << 16)
        tracemalloc.start()
        with pytest.raises(ValueError, match="no longer than 65,536 bytes"):
            texts(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 9 * 2**20, suffix  # xz has a dictionary of 8 MB


def test_documents_of_every_format_become_the_same_sentences(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    found = [["One is here.", "Two is there."], ["Three."]]
    (tmp_path / "a.txt").write_text("One is here. Two is there.\n\nThree.\n")
    rows = [" ".join(document) for document in found]
    (tmp_path / "b.ndjson").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    pq.write_table(pa.table({"text": rows}), tmp_path / "c.parquet")
    (tmp_path / "d.json").write_text("".join(json.dumps({"text": d}) + "\n" for d in found))
    assert [d.sentences for d in read_documents(tmp_path)] == found * 4
