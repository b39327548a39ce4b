"""Checkpoints for the tests: small, and of every program that can be had."""

import warnings

import numpy as np
import pytest

import keras_albert
from tests.conftest import random_inputs, to_numpy

# Odd sizes, so that no two axes agree by chance.
SIZES = {
    "vocabulary_size": 53,
    "num_layers": 4,
    "num_heads": 3,
    "embedding_dim": 7,
    "hidden_dim": 12,
    "intermediate_dim": 19,
    "max_sequence_length": 23,
    "initializer_range": 0.3,  # larger than in use, so that differences show
}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "sat", "on", "the", "mat", "."]


def make(objective="sop", preprocessor=None, **arguments):
    """A pretrainer with random weights; biases and LayerNorms too."""
    backbone = keras_albert.AlbertBackbone(**{**SIZES, **arguments})
    model = keras_albert.AlbertPretrainer(
        backbone, preprocessor, objective=objective, compile=False
    )
    shake(model)
    return model


def make_bert(**arguments):
    return make(**{"sharing": "none", "embedding_dim": 12, "activation": "gelu", **arguments})


def shake(model, seed=0):
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(to_numpy(weight.value) + rng.normal(0, 0.2, weight.shape).astype("float32"))


def batch(length=9, vocabulary_size=53):
    x = random_inputs(3, length, vocabulary_size, lengths=[length, 5, 3])
    return {**x, "mask_positions": np.tile(np.arange(length), (3, 1))}


def outputs(model, x=None):
    """All outputs of a task model or a backbone, as arrays."""
    x = batch() if x is None else x
    backbone = getattr(model, "backbone", model)
    values = backbone({name: x[name] for name in backbone.input})
    if backbone is not model:
        values = {**values, **model(x)}
    return {name: to_numpy(value) for name, value in values.items()}


def assert_same_outputs(one, other, atol=1e-5, x=None):
    one, other = outputs(one, x), outputs(other, x)
    assert set(one) == set(other)
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, rtol=0, atol=atol, err_msg=name)


def assert_same_weights(one, other, atol=0.0):
    paths = [weight.path.split("/", 1)[-1] for weight in one.weights]
    assert paths == [weight.path.split("/", 1)[-1] for weight in other.weights]
    for a, b in zip(one.weights, other.weights, strict=True):
        one, other = to_numpy(a.value), to_numpy(b.value)
        np.testing.assert_allclose(one, other, rtol=0, atol=atol, err_msg=a.path)


def load(path, **arguments):
    """`AlbertPretrainer.from_preset`, of which every variable must be found."""
    return keras_albert.AlbertPretrainer.from_preset(
        path, **{"strict": True, "compile": False, **arguments}
    )


@pytest.fixture(scope="session")
def transformers():
    """The library, quiet; torch is there whatever the backend."""
    pytest.importorskip("torch", reason="transformers needs torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = pytest.importorskip("transformers")
    library.utils.logging.disable_progress_bar()
    return library


@pytest.fixture(scope="session")
def tensorflow():
    return pytest.importorskip("tensorflow", reason="TensorFlow reads Google's checkpoints")


@pytest.fixture(scope="session")
def proto():
    """The bytes of a small SentencePiece model."""
    from tests.preprocessing.conftest import CORPUS

    return keras_albert.AlbertTokenizer.train(iter(CORPUS), 80).proto
