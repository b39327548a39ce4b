"""Oracle: the same steps on one device. Everything runs in child processes with virtual devices."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_albert.training.layouts import layout_map
from tests.conftest import ROOT

jax_only = pytest.mark.skipif(keras.backend.backend() != "jax", reason="JAX's devices")
SCRIPT = pathlib.Path(__file__).with_name("jax_devices.py")


def start(devices, *arguments):
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, SCRIPT, *map(str, arguments)],
        env={**os.environ, "KERAS_BACKEND": "jax", "XLA_FLAGS": flags, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process):
    _, errors = process.communicate(timeout=900)
    assert not process.returncode, errors[-3000:]


def assert_same_steps(found, expected):
    assert len(expected["loss"]) == 4
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.fixture(scope="module")
def on_four_devices(tmp_path_factory):
    directory = tmp_path_factory.mktemp("devices")
    end(start(4, "devices", directory))
    return json.loads((directory / "found.json").read_text())


@jax_only
@pytest.mark.slow
def test_four_devices_take_the_steps_of_one(on_four_devices):
    assert_same_steps(on_four_devices["data"], on_four_devices["single"])
    assert_same_steps(on_four_devices["model"], on_four_devices["single"])


@jax_only
@pytest.mark.slow
def test_variables_and_moments_lie_as_the_map_says(on_four_devices):
    found = on_four_devices["layouts"]
    expected = {
        "query/kernel": [None, "model"],
        "query/bias": ["model"],
        "key/kernel": [None, "model"],
        "value/kernel": [None, "model"],
        "attention_0/output_dense/kernel": ["model", None],
        "attention_0/output_dense/bias": [None],
        "intermediate_dense/kernel": [None, "model"],
        "intermediate_dense/bias": ["model"],
        "feed_forward_0/output_dense/kernel": ["model", None],
        "token_embedding/embeddings": ["model", None],
        "position_embedding/embeddings": [None, None],
        "masked_lm_head/bias": ["model"],
        "masked_lm_head/dense/kernel": [None, None],
        "pooler/dense/kernel": [None, None],
    }
    for name, axes in expected.items():
        matching = [layout for path, (layout, _) in found.items() if path.endswith(name)]
        assert matching == [axes], name
    assert all(moments for _, moments in found.values())


@jax_only
@pytest.mark.slow
def test_a_model_in_parts_is_saved_and_goes_on(on_four_devices):
    assert on_four_devices["saved"] == ["step-000000002"]
    assert on_four_devices["steps after"] == 2
    assert on_four_devices["same"]


@jax_only
@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(on_four_devices, tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    both = [start(1, "process", tmp_path, rank, port) for rank in (0, 1)]
    for process in both:
        end(process)
    found = [json.loads((tmp_path / f"found-{rank}.json").read_text()) for rank in (0, 1)]
    assert found[0]["batch"] != found[1]["batch"]
    for rank, one in enumerate(found):
        assert_same_steps(one["data"], on_four_devices["single"])
        assert_same_steps(one["model"], on_four_devices["single"])
        assert f"process_index={rank}, num_processes=2" in one["unsliced"]
        assert one["steps after"] == 2  # both stopped after the same step
        assert one["same"]


def test_a_mesh_and_one_of_its_axes_are_needed():
    with pytest.raises(ValueError, match="must be a keras.distribution.DeviceMesh"):
        layout_map("gpu:0")
    mesh = keras.distribution.DeviceMesh((1,), ("batch",), ["cpu:0"])
    with pytest.raises(ValueError, match=r"an axis of the mesh: \('batch',\)"):
        layout_map(mesh)
