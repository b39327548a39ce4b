"""EarlyExit: a head after every depth; an example leaves where its heads have come to agree.

Shapes: B batch, L depths, H hidden, C classes.
"""

import contextlib
import types
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_albert.arguments import (
    check,
    check_booleans,
    check_positive_numbers,
    is_integer,
    is_number,
)
from keras_albert.models.exit_steps import DepthSteps, as_predict_function, leaving_depths
from keras_albert.models.labels import check_class_labels
from keras_albert.training.distribution import replicas_of


class PatienceRow(NamedTuple):
    """What a patience gives on examples with labels; None stands for all depths."""

    patience: int | None
    accuracy: float
    depth: float  # the mean at which examples left


class EarlyExit:
    """Mixed into a classifier: joint training of the heads of all depths, and prediction by them.

    The model's graph is that of the last head, so metrics, `evaluate` and exports are of the full
    depth. Only in training there are the logits (B, L, C) of all heads.

    Source: Zhou et al. (2020), "BERT Loses Patience": the pooler is shared by the depths, the loss
    of depth i, from 1, has the weight i.
    """

    early_exit = False
    _patience = None
    _compute = None  # what a prediction computes instead of answers, from the inputs of a batch

    @staticmethod
    def check_exits(owner, early_exit, patience, exit_threshold, backbone) -> None:
        """Raise a `ValueError` for wrong arguments."""
        check_booleans(owner, early_exit=early_exit)
        check_positive_numbers(owner, exit_threshold=exit_threshold)
        _check_patience(owner, patience)
        if patience is not None and not early_exit:
            raise ValueError(
                "`patience` needs a trained head after every depth: make the classifier with "
                f"early_exit=True and fit it. Received: patience={patience}, early_exit=False"
            )
        if early_exit and backbone.num_layers < 2:
            raise ValueError(
                "`early_exit` needs a backbone of at least 2 layers. "
                f"Received: early_exit=True, num_layers={backbone.num_layers}"
            )

    def add_exits(self) -> None:
        """Make the heads of all depths but the last, whose head is `classifier`."""
        backbone = self.backbone
        count = backbone.num_layers - 1
        # Keras' Dense for each depth, in one kernel (L - 1, H, C).
        self.exits = keras.layers.EinsumDense(
            "blh,lhc->blc",
            output_shape=(count, self.num_classes),
            bias_axes="lc",
            kernel_initializer=keras.initializers.TruncatedNormal(
                stddev=backbone.initializer_range
            ),
            dtype=backbone.dtype_policy,
            name="exits",
        )
        self.exits.build((None, count, backbone.hidden_dim))
        # Held aside: TensorFlow would put functions that are attributes into a SavedModel.
        self._made = types.SimpleNamespace(whole=None, steps=None)

    @property
    def patience(self):
        """How often on end heads must agree before an example leaves; None computes all depths."""
        return self._patience

    @patience.setter
    def patience(self, value):
        args = (self.early_exit, value, self.exit_threshold, self.backbone)
        self.check_exits(type(self).__name__, *args)
        self._patience = value

    # === Training ===
    def call(self, inputs, training=None, mask=None):
        if not (self.early_exit and training):
            return super().call(inputs, training=training, mask=mask)
        backbone = self.backbone
        x = backbone.embedding(
            inputs["token_ids"], segment_ids=inputs["segment_ids"], training=training
        )
        depths = backbone.encoder(
            x, attention_mask=inputs["padding_mask"], training=training, return_all_layers=True
        )
        pooled_BLH = ops.stack([backbone.pooler(x) for x in depths], axis=1)
        return self.score(self.classifier_dropout(pooled_BLH, training=training))

    def score(self, pooled_BLH):
        """The logits (B, L, C) in float32, by the head of each depth."""
        logits = [self.exits(pooled_BLH[:, :-1]), self.classifier(pooled_BLH[:, -1:])]
        return ops.cast(ops.concatenate(logits, axis=1), "float32")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if not _is_of_all_depths(y_pred):
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        weights = range(1, y_pred.shape[1] + 1)
        total = 0.0
        for weight in weights:
            logits = y_pred[:, weight - 1]
            loss = super().compute_loss(x, y, logits, sample_weight, training)
            total = total + loss * (weight / sum(weights))
        return total

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        last = y_pred[:, -1] if _is_of_all_depths(y_pred) else y_pred
        return super().compute_metrics(x, y, last, sample_weight)

    # === Prediction ===
    def make_predict_function(self, force=False):
        """Keras' own for all depths; with `patience`, one from which examples leave."""
        if not self.early_exit:
            return super().make_predict_function(force)
        made = self._made
        if self.predict_function is None:  # the model was compiled anew
            made.whole = made.steps = None
        compute = self._compute
        if compute is None and self.patience is not None:
            compute = lambda x: self._steps().leave(x, self.patience, self.exit_threshold)[0]
        if compute is not None:
            if (replicas := replicas_of(self)) > 1:
                raise ValueError(
                    "Examples leave early on one device: predict outside of `tf.distribute`, or "
                    f"with patience=None. Received: {replicas} replicas"
                )
            self.predict_function = as_predict_function(self, compute)
        else:
            self.predict_function = made.whole
            super().make_predict_function(force)
            made.whole = self.predict_function
        return self.predict_function

    def _steps(self):
        if self._made.steps is None:
            self._made.steps = DepthSteps(self)
        return self._made.steps

    @contextlib.contextmanager
    def _predicting(self, compute):
        self._compute = compute
        try:
            yield
        finally:
            self._compute = None

    def predict_exits(self, x, patience=None, batch_size=None, **kwargs):
        """The answer to each example, and the depth at which it left.

        Args:
            x: see `predict`.
            patience: None is the model's own.
            batch_size: see `predict`.
            **kwargs: see `keras.Model.predict`.

        Returns:
            Logits (B, num_classes) of the head at which each example left, and depths (B,) int32
            from 1 to L.

        Raises:
            ValueError: `patience` is no integer of at least 1, or the model has no early exits.

        Example:
        ```python
        logits, depths = classifier.predict_exits(["not bad"], patience=3)
        ```
        """
        self._check_has_exits("predict_exits")
        _check_patience("predict_exits", patience)
        patience = self.patience if patience is None else patience
        patience = self.backbone.num_layers if patience is None else patience
        compute = lambda x: self._steps().leave(x, patience, self.exit_threshold)
        with self._predicting(compute):
            return self.predict(x, batch_size, **kwargs)

    def predict_depths(self, x, batch_size=None, **kwargs):
        """The logits of all heads.

        Args:
            x: see `predict`.
            batch_size: see `predict`.
            **kwargs: see `keras.Model.predict`.

        Returns:
            Logits (B, L, num_classes); `[:, -1]` is what `predict` gives without patience.

        Raises:
            ValueError: the model has no early exits.
        """
        self._check_has_exits("predict_depths")
        with self._predicting(lambda x: self._steps().every_depth(x)):
            return self.predict(x, batch_size, **kwargs)

    def choose_patience(self, x, y, tolerance=0.005, batch_size=None, **kwargs):
        """Set the smallest patience that is about as accurate as all depths.

        All depths of every example are computed once.

        Args:
            x: raw examples or a dict of model inputs, none of which was trained on.
            y: their classes.
            tolerance: how far accuracy may be below that of all depths.
            batch_size: see `predict`.
            **kwargs: see `keras.Model.predict`.

        Returns:
            A list of `PatienceRow(patience, accuracy, depth)`, by patience from 1; the last, whose
            patience is None, is of all depths. From a patience of L - 1 on, where no example could
            leave before the last depth, there are no rows.

        Raises:
            ValueError: an argument breaks its rule, the model is a regression or has no early
                exits.

        Example:
        ```python
        for row in classifier.choose_patience(texts, labels, tolerance=0.01):
            print(row.patience, row.accuracy, row.depth)
        classifier.predict(["not bad"])  # with classifier.patience
        ```
        """
        owner = "choose_patience"
        self._check_has_exits(owner)
        rule = "of a classifier: num_classes of at least 2"
        check(owner, rule, lambda count: count > 1, num_classes=self.num_classes)
        rule = "a number of at least 0"
        check(owner, rule, lambda value: is_number(value) and value >= 0, tolerance=tolerance)
        check(owner, "a label for every example", lambda y: y is not None, y=y)
        check_class_labels(y, self.num_classes)
        logits_BLC = self.predict_depths(x, batch_size, **kwargs)
        batch, depths, _ = logits_BLC.shape
        if len(y) != batch:
            raise ValueError(
                "`x` and `y` of choose_patience must have as many of each. "
                f"Received: {batch} examples and {len(y)} labels"
            )
        rows = []
        for patience in [*range(1, depths - 1), None]:
            left_at = leaving_depths(logits_BLC, patience or depths, self.exit_threshold)
            answers = logits_BLC[np.arange(batch), left_at - 1].argmax(axis=-1)
            accuracy = float(np.mean(answers == np.asarray(y)))
            rows.append(PatienceRow(patience, accuracy, float(left_at.mean())))
        lowest = rows[-1].accuracy - tolerance
        self.patience = next(row.patience for row in rows if row.accuracy >= lowest)
        return rows

    def _check_has_exits(self, owner) -> None:
        rule = "True: only then there is a head after every depth"
        check(owner, rule, lambda value: value, early_exit=self.early_exit)


def _check_patience(owner, patience) -> None:
    rule = "None or an integer of at least 1"
    holds = lambda value: value is None or (is_integer(value) and value >= 1)
    check(owner, rule, holds, patience=patience)


def _is_of_all_depths(logits) -> bool:
    return len(logits.shape) == 3
