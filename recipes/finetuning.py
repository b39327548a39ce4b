"""What the fine-tuning recipes share: options, one schedule, several seeds, tables and pictures.

A recipe makes its data and its model; from here it has

    add_options, open_output   the command line and its directory
    load_model                 an encoder under a new head
    Settings, settings_of      the paper's numbers, changed by the command line
    fit                        one model, for exactly the steps of the schedule
    run_seeds, spread          several models, and the median of their scores
    save_preset                the model, for later

Baselines, tables and pictures are in finetuning_results.py.
"""

import pathlib
import shutil
import statistics
import time
import warnings
from typing import Any, NamedTuple

import keras
import numpy as np

import keras_albert

# The paper's rates are for H of 768 and more; a narrow encoder takes a much higher one.
SMALL_HIDDEN = 768
INTERRUPTED = "It starts anew with the same command and --overwrite."


class Settings(NamedTuple):
    """How one model is fine-tuned; a row of the paper's Table 14."""

    learning_rate: float
    batch_size: int
    dropout: float  # inside the encoder; that before the head is 0.1 throughout
    steps: int
    warmup_steps: int
    sequence_length: int


class Run(NamedTuple):
    """What one seed gave: `scores` a dict, `history` of `fit`, `outputs` what the recipe wants."""

    seed: int
    scores: dict
    history: dict
    outputs: Any
    minutes: float


def add_options(parser, output, seeds=3):
    """Add the options that all fine-tuning recipes have.

    Args:
        parser: an `argparse.ArgumentParser`.
        output: default of `--output`.
        seeds: default of `--seeds`.
    """
    add = parser.add_argument
    add("--preset", required=True, help="a pretrained encoder: see AlbertBackbone.from_preset")
    add("--output", default=output, help="directory of all that is made")
    add("--overwrite", action="store_true", help="replace an earlier run in --output")
    add("--seeds", type=int, default=seeds, help="how many models, with seeds 0, 1, ...")
    add("--examples", type=int, help="train on so many, drawn at random (default: all)")
    add("--learning-rate", type=float, help="highest rate (default: see above)")
    add("--batch-size", type=int, help="(default: the paper's)")
    add("--dropout", type=float, help="inside the encoder (default: the paper's)")
    add("--epochs", type=float, help="passes over the data (default: the paper's steps)")
    add("--sequence-length", type=int, help="longest input (default: what paper and encoder allow)")
    add(
        "--keep",
        default="last",
        choices=("last", "best"),
        help="the weights of which epoch: 'best' is that of the highest score on the development "
        "set, as Google's program keeps, whose score is then too good by what was chosen",
    )


def open_output(args):
    """The directory of `--output`, made; an earlier run's results are not overwritten unasked."""
    output = pathlib.Path(args.output)
    if (output / "results.json").exists() and not args.overwrite:
        raise ValueError(
            f"{output}/ holds an earlier run: pass another --output, or --overwrite. "
            f"Received: --output {output}"
        )
    for name in ("seeds", "epochs", "batch_size", "learning_rate", "examples"):
        value = getattr(args, name)
        if value is not None and value <= 0:
            raise ValueError(f"`{name}` must be above 0. Received: {name}={value}")
    output.mkdir(parents=True, exist_ok=True)
    return output


def load_model(cls, args, paper, **kwargs):
    """The encoder of `--preset` (or `--start`, where there is one) under a new head.

    Args:
        cls: a class of `AlbertTask`.
        args: of `add_options`.
        paper: `Settings`, whose dropout and length hold where the command line has none.
        **kwargs: more arguments of `from_preset`, as `num_classes`.
    """
    dropout = paper.dropout if args.dropout is None else args.dropout
    with warnings.catch_warnings():
        # A new head is what fine-tuning means; anything else that is new is worth a warning.
        warnings.filterwarnings("ignore", message=".*newly initialised: classifier(, exits)?$")
        model = cls.from_preset(
            getattr(args, "start", None) or args.preset,
            hidden_dropout=dropout,
            attention_dropout=dropout,
            **kwargs,
        )
    # The preset's own length may be that of the pretraining.
    length = length_of(args, paper, model.backbone)
    old = model.preprocessor
    config = {**old.get_config(), "tokenizer": old.tokenizer, "sequence_length": length}
    cls.check_parts(model.backbone, new := type(old)(**config))
    model.preprocessor = new
    return model


def settings_of(args, paper, count, backbone, small_rate):
    """The paper's settings with what the command line says otherwise.

    With `--epochs`, `--batch-size` or fewer examples the steps change, and the warm-up with them.

    Args:
        args: of `add_options`.
        paper: `Settings` of the paper.
        count: number of training examples.
        backbone: an `AlbertBackbone`.
        small_rate: learning rate where H is below `SMALL_HIDDEN`.
    """
    batch_size = args.batch_size or paper.batch_size
    steps = paper.steps
    if args.epochs is not None:
        steps = max(2, round(args.epochs * -(-count // batch_size)))
    warmup_steps = max(1, round(paper.warmup_steps * steps / paper.steps))
    is_small = backbone.hidden_dim < SMALL_HIDDEN
    rate = args.learning_rate or (small_rate if is_small else paper.learning_rate)
    dropout = paper.dropout if args.dropout is None else args.dropout
    length = length_of(args, paper, backbone)
    return Settings(rate, batch_size, dropout, steps, warmup_steps, length)


def length_of(args, paper, backbone):
    """The longest input: that of the command line, or what the paper has and the encoder allows."""
    return args.sequence_length or min(paper.sequence_length, backbone.max_sequence_length)


def fit(
    model,
    settings,
    x,
    y=None,
    *,
    count=None,
    validation_data=None,
    monitor=None,
    packing=False,
    callbacks=(),
    **compiling,
):
    """Compile and fit a model for exactly `settings.steps`; the rate ends at 0.

    Args:
        model: an `AlbertTask`.
        settings: `Settings`.
        x: see `AlbertTask.fit`; a dataset must know its length.
        y: see `AlbertTask.fit`.
        count: rows that `x` makes, where that is not one for each example.
        validation_data: see `AlbertTask.fit`.
        monitor: keep the weights of the epoch with the highest `val_...` of this name.
        packing: see `AlbertTask.fit`.
        callbacks: more callbacks, which may add to the logs.
        **compiling: more arguments of `compile`, as `metrics`.

    Returns:
        The history: a dict of lists, one value an epoch.
    """
    schedule = keras_albert.WarmupPolynomialDecay(
        settings.learning_rate, warmup_steps=settings.warmup_steps, total_steps=settings.steps
    )
    model.compile(optimizer=keras_albert.AdamW(schedule), **compiling)
    callbacks = [*callbacks, StopAfter(settings.steps)]
    if monitor is not None:
        callbacks.append(KeepBest(monitor))
    is_dataset = isinstance(x, keras.utils.PyDataset)
    count = count or len(x[0] if isinstance(x, tuple) else x)
    batches = count if is_dataset else -(-count // settings.batch_size)
    fitted = model.fit(
        x,
        y,
        batch_size=None if is_dataset else settings.batch_size,
        epochs=-(-settings.steps // batches),
        packing=packing,
        validation_data=validation_data,
        callbacks=callbacks,
    )
    return fitted.history


class StopAfter(keras.callbacks.Callback):
    """Ends `fit` after so many steps, in the middle of an epoch too."""

    def __init__(self, steps):
        super().__init__()
        self.steps, self.done = steps, 0

    def on_train_batch_end(self, batch, logs=None):
        self.done += 1
        if self.done >= self.steps:
            self.model.stop_training = True


class KeepBest(keras.callbacks.Callback):
    """Gives the model back with the weights of the epoch that scored highest."""

    def __init__(self, monitor):
        super().__init__()
        self.monitor, self.best, self.weights = monitor, float("-inf"), None

    def on_epoch_end(self, epoch, logs=None):
        if logs[self.monitor] > self.best:
            self.best, self.weights = logs[self.monitor], self.model.get_weights()

    def on_train_end(self, logs=None):
        self.model.set_weights(self.weights)


def run_seeds(count, train_one):
    """Train a model with each seed.

    Args:
        count: number of seeds.
        train_one: `seed -> (scores, history, outputs)`, which makes, trains and measures a model;
            the random state is set before.

    Returns:
        A list of `Run`.
    """
    keras_albert.training.keep_freed_memory()
    runs = []
    for seed in range(count):
        print(f"\nSeed {seed}, {seed + 1} of {count}")
        keras.utils.set_random_seed(seed)
        started = time.monotonic()
        scores, history, outputs = train_one(seed)
        runs.append(Run(seed, scores, history, outputs, (time.monotonic() - started) / 60))
    return runs


def spread(runs, name):
    """(median, lowest, highest) of a score over the runs."""
    values = [run.scores[name] for run in runs]
    return statistics.median(values), min(values), max(values)


def softmax(logits):
    """Probabilities (..., C) of logits; averaged over runs they are the ensemble's."""
    chances = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    return chances / chances.sum(axis=-1, keepdims=True)


def save_preset(model, path):
    """Save a preset directory, which appears under its name when it is whole."""
    path = pathlib.Path(path)
    beside = path.with_name(path.name + ".partial")
    shutil.rmtree(beside, ignore_errors=True)
    model.save_to_preset(str(beside))
    shutil.rmtree(path, ignore_errors=True)
    beside.rename(path)
