"""Oracle: the size of a model; loading it takes at most 1.3 times that."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from keras_albert.checkpoints.configs import from_arguments
from keras_albert.checkpoints.names import HUGGINGFACE_ALBERT, TASK_HEADS, axis_sizes, expand
from tests.conftest import ROOT

PROGRAM = """
import re, sys, keras_albert, ml_dtypes, safetensors.numpy
# Not ru_maxrss, which a process takes over from the one that starts it.
def peak():
    return 1024 * int(re.search("VmHWM:[^0-9]+([0-9]+)", open("/proc/self/status").read())[1])
load = keras_albert.AlbertPretrainer.from_preset
load(sys.argv[1], compile=False)  # what any load costs once
before = peak()
model = load(sys.argv[2], strict=True, compile=False)
print((peak() - before) / (4 * model.count_params()))
"""


def write(folder, arguments):
    from safetensors.numpy import save_file

    folder.mkdir()
    sizes, rng = axis_sizes(arguments), np.random.default_rng(0)
    tensors = {
        ("albert." if row.ours.startswith("backbone") else "") + row.theirs: rng.standard_normal(
            [sizes[axis] for axis in row.stored_axes], dtype="float32"
        )
        for row in expand(HUGGINGFACE_ALBERT, arguments)
        if row.part not in TASK_HEADS
    }
    save_file(tensors, folder / "model.safetensors")
    config = from_arguments(arguments, "huggingface", "albert")
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "albert"}))


@pytest.mark.slow
def test_loading_takes_little_more_than_the_model(tmp_path):
    pytest.importorskip("safetensors")
    if not os.path.exists("/proc/self/status"):
        pytest.skip("the peak of memory is read from /proc")
    arguments = {
        "vocabulary_size": 30_000,
        "num_layers": 2,
        "num_heads": 4,
        "embedding_dim": 128,
        "hidden_dim": 2_048,
        "intermediate_dim": 8_192,
        "num_groups": 1,
        "num_inner_repetitions": 1,
        "max_sequence_length": 512,
        "num_segments": 2,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "activation": "gelu_tanh",
        "layer_norm_epsilon": 1e-12,
        "initializer_range": 0.02,
    }
    write(tmp_path / "large", arguments)
    write(tmp_path / "small", {**arguments, "hidden_dim": 8, "intermediate_dim": 8})
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "small"), str(tmp_path / "large")],
        capture_output=True,
        text=True,
        env=os.environ,
        cwd=ROOT,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert 0.9 < float(result.stdout.strip().splitlines()[-1]) < 1.3
