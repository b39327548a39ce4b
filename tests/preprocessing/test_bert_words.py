"""Oracle: Google's basic tokenizer, written out step by step."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.preprocessing.bert_words import split_words, split_words_tf
from tests.preprocessing.test_normalizer import ALPHABET, NEWER

pytestmark = pytest.mark.backend_free

CJK = "4E00-9FFF 3400-4DBF 20000-2A6DF 2A700-2B73F 2B740-2B81F 2B820-2CEAF F900-FAFF 2F800-2FA1F"
CJK = [tuple(int(end, 16) for end in block.split("-")) for block in CJK.split()]


def google_bert_words(text, lowercase=True):
    """`BasicTokenizer.tokenize` of Google's BERT, step by step."""
    cleaned = ""
    for c in text:
        category = unicodedata.category(c)
        if c in "\0\ufffd" or (category in ("Cc", "Cf") and c not in "\t\n\r"):
            continue
        c = " " if c in " \t\n\r" or category == "Zs" else c
        cleaned += f" {c} " if any(a <= ord(c) <= b for a, b in CJK) else c
    words = []
    for word in cleaned.split():
        if lowercase:
            word = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in word if unicodedata.category(c) != "Mn")
        spaced = ""
        for c in word:
            alone = unicodedata.category(c).startswith("P") or (
                c.isascii() and not c.isalnum() and c.isprintable()
            )
            spaced += f" {c} " if alone else c
        words += spaced.split()
    return words


@settings(deadline=None)
@given(st.text(ALPHABET | st.characters(exclude_categories=["Cs"]), max_size=60))
def test_bert_words_follow_the_original(text):
    assert split_words(text) == google_bert_words(text)
    assert split_words(text, False, False) == google_bert_words(text, lowercase=False)


def every_character():
    """Every assigned character, but of the large scripts' letters one in 50."""
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category not in ("Cs", "Cn") and (category not in ("Lo", "Co") or code % 50 == 0):
            yield chr(code)


def test_bert_words_on_every_character():
    for c in every_character():
        text = f"aΣ{c}b {c}"
        assert split_words(text) == google_bert_words(text)


def test_bert_words_in_graph_on_every_character():
    pytest.importorskip("tensorflow_text")
    texts = [f"a{c}b {c}" for c in every_character() if c not in NEWER]
    for row, text in zip(split_words_tf(texts).to_list(), texts, strict=True):
        assert [word.decode() for word in row] == split_words(text)
