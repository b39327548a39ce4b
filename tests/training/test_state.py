"""Oracles: the uninterrupted run, bit for bit; what a directory held before a write that failed."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time

import keras
import numpy as np
import pytest

from keras_albert.training.fingerprints import differences
from keras_albert.training.state import TrainingState
from keras_albert.training.state_files import (
    list_states,
    prune_states,
    read_newest,
    read_state,
    write_state,
)
from tests.conftest import ROOT
from tests.training.resumable_run import Stream, make_model

SERVER = ROOT / "tests" / "training" / "resumable_run.py"


class Runs:
    """Runs of `resumable_run.py`, each in a process of its own."""

    def __init__(self):
        # Light: the package's training needs Keras alone.
        options = ("-W", "error", "-W", "ignore:__array__")
        self.process = subprocess.Popen(
            [sys.executable, *options, SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "KERAS_ALBERT_LIGHT": "1", "PYTHONPATH": str(ROOT)},
        )

    def run(self, directory, **options):
        directory.mkdir(exist_ok=True)
        line = json.dumps({"directory": str(directory), **options})
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline().split()[1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def runs():
    runs = Runs()
    yield runs
    runs.close()


@pytest.fixture(scope="module")
def uninterrupted(runs, tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "uninterrupted"
    assert runs.run(directory) == 0, (directory / "messages").read_text()
    return directory


def check_same_end(directory, uninterrupted):
    with np.load(directory / "end.npz") as found, np.load(uninterrupted / "end.npz") as expected:
        assert found.files == expected.files
        for name in expected.files:
            np.testing.assert_array_equal(found[name], expected[name])


def steps_of_log(directory):
    rows = [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]
    return [(row["step"], "val_loss" in row) for row in rows]


@pytest.mark.slow
def test_killed_and_terminated_at_random_the_run_ends_the_same(runs, uninterrupted, tmp_path):
    rng, number = random.Random(0), {signal.SIGKILL: 0, signal.SIGTERM: 0}
    directory, made = tmp_path / "0", 0
    while min(number.values()) < 20:
        which = min(number, key=number.get)
        delay = rng.choice([0.0, rng.uniform(0, 0.02)])
        status = runs.run(directory, step=rng.randint(1, 12), signal=which, delay=delay)
        message = (directory / "messages").read_text()
        if status == 0:  # it ended before the signal
            check_same_end(directory, uninterrupted)
            assert steps_of_log(directory) == steps_of_log(uninterrupted)
            made += 1
            directory = tmp_path / str(made)
            continue
        assert status == (-signal.SIGKILL if which == signal.SIGKILL else 75), message
        if which == signal.SIGTERM:
            assert "SIGTERM: saved at step" in message
        number[which] += 1
    assert runs.run(directory) == 0
    check_same_end(directory, uninterrupted)
    assert made


def test_terminated_within_an_epoch(runs, uninterrupted, tmp_path):
    directory = tmp_path / "run"
    assert runs.run(directory, step=10, signal=signal.SIGTERM, every=None) == 75
    fields, _, _ = read_newest(directory / "state")
    assert (fields["step"], fields["epoch"], fields["batch"]) == (10, 1, 3)
    assert runs.run(directory) == 0, (directory / "messages").read_text()
    check_same_end(directory, uninterrupted)
    assert steps_of_log(directory) == steps_of_log(uninterrupted)
    # Once more: it has ended, and says the same.
    (directory / "end.npz").unlink()
    assert runs.run(directory) == 0, (directory / "messages").read_text()
    check_same_end(directory, uninterrupted)


def test_interrupted_from_the_keyboard_and_killed_before_a_state(runs, uninterrupted, tmp_path):
    directory = tmp_path / "run"
    assert runs.run(directory, step=2, signal=signal.SIGKILL, every=None) == -9
    assert list_states(directory / "state") == []
    assert runs.run(directory, step=7, signal=signal.SIGINT, every=None) == 75  # an epoch's last
    assert runs.run(directory) == 0
    check_same_end(directory, uninterrupted)


def test_a_flipped_byte_in_the_newest_state(runs, uninterrupted, tmp_path):
    directory = tmp_path / "run"
    assert runs.run(directory, step=12, signal=signal.SIGKILL) == -9
    newest, before = list_states(directory / "state")[:2]
    flip(newest)
    with pytest.warns(UserWarning, match=f"{newest.name} is damaged.*{before.name}, before it"):
        fields, _, path = read_newest(directory / "state")
    assert path == before
    assert runs.run(directory) == 1  # warnings are errors there: it was warned of
    message = (directory / "messages").read_text()
    assert f"{newest.name} is damaged" in message
    newest.unlink()
    assert runs.run(directory) == 0, (directory / "messages").read_text()
    check_same_end(directory, uninterrupted)


def flip(path):
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)


def fit(directory, model=None, data=None, epochs=2, **options):
    model, data = model or make_model(), data or Stream()
    state = TrainingState(directory, **options)
    model.fit(state.batches(data), epochs=epochs, steps_per_epoch=3, callbacks=[state], verbose=0)
    return state


@pytest.mark.filterwarnings("ignore:.*may differ")
def test_another_run_is_refused_and_named(tmp_path):
    fit(tmp_path)
    for data, changed in (
        (Stream(batch_size=8), "batch_size: 4 -> 8"),
        (Stream(seed=4), "seed: 3 -> 4"),
        (Stream(objective="nsp"), "objective: 'sop' -> 'nsp'"),
    ):
        with pytest.raises(ValueError, match=changed):
            fit(tmp_path, data=data)
    with pytest.raises(ValueError, match=r"optimizer.optimizer.learning_rate: 0.05\d* -> 0.1\d*"):
        fit(tmp_path, model=make_model(rate=0.1))
    other = Stream()
    other.__class__ = type("Stream", (Stream,), {"__getitem__": lambda self, i: Stream(seed=8)[i]})
    with pytest.raises(ValueError, match="Received, against .*batch 0: '"):  # other text
        fit(tmp_path, data=other)


def test_another_version_is_named_in_a_warning(tmp_path):
    fit(tmp_path)
    path = list_states(tmp_path / "state")[0]
    fields, arrays = read_state(path)
    fields["code"]["keras"] = "3.0.0"
    path.unlink()
    write_state(path.parent, fields.pop("step"), fields, arrays)
    with pytest.warns(UserWarning, match="results may differ.*keras: '3.0.0' -> "):
        fit(tmp_path)


def test_a_file_size_limit_in_place_of_a_full_disk(tmp_path):
    fit(tmp_path, every=None)
    before = {path: path.read_bytes() for path in list_states(tmp_path / "state")}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        state = TrainingState(tmp_path)
        model = make_model()
        with pytest.warns(UserWarning, match="No space for a state .* the state before stays: "):
            model.fit(
                state.batches(Stream()), epochs=3, steps_per_epoch=3, callbacks=[state], verbose=0
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert state.position == 9  # training went on
    assert {path: path.read_bytes() for path in (tmp_path / "state").iterdir()} == before


def test_another_error_of_the_disk_ends_the_run(tmp_path, monkeypatch):
    def broken(*args):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("keras_albert.training.state.write_state", broken)
    with pytest.raises(OSError, match="Input/output error"):
        fit(tmp_path, every=1)


def test_steps_do_not_wait_for_the_disk(tmp_path, monkeypatch):
    trained_on, reports = threading.Event(), []

    def slow(*args):
        reports.append(trained_on.wait(60))
        return write_state(*args)

    class Release(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 19:
                trained_on.set()

    monkeypatch.setattr("keras_albert.training.state.write_state", slow)
    state, model = TrainingState(tmp_path, every=5), make_model()
    model.fit(
        state.batches(Stream()),
        epochs=1,
        steps_per_epoch=20,
        callbacks=[Release(), state],
        verbose=0,
    )
    # The save of step 5 went on until the last step; 10 and 15 found the writer busy.
    assert reports[0] and all(reports)
    assert [read_state(path)[0]["step"] for path in list_states(tmp_path / "state")] == [20, 5]


def test_what_is_kept(tmp_path):
    state = fit(tmp_path, epochs=4, every=None, keep=1, keep_every=6, monitor="loss", mode="max")
    kept = {read_state(path)[0]["step"] for path in list_states(tmp_path / "state")}
    assert state.best["value"] == max(state.model.history.history["loss"])
    assert kept == {6, 12, state.best["position"]}


@pytest.mark.filterwarnings("ignore:.*may differ")
def test_a_second_fit_is_not_bound_by_the_first(tmp_path):
    fit(tmp_path)
    model = make_model()
    fit(tmp_path, model=model)  # has ended: no step
    assert (
        len(model.fit(Stream(), epochs=1, steps_per_epoch=1, shuffle=False, verbose=0).epoch) == 1
    )


def test_data_that_cannot_be_resumed_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must be a stream with a `start_step`.*ndarray"):
        TrainingState(tmp_path).batches(np.ones(3))
    with pytest.raises(ValueError, match="must know the data"):
        model = make_model()
        model.fit(np.ones((4, 3)), np.ones((4, 1)), callbacks=[TrainingState(tmp_path)], verbose=0)


@pytest.mark.parametrize(
    "bad", [{"every": 0}, {"keep": 0}, {"keep_every": 0}, {"monitor": 3}, {"mode": "best"}]
)
def test_arguments_outside_their_rules(tmp_path, bad):
    with pytest.raises(ValueError, match=f"`{next(iter(bad))}` of TrainingState must be"):
        TrainingState(tmp_path, **bad)


@pytest.mark.backend_free
def test_states_keep_every_dtype(tmp_path):
    import ml_dtypes

    arrays = {
        "model/0": np.array([1.5, -2], ml_dtypes.bfloat16),
        "model/1": np.arange(3, dtype="uint32"),
        "model/2": np.array(7, "int64"),
    }
    path = write_state(tmp_path, 3, {"epoch": 1}, arrays)
    fields, found = read_state(path)
    assert fields == {"epoch": 1, "step": 3}
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_no_state_that_is_whole_is_an_error(tmp_path):
    assert read_newest(tmp_path) is None
    flip(write_state(tmp_path, 3, {}, {"a": np.ones(9)}))
    with pytest.raises(ValueError, match="restore one, or start in another directory.*damaged"):
        read_newest(tmp_path)


@pytest.mark.backend_free
def test_pruning(tmp_path):
    for step in range(1, 9):
        write_state(tmp_path, step, {}, {})
    prune_states(tmp_path, keep=2, keep_every=3, also=4)
    assert [read_state(path)[0]["step"] for path in list_states(tmp_path)] == [8, 7, 6, 4, 3]


def test_differences_name_old_and_new():
    assert differences({"a": 1, "b": 2}, {"a": 1, "b": 3}) == ["b: 2 -> 3"]


SAVES = """
import importlib.util, pathlib, sys, numpy
spec = importlib.util.spec_from_file_location("state_files", sys.argv[1])
files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(files)
directory = pathlib.Path(sys.argv[2])
newest = files.read_newest(directory)
step = newest[0]["step"] if newest else 0
print("ready", flush=True)
while True:
    step += 1
    files.write_state(directory, step, {}, {"a": numpy.full(300_000, step)})
    files.prune_states(directory, 2, None)
"""


@pytest.mark.backend_free
@pytest.mark.slow
def test_killed_fifty_times_while_saving_a_whole_state_is_there(tmp_path):
    rng, step, partial = random.Random(1), 0, 0
    module = ROOT / "keras_albert" / "training" / "state_files.py"
    for kill in range(50):
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", SAVES, module, tmp_path], stdout=subprocess.PIPE
        )
        assert process.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0.05 if kill == 0 else 0, 0.1))
        process.kill()
        process.wait()
        process.stdout.close()
        partial += (tmp_path / "state.partial").exists()
        if not list_states(tmp_path):
            assert kill == 0
            continue
        fields, arrays, _ = read_newest(tmp_path)  # a warning, of a damaged one, would be an error
        assert fields["step"] >= step
        np.testing.assert_array_equal(arrays["a"], fields["step"])
        step = fields["step"]
    assert step > 0 and partial  # some were killed in the middle of writing
