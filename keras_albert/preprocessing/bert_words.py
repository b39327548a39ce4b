"""BERT's words: what it splits a text into before WordPiece, in Python and inside a graph.

Control characters are dropped (they do not split a word), the text is lower-cased, decomposed (NFD)
and freed of accents, then split at white space and around every punctuation mark and CJK character:
`BasicTokenizer` of Google's BERT `tokenization.py`. KerasHub's own pre-tokenizer differs: it splits
at control characters, folds case (`ß` becomes `ss`) and folds compatibility characters.

In a graph the letters of `normalizer.NEWER_CAPITALS` keep their case, and a sigma before a sign
younger than TensorFlow's Unicode tables (U+0888) may take its final form.
"""

import functools
import re
import unicodedata

from keras_albert.preprocessing.normalizer import (
    clean_unicode,
    clean_unicode_tf,
    code_point_ranges,
    python_class,
    re2_class,
)

# The blocks of BERT's `_is_chinese_char`; Hangul, Hiragana and Katakana are written with spaces.
_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_ASCII_PUNCTUATION = ((33, 47), (58, 64), (91, 96), (123, 126))


def _dropped():
    """Ranges of what BERT cleans away: controls other than tab and newlines, and U+FFFD."""
    controls = [(0x00, 0x08), (0x0B, 0x0C), (0x0E, 0x1F), (0xFFFD, 0xFFFD)]
    controls += [pair for pair in code_point_ranges("Cc") if pair[0] > 0x1F]
    return [*controls, *code_point_ranges("Cf")]


def _alone():
    """Ranges of the characters that are words by themselves."""
    return [*_CJK, *_ASCII_PUNCTUATION, *code_point_ranges("P")]


@functools.cache
def word_patterns():
    """What is dropped from a text, what is dropped after NFD, and what is one word."""
    alone = python_class(_alone())
    return (
        re.compile(f"[{python_class(_dropped())}]+"),
        re.compile(f"[{python_class(code_point_ranges('Mn'))}]+"),
        re.compile(f"[{alone}]|[^\\s{alone}]+"),
    )


def split_words(text, lowercase=True, strip_accents=True):
    """Split one text into BERT's words.

    Args:
        text: `str` or UTF-8 `bytes`.
        lowercase: bool. Lower-case the text.
        strip_accents: bool. Decompose the text (NFD) and drop non-spacing marks.

    Returns:
        A list of `str`.

    Raises:
        ValueError: `text` is neither a string nor bytes.

    Example:
    >>> split_words("Café-au-lait!")
    ['cafe', '-', 'au', '-', 'lait', '!']
    """
    dropped, accents, words = word_patterns()
    text = dropped.sub("", clean_unicode(text))
    if lowercase:
        text = text.lower()
    if strip_accents and not text.isascii():
        text = accents.sub("", unicodedata.normalize("NFD", text))
    return words.findall(text)


def split_words_tf(text, lowercase=True, strip_accents=True):
    """The in-graph twin of `split_words`; needs `tensorflow-text`.

    Args:
        text: a string tensor of shape (B,).
        lowercase: bool. As in `split_words`.
        strip_accents: bool. As in `split_words`.

    Returns:
        A ragged string tensor (B, None).
    """
    import tensorflow as tf
    import tensorflow_text as tf_text

    text = tf.strings.regex_replace(clean_unicode_tf(text), f"[{re2_class(_dropped())}]+", "")
    if lowercase:
        text = tf.strings.lower(text, encoding="utf-8")
    if strip_accents:
        text = tf_text.normalize_utf8(text, "NFD")
        text = tf.strings.regex_replace(text, f"[{re2_class(code_point_ranges('Mn'))}]+", "")
    alone = f"[{re2_class(_alone())}]"
    space = f"[{re2_class(code_point_ranges('space'))}]+"
    return tf_text.regex_split(text, f"{space}|{alone}", alone)
