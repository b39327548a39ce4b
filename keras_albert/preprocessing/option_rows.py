"""Contexts, questions and options to ids, without Keras: what multiple choice begins with.

Shapes: B batch, N options, S sequence.
"""

from collections.abc import Callable

import numpy as np

from keras_albert.preprocessing.rows import as_texts, same_counts


def encode_options(x, encode_batch: Callable, option_length: int) -> list[tuple]:
    """For each example a tuple of (context, option), lists of ids, for each option.

    Args:
        x: a tuple `(contexts, options)` or `(passages, questions, options)`.
        encode_batch: a tokenizer's.
        option_length: how many of the last tokens of question and option are kept.

    Raises:
        ValueError: the columns are of other kinds, or an example has no option.
    """
    if not isinstance(x, tuple) or len(x) not in (2, 3):
        raise ValueError(
            "`x` must be a tuple (contexts, options) or (passages, questions, options). "
            f"Received: {type(x).__name__}{f' of {len(x)}' if isinstance(x, tuple) else ''}"
        )
    contexts = as_texts(x[0], "contexts")
    questions = as_texts(x[1], "questions") if len(x) == 3 else None
    options = _as_options(x[-1])
    count = same_counts(contexts=contexts, questions=questions, options=options)
    seconds = [
        [_join(questions[i], option) if questions else option for option in options[i]]
        for i in range(count)
    ]
    first_ids = encode_batch(contexts)
    second_ids = iter(encode_batch([text for row in seconds for text in row]))
    return [
        tuple((first, next(second_ids)[-option_length:]) for _ in row)
        for first, row in zip(first_ids, seconds, strict=True)
    ]


def fit_options(rows, sequence_length: int) -> list[tuple]:
    """The options of all examples, joined; contexts lose their tails, the options stay."""
    return [
        (first[: max(0, sequence_length - 3 - len(second))], second)
        for options in rows
        for first, second in options
    ]


def unfold(packed, rows, pad_value: int) -> dict[str, np.ndarray]:
    """Packed options of all examples to (B, N, S); options that are missing are padding."""
    num_options = max(len(options) for options in rows)
    is_option = np.arange(num_options) < np.array([[len(options)] for options in rows])
    x = {}
    for name, values in packed.items():
        pad = pad_value if name == "token_ids" else 0
        x[name] = np.full((*is_option.shape, values.shape[-1]), pad, values.dtype)
        x[name][is_option] = values
    return x


def _as_options(column):
    if not isinstance(column, (list, tuple)):
        raise ValueError(
            f"`options` must be a list of lists of strings. Received: {type(column).__name__}"
        )
    for i, options in enumerate(column):
        strings = isinstance(options, (list, tuple)) and all(isinstance(o, str) for o in options)
        if not strings or not options:
            raise ValueError(
                "`options` must hold a list of one string or more for every example. "
                f"Received at index {i}: {options!r}"
            )
    return column


def _join(question: str, option: str) -> str:
    return question.replace("_", option) if "_" in question else f"{question} {option}"
