"""SQuAD's questions as model inputs: `[CLS] question [SEP] window of the context [SEP]`.

Nothing here reads files or knows of models: an example is any object with `id`, `question`,
`context` (strings), `answers` (a list of texts), `answer_starts` (characters) and `is_impossible`.
`span_decoding.py` goes back from a model's outputs to answers.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keras_albert.arguments import check_integers, check_positive_integers
from keras_albert.preprocessing.windows import maximum_context, split_windows


@dataclass(frozen=True)
class Context:
    """A context's tokens: ids and the characters that each comes from, arrays of shape `(T,)`."""

    text: str
    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, text: str, tokenizer) -> "Context":
        """Encode a context."""
        ids, starts, ends = tokenizer.encoder.encode_with_offsets(text)
        return cls(text, *(np.array(x, "int32") for x in (ids, starts, ends)))

    def cut(self, first: int, last: int) -> str:
        """The original text of the tokens from `first` to `last`, both included."""
        return self.text[self.starts[first] : self.ends[last]]

    def find(self, begin: int, end: int) -> tuple[int, int] | None:
        """The first and the last token with a character of `text[begin:end]`; `None` for none."""
        first = int(np.searchsorted(self.ends, begin, "right"))
        last = int(np.searchsorted(self.starts, end, "left")) - 1
        while last >= first and self.starts[last] == self.ends[last]:
            last -= 1
        return (first, last) if first <= last else None


def align_answer(context: Context, answer: str, start: int) -> tuple[tuple[int, int] | None, str]:
    """Find an answer's tokens.

    Args:
        context: the context.
        answer: the gold answer.
        start: its first character in the context.

    Returns:
        `(span, reason)`: the first and the last token, or `None` where there are none; and why the
        text cut out by them does not score F1 1.0 against the answer, `""` where it does.
    """
    found = context.text[start : start + len(answer)] if start >= 0 else ""
    if found != answer:
        return None, f"the answer {answer!r} is not at character {start}, where {found!r} is"
    span = context.find(start, start + len(answer))
    if span is None:
        return None, f"no token comes from the answer {answer!r}"
    text = context.cut(*span)
    if text != answer and _words(text) != _words(answer):
        return span, f"the tokens of the answer {answer!r} give {text!r}"
    return span, ""


def _words(text):
    """What SQuAD's F1 compares: the words, without case, punctuation and articles."""
    text = text.lower().translate(str.maketrans("", "", string.punctuation))
    return Counter(re.sub(r"\b(a|an|the)\b", " ", text).split())


@dataclass(frozen=True)
class SquadAlignment:
    """How many answers were looked for, and `(id, reason)` of each that is not found exactly."""

    num_answers: int
    failures: list[tuple[str, str]]


def squad_alignment(examples, tokenizer) -> SquadAlignment:
    """Find every answer's tokens, and name those that do not give the answer back.

    Args:
        examples: an iterable of examples (see the module).
        tokenizer: an `AlbertTokenizer` or a `BertTokenizer`.

    Returns:
        A `SquadAlignment`. A failure is an answer of which the aligned tokens, cut from the
        original context, do not score F1 1.0 against it; nothing is raised for one.

    Example:
    >>> alignment = squad_alignment(examples, tokenizer)
    >>> print(len(alignment.failures), "of", alignment.num_answers)
    8 of 6506
    """
    contexts, count, failures = {}, 0, []
    for example in examples:
        if example.context not in contexts:
            contexts[example.context] = Context.of(example.context, tokenizer)
        context = contexts[example.context]
        for answer, start in zip(example.answers, example.answer_starts, strict=True):
            count += 1
            reason = align_answer(context, answer, start)[1]
            if reason:
                failures.append((example.id, reason))
    return SquadAlignment(count, failures)


def squad_windows(
    examples: Sequence,
    tokenizer,
    sequence_length: int = 384,
    doc_stride: int = 128,
    max_query_length: int = 64,
    training: bool = False,
) -> "SquadWindows":
    """Tokenize examples and lay windows over their contexts.

    Args:
        examples: a sequence of examples (see the module), each with its own id.
        tokenizer: an `AlbertTokenizer` or a `BertTokenizer`.
        sequence_length: tokens of an input, special tokens and padding included.
        doc_stride: tokens from the start of one window to that of the next.
        max_query_length: a question's tokens beyond these are left out.
        training: leave out the examples in `unaligned`, whose labels would be wrong.

    Returns:
        `SquadWindows`, in the order of the examples.

    Raises:
        ValueError: `sequence_length` has no room for a context, or an id comes twice.

    Example:
    >>> windows = squad_windows(examples, tokenizer, training=True)
    >>> model.fit(windows.inputs(), windows.labels())
    """
    name = "squad_windows"
    check_positive_integers(name, doc_stride=doc_stride, max_query_length=max_query_length)
    check_integers(name, max_query_length + 4, sequence_length=sequence_length)
    repeated = [id for id, n in Counter(example.id for example in examples).items() if n > 1]
    if repeated:
        raise ValueError(
            "Every example must have its own id, as predictions go by it. "
            f"Received more than once: {', '.join(map(repr, repeated[:5]))}"
        )
    contexts, kept, spans, unaligned = {}, [], [], []
    for example in examples:
        if example.context not in contexts:
            contexts[example.context] = Context.of(example.context, tokenizer)
        span, reason = _label(example, contexts[example.context])
        if span is None:
            unaligned.append((example.id, reason))
        if span is not None or not training:
            kept.append(example)
            spans.append(span or (-1, -1))
    questions = tokenizer.encode_batch([example.question for example in kept])
    questions = [question[:max_query_length] for question in questions]

    rows = []
    for index, (example, question) in enumerate(zip(kept, questions, strict=True)):
        length, capacity = len(contexts[example.context].ids), sequence_length - len(question) - 3
        windows = split_windows(length, capacity, doc_stride)
        for window, maximum in zip(windows, maximum_context(windows), strict=True):
            rows.append((index, len(question) + 2, *window, *maximum))
    return SquadWindows(
        examples=kept,
        contexts=[contexts[example.context] for example in kept],
        questions=questions,
        spans=np.array(spans, "int64").reshape(-1, 2),
        unaligned=unaligned,
        rows=np.array(rows, "int64").reshape(-1, 6),
        sequence_length=sequence_length,
        special=(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id),
    )


def _label(example, context):
    """The tokens of the first answer, (-1, -1) where there is none to give."""
    if example.is_impossible:
        return (-1, -1), ""
    if not example.answers:
        return None, "it has no answer, and is not marked as impossible"
    return align_answer(context, example.answers[0], example.answer_starts[0])


@dataclass(frozen=True, eq=False)
class SquadWindows:
    """Every window of every question; W is their number, S the sequence length.

    Arrays are made when asked for: what is kept is each context's tokens, once.

    Attributes:
        examples: the examples that the windows are of.
        contexts: the `Context` of each.
        questions: the ids of each.
        spans: `(examples, 2)`, tokens of the first answer in its context, -1 for none.
        unaligned: `(id, reason)` of the examples that have no usable label.
        rows: `(W, 6)` integers: the example's index, the place of the context in the input, begin
            and end of the window and of its tokens with maximum context, in context tokens.
        sequence_length: S.
        special: ids of [CLS], [SEP] and padding.
    """

    examples: list
    contexts: list[Context]
    questions: list[list[int]]
    spans: np.ndarray
    unaligned: list[tuple[str, str]]
    rows: np.ndarray
    sequence_length: int
    special: tuple[int, int, int]

    def __len__(self):
        return len(self.rows)

    def inputs(self, which=slice(None)) -> dict[str, np.ndarray]:
        """Model inputs of all windows, or of those that a slice or an array of integers names.

        Returns:
            `token_ids` and `segment_ids`, int32, and `padding_mask`, bool, of shape `(W, S)`.
            Segment 0 is the question with [CLS] and the first [SEP], 1 the window with its [SEP].
        """
        rows = self.rows[which]
        cls, sep, pad = self.special
        place_W1 = np.arange(self.sequence_length)
        offset_W1, length_W1 = rows[:, 1, None], (rows[:, 3] - rows[:, 2])[:, None]
        padding_mask = place_W1 <= offset_W1 + length_W1
        token_ids = np.full((len(rows), self.sequence_length), pad, "int32")
        for ids, (index, offset, begin, end, *_) in zip(token_ids, rows.tolist(), strict=True):
            last = offset + end - begin
            ids[0] = cls
            ids[1 : offset - 1] = self.questions[index]
            ids[offset - 1] = ids[last] = sep
            ids[offset:last] = self.contexts[index].ids[begin:end]
        segment_ids = ((place_W1 >= offset_W1) & padding_mask).astype("int32")
        return {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask}

    def labels(self, which=slice(None)) -> dict[str, np.ndarray]:
        """Labels for training: where in the input the first answer starts and ends.

        Returns:
            `start_positions`, `end_positions` and `is_impossible`, int32 of shape `(W,)`. Where the
            answer is not whole in the window both positions are 0, that of [CLS], and
            `is_impossible` is 1.
        """
        rows = self.rows[which]
        index, offset, begin, end = rows[:, :4].T
        first, last = self.spans[index].T
        inside = (first >= begin) & (last < end)  # -1 is never inside
        return {
            "start_positions": np.where(inside, offset + first - begin, 0).astype("int32"),
            "end_positions": np.where(inside, offset + last - begin, 0).astype("int32"),
            "is_impossible": (~inside).astype("int32"),
        }
