"""A tiny run that can be killed, in a process forked from one that has imported everything.

    python resumable_run.py     # reads a JSON dict a line: what to do; answers with the exit status

Importing a backend takes seconds, a run of 21 steps takes less: one server serves all tests.
"""

import contextlib
import json
import os
import random
import signal
import sys
import threading
import warnings

import keras
import numpy as np

from keras_albert.training.lamb import Lamb
from keras_albert.training.log import TrainingLog
from keras_albert.training.safety import SkipNonFinite
from keras_albert.training.state import TrainingState

EPOCHS, STEPS = 3, 7


class Stream(keras.utils.PyDataset):
    """Batches of a linear problem, as a pure function of the step."""

    num_batches = None

    def __init__(self, batch_size=4, seed=3, objective="sop"):
        super().__init__()
        self.start_step, self.batch_size, self.seed = 0, batch_size, seed
        self.objective, self.sequence_length = objective, 2

    def __getitem__(self, index):
        rng = np.random.default_rng([self.seed, self.start_step + index])
        x = rng.normal(size=(self.batch_size, 3)).astype("float32")
        return x, x.sum(1, keepdims=True)


def make_model(rate=0.05):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    model.compile(SkipNonFinite(Lamb(rate)), "mse", metrics=["mae"])
    return model


class Hit(keras.callbacks.Callback):
    """Sends this process a signal at a step of this process, or some milliseconds later."""

    def __init__(self, step, number, delay):
        super().__init__()
        self.left, self.number, self.delay = step, number, delay

    def on_train_batch_begin(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            threading.Timer(self.delay, os.kill, (os.getpid(), self.number)).start()


def run(directory, step=0, signal=0, delay=0.0, every=2):
    """Trains, or goes on; writes the end of it to `directory/end.npz`."""
    model, data = make_model(), Stream()
    state = TrainingState(directory, every=every, monitor="val_loss")
    fitted = model.fit(
        state.batches(data),
        epochs=EPOCHS,
        steps_per_epoch=STEPS,
        validation_data=Stream(seed=9)[0],
        callbacks=[TrainingLog(directory, every=3), Hit(step, signal, delay), state],
        verbose=0,
    )
    variables = [*model.variables, *model.optimizer.variables]
    arrays = [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]
    arrays += [np.array(fitted.history[name]) for name in sorted(fitted.history)]
    arrays += [np.array(fitted.epoch), np.array(state.best["value"]), np.array(state.position)]
    np.savez(os.path.join(directory, "end.npz"), *arrays)


def serve():
    """Forks for every line of standard input, before any backend has started its threads."""
    # The code may be edited while its tests run.
    warnings.filterwarnings("ignore", ".*results may differ")
    with contextlib.suppress(ImportError):
        import tensorflow  # noqa: F401  (Keras imports it in `fit`, on any backend)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                log = os.open(json.loads(line)["directory"] + "/messages", os.O_CREAT | os.O_WRONLY)
                os.dup2(log, 2)
                random.seed(os.getpid())
                signal.alarm(120)
                run(**json.loads(line))
                status = 0
            except SystemExit as end:
                status = end.code
            except BaseException:
                import traceback

                traceback.print_exc()
            sys.stderr.flush()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        print("status", os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
