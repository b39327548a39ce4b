"""Oracle: the same steps in one process, over whole batches."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from tests.conftest import ROOT

if keras.backend.backend() != "torch":
    pytest.skip("processes of torchrun", allow_module_level=True)

from keras_albert.training import ddp, processes  # noqa: E402
from tests.training import torch_processes  # noqa: E402
from tests.training import toy_pretraining as toy  # noqa: E402


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """What two processes found, and where their weights are."""
    directory = tmp_path_factory.mktemp("processes")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", torch_processes.__file__, directory]
    run = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert not run.returncode, run.stderr[-3000:]
    return [json.loads((directory / f"found-{rank}.json").read_text()) for rank in (0, 1)], [
        list(np.load(directory / f"weights-{rank}.npz").values()) for rank in (0, 1)
    ]


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(two_processes):
    found, both_weights = two_processes
    model = torch_processes.make_model()
    rows, weights = torch_processes.train(model)
    assert len(rows) == toy.STEPS
    evaluated = torch_processes.evaluate(model)
    for one, its_weights in zip(found, both_weights, strict=True):
        for row, expected in zip(one["rows"], rows, strict=True):
            assert expected["mlm_accuracy"] is not None
            for name in ("loss", "mlm_accuracy", "sentence_accuracy"):
                assert row[name] == pytest.approx(expected[name], rel=1e-6, abs=1e-6), name
        assert one["evaluated"] == pytest.approx(evaluated, rel=1e-5, abs=1e-6)
        for weight, expected in zip(its_weights, weights, strict=True):
            np.testing.assert_allclose(weight, expected, rtol=0, atol=2e-6)
    for one, other in zip(*both_weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_signal_to_one_process_ends_both_and_they_go_on(two_processes):
    for one in two_processes[0]:
        assert one["any"] == [True, False]
        assert one["of all"] == [4, 2, 2]
        assert one["same"]  # with dropout, whose masks each process draws for itself
    assert two_processes[0][0]["masks"] != two_processes[0][1]["masks"]


def test_one_process_is_not_distributed(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert not ddp.is_distributed()
    ddp.initialize()
    assert processes.data_slice() == (0, 1)
    assert processes.any_process(True) and not processes.any_process(False)


def test_texts_are_for_one_process(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="Under `torchrun` each process must read its own slice"):
        torch_processes.make_model().start_processes({"token_ids": np.ones((2, 3))})


def test_a_process_must_read_its_own_slice(monkeypatch):
    monkeypatch.setattr(processes, "_processes", lambda: (1, 2))
    processes.check_slices(toy.Stream(process_index=1, num_processes=2))
    with pytest.raises(ValueError, match="`process_index=1, num_processes=2`. Received: process_i"):
        processes.check_slices(toy.Stream())
