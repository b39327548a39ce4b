"""Oracle: the run on one device. TensorFlow's replicas live in processes of their own."""

import json
import os
import socket
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_albert.training.distribution import make_strategy
from keras_albert.training.log import read_log
from keras_albert.training.replica_batches import check_divides, fill_up
from tests.conftest import ROOT

tensorflow_only = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="tf.distribute is TensorFlow's"
)


def start(*arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.toy_pretraining", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(*processes):
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors[-3000:]


def results(path):
    arrays = np.load(f"{path}.npz")
    report = json.loads(path.with_name(f"{path.name}.json").read_text())
    return report, [arrays[name] for name in arrays.files]


def check_same(found, expected):
    for name, values in expected[0]["table"].items():
        np.testing.assert_allclose(
            found[0]["table"][name], values, rtol=1e-6, atol=1e-6, err_msg=name
        )
    for one, two in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=2e-5)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Of one device, of strategies with 2 and 4 replicas, of two processes."""
    folder = tmp_path_factory.mktemp("runs")
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{end.getsockname()[1]}" for end in (one, two)]
    workers = [
        start(
            "worker",
            folder / "worker",
            TF_CONFIG=json.dumps(
                {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            ),
        )
        for index in (0, 1)
    ]
    finish(*workers, start("replicas", folder / "replicas"))
    names = ("replicas-1", "replicas-2", "replicas-4", "replicas-more", "worker-0", "worker-1")
    logs = {count: read_log(folder / f"replicas-log-{count}" / "log.jsonl") for count in (1, 2)}
    return {"logs": logs, **{name: results(folder / name) for name in names}}


@tensorflow_only
@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_replicas_and_micro_batches_take_the_steps_of_one_device(runs, count):
    """LAMB, clipping and masked tokens that differ per example; the second step is skipped."""
    one, several = runs["replicas-1"], runs[f"replicas-{count}"]
    assert np.isnan(one[0]["table"]["loss"]).tolist() == [False, True, False, False]
    check_same(several, one)
    assert several[0]["skipped"] == one[0]["skipped"] == 1
    np.testing.assert_allclose(several[0]["norm"], one[0]["norm"], rtol=1e-5)


@tensorflow_only
@pytest.mark.slow
def test_replicas_predict_and_write_the_log_as_one_device_does(runs):
    outputs = [runs[f"replicas-{count}"][0]["outputs"] for count in (1, 2)]
    for expected, found in zip(*outputs, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    one, two = runs["logs"][1], runs["logs"][2]
    assert [row.get("event") for row in one] == [None, "skipped", None, None]
    for line, other in zip(one, two, strict=True):
        assert set(line) == set(other) and {"gradient_norm", "step"} <= set(line)
        clocks = {"time", "steps_per_second", "tokens_per_second", "seconds_left", "event"}
        for name in set(line) - clocks:
            np.testing.assert_allclose(other[name], line[name], rtol=1e-5, err_msg=name)


@tensorflow_only
@pytest.mark.slow
def test_an_evaluation_with_a_short_last_batch_is_that_of_one_device(runs):
    one, two = (runs[f"replicas-{count}"][0]["evaluation"] for count in (1, 2))
    for name in one:
        # The batch of 5 is filled up to 6, which is its part of the mean over batches.
        tolerance = 1e-2 if name == "loss" else 1e-5
        np.testing.assert_allclose(two[name], one[name], rtol=tolerance, err_msg=name)


@tensorflow_only
@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(runs):
    """The bad example is the first process' alone; the evaluation shares batches of another's."""
    one = runs["replicas-1"]
    for index in (0, 1):
        worker = runs[f"worker-{index}"]
        check_same(worker, one)
        for name, score in worker[0]["evaluation"].items():
            tolerance = 1e-2 if name == "loss" else 1e-5
            np.testing.assert_allclose(score, one[0]["evaluation"][name], rtol=tolerance)
        rule = f"num_processes=2, process_index={index}. Received: num_processes=2"
        assert rule in worker[0]["error"]
        assert "must run in one process under TensorFlow" in worker[0]["state"]


@tensorflow_only
@pytest.mark.slow
def test_replicas_drop_different_places(runs):
    """Of equal examples; the first replica draws what one device draws."""
    first_half, second_half, first, second = runs["replicas-more"][0]["dropout"]
    assert first_half == pytest.approx(first, rel=1e-6)
    assert abs(first - second) > 1e-3


@tensorflow_only
@pytest.mark.slow
def test_a_run_on_replicas_goes_on_as_if_it_had_not_ended(runs):
    weights = runs["replicas-more"][1]
    half = len(weights) // 2
    for one, two in zip(weights[:half], weights[half:], strict=True):
        np.testing.assert_array_equal(one, two)


@tensorflow_only
@pytest.mark.slow
def test_what_cannot_work_is_refused(runs):
    errors = runs["replicas-more"][0]["errors"]
    assert "'auto' or False" in errors["jit"]
    assert "`steps_per_execution` must be 1" in errors["execution"]
    assert "in the `scope()` of one strategy" in errors["other"]
    assert "use 'mixed_bfloat16'" in errors["float16"]
    assert "2 x 3" in errors["indivisible"] and "Received: 8" in errors["indivisible"]


def test_a_short_batch_is_filled_up_with_examples_that_weigh_nothing():
    x, y = {"token_ids": np.arange(10).reshape(5, 2)}, np.arange(5)
    filled_x, filled_y, weights = fill_up((x, y), 4)
    np.testing.assert_array_equal(filled_x["token_ids"], x["token_ids"][[0, 1, 2, 3, 4, 0, 0, 0]])
    np.testing.assert_array_equal(filled_y, [0, 1, 2, 3, 4, 0, 0, 0])
    np.testing.assert_array_equal(weights, [1] * 5 + [0] * 3)
    given = {"mlm": np.full((4, 3), 2.0)}
    whole = fill_up((x, {"mlm": y[:4]}, given), 5)  # 5 rows need no filling
    assert whole[2] is given


def test_a_batch_must_divide():
    check_divides(12, 2, 3)
    with pytest.raises(ValueError, match=r"`batch_size` must be a multiple .* 3 x 2.*Received: 10"):
        check_divides(10, 2, 3)


def test_strategies_by_name():
    with pytest.raises(ValueError, match="must be one of.*Received: 'mirror'"):
        make_strategy("mirror")
    if keras.backend.backend() != "tensorflow":
        with pytest.raises(ValueError, match="KERAS_BACKEND=tensorflow.*Received: 'tpu'"):
            make_strategy("tpu")
