"""Contexts, questions and options to the inputs of `AlbertMultipleChoice`.

Shapes: B batch, N options, S sequence.
"""

import keras

from keras_albert.arguments import check_integers
from keras_albert.preprocessing.option_rows import encode_options, fit_options, unfold
from keras_albert.preprocessing.preprocessor import AlbertPreprocessor, labels_and_weights
from keras_albert.preprocessing.rows import Row, packed_length, rows_of


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
        segments = encode_options(x, self.tokenizer.encode_batch, self.option_length)
        return rows_of(segments, y, sample_weight, len(segments))

    def length(self, row: Row) -> int:
        return max(packed_length(segments) for segments in row.segments)

    def collate(self, rows, sequence_length):
        segments = [row.segments for row in rows]
        flat = fit_options(segments, sequence_length)
        x = unfold(self.packer.pack(flat, sequence_length), segments, self.packer.pad_value)
        return keras.utils.pack_x_y_sample_weight(x, *labels_and_weights(rows))

    def get_config(self):
        config = super().get_config()
        del config["truncate"]
        return {**config, "option_length": self.option_length}
