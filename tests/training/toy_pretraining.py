"""A tiny pretraining run whose examples have different numbers of masked tokens.

python toy_pretraining.py worker OUTPUT    # one of the processes that TF_CONFIG names
python toy_pretraining.py replicas OUTPUT  # on 1, 2 and 4 virtual devices
"""

import contextlib
import json
import pathlib
import sys

import keras
import numpy as np

import keras_albert

to_numpy = keras.ops.convert_to_numpy
STEPS, BATCH, LENGTH, SLOTS, VOCABULARY = 4, 8, 6, 3, 30


class Stream(keras.utils.PyDataset):
    """Batches as a pure function of the step; half of the slots for predictions are empty."""

    num_batches = None
    batch_size, sequence_length, max_predictions = BATCH, LENGTH, SLOTS

    def __init__(self, process_index=0, num_processes=1, spoiled=()):
        super().__init__()
        self.start_step, self.spoiled = 0, spoiled
        self.process_index, self.num_processes = process_index, num_processes

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        step = self.start_step + index
        rng = np.random.default_rng([7, step])
        weights = np.arange(SLOTS) < rng.permutation(np.arange(BATCH) % (SLOTS + 1))[:, None]
        weights = weights.astype("float32")
        if step in self.spoiled:
            weights[0, 0] = np.nan
        x = {
            "token_ids": rng.integers(5, VOCABULARY, (BATCH, LENGTH)).astype("int32"),
            "segment_ids": np.zeros((BATCH, LENGTH), "int32"),
            "padding_mask": np.arange(LENGTH) < rng.integers(3, LENGTH + 1, (BATCH, 1)),
            "mask_positions": rng.integers(0, LENGTH, (BATCH, SLOTS)).astype("int32"),
        }
        y = {
            "mlm": rng.integers(5, VOCABULARY, (BATCH, SLOTS)).astype("int32"),
            "sentence": rng.integers(0, 2, BATCH).astype("int32"),
        }
        sample_weight = {"mlm": weights, "sentence": rng.integers(0, 3, BATCH).astype("float32")}
        rows = BATCH // self.num_processes
        first = self.process_index * rows
        return keras.tree.map_structure(
            lambda leaf: leaf[first : first + rows], (x, y, sample_weight)
        )


class Finite(Stream):
    """`STEPS` batches, the last one of 5 examples."""

    num_batches = STEPS

    def __getitem__(self, index):
        batch = super().__getitem__(index)
        return batch if index < STEPS - 1 else keras.tree.map_structure(lambda a: a[:5], batch)


class Equal(Stream):
    """Batches of one example, again and again."""

    def __init__(self, batch_size=BATCH):
        super().__init__()
        self.batch_size = batch_size

    def __getitem__(self, index):
        def repeat(leaf):
            return np.repeat(leaf[:1] + (leaf[:1] == 0), self.batch_size, 0)  # no weight is 0

        return keras.tree.map_structure(repeat, Stream()[0])


class Steps(keras.callbacks.Callback):
    """Keeps the loss and the metrics of every step."""

    def on_train_begin(self, logs=None):
        self.rows = []

    def on_train_batch_end(self, batch, logs=None):
        self.rows.append(dict(self.model.get_metrics_result()))
        self.model.reset_metrics()

    def table(self):
        return {name: [float(to_numpy(row[name])) for row in self.rows] for name in self.rows[0]}


def make_model(dropout=0.0, optimizer=None, **compiled):
    """The same weights every time; gradients are clipped to half of what they are."""
    keras.utils.set_random_seed(0)
    backbone = keras_albert.AlbertBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=1,
        num_heads=2,
        embedding_dim=4,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=LENGTH,
        initializer_range=0.5,
        hidden_dropout=dropout,
        attention_dropout=dropout,
    )
    model = keras_albert.AlbertPretrainer(backbone)
    optimizer = optimizer or keras_albert.SkipNonFinite(
        keras_albert.Lamb(0.01, global_clipnorm=0.5)
    )
    model.compile(optimizer, **compiled)
    return model


def fit(model, data=None):
    """Losses and metrics of each step, and the weights in the end.

    Without the biases of keys: softmax takes no notice of them, so their gradient is rounding.
    """
    steps = Steps()
    model.fit(data or Stream(), steps_per_epoch=STEPS, callbacks=[steps], verbose=0)
    return steps.table(), [to_numpy(w) for w in model.weights if "key/bias" not in w.path]


def worker(output):
    """One of two processes: steps, an evaluation, and what it says of the other's data."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # takes long
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    index = strategy.cluster_resolver.task_id
    with strategy.scope():
        model = make_model()
    table, weights = fit(model, Stream(index, 2, spoiled=(1,)))
    held_out = model.evaluate(Finite(), verbose=0, return_dict=True)
    report = {"table": table, "evaluation": {name: float(v) for name, v in held_out.items()}}
    try:
        fit(model, Stream(1 - index, 2))
    except ValueError as error:
        report["error"] = str(error)
    try:
        state = keras_albert.TrainingState(f"{output}-state-{index}")
        model.fit(Stream(index, 2), steps_per_epoch=1, callbacks=[state], verbose=0)
    except ValueError as error:
        report["state"] = str(error)
    save(f"{output}-{index}", report, weights)


def mirrored(count):
    """A strategy over virtual devices: two meet by hand, others by collective operations."""
    import tensorflow as tf

    devices = [f"CPU:{number}" for number in range(count)]
    by_hand = tf.distribute.ReductionToOneDevice() if count == 2 else None
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=by_hand)


def replicas(output):
    """On one device, and as many steps on several; the second step cannot be taken."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # takes long
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
    for count, steps in ((1, 1), (2, 2), (4, 1)):
        with mirrored(count).scope() if count > 1 else contextlib.nullcontext():
            model = make_model(accumulation_steps=steps)
        table, weights = fit(model, Stream(spoiled=(1,)))
        report = {"table": table, "skipped": int(to_numpy(model.optimizer.skipped))}
        report["norm"] = float(to_numpy(model.optimizer.gradient_norm))
        if count < 4:
            outputs = model.predict(Stream()[0][0], batch_size=5, verbose=0)
            report["outputs"] = [outputs["mlm"].tolist(), outputs["sentence"].tolist()]
            scores = model.evaluate(Finite(), verbose=0, return_dict=True)
            report["evaluation"] = {name: float(score) for name, score in scores.items()}
            log = keras_albert.TrainingLog(f"{output}-log-{count}", every=1, peak=0)
            data = Stream(spoiled=(1,))
            model.fit(data, steps_per_epoch=STEPS, callbacks=[log], verbose=0)
        save(f"{output}-{count}", report, weights)
    report = {"dropout": dropped_losses(), "errors": refusals()}
    save(f"{output}-more", report, resumed_runs(f"{output}-state"))


def dropped_losses():
    """Losses of equal examples with dropout: of one device, then of each of two replicas."""
    from keras_albert.training import distribution

    losses, note = [], distribution.note

    def noted(model, batch, y_pred, loss):
        losses.append(float(loss))
        note(model, batch, y_pred, loss)

    distribution.note = noted
    for count in (1, 2):
        with mirrored(count).scope():
            model = make_model(0.5, run_eagerly=True, accumulation_steps=3 - count)
        model.fit(Equal(), steps_per_epoch=1, verbose=0)
    distribution.note = note
    return losses


def resumed_runs(directory):
    """Weights of a run with dropout on two replicas, and of the same in two pieces."""
    found = []
    for name, pieces in (("whole", (2,)), ("pieces", (1, 2))):
        for epochs in pieces:
            with mirrored(2).scope():
                model = make_model(0.5, run_eagerly=True)
            state = keras_albert.TrainingState(f"{directory}/{name}", every=None)
            model.fit(Stream(), epochs=epochs, steps_per_epoch=1, callbacks=[state], verbose=0)
        found += [to_numpy(weight) for weight in model.weights]
    return found


def refusals():
    """What is said of what cannot work."""
    strategy = mirrored(2)
    with strategy.scope():
        model = make_model(accumulation_steps=3)
    scopes = {"other": mirrored(1).scope(), "indivisible": contextlib.nullcontext()}

    def in_float16():
        keras.config.set_dtype_policy("mixed_float16")
        try:
            make_model()
        finally:
            keras.config.set_dtype_policy("float32")

    calls = {
        "jit": lambda: model.compile(jit_compile=True),
        "execution": lambda: model.compile(steps_per_execution=2),
        "other": model.compile,
        "indivisible": lambda: fit(model),
        "float16": in_float16,
    }
    errors = {}
    for name, call in calls.items():
        with scopes.get(name) or strategy.scope():
            try:
                call()
            except ValueError as error:
                errors[name] = str(error)
    return errors


def save(path, report, weights):
    """A report as JSON and weights, for the process that tests."""
    pathlib.Path(f"{path}.json").write_text(json.dumps(report))
    np.savez(f"{path}.npz", *weights)


if __name__ == "__main__":
    {"worker": worker, "replicas": replicas}[sys.argv[1]](sys.argv[2])
