"""Oracles: texts beside what should be read from them, by hand and by a slow plain reader."""

import json
import os
import pickle
import re
import subprocess
import sys

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from keras_albert.data import documents as module
from keras_albert.data import formats, lines
from keras_albert.data.documents import (
    Skipped,
    Source,
    read_documents,
    read_sources,
    sentence_splitter,
)
from keras_albert.preprocessing.files import find_files
from tests.conftest import ROOT

pytestmark = pytest.mark.backend_free


def sentences_of(files, **settings):
    return [d.sentences for d in read_documents(files, **settings)]


def read_plainly(data: bytes, separator: str) -> list[list[str]]:
    """The rules for plain text, a line at a time, in their shortest form."""
    documents = [[]]
    for line in data.decode("utf-8-sig").split("\n"):
        line = line.strip()
        heading = separator == "heading" and re.match(r"#{1,6}\s", line)
        if heading or (separator == "blank_line" and not line):
            documents.append([])
        elif line and not (separator == "heading" and re.fullmatch(r"[-*_\s]{3,}", line)):
            documents[-1].append(line)
    return [document for document in documents if document]


BITS = st.sampled_from(
    ["\n", "\n\n", " ", "\t", "\r", "\r\n", "\x0c", "\u2028", "\xa0", "\ufeff", "#", "## ", "---"]
    + ["* * *", "_", "One.", "Zwölf", "文", "\U0001f600"]
)
TEXTS = st.lists(BITS, max_size=40).map("".join)


@pytest.mark.parametrize("separator", ["blank_line", "heading", "file"])
@hypothesis.given(text=TEXTS, chunk=st.integers(1, 40))
@hypothesis.example(text="\ufeff# One\n\n##\n## Two\n--\n- -\nThree", chunk=3)
def test_plain_text_is_read_as_its_rules_say(tmp_path_factory, separator, text, chunk):
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "CHUNK_BYTES", chunk)
        sources = list(read_sources(path, document_separator=separator))
    expected = read_plainly(text.encode(), separator)
    assert [source.text for source in sources] == ["\n".join(d) for d in expected]
    assert sentences_of(path, document_separator=separator, sentences="lines") == expected


def test_all_real_texts_are_read_as_the_rules_say(shared_data):
    for path in find_files(shared_data / "text"):
        separator = "heading" if path.suffix == ".md" else "blank_line"
        sources = list(read_sources(path))
        expected = ["\n".join(d) for d in read_plainly(path.read_bytes(), separator)]
        assert [source.text for source in sources] == expected, path
        assert not any(source.continues for source in sources)  # a novel stays whole


def test_blank_lines_end_documents(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffOne. Two!\r\nThree.\r\n\r\n  \r\nFour.".encode())
    (tmp_path / "b.txt").write_text("Five.")
    assert sentences_of(tmp_path) == [["One.", "Two!", "Three."], ["Four."], ["Five."]]


def test_headings_end_documents_and_are_dropped(tmp_path):
    path = tmp_path / "book.md"
    path.write_text("# Title\n\n---\n\n## I\n\nOne.\n\nTwo. Three.\n\n### II\nFour #5.\n")
    expected = [["One.", "Two.", "Three."], ["Four #5."]]
    assert sentences_of(path) == expected
    path.rename(tmp_path / "book.txt")
    assert sentences_of(str(tmp_path / "*.txt"), document_separator="heading") == expected


def test_a_file_can_be_one_document(tmp_path):
    (tmp_path / "a.md").write_text("One.\n\nTwo.\n")
    assert sentences_of([tmp_path / "a.md"], document_separator="file") == [["One.", "Two."]]


def test_iterables_of_documents():
    documents = iter(["One. Two.\n\nThree.", ["Not split. Here."], " ", []])
    assert sentences_of(documents) == [["One.", "Two.", "Three."], ["Not split. Here."]]
    assert sentences_of([["One."], ["Two."]]) == [["One."], ["Two."]]
    assert sentences_of([b"One.", ["Two."]]) == [["One."], ["Two."]]


def test_iterables_of_rows_as_libraries_of_data_give_them():
    rows = [
        {"text": "One. Two.", "label": 1},
        {"text": "Drei – vier.".encode()},
        {"text": ["Five. Not split."]},
        {"text": np.array([b"Six.", "Sieben ß.".encode()], object)},
        {"text": np.str_("Eight.")},
    ]
    expected = [["One.", "Two."], ["Drei – vier."], ["Five. Not split."], ["Six.", "Sieben ß."]]
    assert sentences_of(rows) == [*expected, ["Eight."]]
    renamed = [{"body": row["text"]} for row in rows]
    assert sentences_of(iter(renamed), text_field="body") == [*expected, ["Eight."]]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"body": "One."}, r"document 1: .*'text'; fields: \['body'\]"),
        ({"text": None}, "document 1: .*'None'"),
        (["One.", 2], "document 1: "),
        (b"caf\xe9", "document 1: .*0xe9"),
        ("\ud800", "document 1: .*surrogates"),
        (7, "document 1: .*'7'"),
    ],
)
def test_bad_documents_are_named_or_skipped(bad, message):
    documents = ["One.", bad, "Two."]
    with pytest.raises(ValueError, match=message):
        sentences_of(iter(documents))
    skipped = Skipped()
    read = list(read_sources(iter(documents), on_error="skip", skipped=skipped))
    assert read == [Source("One."), Source("Two.")]
    assert skipped.counts == {"records": 1}
    assert re.search(message, skipped.first[0])


def test_sentences_by_lines_function_and_language():
    assert sentences_of(iter(["One. Two.\nThree."]), sentences="lines") == [["One. Two.", "Three."]]
    assert sentences_of(iter(["a;b; c"]), sentences=lambda t: t.split(";")) == [["a", "b", "c"]]
    assert sentences_of(iter(["これは文です。次の文です。"]), sentences="ja") == [
        ["これは文です。", "次の文です。"]
    ]
    assert sentences_of(iter(["Mr. Fox paid $3.50. He left."])) == [
        ["Mr. Fox paid $3.50.", "He left."]
    ]


@pytest.mark.parametrize("text", ["ab cd é" * 40, "é" * 300, "x" * 299 + "\n\n" + "y" * 20])
def test_no_character_is_lost_from_lines_longer_than_the_buffer(tmp_path, monkeypatch, text):
    monkeypatch.setattr(lines, "LINE_BYTES", 17)
    path = tmp_path / "long.txt"
    path.write_text(text, encoding="utf-8")
    pieces = [s for d in sentences_of(path, sentences="lines") for s in d]
    assert len(pieces) > 10
    assert "".join("".join(pieces).split()) == "".join(text.split())


@hypothesis.given(
    st.lists(st.sampled_from(["a", "é", "文", " ", "\n", "b" * 9]), max_size=60).map("".join),
    st.integers(1, 60),
)
def test_where_long_lines_are_cut_depends_on_the_line_alone(text, size):
    data = text.encode()
    chunks = [data[i : i + size] for i in range(0, len(data), size)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "LINE_BYTES", 13)
        blocks = list(lines._blocks(chunks))
        expected = []
        for line in data.splitlines(keepends=True):
            begun = 0  # bytes of the line that are held from before
            while len(line) - begun >= 13 and b"\n" not in line[: begun + 13]:
                piece, rest = lines._cut(line[: begun + 13])
                expected.append(piece)
                line, begun = line[len(piece) :], len(rest)
            expected.append(line)
    pieces = [piece for block in blocks for piece in block.splitlines(keepends=True)]
    assert pieces == [piece for piece in expected if piece]
    assert b"".join(blocks) == data


def test_long_documents_come_in_parts_that_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PART_CHARACTERS", 10)
    path = tmp_path / "a.txt"
    path.write_text("aaaaaa\nbbbbbb\ncccccc\nd\n\ne\nf\n")
    read = list(read_documents(path, sentences="lines"))
    assert [(d.sentences, d.continues) for d in read] == [
        (["aaaaaa", "bbbbbb"], False),
        (["cccccc", "d"], True),
        (["e", "f"], False),
    ]
    assert read[-1].bytes_read == path.stat().st_size


@hypothesis.given(
    st.lists(st.sampled_from(["One.", "two 文", "x" * 40, "é" * 19, "\n", " "]), max_size=30),
    st.sampled_from(["jsonl", "parquet", "iterable"]),
)
def test_long_records_are_cut_like_the_text_of_a_file(tmp_path_factory, found, kind):
    """The same parts as of a file of plain text; short ones are whole."""
    # Without white space at its ends: where a file's very long line is cut depends on that.
    text = "\n".join(line.strip() for line in "".join(found).split("\n"))
    folder = tmp_path_factory.mktemp("long")
    (folder / "a.txt").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART_CHARACTERS", 50)
        patch.setattr(lines, "LINE_BYTES", 30)
        expected = list(read_sources(folder / "a.txt", document_separator="file"))
        files = iter([text, ["end"]])
        if kind == "jsonl":
            files = folder / "a.jsonl"
            files.write_text("\n".join(json.dumps({"text": t}) for t in (text, "end")))
        elif kind == "parquet":
            pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            files = folder / "a.parquet"
            pq.write_table(pa.table({"text": [text, "end"]}), files)
        *read, end = read_sources(files)
    assert not end.continues
    whole = "\n".join(line.strip() for line in text.split("\n") if line.strip())
    if len(whole) <= 50:
        assert [source.text for source in read] == [whole] * bool(whole)
    else:
        parts = [(source.text, source.continues) for source in read]
        assert parts == [(source.text, source.continues) for source in expected]


def test_long_lists_of_sentences_are_cut_between_them(monkeypatch):
    monkeypatch.setattr(module, "PART_CHARACTERS", 10)
    read = list(read_sources(iter([["a" * 8, "bbb", "c" * 30, "d"], ["short"]])))
    assert [(source.text, source.continues) for source in read] == [
        (["a" * 8, "bbb"], False),
        (["c" * 30], True),
        (["d"], True),
        (["short"], False),
    ]


def test_a_language_without_rules_is_told_of():
    """A misspelt code would otherwise be taken for English without a word."""
    with pytest.warns(UserWarning, match="language 'xx'.*or else of English.* de, "):
        sentences_of(iter(["One. Two."]), sentences="xx")
    for code in module.LANGUAGES:  # warnings are errors
        assert sentences_of(iter(["One."]), sentences=code) == [["One."]]


def test_bytes_read_go_on_from_file_to_file(tmp_path):
    paths = [tmp_path / name for name in ("a.txt", "b.jsonl", "c.txt")]
    for path, text in zip(paths, ("One.\n\n", '{"text": "Two."}\n\n', "Three."), strict=True):
        path.write_text(text)
    ends = np.cumsum([path.stat().st_size for path in paths])
    assert [source.bytes_read for source in read_sources(paths)] == ends.tolist()
    assert [source.bytes_read for source in read_sources(iter(["One."]))] == [0]


def test_files_are_found_once_and_in_order(tmp_path, monkeypatch):
    for name in ("b.txt", "a.txt", "sub/c.txt", ".hidden", "sub/.git/d.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    names = lambda found: [str(p.relative_to(tmp_path)) for p in found]
    assert names(find_files(tmp_path)) == ["a.txt", "b.txt", "sub/c.txt"]
    pattern = str(tmp_path / "**/*.txt")
    assert names(find_files([tmp_path / "b.txt", pattern])) == ["b.txt", "a.txt", "sub/c.txt"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert names(find_files("~/b.txt")) == ["b.txt"]


def test_broken_utf8_names_file_and_line(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("one\ntwo\ncafé\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt, line 3.*xe9.*byte 3"):
        sentences_of(path)
    skipped = Skipped()
    path.write_bytes(b"\xff\none\n\nt\xffwo\nthree\n\n\xfe\n")
    read = list(read_sources(path, on_error="skip", skipped=skipped))
    assert [source.text for source in read] == ["one", "three"]
    assert skipped.as_dict()["counts"] == {"lines": 3}
    assert [re.search(r"line \d", message)[0][5:] for message in skipped.first] == list("147")


def test_messages_of_what_is_skipped_stay_few():
    skipped = Skipped()
    list(read_sources(iter([None] * 50), on_error="skip", skipped=skipped))
    assert skipped.counts == {"records": 50}
    assert [message.split(":")[0] for message in skipped.first] == [
        f"`files`, document {i}" for i in range(10)
    ]


@pytest.mark.parametrize("sentences", ["lines", "en"])
def test_what_other_processes_need_can_be_sent_to_them(sentences):
    split = pickle.loads(pickle.dumps(sentence_splitter(sentences)))
    text = "One. Two.\n Three. "
    source = pickle.loads(pickle.dumps(Source(text, True, 7, None)))
    expected = [s for d in sentences_of(iter([text]), sentences=sentences) for s in d]
    assert module.sentences_of(source, split) == expected


def test_reading_loads_no_large_library():
    program = (
        "import sys; from keras_albert.data import documents;"
        "list(documents.read_documents(iter(['One. Two.'])));"
        "heavy = {'keras', 'keras_hub', 'numpy', 'tensorflow', 'jax', 'torch', 'pyarrow',"
        " 'backports.zstd', 'mwparserfromhell'}; print(sorted(heavy & set(sys.modules)))"
    )
    environment = {**os.environ, "KERAS_ALBERT_LIGHT": "1"}
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("files", "settings", "message"),
    [
        ("nowhere/*.txt", {}, r"No file found for: 'nowhere/\*\.txt'"),
        ([], {}, "empty list"),
        (["A text of some words."], {}, "pass documents as an iterator"),
        (7, {}, "Received: 7"),
        ({"train": ["One."]}, {}, "dictionary of splits"),
        (iter(["a"]), {"text_field": ""}, "`text_field`.*''"),
        (iter(["a"]), {"on_error": "ignore"}, "`on_error`.*'ignore'"),
        (iter(["a"]), {"sentences": "english"}, "'english'"),
        (iter(["a"]), {"document_separator": "page"}, "'page'"),
    ],
)
def test_wrong_arguments_are_named(files, settings, message):
    with pytest.raises(ValueError, match=message):
        sentences_of(files, **settings)
