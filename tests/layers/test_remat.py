"""Oracle: a model without rematerialisation, from the same weights and the same seeds."""

import json

import keras
import numpy as np
import pytest

import keras_albert
from keras_albert.layers import depths, encoder_stack
from tests.conftest import random_inputs, to_numpy

ARCHITECTURES = {
    "all": {"sharing": "all"},
    "attention": {"sharing": "attention"},
    "groups": {"num_groups": 2, "num_inner_repetitions": 2, "num_layers": 2},
}


def make(remat, dtype=None, **architecture):
    keras.utils.set_random_seed(3)
    backbone = keras_albert.AlbertBackbone(
        **{
            "vocabulary_size": 40,
            "num_layers": 3,
            "num_heads": 2,
            "embedding_dim": 6,
            "hidden_dim": 12,
            "intermediate_dim": 20,
            "max_sequence_length": 32,
            "initializer_range": 0.3,
            "hidden_dropout": 0.2,
            "attention_dropout": 0.1,
            "remat": remat,
            "dtype": dtype,
            **architecture,
        }
    )
    return keras_albert.AlbertPretrainer(backbone)


def batch():
    x = random_inputs(batch=4, length=16, lengths=[16, 10, 8, 5])
    rng = np.random.default_rng(1)
    x["mask_positions"] = rng.integers(0, 5, (4, 3)).astype("int32")
    y = {
        "mlm": rng.integers(5, 40, (4, 3)).astype("int32"),
        "sentence": rng.integers(0, 2, 4).astype("int32"),
    }
    return x, y


def train(model, **compiling):
    """Losses, and all variables, generators among them, after two steps of plain descent."""
    # What a step takes off a weight is its gradient.
    model.compile(keras.optimizers.SGD(1.0), **compiling)
    keras.utils.set_random_seed(5)
    x, y = batch()
    losses = [float(model.train_on_batch(x, y, return_dict=True)["loss"]) for _ in range(2)]
    return losses, [to_numpy(variable) for variable in model.variables]


def assert_same(plain, recomputed, tolerance):
    np.testing.assert_allclose(recomputed[0], plain[0], rtol=0, atol=tolerance)
    for one, other in zip(plain[1], recomputed[1], strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=tolerance)


@pytest.fixture
def recomputed_blocks(monkeypatch):
    """How many functions `keras.remat` was given."""
    calls, remat = [], keras.remat
    monkeypatch.setattr(keras, "remat", lambda function: calls.append(function) or remat(function))
    return calls


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_gradients_with_dropout_are_those_of_a_plain_model(name, recomputed_blocks):
    plain = train(make(False, **ARCHITECTURES[name]))
    assert not recomputed_blocks
    model = make(True, **ARCHITECTURES[name])
    assert not recomputed_blocks  # only while training
    recomputed = train(model)
    scanned = keras.backend.backend() == "jax" and name == "all"  # all but the last depth as one
    assert len(recomputed_blocks) >= (2 if scanned else len(model.backbone.encoder.blocks))
    # Other masks would change the losses in the first digit, as another seed does.
    assert_same(plain, recomputed, 1e-6)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="JAX alone scans")
@pytest.mark.parametrize("adapted", [False, True])
def test_a_scan_takes_the_steps_of_a_loop(monkeypatch, adapted):
    """With dropout, whose masks differ by depth, and with frozen weights."""
    scanned, scan = [], encoder_stack.scan
    monkeypatch.setattr(
        encoder_stack, "scan", lambda *args, **kw: scanned.append(args) or scan(*args, **kw)
    )
    found = []
    for tokens in (0, 64):
        monkeypatch.setattr(depths, "_TOKENS_TO_SCAN", tokens)
        model = make(False, num_layers=5)
        if adapted:
            keras.utils.set_random_seed(4)
            model.backbone.enable_lora(2)
        found.append(train(model))
        assert bool(scanned) == bool(tokens)
    assert_same(*found, 1e-5)


@pytest.mark.slow
def test_also_in_mixed_precision_and_compiled_in_the_other_way(monkeypatch):
    # TensorFlow rounds a block that it traced as a function at other places.
    monkeypatch.setattr(encoder_stack, "traced_once", lambda blocks: blocks)
    # Shared weights: added in another precision, their gradients would be 1e-2 off. XLA keeps more
    # digits where it fuses, and fuses the two in other ways: bfloat16 is all that it promises.
    tolerance = 16 * 2**-8 if keras.backend.backend() == "jax" else 1e-3
    plain, recomputed = (train(make(remat, "mixed_bfloat16")) for remat in (False, True))
    assert_same(plain, recomputed, tolerance)
    np.testing.assert_allclose(recomputed[0], plain[0], rtol=0, atol=1e-3)
    if keras.backend.backend() == "tensorflow":
        assert_same(*(train(make(remat), jit_compile=False) for remat in (False, True)), 2e-6)
        assert_same(*(train(make(remat), run_eagerly=True) for remat in (False, True)), 2e-6)


def test_frozen_weights_stay_and_low_rank_updates_learn_the_same():
    models = [make(remat) for remat in (False, True)]
    frozen = to_numpy(models[1].backbone.encoder.attention_0.key.kernel)
    for model in models:
        keras.utils.set_random_seed(4)  # the updates begin at random
        model.backbone.enable_lora(2)
    assert_same(*map(train, models), 1e-6)
    kept = models[1].backbone.encoder.attention_0.key.kernel
    np.testing.assert_array_equal(to_numpy(kept), frozen)


def test_it_is_saved_and_old_configs_have_none():
    backbone = make(True).backbone
    config = json.loads(json.dumps(backbone.get_config()))
    assert keras_albert.AlbertBackbone.from_config(config).encoder.remat
    del config["remat"]
    assert not keras_albert.AlbertBackbone.from_config(config).encoder.remat


def test_remat_must_be_true_or_false():
    with pytest.raises(ValueError, match="`remat` of EncoderStack must be True or False"):
        make(1)
