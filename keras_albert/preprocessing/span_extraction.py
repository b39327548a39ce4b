"""Questions and contexts to the inputs of `AlbertSpanExtractor`: SQuAD's windows as rows."""

import keras

from keras_albert.arguments import check_integers, check_positive_integers
from keras_albert.preprocessing.preprocessor import AlbertPreprocessor, labels_and_weights
from keras_albert.preprocessing.questions import as_examples
from keras_albert.preprocessing.rows import Row, same_counts
from keras_albert.preprocessing.squad import SquadWindows, squad_windows


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertSpanExtractorPreprocessor(AlbertPreprocessor):
    """Questions over contexts of any length: one row for each window of a context.

    Args:
        tokenizer: an `AlbertTokenizer` or `BertTokenizer`.
        sequence_length: int. S.
        doc_stride: int. Tokens from the start of one window to that of the next.
        max_query_length: int. A question's tokens beyond these are left out. None is 64, or half of
            S where that is less.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: a tuple `(questions, contexts)` of lists of strings, or a list of examples, as
            `keras_albert.datasets.load_squad` gives them.
        y: for a tuple the answers, a dict `{"text": [...], "answer_start": [...]}` for each
            question (characters; empty lists where the context has no answer). Examples hold
            theirs.
        sample_weight: a weight for each question.

    Returns:
        The dict of `SegmentPacker`, one row for each window; with answers also a dict of `"start"`,
        `"end"` and `"unanswerable"`, int (rows,): positions in the row, 0 and 1 where the window
        does not hold the whole answer.

    Raises:
        ValueError: the columns are of other kinds, or there is no room for a context.

    Source: Devlin et al. (2019), section 4.2; `run_squad` of Google's ALBERT.

    Example:
    >>> preprocessor = AlbertSpanExtractorPreprocessor(tokenizer, sequence_length=384)
    >>> x = preprocessor((["Who wrote it?"], ["Ada Lovelace wrote the first program."]))
    """

    def __init__(
        self, tokenizer, sequence_length=384, doc_stride=128, max_query_length=None, **kwargs
    ):
        super().__init__(tokenizer, sequence_length=sequence_length, **kwargs)  # checks it
        if max_query_length is None:
            max_query_length = min(64, sequence_length // 2)
        name = type(self).__name__
        check_positive_integers(name, doc_stride=doc_stride, max_query_length=max_query_length)
        check_integers(name, max_query_length + 4, sequence_length=sequence_length)
        self.doc_stride = doc_stride
        self.max_query_length = max_query_length

    def call(self, inputs, *labels, y=None, sample_weight=None):
        rows = self.encode(inputs, *labels, y=y, sample_weight=sample_weight)
        return self.collate(rows, self.sequence_length)

    def windows(self, x, y=None) -> SquadWindows:
        """The windows of all contexts, which decoding needs again; see `squad_windows`."""
        return squad_windows(
            as_examples(x, y),
            self.tokenizer,
            sequence_length=self.sequence_length,
            doc_stride=self.doc_stride,
            max_query_length=self.max_query_length,
        )

    def encode(self, x, y=None, sample_weight=None):
        """A row for each window; its label is None where the answer is not found in the context."""
        return self.rows(self.windows(x, y), sample_weight)

    def rows(self, windows: SquadWindows, sample_weight=None) -> list[Row]:
        """A row for each window, in their order."""
        same_counts(x=windows.examples, sample_weight=sample_weight)
        labels = zip(*(column.tolist() for column in windows.labels().values()), strict=True)
        unaligned = {id for id, _ in windows.unaligned}
        rows = []
        for (index, _, begin, end, *_), label in zip(windows.rows.tolist(), labels, strict=True):
            ids = windows.contexts[index].ids[begin:end].tolist()
            weight = None if sample_weight is None else float(sample_weight[index])
            label = None if windows.examples[index].id in unaligned else label
            rows.append(Row((windows.questions[index], ids), label, weight))
        return rows

    def collate(self, rows, sequence_length):
        x = self.packer.pack([row.segments for row in rows], sequence_length)
        labels, weights = labels_and_weights(rows)
        if labels is None:
            return x
        names = ("start", "end", "unanswerable")
        y = {name: labels[:, i].astype("int32") for i, name in enumerate(names)}
        weights = None if weights is None else dict.fromkeys(names, weights)
        return keras.utils.pack_x_y_sample_weight(x, y, weights)

    def get_config(self):
        config = super().get_config()
        del config["truncate"]
        config.update({"doc_stride": self.doc_stride, "max_query_length": self.max_query_length})
        return config
