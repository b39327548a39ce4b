"""Fixtures of the whole suite."""

import os
import pathlib

# Most of the time of these tests is compiling: models are small, and each is run a few times.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)

import keras  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

# A busy machine is no failure.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

ROOT = pathlib.Path(__file__).resolve().parent.parent


def pytest_report_header():
    return f"keras backend: {keras.backend.backend()}"


@pytest.fixture(autouse=True)
def _seed():
    keras.utils.set_random_seed(0)


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real data and recorded outputs; tests that need it are skipped without."""
    path = pathlib.Path(os.environ.get("KERAS_ALBERT_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        if os.environ.get("KERAS_ALBERT_REQUIRE_DATA"):
            pytest.fail(f"no test data at {path}, and KERAS_ALBERT_REQUIRE_DATA is set")
        pytest.skip(f"no test data at {path}: set KERAS_ALBERT_DATA")
    return path


def to_numpy(x):
    return keras.ops.convert_to_numpy(x)


def random_inputs(batch=3, length=10, vocabulary_size=40, seed=0, lengths=None):
    """Random inputs of a backbone; row b has `lengths[b]` tokens that are not padding."""
    rng = np.random.default_rng(seed)
    lengths = lengths if lengths is not None else [length] * batch
    mask = np.arange(length)[None] < np.asarray(lengths)[:, None]
    return {
        "token_ids": (rng.integers(5, vocabulary_size, (batch, length)) * mask).astype("int32"),
        "segment_ids": (rng.integers(0, 2, (batch, length)) * mask).astype("int32"),
        "padding_mask": mask,
    }
