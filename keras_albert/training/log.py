"""`TrainingLog`: what a run does, as JSON lines and in TensorBoard."""

import json
import os
import statistics
import time
import warnings
from pathlib import Path

import keras
import numpy as np

from keras_albert.arguments import check, check_integers, is_number, is_path
from keras_albert.training.board import add_to_board, start_board
from keras_albert.training.lamb import Lamb
from keras_albert.training.safety import GradientWatch, SkipNonFinite
from keras_albert.training.throughput import matrix_peak, operations_per_step

NAME = "log.jsonl"


class TrainingLog(keras.callbacks.Callback):
    """Writes `log.jsonl`, a dict a line, and TensorBoard's files where that is installed.

    Every `every` steps: `step`, `epoch`, `loss` and the metrics, each over the steps since the line
    before (or since the epoch began), `learning_rate`, `gradient_norm` and `skipped` (with
    `SkipNonFinite`), `trust_ratio`, the median over variables, with `_min` and `_max` (with
    `Lamb`), `tokens_per_second`, `peak_share` (the share of what this device does in a large matrix
    product, measured once) and `seconds_left`.
    After each epoch: `step`, `epoch` and its validation. When it happens: `event`, `"skipped"` or
    `"spike"`, which is also a warning; see `GradientWatch`.

    Steps are counted by the optimizer, skipped ones included, so several calls of `fit` make one
    log. A run that goes on from step n first takes out the lines after n: no step stands twice.

    After a skipped step the epoch's loss and metrics begin anew, as they would be NaN.

    Args:
        directory: of the run.
        every: steps between lines.
        limit, spike: of the `GradientWatch`.
        tokens_per_step: for the rates; None takes them from data that `AlbertPretrainer.fit` or
            `watch` hands over.
        peak: operations a second; None measures it, which takes a second, 0 leaves it out.

    Raises:
        ValueError: an argument outside these rules; a log with a line that is not JSON.
        RuntimeError: `limit` steps in a row were skipped.

    Example:
    ```python
    model.compile(optimizer=keras_albert.SkipNonFinite(keras_albert.Lamb(1e-3)))
    model.fit(data, epochs=10, callbacks=[keras_albert.TrainingLog("run/")])
    ```
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        every: int = 10,
        limit: int = 10,
        spike: float = 10.0,
        tokens_per_step: int | None = None,
        peak: float | None = None,
    ):
        super().__init__()
        check("TrainingLog", "a directory's path", is_path, directory=directory)
        check_integers("TrainingLog", 1, every=every)
        check(
            "TrainingLog",
            "None or a number of at least 0",
            lambda value: value is None or (is_number(value) and value >= 0),
            tokens_per_step=tokens_per_step,
            peak=peak,
        )
        self.directory = Path(os.path.expanduser(directory))
        self.every = every
        self.watcher = GradientWatch(limit, spike)
        self.tokens_per_step = tokens_per_step
        self.peak = peak
        self._data = None

    def watch(self, data):
        """Take batch size and lengths from a dataset; returns the dataset."""
        self._data = data
        # Fewer than examples where they are packed; a stream of others may have no such number.
        self._rows = getattr(data, "rows_per_batch", data.batch_size)
        if self.tokens_per_step is None:
            self.tokens_per_step = self._rows * data.sequence_length
        return data

    def on_train_begin(self, logs=None):
        self._opened = False  # the step is known when all callbacks have restored

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch, self._before = epoch, None
        self._first_step = self._step = _steps_done(self.model.optimizer)
        self._clock = None
        if not self._opened:
            self._first_epoch = epoch
            self._open()

    def on_train_batch_begin(self, batch, logs=None):
        if self._before is None:
            self._before = _values(self.model.metrics_variables)

    def on_train_batch_end(self, batch, logs=None):
        model = self.model
        self._step = self._first_step + batch + 1
        if self._clock is None:  # not before: the first step of a run compiles
            self._clock = self._step, time.monotonic()
        if self._watch(model):
            model.reset_metrics()
            self._before = _values(model.metrics_variables)
        elif self._step % self.every == 0:
            self._write_step(model, batch)

    def on_epoch_end(self, epoch, logs=None):
        validation = {name: value for name, value in logs.items() if name.startswith("val_")}
        if validation:
            self._write({"step": self._step, "epoch": epoch, **validation})

    def _watch(self, model):
        """Notes what the optimizer counted; returns whether the step was skipped."""
        optimizer = _skipping(model.optimizer)
        if optimizer is None:
            return False
        counts = (optimizer.gradient_norm, optimizer.skipped, optimizer.skipped_in_a_row)
        norm, skipped, in_a_row = map(_number, counts)
        try:
            event = self.watcher.observe(self._step, norm, int(skipped), int(in_a_row))
        except RuntimeError:
            self._write({"step": self._step, "epoch": self._epoch, "event": "stopped"})
            raise
        if event is not None:
            self._write({"step": self._step, "epoch": self._epoch, **event})
            details = ", ".join(f"{name} {event[name]:.4g}" for name in event if name != "event")
            warnings.warn(f"Step {self._step:,}: {event['event']} ({details})", stacklevel=2)
        return in_a_row > 0

    def _write_step(self, model, batch):
        optimizer = _skipping(model.optimizer)
        row = {"step": self._step, "epoch": self._epoch, **self._means(model)}
        row["learning_rate"] = _number(model.optimizer.learning_rate)
        if optimizer is not None:
            row["gradient_norm"] = _number(optimizer.gradient_norm)
            row["skipped"] = int(_number(optimizer.skipped))
        row |= _trust_ratios(model.optimizer)
        (step, started), self._clock = self._clock, (self._step, time.monotonic())
        if self._step > step:
            rate = (self._step - step) / (self._clock[1] - started)
            row["steps_per_second"] = rate
            if self.tokens_per_step:
                row["tokens_per_second"] = rate * self.tokens_per_step
            if self._operations and self.peak:
                row["peak_share"] = rate * self._operations / self.peak
            row["seconds_left"] = self._steps_left(batch) / rate
        self._write(row)

    def _means(self, model):
        """Metrics over the steps since the line before: results of the sums' growth."""
        variables = model.metrics_variables
        now = _values(variables)
        # TensorFlow makes all but the first of them within the first step.
        before = [*self._before, *(0 * value for value in now[len(self._before) :])]
        for variable, value, old in zip(variables, now, before, strict=True):
            variable.assign(value - old)
        means = model.get_metrics_result()
        for variable, value in zip(variables, now, strict=True):
            variable.assign(value)
        self._before = now
        return {name: _number(value) for name, value in means.items()}

    def _steps_left(self, batch):
        done = self.params.get("initial_batch", 0) if self._epoch == self._first_epoch else 0
        return (self.params["epochs"] - self._epoch) * self.params["steps"] - done - batch - 1

    def _open(self):
        """Opens the log behind the lines up to this step, in one step; the rest is done again."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / NAME
        kept = [row for row in read_log(path) if row["step"] <= self._step] if path.exists() else []
        beside = path.with_suffix(".partial")
        beside.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        os.replace(beside, path)
        self._board = start_board(self.directory / "tensorboard", kept)
        self._opened = True
        self._operations = self._operations_per_step()
        if self._operations and self.peak is None:
            self.peak = matrix_peak(self.model.dtype_policy.compute_dtype)

    def _operations_per_step(self):
        backbone = getattr(self._model, "backbone", None)
        if self._data is None or not hasattr(backbone, "embedding_dim"):
            return None
        data = self._data
        predictions = data.batch_size * data.max_predictions / self._rows  # of a row
        return operations_per_step(backbone, self._rows, data.sequence_length, predictions)

    def _write(self, row):
        row["time"] = round(time.time(), 3)
        with open(self.directory / NAME, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self._board is not None:
            add_to_board(self._board, [row])


def read_log(path: str | os.PathLike) -> list[dict]:
    """The lines of a log; the last one is left out where the run was killed in it.

    Raises:
        ValueError: another line is not JSON, naming it.
    """
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    rows = []
    for number, line in enumerate(lines[:-1], 1):  # what follows the last newline is not whole
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path} is no log: line {number} is not JSON: {error}") from None
    return rows


def _skipping(optimizer):
    """The `SkipNonFinite` in an optimizer, which loss scaling may be around; or None."""
    while optimizer is not None and not isinstance(optimizer, SkipNonFinite):
        optimizer = getattr(optimizer, "inner_optimizer", None)
    return optimizer


def _trust_ratios(optimizer):
    """What to log of the ratios of the `Lamb` in an optimizer, which others may be around."""
    while optimizer is not None and not isinstance(optimizer, Lamb):
        inner = getattr(optimizer, "inner_optimizer", None)
        optimizer = inner or getattr(optimizer, "inner", None)
    ratios = list(optimizer.trust_ratios().values()) if optimizer is not None else ()
    if not ratios:
        return {}
    return {
        "trust_ratio": statistics.median(ratios),
        "trust_ratio_min": min(ratios),
        "trust_ratio_max": max(ratios),
    }


def _steps_done(optimizer):
    skipping = _skipping(optimizer)
    if skipping is not None and skipping.built:
        optimizer = skipping.inner
        skipped = int(_number(skipping.skipped))
    else:
        skipped = 0
    accumulation = optimizer.gradient_accumulation_steps or 1
    return int(_number(optimizer.iterations)) * accumulation + skipped


def _values(variables):
    return [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]


def _number(value):
    return float(keras.ops.convert_to_numpy(value))
