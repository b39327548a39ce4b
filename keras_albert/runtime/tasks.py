"""The task models that answer from an ONNX session, with the methods of the Keras models.

Shapes: B examples, S sequence, C classes, N options, H hidden.
"""

import numpy as np

from keras_albert.arguments import check, check_positive_integers
from keras_albert.preprocessing.mask_filling import fill_texts
from keras_albert.preprocessing.option_rows import encode_options, fit_options, unfold
from keras_albert.preprocessing.questions import as_examples
from keras_albert.preprocessing.rows import as_texts, pack_rows, packed_length, same_counts
from keras_albert.preprocessing.span_decoding import MASKED, decode_beams, decode_spans
from keras_albert.preprocessing.squad import squad_windows
from keras_albert.preprocessing.word_rows import as_sentences, encode_words

BATCH_SIZE = 32


class Task:
    """The base: a session, what the file says of itself, a tokenizer.

    `about` has the model's settings, as `class_names` and `sequence_length`.
    """

    def __init__(self, session, about, tokenizer):
        self.session = session
        self.about = about
        self.tokenizer = tokenizer
        self.output_names = [output.name for output in session.get_outputs()]

    def run(self, x) -> dict[str, np.ndarray]:
        """The outputs for a dict of inputs of ids, as the file names them."""
        return dict(zip(self.output_names, self.session.run(None, x), strict=True))

    def run_rows(self, rows, batch_size):
        """Outputs for rows of ids, in their order: for each a list, with an array for each row.

        Rows of similar length are computed together. What has an axis S has the row's own length,
        or more.
        """
        check_positive_integers("predict", batch_size=batch_size)
        lengths = [self.length(row) for row in rows]
        order = np.argsort(lengths, kind="stable")
        outputs = {name: [None] * len(rows) for name in self.output_names}
        for at in range(0, len(rows), batch_size):
            which = order[at : at + batch_size]
            length = min(lengths[which[-1]], self.about["sequence_length"])
            answers = self.run(self.pack([rows[i] for i in which], length))
            for name, values in answers.items():
                for i, value in zip(which, values, strict=True):
                    outputs[name][i] = value
        return outputs

    def length(self, row) -> int:
        """Tokens of a packed row."""
        return packed_length(row)

    def pack(self, rows, length):
        """Rows as inputs of the session."""
        tokenizer = self.tokenizer
        start, end = [tokenizer.cls_token_id], [tokenizer.sep_token_id]
        return pack_rows(rows, length, start, end, tokenizer.pad_token_id)

    def encode(self, x):
        """Rows of texts, or of pairs of texts."""
        columns = x if isinstance(x, tuple) else (x,)
        if len(columns) not in (1, 2):
            raise ValueError(
                "`x` must be texts, or a tuple (a, b) of two lists of texts. "
                f"Received: a tuple of {len(columns)}"
            )
        columns = [as_texts(column) for column in columns]
        same_counts(x=columns[0], **({"b": columns[1]} if len(columns) == 2 else {}))
        rows = list(zip(*map(self.tokenizer.encode_batch, columns), strict=True))
        if not rows:
            raise ValueError("`x` must hold at least one example. Received: none")
        return rows


class TextClassifier(Task):
    """Classes, or numbers, of texts and of pairs of texts."""

    def predict(self, x, batch_size=BATCH_SIZE) -> np.ndarray:
        """Logits (B, C), of a regression (B, 1), for texts or a tuple of two lists."""
        (rows,) = self.run_rows(self.encode(x), batch_size).values()
        values = np.stack(rows)
        return values[:, None] if values.ndim == 1 else values

    def predict_classes(self, x, batch_size=BATCH_SIZE) -> list[tuple]:
        """`(class, probability)` of each; see `AlbertTextClassifier.predict_classes`."""
        count = self.about["num_classes"]
        check(
            "predict_classes",
            "of a classifier: num_classes of at least 2",
            lambda count: count > 1,
            num_classes=count,
        )
        names = self.about["class_names"] or range(count)
        probabilities = softmax(self.predict(x, batch_size))
        return [(names[int(row.argmax())], float(row.max())) for row in probabilities]


class TextEmbedder(Task):
    """Vectors of texts and of pairs of texts."""

    def predict(self, x, batch_size=BATCH_SIZE) -> np.ndarray:
        """Vectors (B, D); (B, S, D), where nothing is pooled, as long as the longest text."""
        rows = self.encode(x)
        if self.about["pooling"] is None:
            longest = max(map(self.length, rows))
            packed = self.pack(rows, min(longest, self.about["sequence_length"]))
            return self.run(packed)["vectors"]
        return np.stack(self.run_rows(rows, batch_size)["vectors"])


class MultipleChoice(Task):
    """Which option fits."""

    def predict(self, x, batch_size=BATCH_SIZE) -> np.ndarray:
        """Logits (B, N) for `(contexts, options)` or `(passages, questions, options)`."""
        encode_batch, kept = self.tokenizer.encode_batch, self.about["option_length"]
        rows = encode_options(x, encode_batch, kept)
        logits = self.run_rows(rows, batch_size)["logits"]
        width = max(map(len, logits))
        missing = np.float32(-1e9)  # as `layers.UnfoldScores`
        return np.stack(
            [np.pad(row, (0, width - len(row)), constant_values=missing) for row in logits]
        )

    def length(self, row):
        return max(map(packed_length, row))

    def pack(self, rows, length):
        packed = super().pack(fit_options(rows, length), length)
        return unfold(packed, rows, self.tokenizer.pad_token_id)


class TokenClassifier(Task):
    """Tags of words."""

    def predict(self, x, batch_size=BATCH_SIZE) -> list[np.ndarray]:
        """Logits (words, C) for each sentence, a list of words or a string."""
        sentences = as_sentences(x)
        room = self.about["sequence_length"] - 2
        encode_batch, unknown = self.tokenizer.encode_batch, self.tokenizer.unk_token_id
        stretches = encode_words(sentences, encode_batch, unknown, room)
        logits = self.run_rows([(stretch.ids,) for stretch in stretches], batch_size)["logits"]
        parts = [[] for _ in sentences]
        for stretch, row in zip(stretches, logits, strict=True):
            parts[stretch.sentence].append(row[stretch.starts])
        return [np.concatenate(rows) for rows in parts]

    def tag(self, x, batch_size=BATCH_SIZE) -> list[list]:
        """The most probable tag of every word; see `AlbertTokenClassifier.tag`."""
        names = self.about["class_names"] or range(self.about["num_classes"])
        logits = self.predict(x, batch_size)
        return [[names[int(best)] for best in row.argmax(axis=-1)] for row in logits]


class SpanExtractor(Task):
    """Answers to questions that stand in their contexts."""

    def predict_spans(self, x, n_best_size=20, max_answer_length=30, batch_size=BATCH_SIZE):
        """The n best answers to each question; see `AlbertSpanExtractor.predict_spans`."""
        names = ("sequence_length", "doc_stride", "max_query_length")
        windows = squad_windows(
            as_examples(x), self.tokenizer, **{name: self.about[name] for name in names}
        )
        rows = [
            (windows.questions[index], windows.contexts[index].ids[begin:end].tolist())
            for index, _, begin, end, *_ in windows.rows.tolist()
        ]
        outputs = self.run_rows(rows, batch_size)
        options = {"n_best_size": n_best_size, "max_answer_length": max_answer_length}
        if self.about["head"] == "linear":
            limit = self.about["sequence_length"]
            logits = [
                [
                    np.pad(row, (0, limit - len(row)), constant_values=MASKED)
                    for row in outputs[name]
                ]
                for name in ("start", "end")
            ]
            return decode_spans(windows, *logits, **options)
        return decode_beams(
            windows,
            start_log_probs=outputs["beam_start_log_probs"],
            start_indexes=outputs["beam_starts"],
            end_log_probs=outputs["beam_end_log_probs"],
            end_indexes=outputs["beam_ends"],
            answerability_logits=outputs["unanswerable"],
            **options,
        )

    def answer(self, x, **kwargs) -> list:
        """The best answer to each question; see `AlbertSpanExtractor.answer`."""
        predictions = self.predict_spans(x, **kwargs)
        return [prediction.answer(self.about["null_threshold"]) for prediction in predictions]

    predict = answer


class MaskFiller(Task):
    """The most probable tokens for every [MASK]."""

    def fill_mask(self, x, top_k=5) -> list:
        """`FilledMask`s for each text; see `AlbertPretrainer.fill_mask`."""
        texts = as_texts(x)
        check_positive_integers("fill_mask", top_k=top_k)
        filled = []
        for at in range(0, len(texts), BATCH_SIZE):
            filled += fill_texts(
                lambda inputs: softmax(self.run(inputs)["mlm"]),
                self.tokenizer,
                list(texts[at : at + BATCH_SIZE]),
                top_k,
                self.about["max_sequence_length"],
            )
        return filled[0] if isinstance(x, str) else filled

    predict = fill_mask


def softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


TASKS = {
    "AlbertMultipleChoice": MultipleChoice,
    "AlbertPretrainer": MaskFiller,
    "AlbertSpanExtractor": SpanExtractor,
    "AlbertTextClassifier": TextClassifier,
    "AlbertTextEmbedder": TextEmbedder,
    "AlbertTokenClassifier": TokenClassifier,
}
