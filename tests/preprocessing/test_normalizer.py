"""Oracles: Google's rule written out character by character, and Python's own `unicodedata`."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.preprocessing.normalizer import (
    NEWER_CAPITALS,
    clean_unicode,
    normalize_text,
    normalize_text_tf,
)

NEWER = "".join(chr(code) for first, last in NEWER_CAPITALS for code in range(first, last + 1))
ALPHABET = st.one_of(
    st.characters(exclude_categories=["Cs"], exclude_characters=NEWER),
    st.sampled_from(
        "aZé ßẞİıΣσςΆЁй.,'\"`“”-–—!?0123456789\t\n\r\x0b\x0c\x1c\x85\u00a0\u3000\u2028"
    ),
    st.characters(min_codepoint=0x300, max_codepoint=0x36F),
    st.characters(min_codepoint=0x370, max_codepoint=0x52F, exclude_categories=["Cn"]),
    st.characters(min_codepoint=0x3040, max_codepoint=0x9FFF, exclude_categories=["Cn"]),
    st.characters(min_codepoint=0x1F300, max_codepoint=0x1FAFF, exclude_categories=["Cn"]),
)
TEXTS = st.text(ALPHABET, max_size=40)


def original(text):
    text = " ".join(text.strip().split())
    text = unicodedata.normalize("NFKD", text)
    text = "".join(c for c in text if not unicodedata.combining(c))
    return text.lower()


@pytest.mark.backend_free
@settings(deadline=None)
@given(TEXTS)
def test_follows_the_original_rule(text):
    assert normalize_text(text) == original(text)


@pytest.mark.backend_free
def test_switches():
    text = " Café\u3000ﬁn\tÅ``x'' "
    assert normalize_text(text) == "cafe fin a``x''"
    assert normalize_text(text, lowercase=False) == "Cafe fin A``x''"
    assert normalize_text(text, strip_accents=False) == "café ﬁn å``x''"
    assert normalize_text(text, False, False) == "Café ﬁn Å``x''"


@pytest.mark.backend_free
def test_bytes_and_surrogates_become_text():
    assert normalize_text(b"caf\xc3\xa9 \xff!") == "cafe \ufffd!"
    assert clean_unicode("a\ud800b") == "a\ufffdb"
    with pytest.raises(ValueError, match="must be a string.*Received: 3"):
        normalize_text(3)


@pytest.mark.backend_free
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("strip_accents", [True, False])
def test_graph_twin_on_every_character(lowercase, strip_accents):
    pytest.importorskip("tensorflow_text")
    characters = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) not in ("Cs", "Cn", "Co")
    ]
    texts = [f"a{c}b" for c in characters]
    graph = normalize_text_tf(texts, lowercase, strip_accents).numpy()
    python = [normalize_text(text, lowercase, strip_accents) for text in texts]
    different = {c for c, a, b in zip(characters, python, graph, strict=True) if a != b.decode()}
    assert different <= (set(NEWER) if lowercase else set())


@pytest.mark.backend_free
@settings(max_examples=30, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=50))
def test_graph_twin_on_random_text(texts):
    pytest.importorskip("tensorflow_text")
    graph = [text.decode() for text in normalize_text_tf(texts).numpy()]
    assert graph == [normalize_text(text) for text in texts]


@pytest.mark.backend_free
@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=30), min_size=1, max_size=20))
def test_graph_twin_survives_any_bytes(texts):
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    graph = [text.decode() for text in normalize_text_tf(tf.constant(texts)).numpy()]
    # One run of invalid bytes may give another number of U+FFFD.
    assert [t.replace("\ufffd", "") for t in graph] == [
        normalize_text(text).replace("\ufffd", "") for text in texts
    ]
