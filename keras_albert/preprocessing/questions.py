"""Questions and contexts that come as strings, as examples for `squad_windows`; without Keras."""

import dataclasses

from keras_albert.preprocessing.rows import as_texts, same_counts


@dataclasses.dataclass(frozen=True)
class Question:
    """A question that came as strings, not as an example of a dataset."""

    id: str
    question: str
    context: str
    answers: tuple = ()
    answer_starts: tuple = ()
    is_impossible: bool = False


def as_examples(x, y=None) -> list:
    """Examples, as `squad_windows` takes them, from two lists of strings or from examples.

    Args:
        x: a tuple `(questions, contexts)`, or a list of examples.
        y: answers, as `AlbertSpanExtractorPreprocessor` takes them.

    Raises:
        ValueError: the columns are of other kinds, or their numbers differ.
    """
    if not isinstance(x, tuple):
        if not isinstance(x, list) or not all(hasattr(e, "context") for e in x):
            raise ValueError(
                "`x` must be a tuple (questions, contexts) of two lists of strings, or a list of "
                f"examples, as load_squad gives them. Received: {type(x).__name__}"
            )
        return x
    if len(x) != 2:
        raise ValueError(f"`x` must be a tuple (questions, contexts). Received: {len(x)} columns")
    questions, contexts = as_texts(x[0], "questions"), as_texts(x[1], "contexts")
    count = same_counts(questions=questions, contexts=contexts, y=y)
    answers = [_answers(y[i], i) if y is not None else {} for i in range(count)]
    rows = zip(map(_as_str, questions), map(_as_str, contexts), answers, strict=True)
    return [Question(str(i), *row, **fields) for i, (*row, fields) in enumerate(rows)]


def _answers(answer, i):
    try:
        texts, starts = list(answer["text"]), [int(start) for start in answer["answer_start"]]
    except (KeyError, TypeError, ValueError):
        texts, starts = [], [None]
    if len(texts) != len(starts):
        raise ValueError(
            '`y` must hold a dict {"text": [...], "answer_start": [...]} for each question, with a '
            f"character for each text. Received at index {i}: {answer!r}"
        )
    return {"answers": texts, "answer_starts": starts, "is_impossible": not texts}


def _as_str(text):
    return text.decode("utf-8", errors="replace") if isinstance(text, bytes) else text
