"""One of two processes that train together under PyTorch: a child of `test_ddp.py`.

torchrun --nproc-per-node 2 torch_processes.py DIRECTORY
"""

import contextlib
import json
import os
import pathlib
import sys

import keras
import numpy as np
import torch

import keras_albert
from keras_albert.training import processes
from tests.training import toy_pretraining as toy


class Losses(keras.callbacks.Callback):
    """Keeps the loss and the metrics of every step, from the logs."""

    def on_train_begin(self, logs=None):
        self.rows = []

    def on_train_batch_end(self, batch, logs=None):
        self.rows.append({name: float(value) for name, value in logs.items()})
        self.model.reset_metrics()


class Stop(keras.callbacks.Callback):
    """Tells one process's `TrainingState`, put after it, of a signal in the second step."""

    def __init__(self, state):
        super().__init__()
        self.state, self.steps = state, 0

    def on_train_batch_begin(self, batch, logs=None):
        self.steps += 1
        if self.steps == 2:
            self.state._interruption.received = "SIGTERM"


def make_model(seed=0, dropout=0.0):
    keras.utils.set_random_seed(seed)
    backbone = keras_albert.AlbertBackbone(
        vocabulary_size=toy.VOCABULARY,
        num_layers=2,
        num_heads=2,
        embedding_dim=4,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=toy.LENGTH,
        initializer_range=0.5,
        hidden_dropout=dropout,
        attention_dropout=dropout,
    )
    model = keras_albert.AlbertPretrainer(backbone)
    model.compile(keras_albert.SkipNonFinite(keras_albert.Lamb(0.01, global_clipnorm=0.5)))
    return model


def train(model, *callbacks):
    losses = Losses()
    index, count = processes.data_slice()
    data = toy.Stream(process_index=index, num_processes=count)
    with contextlib.suppress(SystemExit):
        model.fit(
            data, epochs=1, steps_per_epoch=toy.STEPS, callbacks=[losses, *callbacks], verbose=0
        )
    weights = [toy.to_numpy(w) for w in model.weights if "key/bias" not in w.path]
    return losses.rows, weights


def evaluate(model):
    """Losses and metrics of two batches."""
    index, count = processes.data_slice()
    data = toy.Stream(process_index=index, num_processes=count)
    return model.evaluate(data, steps=2, verbose=0, return_dict=True)


def main(directory):
    rank, _ = processes.data_slice()
    model = make_model(seed=rank)  # other weights in each: process 0's are taken
    rows, weights = train(model)
    np.savez(directory / f"weights-{rank}.npz", *weights)
    found = {
        "rows": rows,
        "masks": torch.rand(1).item(),
        "of all": [],
        "evaluated": evaluate(model),
    }
    found["any"] = [processes.any_process(rank == 1), processes.any_process(False)]

    # With dropout, a run that process 1 is told to end, and one that nothing interrupts.
    ends = []
    for name in ("whole", "run", "run"):
        keras.utils.set_random_seed(0)
        model = make_model(dropout=0.3)
        state = keras_albert.TrainingState(directory / name, every=2)
        stop = [Stop(state)] if (len(ends), rank) == (1, 1) else []
        rows, weights = train(model, *stop, state)
        ends.append(weights)
        found["of all"].append(len(rows))
    found["same"] = all(map(np.array_equal, ends[0], ends[2]))
    (directory / f"found-{rank}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    assert int(os.environ["WORLD_SIZE"]) == 2
    main(pathlib.Path(sys.argv[1]))
