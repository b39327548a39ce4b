"""AlbertTask: what every model with a head shares. Strings in; `fit`, `evaluate`, `predict`."""

import functools

import keras
import numpy as np

from keras_albert.arguments import check, check_booleans, check_positive_integers
from keras_albert.models.backbone import AlbertBackbone
from keras_albert.models.inputs import is_dataset_of_texts, is_raw, number_of_steps
from keras_albert.models.pipelines import for_keras
from keras_albert.models.saved_task import SavedTask
from keras_albert.models.whole_steps import WholeSteps
from keras_albert.preprocessing.example_batches import ExampleBatches, padded_length
from keras_albert.training.accumulation import step_losses
from keras_albert.training.adamw import AdamW
from keras_albert.training.replica_batches import fill_up
from keras_albert.training.schedules import WarmupPolynomialDecay

_BATCH_SIZE = 32
_WARMUP_SHARE = 0.1


class AlbertTask(WholeSteps, SavedTask):
    """Mixed into a KerasHub task: training and prediction on strings.

    A subclass has `preprocessor_cls`, `default_loss()` and `default_metrics()`.
    """

    backbone_cls = AlbertBackbone
    uses_pooler = True
    same_length = False  # whether outputs have an axis S, along which Keras would join batches
    packs = False  # whether the model takes rows of several texts

    @classmethod
    def check_parts(cls, backbone, preprocessor) -> None:
        """Raise a `ValueError` where backbone and preprocessor are of the wrong kind or size."""
        if not isinstance(backbone, AlbertBackbone):
            raise ValueError(
                "`backbone` must be a keras_albert.AlbertBackbone. "
                f"Received: {type(backbone).__name__}"
            )
        if preprocessor is None:
            return
        kind = cls.preprocessor_cls
        if not isinstance(preprocessor, kind):
            raise ValueError(
                f"`preprocessor` must be a keras_albert.{kind.__name__} or None: give a tokenizer "
                f"as `{kind.__name__}(tokenizer)`. Received: {type(preprocessor).__name__}"
            )
        if preprocessor.sequence_length > backbone.max_sequence_length:
            raise ValueError(
                "The preprocessor's `sequence_length` must not be above the backbone's "
                f"max_sequence_length={backbone.max_sequence_length}. "
                f"Received: sequence_length={preprocessor.sequence_length}"
            )
        _check_vocabulary(backbone, preprocessor)

    def compile(
        self,
        optimizer="auto",
        loss="auto",
        *,
        learning_rate=2e-5,
        loss_weights=None,
        metrics=None,
        weighted_metrics="auto",
        accumulation_steps=1,
        **kwargs,
    ):
        """Configure training; without arguments, as the paper fine-tunes.

        Args:
            optimizer: `"auto"` is `keras_albert.AdamW` with a rate that rises over the first tenth
                of the steps of `fit` and falls linearly to 0. Each `fit` from epoch 0 is a run of
                its own.
            loss: `"auto"` is the loss of the task.
            learning_rate: the highest rate of the automatic optimizer.
            loss_weights: see `keras.Model.compile`.
            metrics: see `keras.Model.compile`.
            weighted_metrics: `"auto"` is the metrics of the task, where `metrics` are not given.
            accumulation_steps: micro-batches that every batch is cut into, to train on large
                batches in the memory of a small one. Loss, gradient and clipping are those of the
                whole batch, on all replicas.
            **kwargs: see `keras.Model.compile`.

        Raises:
            ValueError: an argument breaks a rule, or cannot work under the model's `tf.distribute`
                strategy.
        """
        self._automatic = isinstance(optimizer, str) and optimizer == "auto"
        if self._automatic:
            optimizer = self.default_optimizer(learning_rate)
        if isinstance(loss, str) and loss == "auto":
            loss = self.default_loss()
            if loss_weights is None:
                loss_weights = self.default_loss_weights()
        if isinstance(weighted_metrics, str) and weighted_metrics == "auto":
            weighted_metrics = self.default_metrics() if metrics is None else None
        self._highest_rate = learning_rate
        self.check_steps(optimizer, accumulation_steps, **kwargs)
        self.accumulation_steps = accumulation_steps
        if self.is_divided:
            loss = step_losses(loss)
        # Behind a function: Keras would report metrics that it finds in an attribute once more.
        self._compile_with = functools.partial(
            keras.Model.compile,
            self,
            loss=loss,
            loss_weights=loss_weights,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            **kwargs,
        )
        self._compile_with(optimizer=optimizer)

    def default_loss_weights(self):
        """Of losses that are summed; None for one loss, or a plain sum."""

    def default_optimizer(self, learning_rate, total_steps=None):
        """The optimizer of `compile("auto")`; `fit` asks again when it knows the steps."""
        if total_steps is None:
            return AdamW(learning_rate)
        warmup_steps = max(1, round(_WARMUP_SHARE * total_steps))
        total_steps = max(total_steps, warmup_steps + 1)
        schedule = WarmupPolynomialDecay(
            learning_rate, warmup_steps=warmup_steps, total_steps=total_steps
        )
        return AdamW(schedule)

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        *,
        sample_weight=None,
        validation_data=None,
        validation_split=0.0,
        shuffle=True,
        packing=False,
        **kwargs,
    ):
        """Train on raw examples, on model inputs or on a dataset; as `keras.Model.fit`.

        Args:
            x: raw examples, as the task's class says; a dict of model inputs; or a dataset: a
                `keras.utils.PyDataset`, or one of tf.data or grain with raw elements `(x, y)`. A
                tuple is always the columns of raw examples, as a pair of texts, never `(x, y)`.
            y: labels, where `x` has none.
            batch_size: of raw examples or inputs, 32 by default; a dataset has its own.
            sample_weight: weights, one for each example.
            validation_data: `(x, y)`, `(x, y, sample_weight)`, or a dataset.
            validation_split: share of the raw examples, from the end, to validate on.
            shuffle: whether raw examples come in a new order every epoch.
            packing: whether to put several raw texts into one row, of a classifier: the same
                results with less padding, and batches that are drawn whatever the length.
            **kwargs: see `keras.Model.fit`.

        Returns:
            A `keras.callbacks.History`.

        Raises:
            ValueError: `x` is none of these, labels are out of range, or counts differ.
        """
        if batch_size is not None:
            check_positive_integers("fit", batch_size=batch_size)
        check_booleans("fit", shuffle=shuffle, packing=packing)
        self.check_packing(packing, x, training=True)
        check("fit", "in [0, 1)", lambda share: 0 <= share < 1, validation_split=validation_split)
        if x is None or isinstance(x, (int, float)):
            raise ValueError(f"`x` must be {self.takes}, or a dataset. Received: x={x!r}")
        check(
            "fit",
            "None, a tuple (x, y) or (x, y, sample_weight), or a dataset",
            lambda data: (
                data is None
                or (isinstance(data, (tuple, list)) and len(data) in (2, 3))
                or isinstance(data, keras.utils.PyDataset)
                or is_dataset_of_texts(data)
            ),
            validation_data=validation_data,
        )
        if is_raw(x):
            rows = self._encode(x, y, sample_weight, labelled=True)
            if validation_split and validation_data is None:
                count = round(len(rows) * (1 - validation_split))
                if count in (0, len(rows)):
                    raise ValueError(
                        "`validation_split` must leave examples on both sides. "
                        f"Received: {validation_split}, of {len(rows)} examples"
                    )
                rows, held_out = rows[:count], rows[count:]
                validation_data = self._batches(held_out, batch_size, packing=packing)
            seed = int(np.random.randint(2**31))  # follows `keras.utils.set_random_seed`
            x = self._batches(rows, batch_size, shuffle=shuffle, seed=seed, packing=packing)
            y = sample_weight = batch_size = None
            shuffle = False  # it shuffles itself
        if isinstance(validation_data, (tuple, list)):
            vx, vy, weight = keras.utils.unpack_x_y_sample_weight(tuple(validation_data))
            if is_raw(vx):
                rows = self._encode(vx, vy, weight, labelled=True)
                validation_data = self._batches(rows, batch_size, packing=packing)
        self._start_run(x, batch_size, kwargs)
        self.start_processes(x)
        if is_dataset_of_texts(x):
            self.check_texts(x)
            if sample_weight is not None:
                kwargs["sample_weight"] = sample_weight
            kwargs["shuffle"] = False  # its own affair, and Keras would warn that it cannot
            return super().fit(x, y, batch_size, validation_data=validation_data, **kwargs)
        return keras.Model.fit(
            self,
            self.in_parts(
                x, batch_size or _BATCH_SIZE, shuffle, class_weight=kwargs.get("class_weight")
            ),
            y,
            batch_size,
            sample_weight=sample_weight,
            validation_data=self.in_replicas(validation_data, batch_size or _BATCH_SIZE),
            shuffle=shuffle,
            **kwargs,
        )

    def _start_run(self, x, batch_size, kwargs) -> None:
        """Give the automatic optimizer its schedule, now that the number of steps is known."""
        if not self._automatic or kwargs.get("initial_epoch") or not self.compiled:
            return
        steps = kwargs.get("steps_per_epoch") or number_of_steps(x, batch_size or _BATCH_SIZE)
        if not steps:
            return
        optimizer = self.default_optimizer(self._highest_rate, steps * kwargs.get("epochs", 1))
        with self.scope():
            self._compile_with(optimizer=optimizer)

    def evaluate(
        self, x=None, y=None, batch_size=None, *, sample_weight=None, packing=False, **kwargs
    ):
        """Losses and metrics on what `fit` takes; as `keras.Model.evaluate`."""
        self.check_packing(packing, x)
        if is_raw(x):
            rows = self._encode(x, y, sample_weight, labelled=True)
            batches = self.in_replicas(self._batches(rows, batch_size, packing=packing))
            return keras.Model.evaluate(self, batches, **kwargs)
        owner = super() if is_dataset_of_texts(x) else None
        if owner is not None and not kwargs.get("_use_cached_eval_dataset"):
            return owner.evaluate(x, y, batch_size, sample_weight=sample_weight, **kwargs)
        if not kwargs.get("_use_cached_eval_dataset"):
            x = self.in_replicas(x, batch_size or _BATCH_SIZE)
        return keras.Model.evaluate(self, x, y, batch_size, sample_weight=sample_weight, **kwargs)

    def predict(self, x, batch_size=None, *, packing=False, **kwargs):
        """The model's outputs for what `fit` takes, in the order of `x`; see `keras.Model`.

        Raw examples are computed by length, the long together and the short together; with
        `packing`, a classifier's are put together into rows.
        """
        self.check_packing(packing, x)
        if is_raw(x):
            return self.predict_rows(self._encode(x), batch_size, packing=packing, **kwargs)
        if is_dataset_of_texts(x):
            return super().predict(x, batch_size, **kwargs)
        return keras.Model.predict(self, for_keras(x), batch_size, **kwargs)

    def predict_rows(self, rows, batch_size=None, *, packing=False, **kwargs):
        """The outputs for rows that the preprocessor has encoded, in their order."""
        batches = self._batches(rows, batch_size, same_length=self.same_length, packing=packing)
        outputs = keras.Model.predict(self, for_keras(batches), **kwargs)
        places = np.argsort(batches.order)
        return keras.tree.map_structure(lambda output: output[places], outputs)

    def train_on_batch(self, x, y=None, sample_weight=None, **kwargs):
        """One step on one batch of raw examples or inputs; as `keras.Model.train_on_batch`."""
        batch = self._one_batch(x, y, sample_weight)
        return keras.Model.train_on_batch(self, *batch, **kwargs)

    def test_on_batch(self, x, y=None, sample_weight=None, **kwargs):
        """Losses and metrics of one batch; as `keras.Model.test_on_batch`."""
        batch = self._one_batch(x, y, sample_weight)
        return keras.Model.test_on_batch(self, *batch, **kwargs)

    def predict_on_batch(self, x, **kwargs):
        """Outputs for one batch; as `keras.Model.predict_on_batch`."""
        return keras.Model.predict_on_batch(self, self._one_batch(x)[0], **kwargs)

    def _one_batch(self, x, y=None, sample_weight=None):
        if is_raw(x):
            rows = self._encode(x, y, sample_weight)
            lengths = [self.preprocessor.length(row) for row in rows]
            length = padded_length(max(lengths), self.preprocessor.sequence_length)
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(self.collate(rows, length))
        return x, y, sample_weight

    def _encode(self, x, y=None, sample_weight=None, labelled=False):
        if self.preprocessor is None:
            raise ValueError(
                f"To take {self.takes}, the model needs a tokenizer: make it with "
                f"`preprocessor={self.preprocessor_cls.__name__}(tokenizer)`; or pass a dict of "
                f"model inputs. Received: {type(x).__name__}"
            )
        rows = self.preprocessor.encode(x, y, sample_weight)
        if not rows:
            raise ValueError("`x` must hold at least one example. Received: none")
        if labelled:
            self.check_labels(rows)
        return rows

    def check_labels(self, rows) -> None:
        """Raise a `ValueError` for a label that the model has no output for."""

    def check_packing(self, packing, x, training=False) -> None:
        """Raise a `ValueError` where texts are to be packed that cannot be."""
        if not packing:
            return
        if not self.packs:
            raise ValueError(
                "`packing` puts several texts into one row, which an AlbertTextClassifier without "
                f"early exits can tell apart. Received: packing=True of {type(self).__name__}"
            )
        if not is_raw(x):
            raise ValueError(
                "`packing` is of raw texts: model inputs are rows already, and a dataset is a "
                f"`PyDataset` or has a pipeline. Received: packing=True and {type(x).__name__}"
            )
        self.check_undivided(training)

    def _batches(self, rows, batch_size, **kwargs):
        return ExampleBatches(self, rows, batch_size or _BATCH_SIZE, **kwargs)

    def collate(self, rows, length):
        """A batch of encoded examples, packed to a length: `x`, `(x, y)` or with weights."""
        batch = self.preprocessor.collate(rows, length)
        return batch if self.parts == 1 else fill_up(batch, self.parts)


def _check_vocabulary(backbone, preprocessor):
    tokenizer = getattr(preprocessor, "tokenizer", None)
    # A tokenizer that is being loaded has no vocabulary yet.
    if tokenizer is None or getattr(tokenizer, "_token_to_id_map", None) is None:
        return
    if tokenizer.vocabulary_size() > backbone.vocabulary_size:
        raise ValueError(
            "The tokenizer has more pieces than the backbone has embeddings: make the backbone "
            f"with vocabulary_size={tokenizer.vocabulary_size()}. "
            f"Received: vocabulary_size={backbone.vocabulary_size}"
        )
