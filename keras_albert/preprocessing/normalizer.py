"""ALBERT's text normalisation, twice: in Python and inside a TensorFlow graph.

White space is collapsed, characters are decomposed (NFKD), combining marks are dropped, the rest is
lower-cased: `preprocess_text` of Google's ALBERT `tokenization.py`. Unlike XLNet's code of the same
name, ALBERT's does not turn double back-quotes into quotation marks.

The two twins differ for the capitals in `NEWER_CAPITALS` alone: they are younger than the Unicode
tables that TensorFlow links, which leaves them as they are. The character classes of both twins are
built from Python's own `unicodedata`, as the original code asks it too.

`clean_unicode` and `clean_unicode_tf` make any bytes valid text first; every tokenizer uses them.
"""

import functools
import re
import sys
import unicodedata

# Cased letters that TensorFlow 2.21's tables do not lower: (first, last) code points.
NEWER_CAPITALS = (
    (0x2C2F, 0x2C2F),  # Glagolitic capital caudate chri
    (0xA7C0, 0xA7C0),  # Latin capitals of Unicode 14
    (0xA7CB, 0xA7CC),  # of Unicode 16, which Python 3.14 knows
    (0xA7D0, 0xA7D0),
    (0xA7D6, 0xA7D6),
    (0xA7D8, 0xA7D8),
    (0xA7DA, 0xA7DC),
    (0x10570, 0x10595),  # Vithkuqi capitals
    (0x10D50, 0x10D65),  # Garay capitals
)

_SURROGATE = re.compile("[\ud800-\udfff]")


@functools.cache
def code_point_ranges(kind):
    """Ranges of the code points of one kind, from Python's `unicodedata`.

    Args:
        kind: `"combining"` (a combining class other than 0), `"space"` (where `str.split` splits)
            or the start of a general category: `"P"`, `"Mn"`, `"Cc"`, `"Cf"`.

    Returns:
        A tuple of (first, last) pairs in ascending order.
    """
    characters = map(chr, range(sys.maxunicode + 1))
    if kind == "combining":
        found = map(unicodedata.combining, characters)
    elif kind == "space":
        found = map(str.isspace, characters)
    else:
        found = (category.startswith(kind) for category in map(unicodedata.category, characters))
    ranges = []
    for code in (code for code, hit in enumerate(found) if hit):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return tuple((first, last) for first, last in ranges)


def python_class(ranges):
    """Write code point ranges as the inside of a `re` character class."""
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


def re2_class(ranges):
    """Write code point ranges as the inside of an RE2 character class (`tf.strings`)."""
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges)


@functools.cache
def combining_pattern():
    """What `normalize_text` drops after NFKD."""
    return re.compile(f"[{python_class(code_point_ranges('combining'))}]+")


def clean_unicode(text):
    """Return `text` as a string that can be encoded as UTF-8.

    Args:
        text: `str` or `bytes`. What is not valid UTF-8, and lone surrogates, become U+FFFD.

    Raises:
        ValueError: `text` is neither.
    """
    if isinstance(text, bytes):
        return text.decode("utf-8", errors="replace")
    if not isinstance(text, str):
        raise ValueError(
            "Text must be a string or UTF-8 bytes. "
            f"Received: {text!r} of type {type(text).__name__}"
        )
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def clean_unicode_tf(text):
    """The in-graph twin of `clean_unicode`, for a string tensor of any shape.

    One run of invalid bytes may become a different number of U+FFFD here than in Python; both
    tokenizers drop these characters.
    """
    import tensorflow as tf

    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")


def normalize_text(text, lowercase=True, strip_accents=True):
    r"""Normalise one text as ALBERT does before SentencePiece.

    Args:
        text: `str` or `bytes` (UTF-8; what is not valid becomes U+FFFD).
        lowercase: bool. Lower-case the text.
        strip_accents: bool. Decompose (NFKD) and drop every character with a combining class.
            `False` leaves both undone, as `keep_accents` does elsewhere.

    Returns:
        A `str`.

    Raises:
        ValueError: `text` is neither a string nor bytes.

    Example:
    >>> normalize_text("  Café\t DÉJÀ vu ")
    'cafe deja vu'
    """
    text = " ".join(clean_unicode(text).split())
    if strip_accents and not text.isascii():
        text = combining_pattern().sub("", unicodedata.normalize("NFKD", text))
    return text.lower() if lowercase else text


def normalize_text_tf(text, lowercase=True, strip_accents=True):
    """The in-graph twin of `normalize_text`; needs `tensorflow-text`.

    Args:
        text: a string tensor or ragged tensor of any shape.
        lowercase: bool. As in `normalize_text`.
        strip_accents: bool. As in `normalize_text`.

    Returns:
        A string tensor of the same shape.
    """
    import tensorflow as tf
    import tensorflow_text as tf_text

    text = clean_unicode_tf(text)
    space = re2_class(code_point_ranges("space"))
    text = tf.strings.regex_replace(text, f"[{space}]+", " ")
    text = tf.strings.regex_replace(text, "^ | $", "")
    if strip_accents:
        text = tf_text.normalize_utf8(text, "NFKD")
        combining = re2_class(code_point_ranges("combining"))
        text = tf.strings.regex_replace(text, f"[{combining}]+", "")
    if lowercase:
        # `tf.strings.lower` ends a text at its first NUL: a noncharacter stands in for it.
        text = tf.strings.regex_replace(text, r"\x{0}", "\U0010ffff")
        text = tf.strings.lower(text, encoding="utf-8")
        text = tf.strings.regex_replace(text, r"\x{10ffff}", "\0")
    return text
