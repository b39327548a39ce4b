"""`TrainingState`: a run that is killed and started again ends as if nothing had happened."""

import errno
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras

from keras_albert.arguments import check, check_integers, is_integer, is_path
from keras_albert.training.distribution import workers_of
from keras_albert.training.fingerprints import (
    describe_code,
    describe_data,
    describe_model,
    differences,
)
from keras_albert.training.processes import (
    any_process,
    check_slices,
    num_processes,
    process_index,
)
from keras_albert.training.signals import Interrupted, Interruption
from keras_albert.training.snapshot import (
    assign_all,
    restore_generators,
    split_snapshot,
    take_snapshot,
)
from keras_albert.training.state_files import prune_states, read_newest, write_state

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
EPOCH_OVER = "the rest of an interrupted epoch is done"  # true, so that Keras ends the epoch


class TrainingState(keras.callbacks.Callback):
    """Saves a run while it trains, and makes `fit` go on from there in a new process.

    Saved are weights, optimizer, the states of dropout's generators, the sums of the metrics
    within the epoch, epoch and step, the position in the data, `history`, and the best value of
    `monitor`. The run that goes on is the same to the last bit, on the same backend and number of
    devices. Writing is done in a thread: steps wait for a copy of the arrays alone. A state that is
    due while another is still being written is saved as soon as that is done.

    SIGTERM and SIGINT end the step, save, and raise `SystemExit` with status 75 (EX_TEMPFAIL): run
    the same command again. A second signal acts at once. A signal between the last step of an epoch
    and the end of its validation is met after the validation. On a full disk the state before
    stays, a warning says so, and training goes on.

    In `AlbertPretrainer.fit` nothing else is needed. Another Keras model takes its data through
    `batches`. A directory holds one run: give each phase its own. Put it last in the list, so that
    what other callbacks change is saved with it.

    Several processes of JAX or `torchrun` share a directory. Process 0 writes, whole arrays also
    where they are split over processes. A signal to any of them is met at the next state that is
    due, when all of them have heard of it.

    Args:
        directory: of the run; states are in `state/` below it.
        every: steps between states; None for the ends of epochs alone, which are saved always.
        keep: how many of the newest states to keep.
        keep_every: states of steps that this divides are kept for ever; None for none.
        monitor: name in the logs of an epoch, as `"val_loss"`; the state of its best epoch is kept.
        mode: `"min"` or `"max"`: which value of `monitor` is best.

    Attributes:
        position: steps of the data done so far.
        best: None, or a dict of `value`, `epoch` and `position`.

    Raises:
        ValueError: an argument outside these rules; no state that is whole; a state of another
            dataset, tokenizer, objective, batch, model, optimizer or loss (naming what differs).

    Example:
    ```python
    state = keras_albert.TrainingState("run/", every=500, monitor="val_loss")
    model.fit(data, epochs=10, callbacks=[state])  # AlbertPretrainer
    other.fit(state.batches(data), epochs=10, steps_per_epoch=100, callbacks=[state])
    ```
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        every: int | None = 1000,
        keep: int = 3,
        keep_every: int | None = None,
        monitor: str | None = None,
        mode: str = "min",
    ):
        super().__init__()
        owner = "TrainingState"
        check(owner, "a directory's path", is_path, directory=directory)
        check(
            owner,
            "None or an integer of at least 1",
            lambda value: value is None or (is_integer(value) and value >= 1),
            every=every,
            keep_every=keep_every,
        )
        check_integers(owner, 1, keep=keep)
        check(
            owner,
            "None or a name in the logs",
            lambda value: value is None or isinstance(value, str),
            monitor=monitor,
        )
        check(owner, "'min' or 'max'", lambda value: value in ("min", "max"), mode=mode)
        self.directory = Path(os.path.expanduser(directory))
        self.every = every
        self.keep = keep
        self.keep_every = keep_every
        self.monitor = monitor
        self.mode = mode
        self.position = 0
        self.best = None
        self._data = self._batches = None
        self._interruption = Interruption()

    def batches(self, data):
        """What to give to `fit` as `x` in place of `data`, with its `steps_per_epoch`.

        Args:
            data: a stream that does not end: a `keras.utils.PyDataset` whose `num_batches` is None
                and whose `start_step` says which step `data[0]` is, as `PretrainingDataset`.

        Raises:
            ValueError: where it is something else.
        """
        stream = isinstance(data, keras.utils.PyDataset) and hasattr(data, "start_step")
        if not stream or data.num_batches is not None:
            raise ValueError(
                "The data of a run that can be resumed must be a stream with a `start_step`, as a "
                f"`PretrainingDataset` without `static`. Received: {type(data).__name__}"
            )
        check_slices(data)
        # Keras' own adapter, which it would make itself: an epoch that is cut short needs its
        # `on_epoch_end`.
        from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

        self._data, self._batches = data, PyDatasetAdapter(data)
        return self._batches

    def on_train_begin(self, logs=None):
        if self._data is None:
            raise ValueError(
                "`TrainingState` must know the data: `fit(state.batches(data), ...)`. "
                "Received: fit without `batches`"
            )
        model = self.model
        if (workers := workers_of(model)) > 1:
            raise ValueError(
                "`TrainingState` must run in one process under TensorFlow: use `MirroredStrategy`, "
                "or several processes of JAX or `torchrun`. Received: a strategy of "
                f"{workers} workers"
            )
        self.position, self.best, self._history = self._data.start_step, None, {}
        self._saved = self._due = self._resumed = self._generators = None
        self._fingerprint = {
            **describe_data(self._data),
            **describe_model(model),
            "steps_per_epoch": self.params["steps"],
        }
        if process_index():  # which reads another slice than the process that writes
            self._fingerprint.pop("batch 0")
        self._code = describe_code()
        self._states = self.directory / "state"
        self._states.mkdir(parents=True, exist_ok=True)
        self._writer, self._writing = ThreadPoolExecutor(1, "training-state"), None
        newest = read_newest(self._states)
        if newest is not None:
            self._restore(model, *newest)
        self._data.start_step = self.position
        self._interruption.watch()

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch, self._done, self._epoch_position = epoch, 0, self.position
        if self._resumed is not None:
            fields, metrics = self._resumed
            self._resumed = None
            self._done = fields["batch"]
            if metrics:
                assign_all(self.model.metrics_variables, metrics)
            self._show_history()
        self._first = self._done
        self._model._initial_epoch = None  # it would hold for the next `fit` too

    def on_train_batch_begin(self, batch, logs=None):
        if self._generators is not None:
            # Not before: torch's data loaders draw a number when they begin.
            restore_generators(self._generators)
            self._generators = None

    def on_train_batch_end(self, batch, logs=None):
        # `self.model` makes JAX write its state back, so it is asked for only where it is needed.
        before, self.position = self.position, self._epoch_position + batch + 1
        self._done = self._first + batch + 1
        self._check_writer()
        if self.every and self.position // self.every > before // self.every:
            self._due = True
        if self._done >= self.params["steps"]:  # the epoch's end saves
            if self._first and not self._model.stop_training:
                self._model.stop_training = EPOCH_OVER
        elif num_processes() > 1:
            if self._due:  # at the same steps in all of them, however long writing takes
                self._save_together(self._epoch, self._done)
        elif self._interruption.received:
            self._save(self._epoch, self._done)
            self._end()
        elif self._due and self._writing is None:
            self._save(self._epoch, self._done)

    def on_epoch_end(self, epoch, logs=None):
        if self._model.stop_training is EPOCH_OVER:
            self._model.stop_training = False
            self._batches.on_epoch_end()
        for name, value in {"epoch": epoch, **(logs or {})}.items():
            self._history.setdefault(name, []).append(float(value) if name != "epoch" else value)
        if self.monitor is not None:
            self._note_best(epoch, logs or {})
        self._save_together(epoch + 1, 0)

    def on_train_end(self, logs=None):
        self._interruption.stop()
        self._model._initial_epoch = None
        self._show_history()
        try:
            self._wait()
        finally:
            self._writer.shutdown()

    def _save_together(self, epoch: int, batch: int):
        """Saves once the writer is idle, then ends if any process has had a signal."""
        self._wait()
        self._save(epoch, batch)
        if any_process(self._interruption.received):
            self._end()

    def _save(self, epoch: int, batch: int):
        """Copies the run's arrays and has them written; the writer must be idle."""
        arrays = take_snapshot(self.model, within_epoch=batch > 0)
        fields = {
            "epoch": epoch,
            "batch": batch,
            "history": self._history,
            "best": self.best,
            "fingerprint": self._fingerprint,
            "code": self._code,
        }
        self._due = None
        if process_index() == 0:
            self._writing = self._writer.submit(self._write, self.position, fields, arrays)

    def _write(self, position, fields, arrays):
        path = write_state(self._states, position, fields, arrays)
        best = fields["best"]
        prune_states(self._states, self.keep, self.keep_every, best and best["position"])
        return path

    def _check_writer(self):
        """Takes up what the writing thread has done, errors included, without waiting."""
        if self._writing is None or not self._writing.done():
            return
        writing, self._writing = self._writing, None
        try:
            self._saved = writing.result()
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            kept = self._saved or "what is in the directory"
            warnings.warn(
                f"No space for a state in {self._states}: {error}. Training goes on; the state "
                f"before stays: {kept}",
                stacklevel=2,
            )

    def _wait(self):
        if self._writing is not None:
            self._writing.exception()
            self._check_writer()

    def _end(self):
        name = self._interruption.received or "A signal to another process"
        self._wait()
        self._writer.shutdown()
        self._interruption.stop()
        where = f"saved at step {self.position:,} in {self._saved}" if self._saved else "not saved"
        print(f"{name}: {where}. Run the same again to go on.", file=sys.stderr, flush=True)
        raise Interrupted

    def _restore(self, model, fields, arrays, path):
        known = fields["fingerprint"]
        if process_index():
            known = {name: value for name, value in known.items() if name != "batch 0"}
        changed = differences(known, self._fingerprint)
        if changed:
            raise ValueError(
                "A run goes on with the data, model and settings that it began with; start another "
                f"in another directory. Received, against {path}: {'; '.join(changed)}"
            )
        if newer := differences(fields["code"], self._code):
            warnings.warn(
                f"Going on from {path}, but results may differ from an uninterrupted run's: "
                f"{'; '.join(newer)}",
                stacklevel=2,
            )
        parts = split_snapshot(arrays)
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        if len(model.metrics_variables) < len(parts["metrics"]):
            # TensorFlow makes them while it traces the first step, which would be too late.
            model.test_on_batch(*self._data[0])
        assign_all(model.variables, parts["model"])
        assign_all(model.optimizer.variables, parts["optimizer"])
        self._resumed, self._generators = (fields, parts["metrics"]), parts["generators"]
        self._history, self.best = fields["history"], fields["best"]
        self.params["initial_batch"] = fields["batch"]  # callbacks share it: `TrainingLog` reads it
        self.position, self._saved = fields["step"], path
        model._initial_epoch = fields["epoch"]  # as Keras' own BackupAndRestore does

    def _note_best(self, epoch, logs):
        if self.monitor not in logs:
            raise ValueError(
                f"`monitor` must be a name in an epoch's logs: {sorted(logs)}. "
                f"Received: {self.monitor!r}"
            )
        value = float(logs[self.monitor])
        sign = 1 if self.mode == "min" else -1
        if self.best is None or sign * value < sign * self.best["value"]:
            self.best = {"value": value, "epoch": epoch, "position": self.position}

    def _show_history(self):
        """Fills in the epochs of earlier processes, so that `fit` returns all of them."""
        record = self._model.history
        past = {name: values for name, values in self._history.items() if name != "epoch"}
        record.history.update({name: list(values) for name, values in past.items()})
        record.epoch[:] = self._history.get("epoch", [])
