"""Sentences of words to ids, without Keras: what token classification begins with."""

from collections.abc import Callable
from typing import NamedTuple


class Stretch(NamedTuple):
    """Words `first` to `end` of a sentence: their ids, and where in the packed row each starts."""

    ids: list
    starts: list
    sentence: int
    first: int
    end: int


def encode_words(sentences, encode_batch: Callable, unknown: int, room: int) -> list[Stretch]:
    """Cut sentences between words into stretches that fit, one or more for each.

    Args:
        sentences: a list of lists of words, as `as_sentences` gives them.
        encode_batch: a tokenizer's.
        unknown: the id that stands for a word of nothing but unknown marks, which has no piece.
        room: tokens that fit; a longer word loses its end.
    """
    pieces = iter(encode_batch([word for sentence in sentences for word in sentence]))
    stretches = []
    for i, words in enumerate(sentences):
        ids, starts, first = [], [], 0
        for number in range(len(words)):
            word = (next(pieces) or [unknown])[:room]
            if ids and len(ids) + len(word) > room:
                stretches.append(Stretch(ids, starts, i, first, number))
                ids, starts, first = [], [], number
            starts = [*starts, 1 + len(ids)]
            ids = [*ids, *word]
        stretches.append(Stretch(ids, starts, i, first, len(words)))
    return stretches


def as_sentences(x) -> list[list[str]]:
    """A list of lists of words.

    Raises:
        ValueError: it is something else, or a sentence has no word.
    """
    if not isinstance(x, (list, tuple)):
        raise ValueError(f"`x` must be a list of sentences. Received: {type(x).__name__}")
    sentences = [sentence.split() if isinstance(sentence, str) else sentence for sentence in x]
    for i, words in enumerate(sentences):
        valid = isinstance(words, (list, tuple)) and all(isinstance(word, str) for word in words)
        if not valid or not words:
            raise ValueError(
                "`x` must hold sentences of at least one word, each a list of words or a string. "
                f"Received at index {i}: {x[i]!r}"
            )
    return [list(words) for words in sentences]
