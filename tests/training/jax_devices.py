"""Training on several virtual devices under JAX: a child process of `test_layouts.py`.

python jax_devices.py devices DIRECTORY             # one process with 4 devices
python jax_devices.py process DIRECTORY RANK PORT   # one of two processes, of a device each
"""

import contextlib
import json
import pathlib
import sys

import keras
import numpy as np

import keras_albert
from keras_albert.training import processes
from keras_albert.training.layouts import layout_map
from tests.training import toy_pretraining as toy


class Stop(keras.callbacks.Callback):
    """Ends the run after its first two steps, as a signal would; put before `TrainingState`."""

    def __init__(self, state):
        super().__init__()
        self.state, self.steps = state, 0

    def on_train_batch_begin(self, batch, logs=None):
        self.steps += 1
        if self.steps == 2:
            self.state._interruption.received = "SIGTERM"


def parallel(shape):
    """Sets up data parallelism for a mesh (n,), model parallelism for (n, m)."""
    devices = np.array(keras.distribution.list_devices())
    if len(shape) == 1:
        found = keras.distribution.DataParallel(devices=list(devices), auto_shard_dataset=False)
    else:
        mesh = keras.distribution.DeviceMesh(shape, ("batch", "model"), devices.reshape(shape))
        found = keras.distribution.ModelParallel(
            layout_map=layout_map(mesh), auto_shard_dataset=False
        )
    keras.distribution.set_distribution(found)


def stream():
    index, count = processes.data_slice()
    return toy.Stream(process_index=index, num_processes=count)


def train(directory=None, interrupt=False):
    """Losses of the steps, all weights as they are in the end, and the model."""
    # A rate at which rounding does not grow from step to step; gradients are clipped to half.
    lamb = keras_albert.Lamb(0.01, global_clipnorm=0.5)
    model = toy.make_model(optimizer=keras_albert.SkipNonFinite(lamb))
    steps, callbacks = toy.Steps(), []
    if directory is not None:
        state = keras_albert.TrainingState(directory, every=2)
        callbacks = [*([Stop(state)] if interrupt else []), state]
    with contextlib.suppress(SystemExit):
        model.fit(
            stream(),
            epochs=1,
            steps_per_epoch=toy.STEPS,
            callbacks=[steps, *callbacks],
            verbose=0,
        )
    weights = {w.path: processes.gather(w) for w in model.weights if "key/bias" not in w.path}
    return steps.table(), weights, model


def layouts(model):
    """How each variable lies: its path, its axes, and whether its moments lie in the same way."""
    lamb = model.optimizer.inner
    moments = {id(v): m for v, m in zip(lamb._trainable_variables, lamb._momentums, strict=True)}
    return {
        v.path: [
            list(v.value.sharding.spec),
            v.value.sharding.is_equivalent_to(moments[id(v)].value.sharding, len(v.shape)),
        ]
        for v in model.trainable_variables
    }


def devices(directory):
    found = {"single": train()[0]}
    parallel((4,))
    found["data"] = train()[0]
    parallel((2, 2))
    found["model"], whole, model = train()
    found["layouts"] = layouts(model)
    train(directory / "run", interrupt=True)
    found["saved"] = [path.name[:14] for path in (directory / "run" / "state").glob("*.npz")]
    table, resumed, _ = train(directory / "run")
    found["steps after"] = len(table["loss"])
    found["same"] = all(np.array_equal(whole[name], resumed[name]) for name in whole)
    (directory / "found.json").write_text(json.dumps(found))


def process(directory, rank, port):
    keras.distribution.initialize(f"localhost:{port}", 2, rank)
    found = {"batch": int(stream()[0][0]["token_ids"].sum())}
    parallel((2,))
    found["data"] = train()[0]
    try:
        processes.check_slices(toy.Stream())
    except ValueError as error:
        found["unsliced"] = str(error)
    parallel((1, 2))  # the model itself is split over both processes
    found["model"], whole, _ = train()
    train(directory / "run", interrupt=rank == 1)  # one process alone hears the signal
    table, resumed, _ = train(directory / "run")
    found["steps after"] = len(table["loss"])
    found["same"] = all(np.array_equal(whole[name], resumed[name]) for name in whole)
    (directory / f"found-{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    what, directory, *others = sys.argv[1:]
    {"devices": devices, "process": process}[what](pathlib.Path(directory), *map(int, others))
