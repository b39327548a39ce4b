"""Where in the original text each token comes from.

Normalisation changes lengths: `ﬁ` becomes two characters, `é` one or two, white space is collapsed,
marks are dropped. `AlignedText` goes through the same steps as `normalizer.normalize_text` and
`bert_words.split_words`, with the same results, and keeps for every character the span of the
original that it comes from. Tests hold the results equal.
"""

import functools
import re
import unicodedata

import numpy as np

from keras_albert.preprocessing.bert_words import word_patterns
from keras_albert.preprocessing.normalizer import clean_unicode, combining_pattern

SPACE = "\u2581"  # how SentencePiece writes a space


class AlignedText:
    """A text on its way through normalisation.

    Character i of `text` comes from `original[starts[i]:ends[i]]`; both lists never decrease. Each
    step returns a new `AlignedText`.
    """

    def __init__(self, text: str, starts: list[int], ends: list[int]):
        self.text, self.starts, self.ends = text, starts, ends

    @classmethod
    def of(cls, text: str) -> "AlignedText":
        """The text itself, before any step."""
        return cls(text, list(range(len(text))), list(range(1, len(text) + 1)))

    def collapse_spaces(self) -> "AlignedText":
        """`" ".join(text.split())`; a space spans the white space that it stands for."""
        text, starts, ends = " ".join(self.text.split()), [], []
        if text == self.text:
            return self
        for word in re.finditer(r"\S+", self.text):
            first, last = word.span()
            if starts:
                starts.append(ends[-1])
                ends.append(self.starts[first])
            starts += self.starts[first:last]
            ends += self.ends[first:last]
        return AlignedText(text, starts, ends)

    def drop(self, pattern: re.Pattern) -> "AlignedText":
        """`pattern.sub("", text)`; what is dropped belongs to no character."""
        gaps = [match.span() for match in pattern.finditer(self.text)]
        if not gaps:
            return self
        text, starts, ends, last = [], [], [], 0
        for first, end in [*gaps, (len(self.text), None)]:
            text.append(self.text[last:first])
            starts += self.starts[last:first]
            ends += self.ends[last:first]
            last = end
        return AlignedText("".join(text), starts, ends)

    def lower(self) -> "AlignedText":
        """`text.lower()`. A final sigma depends on its neighbours; no length does."""
        text = self.text.lower()
        if len(text) == len(self.text):
            return AlignedText(text, self.starts, self.ends)
        lengths = [len(character.lower()) for character in self.text]
        starts, ends = (np.repeat(x, lengths).tolist() for x in (self.starts, self.ends))
        return AlignedText(text, starts, ends)

    def decompose(self, form: str, dropped: re.Pattern) -> "AlignedText":
        """`dropped.sub("", unicodedata.normalize(form, text))`, form NFD or NFKD.

        Marks change places, but only up to the next character that is no mark: a base and its marks
        are decomposed together and share one span. A mark that is dropped stays in the span of the
        character before it, so that text cut from the original has its accents.
        """
        if self.text.isascii():
            return self
        text, starts, ends = [], [], []
        bases = [i for i, c in enumerate(self.text) if c < "\u0300" or not _is_mark(form, c)]
        bounds = bases if bases[:1] == [0] else [0, *bases]
        for first, last in zip(bounds, [*bounds[1:], len(self.text)], strict=True):
            part = self.text[first:last]
            if not part.isascii():
                part = dropped.sub("", unicodedata.normalize(form, part))
            if part:
                starts += [self.starts[first]] * len(part)
                ends += [self.ends[last - 1]] * len(part)
            elif ends:
                ends[-1] = self.ends[last - 1]
            text.append(part)
        return AlignedText("".join(text), starts, ends)

    def spans(self, begins: list[int], stops: list[int]) -> tuple[list[int], list[int]]:
        """Spans of this text as spans of the original: `(starts, ends)`, neither decreasing.

        A span without characters gets the place where the next character starts.
        """
        original_starts, original_ends, last = [], [], 0
        for begin, stop in zip(begins, stops, strict=True):
            start = self.starts[begin] if begin < len(self.starts) else last
            last = self.ends[stop - 1] if begin < stop else max(start, last)
            original_starts.append(start)
            original_ends.append(last)
        return original_starts, original_ends


@functools.lru_cache(maxsize=4096)
def _is_mark(form, character):
    """Whether a character, decomposed, may change places with one before it."""
    return unicodedata.combining(unicodedata.normalize(form, character)[0]) != 0


def align_normalized(text, lowercase: bool = True, strip_accents: bool = True) -> AlignedText:
    """`normalize_text` with the origin of every character."""
    aligned = AlignedText.of(clean_unicode(text)).collapse_spaces()
    if strip_accents:
        aligned = aligned.decompose("NFKD", combining_pattern())
    return aligned.lower() if lowercase else aligned


def align_words(text, lowercase: bool = True, strip_accents: bool = True):
    """`split_words` with origins: the normalised `AlignedText`, and the words' spans in it."""
    dropped, accents, words = word_patterns()
    aligned = AlignedText.of(clean_unicode(text)).drop(dropped)
    if lowercase:
        aligned = aligned.lower()
    if strip_accents:
        aligned = aligned.decompose("NFD", accents)
    return aligned, [match.span() for match in words.finditer(aligned.text)]


def sentencepiece_spans(model, text: str) -> list[tuple[int, int, int]]:
    """Encode a normalised text: `(id, begin, stop)` of every piece, in its characters.

    The space of a piece `▁word` is left out: the span is the word's, and that of `▁` is empty. The
    model's own tables normalise once more; a character that they make several of (`½` is `1`, `⁄`,
    `2`) is whole in the span of each piece with a part of it.
    """
    from sentencepiece.sentencepiece_pb2 import SentencePieceText

    # The offsets beside the pieces give such a character to the last of its pieces alone.
    pieces = SentencePieceText.FromString(model.Encode(text, out_type="serialized_proto")).pieces
    normal, begins = model.Normalize(text, with_offsets=True)
    stops = list(begins)
    for i in reversed(range(len(normal))):
        stops[i] = begins[i + 1] if begins[i + 1] > begins[i] else stops[i + 1]
    places, at, spans = _places_of_bytes(normal), 0, []
    for piece in pieces:
        first = places[at]
        at += 1 if model.IsByte(piece.id) else len(piece.piece.encode())
        last = places[at - 1]
        first += normal[first] == SPACE
        spans.append((piece.id, begins[first], stops[last] if first <= last else begins[first]))
    return spans


def _places_of_bytes(text):
    """For each byte of a text's UTF-8, the index of its character."""
    octets = np.frombuffer(text.encode(), np.uint8)
    return (np.cumsum((octets & 0xC0) != 0x80) - 1).tolist()


def split_span(parts: list[str], begin: int, stop: int) -> list[tuple[int, int]]:
    """The spans of the parts that a piece was split into; all of it for each, if lengths differ."""
    lengths = [len(part.removeprefix(SPACE)) for part in parts]
    if sum(lengths) != stop - begin:
        return [(begin, stop)] * len(parts)
    ends = (begin + np.cumsum(lengths)).tolist()
    return list(zip([begin, *ends], ends, strict=False))
