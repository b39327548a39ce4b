"""AlbertSpanExtractor: the span of a context that answers a question, or that there is none.

Shapes: B batch, S sequence, K starts of the beam.
"""

import warnings

import keras
import keras_hub
import numpy as np

from keras_albert.arguments import check, check_known, is_number
from keras_albert.layers.span_heads import BeamSpanHead, LinearSpanHead
from keras_albert.models.task import AlbertTask
from keras_albert.preprocessing.example_batches import padded_length
from keras_albert.preprocessing.span_decoding import MASKED, decode_beams, decode_spans
from keras_albert.preprocessing.span_extraction import AlbertSpanExtractorPreprocessor

HEADS = ("linear", "beam")


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertSpanExtractor(AlbertTask, keras_hub.models.Task):
    """Extractive question answering, as SQuAD 1.1 and 2.0 ask.

    `fit`, `evaluate` and `answer` take `(questions, contexts)`, or examples of
    `keras_albert.datasets.load_squad`. Contexts may be of any length: they are read in windows.

    Args:
        backbone: an `AlbertBackbone`, whose pooler, which nothing trains here, is frozen.
        preprocessor: an `AlbertSpanExtractorPreprocessor`; None where inputs are token ids.
        head: `"linear"`, BERT's: a start and an end logit for every token, where the score of
            [CLS] speaks for no answer. `"beam"`, ALBERT's for SQuAD 2.0: see
            `keras_albert.layers.BeamSpanHead`.
        null_threshold: questions whose null odds are above it are not answered; found on a
            development set (`best_threshold`). None answers every question.
        **kwargs: `name`, `trainable`, `dtype`, `compile`.

    Call arguments:
        The backbone's inputs; with `head="beam"` also `"start_positions"` int (B,), the true starts
        in training and anything at inference.

    Returns:
        A dict of `"start"` and `"end"`, logits (B, S) in float32; with `head="beam"` all that the
        head gives.

    Raises:
        ValueError: an argument breaks its rule.

    Source: Devlin et al. (2019), sections 4.2 and 4.3; Lan et al. (2020), section 4.1.

    Example:
    ```python
    model = keras_albert.AlbertSpanExtractor.from_preset("run/preset")
    model.fit(keras_albert.datasets.load_squad("train-v1.1.json"), epochs=2)
    model.answer((["Who wrote it?"], ["Ada Lovelace wrote it in 1843."]))[0].text
    ```
    """

    preprocessor_cls = AlbertSpanExtractorPreprocessor
    uses_pooler = False
    same_length = True
    takes = "a tuple (questions, contexts), or a list of examples"

    def __init__(self, backbone, preprocessor=None, head="linear", null_threshold=None, **kwargs):
        self.check_parts(backbone, preprocessor)
        if head not in HEADS:
            raise ValueError(f"`head` must be one of {HEADS}. Received: {head!r}")
        check(
            "AlbertSpanExtractor",
            "a number, or None",
            lambda value: value is None or is_number(value),
            null_threshold=null_threshold,
        )
        check_known("AlbertSpanExtractor", kwargs, ("name", "trainable", "dtype", "compile"))

        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        backbone.pooler.trainable = False  # nothing would train it, and Keras would warn
        options = {
            "kernel_initializer": keras.initializers.TruncatedNormal(
                stddev=backbone.initializer_range
            ),
            "dtype": backbone.dtype_policy,
        }
        if head == "beam":
            self.beam_head = BeamSpanHead(
                layer_norm_epsilon=backbone.layer_norm_epsilon, name="beam_head", **options
            )
        else:
            self.span_head = LinearSpanHead(name="span_head", **options)

        # === Graph ===
        inputs = dict(backbone.input)
        sequence_output = backbone(backbone.input)["sequence_output"]
        if head == "beam":
            inputs["start_positions"] = keras.Input((), dtype="int32", name="start_positions")
            outputs = self.beam_head(
                sequence_output,
                segment_ids=inputs["segment_ids"],
                padding_mask=inputs["padding_mask"],
                start_positions=inputs["start_positions"],
            )
        else:
            outputs = self.span_head(sequence_output)
        compile = kwargs.pop("compile", True)
        super().__init__(inputs=inputs, outputs=outputs, compile=False, **kwargs)

        # === Config ===
        self.head = head
        self.null_threshold = null_threshold
        if compile:
            self.compile()

    def _targets(self):
        return ("start", "end", "unanswerable") if self.head == "beam" else ("start", "end")

    def default_loss(self):
        losses = {
            name: keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction="mean_with_sample_weight", name=f"{name}_loss"
            )
            for name in ("start", "end")
        }
        losses["unanswerable"] = keras.losses.BinaryCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight", name="unanswerable_loss"
        )
        return {name: losses[name] for name in self._targets()}

    def default_loss_weights(self):
        return dict.fromkeys(self._targets(), 0.5)  # as in run_squad, with both heads

    def default_metrics(self):
        metrics = {
            name: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
            for name in ("start", "end")
        }
        metrics["unanswerable"] = [keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")]
        return {name: metrics[name] for name in self._targets()}

    # Nothing is learned from the beams, and Keras wants a label for every output.
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return super().compute_loss(x, y, self._learned(y_pred), sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, y, self._learned(y_pred), sample_weight)

    def _learned(self, outputs):
        return {name: outputs[name] for name in self._targets()}

    def _encode(self, x, y=None, sample_weight=None, labelled=False):
        rows = super()._encode(x, y, sample_weight, labelled=False)
        if not labelled:
            return rows
        kept = [row for row in rows if row.label is not None]
        if not kept:
            raise ValueError(
                "To train, questions must have answers that stand in their contexts: pass `y`, or "
                "examples with answers. Received: none of them has one"
            )
        if len(kept) < len(rows):
            unaligned = self.preprocessor.windows(x, y).unaligned
            said = "; ".join(f"{id}: {reason}" for id, reason in unaligned[:5])
            warnings.warn(
                f"{len(unaligned)} questions are left out, as their answers are not found in "
                f"their contexts: {said}",
                stacklevel=3,
            )
        return kept

    def collate(self, rows, length):
        x, y, weights = keras.utils.unpack_x_y_sample_weight(super().collate(rows, length))
        if self.head == "beam":
            x["start_positions"] = np.zeros(len(rows), "int32") if y is None else y["start"]
        if y is not None:
            y = {name: y[name] for name in self._targets()}
        if weights is not None:
            weights = {name: weights[name] for name in self._targets()}
        return keras.utils.pack_x_y_sample_weight(x, y, weights)

    def predict_spans(self, x, n_best_size=20, max_answer_length=30, batch_size=None, **kwargs):
        """The n best answers to each question, and the odds that there is none.

        Args:
            x: `(questions, contexts)`, or examples.
            n_best_size: answers with different texts to keep for each question.
            max_answer_length: tokens.
            batch_size: windows in a batch.
            **kwargs: see `keras.Model.predict`.

        Returns:
            A list of `SpanPrediction`, one for each question; see
            `keras_albert.preprocessing.span_predictions`.

        Raises:
            ValueError: `x` is something else, or an argument is out of range.
        """
        windows = self.preprocessor.windows(x)
        outputs = self._predict_windows(windows, batch_size, **kwargs)
        options = {"n_best_size": n_best_size, "max_answer_length": max_answer_length}
        if self.head == "linear":
            return decode_spans(windows, outputs["start"], outputs["end"], **options)
        return decode_beams(
            windows,
            start_log_probs=outputs["beam_start_log_probs"],
            start_indexes=outputs["beam_starts"],
            end_log_probs=outputs["beam_end_log_probs"],
            end_indexes=outputs["beam_ends"],
            answerability_logits=outputs["unanswerable"],
            **options,
        )

    def answer(self, x, **kwargs):
        """The best answer to each question; no answer where the null odds are above the threshold.

        Args:
            x: `(questions, contexts)`, or examples.
            **kwargs: see `predict_spans`.

        Returns:
            A list of `SpanCandidate`: `text`, the characters `start` and `end` in the context,
            `probability`. The text is "" where there is no answer.
        """
        predictions = self.predict_spans(x, **kwargs)
        return [prediction.answer(self.null_threshold) for prediction in predictions]

    def _predict_windows(self, windows, batch_size, **kwargs):
        """The outputs for all windows, computed by length; logits are padded to S."""
        rows = [row._replace(label=None) for row in self.preprocessor.rows(windows)]
        limit = windows.sequence_length
        lengths = [padded_length(self.preprocessor.length(row), limit) for row in rows]
        outputs = {}
        for length in sorted(set(lengths)):
            which = np.flatnonzero(np.equal(lengths, length))
            some = self.predict_rows([rows[i] for i in which], batch_size, **kwargs)
            for name, values in some.items():
                shape = (len(rows), *values.shape[1:])
                if name in ("start", "end"):
                    shape = (len(rows), limit)
                    missing = ((0, 0), (0, limit - values.shape[1]))
                    values = np.pad(values, missing, constant_values=MASKED)
                outputs.setdefault(name, np.empty(shape, values.dtype))[which] = values
        return outputs

    def get_config(self):
        config = super().get_config()
        config.update({"head": self.head, "null_threshold": self.null_threshold})
        return config
