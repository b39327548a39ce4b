"""Oracles: texts written down by hand beside what should be read from them."""

import pytest

from keras_albert.data import documents as module
from keras_albert.data.documents import read_documents
from keras_albert.preprocessing.files import find_files


def sentences_of(files, **settings):
    return [d.sentences for d in read_documents(files, **settings)]


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
    monkeypatch.setattr(module, "LINE_BYTES", 17)
    path = tmp_path / "long.txt"
    path.write_text(text, encoding="utf-8")
    pieces = [s for d in sentences_of(path, sentences="lines") for s in d]
    assert len(pieces) > 10
    assert "".join("".join(pieces).split()) == "".join(text.split())


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


@pytest.mark.parametrize(
    ("files", "settings", "message"),
    [
        ("nowhere/*.txt", {}, r"No file found for: 'nowhere/\*\.txt'"),
        ([], {}, "empty list"),
        (["a document"], {}, "pass an iterator"),
        (7, {}, "Received: 7"),
        (iter([b"bytes"]), {}, "document 0"),
        (iter(["a"]), {"sentences": "english"}, "'english'"),
        (iter(["a"]), {"document_separator": "page"}, "'page'"),
    ],
)
def test_wrong_arguments_are_named(files, settings, message):
    with pytest.raises(ValueError, match=message):
        sentences_of(files, **settings)
