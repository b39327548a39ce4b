"""Oracles: files written by hand; sentences written and read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_albert.datasets import load_conll
from keras_albert.datasets.tagging import iob2

pytestmark = pytest.mark.backend_free

CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
French JJ I-NP B-MISC

-DOCSTART- -X- O O

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
"""


def words_and_tags(data):
    return [
        (words, [data.label_names[tag] for tag in tags])
        for words, tags in zip(data.x, data.y, strict=True)
    ]


def test_conll_2003(tmp_path):
    path = tmp_path / "eng.train"
    path.write_text(CONLL)
    data = load_conll(path, iob1=True)
    assert words_and_tags(data) == [
        (["EU", "rejects", "German", "French"], ["B-ORG", "O", "B-MISC", "B-MISC"]),
        (["Peter", "Blackburn"], ["B-PER", "I-PER"]),
    ]
    assert data.label_names == ("O", "B-MISC", "B-ORG", "B-PER", "I-PER")
    assert words_and_tags(load_conll(path))[1][1] == ["I-PER", "I-PER"]
    chunks = load_conll(path, tag_column=2)
    assert words_and_tags(chunks)[0][1] == ["I-NP", "I-VP", "I-NP", "I-NP"]


def test_other_columns_separators_and_comments(tmp_path):
    path = tmp_path / "tags.tsv"
    path.write_text("# text = New York\n1\tNew York\tB-LOC\r\n2\tis\tO\r\n")
    data = load_conll(path, word_column=1, separator="\t", comments=True)
    assert words_and_tags(data) == [(["New York", "is"], ["B-LOC", "O"])]
    path.write_text("# O\na B-X\n")
    assert words_and_tags(load_conll(path))[0][0] == ["#", "a"]


def test_iob1_by_hand():
    # A span of IOB1 begins with B- only where it touches one of its own type.
    assert iob2(["I-A", "I-A", "B-A", "I-B", "O", "I-B"]) == [
        "B-A",
        "I-A",
        "B-A",
        "B-B",
        "O",
        "B-B",
    ]
    assert iob2(["B-A", "I-A", "O"]) == ["B-A", "I-A", "O"]  # IOB2 stays


WORD = st.text("abcdeé#.", min_size=1, max_size=5)
SENTENCE = st.lists(st.tuples(WORD, st.sampled_from(["O", "B-X", "I-X"])), min_size=1, max_size=5)


@given(st.lists(SENTENCE, min_size=1, max_size=5))
def test_what_is_written_is_read(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("conll") / "a.conll"
    lines = ["\n".join(f"{word} x {tag}" for word, tag in sentence) for sentence in sentences]
    path.write_text("\n\n\n".join(lines), encoding="utf-8")
    expected = [tuple(map(list, zip(*sentence, strict=True))) for sentence in sentences]
    assert words_and_tags(load_conll(path, ["O", "B-X", "I-X"])) == expected


def test_broken_lines_are_named(tmp_path):
    path = tmp_path / "eng.train"
    for text, arguments, message in (
        ("a O\nb\n", {}, "a word and a tag. .*eng.train, line 2. Received: 'b'"),
        ("a O\nb O\n", {"tag_column": 3}, "a field 3. .*line 1. Received"),
        ("a O\n\nb B-Y\n", {"label_names": ["O"]}, "one of O. .*line 3. Received: 'B-Y'"),
        ("\n", {}, "at least one sentence. Received"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            load_conll(path, **arguments)
    path.write_bytes(b"a O\n\xff O\n")
    with pytest.raises(ValueError, match="UTF-8 .*eng.train, line 2. Received"):
        load_conll(path)


def test_wrong_arguments_are_refused(tmp_path):
    for arguments, message in (
        ({"path": None}, "a file's path. Received"),
        ({"path": tmp_path / "none"}, r"\(from https:.*Received"),
        ({"label_names": []}, "a list of strings, or None. Received"),
        ({"word_column": "0"}, "`word_column` .*an integer. Received"),
        ({"tag_column": None}, "`tag_column` .*an integer. Received"),
        ({"separator": ""}, "not empty, or None. Received"),
        ({"comments": "#"}, "True or False. Received"),
        ({"iob1": None}, "True or False. Received"),
    ):
        with pytest.raises(ValueError, match=message):
            load_conll(**{"path": "x", **arguments})
