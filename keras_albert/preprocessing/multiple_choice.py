"""Contexts, questions and options to the inputs of `AlbertMultipleChoice`.

Shapes: B batch, N options, S sequence.
"""

import keras
import numpy as np

from keras_albert.arguments import check_integers
from keras_albert.preprocessing.preprocessor import (
    AlbertPreprocessor,
    Row,
    as_texts,
    labels_and_weights,
    rows_of,
    same_counts,
)


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertMultipleChoicePreprocessor(AlbertPreprocessor):
    """Each option with its context: `[CLS] context [SEP] option [SEP]`.

    With questions, as in RACE, the second segment is the question and the option; a "_" in the
    question is replaced by the option instead. That segment keeps its last `option_length` tokens,
    and the context loses its tail.

    Args:
        tokenizer: an `AlbertTokenizer` or `BertTokenizer`.
        sequence_length: int. S.
        option_length: int. Tokens of the question and option that are kept.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: a tuple `(contexts, options)` or `(passages, questions, options)`: lists of strings,
            and a list of lists of strings. The numbers of options may differ.
        y: int (B,), the index of the right option.
        sample_weight: weights, passed through.

    Returns:
        The dict of `SegmentPacker` with an axis of options, (B, N, S); options that are missing are
        all padding. `(dict, y)` or `(dict, y, sample_weight)` if these are given.

    Raises:
        ValueError: the columns are of other kinds, or an example has no option.

    Source: Lan et al. (2020), appendix A.4; `run_race` of Google's ALBERT; Devlin et al. (2019),
    section 4.4.

    Example:
    >>> preprocessor = AlbertMultipleChoicePreprocessor(tokenizer, sequence_length=64)
    >>> x = preprocessor((["Rain fell."], ["What fell? _"], [["Rain", "Snow", "Nothing"]]))
    >>> x["token_ids"].shape
    (1, 3, 64)
    """

    def __init__(self, tokenizer, sequence_length=512, option_length=128, **kwargs):
        super().__init__(tokenizer, sequence_length=sequence_length, **kwargs)
        check_integers("AlbertMultipleChoicePreprocessor", 1, option_length=option_length)
        if option_length > sequence_length - 4:
            option_length = sequence_length - 4  # [CLS], two [SEP] and a token of context
        self.option_length = option_length

    def call(self, inputs, *labels, y=None, sample_weight=None):
        rows = self.encode(inputs, *labels, y=y, sample_weight=sample_weight)
        return self.collate(rows, self.sequence_length)

    def encode(self, x, y=None, sample_weight=None):
        """A row for each example; its segments are a tuple of (context, option) for each option."""
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
        first_ids = self.tokenizer.encode_batch(contexts)
        second_ids = iter(self.tokenizer.encode_batch([text for row in seconds for text in row]))
        segments = [
            tuple((first, next(second_ids)[-self.option_length :]) for _ in row)
            for first, row in zip(first_ids, seconds, strict=True)
        ]
        return rows_of(segments, y, sample_weight, count)

    def length(self, row: Row) -> int:
        return 3 + max(len(first) + len(second) for first, second in row.segments)

    def collate(self, rows, sequence_length):
        self.build()
        num_options = max(len(row.segments) for row in rows)
        flat = []
        for row in rows:
            for first, second in row.segments:
                # The context loses its tail; the question and the option stay.
                flat.append((first[: max(0, sequence_length - 3 - len(second))], second))
        packed = self.packer.pack(flat, sequence_length)
        is_option = np.arange(num_options) < np.array([[len(row.segments)] for row in rows])
        x = {}
        for name, values in packed.items():
            pad = self.packer.pad_value if name == "token_ids" else 0
            x[name] = np.full((*is_option.shape, sequence_length), pad, values.dtype)
            x[name][is_option] = values
        return keras.utils.pack_x_y_sample_weight(x, *labels_and_weights(rows))

    def get_config(self):
        config = super().get_config()
        del config["truncate"]
        return {**config, "option_length": self.option_length}


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
