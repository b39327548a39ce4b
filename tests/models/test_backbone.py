"""Oracles: invariants (padding, batch order, save and load) and the config."""

import inspect
import json
import os
import subprocess
import sys

import keras
import keras_hub
import numpy as np
import pytest

import keras_albert
from keras_albert.layers.sharing import STRATEGIES
from tests.conftest import random_inputs, to_numpy

SMALL = {
    "vocabulary_size": 40,
    "num_layers": 4,
    "num_heads": 2,
    "embedding_dim": 6,
    "hidden_dim": 12,
    "intermediate_dim": 20,
    "max_sequence_length": 32,
    "initializer_range": 0.3,  # larger than in use, so that differences show
}


def make(**arguments):
    return keras_albert.AlbertBackbone(**{**SMALL, **arguments})


def outputs_of(model, inputs):
    return {name: to_numpy(value) for name, value in model(inputs).items()}


def test_more_padding_changes_nothing():
    backbone = make()
    inputs = random_inputs(lengths=[10, 7, 3])
    plain = outputs_of(backbone, inputs)
    wider = {k: np.pad(v, ((0, 0), (0, 13))) for k, v in inputs.items()}
    wider["token_ids"][:, 10:] = 7  # whatever stands in the padding
    wider["segment_ids"][:, 10:] = 1
    padded = outputs_of(backbone, wider)
    real = inputs["padding_mask"]
    np.testing.assert_allclose(
        padded["sequence_output"][:, :10][real], plain["sequence_output"][real], rtol=0, atol=1e-5
    )
    np.testing.assert_allclose(padded["pooled_output"], plain["pooled_output"], rtol=0, atol=1e-5)


def test_batch_order_changes_nothing_but_the_order():
    backbone = make()
    inputs = random_inputs(lengths=[10, 7, 3])
    order = np.array([2, 0, 1])
    plain = outputs_of(backbone, inputs)
    permuted = outputs_of(backbone, {name: value[order] for name, value in inputs.items()})
    for name, value in plain.items():
        np.testing.assert_allclose(permuted[name], value[order], rtol=0, atol=1e-5)


def test_tokens_positions_and_segments_all_matter():
    backbone = make()
    inputs = random_inputs(batch=1)
    plain = outputs_of(backbone, inputs)["pooled_output"]
    for name in ("token_ids", "segment_ids", "padding_mask"):
        changed = {k: v.copy() for k, v in inputs.items()}
        changed[name][0, -1] = (
            not changed[name][0, -1] if name != "token_ids" else (changed[name][0, -1] + 1) % 40
        )
        assert np.abs(outputs_of(backbone, changed)["pooled_output"] - plain).max() > 1e-4, name
    swapped = {k: v.copy() for k, v in inputs.items()}
    swapped["token_ids"][0, [4, 5]] = inputs["token_ids"][0, [5, 4]]
    assert np.abs(outputs_of(backbone, swapped)["pooled_output"] - plain).max() > 1e-4


ARCHITECTURES = {
    **{sharing: {"sharing": sharing} for sharing in STRATEGIES},
    "groups": {"num_groups": 2, "num_inner_repetitions": 2},
    "bert": {"sharing": "none", "embedding_dim": 12, "activation": "gelu"},
    "projected": {"embedding_dim": 12, "project_embeddings": True},
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_saved_and_loaded_models_give_identical_outputs(name, tmp_path):
    backbone = make(**ARCHITECTURES[name])
    for variable in backbone.variables:  # no two alike, none at its initial value
        variable.assign(variable + np.random.default_rng(0).normal(size=variable.shape) * 0.1)
    inputs = random_inputs(lengths=[10, 7, 3])
    expected = outputs_of(backbone, inputs)

    backbone.save(tmp_path / "model.keras")
    backbone.save_to_preset(str(tmp_path / "preset"))
    backbone.save_weights(tmp_path / "model.weights.h5")
    fresh = make(**ARCHITECTURES[name])
    fresh.load_weights(tmp_path / "model.weights.h5")
    loaded = [
        fresh,
        keras.saving.load_model(tmp_path / "model.keras"),
        keras_albert.AlbertBackbone.from_preset(tmp_path / "preset"),
        keras_hub.models.Backbone.from_preset(str(tmp_path / "preset")),
    ]
    for model in loaded:
        assert type(model) is keras_albert.AlbertBackbone
        assert model.get_config() == backbone.get_config() | {"name": model.name}
        for key, value in outputs_of(model, inputs).items():
            np.testing.assert_array_equal(value, expected[key])


OTHER_PROCESS = """
import sys, keras, numpy as np, keras_albert
folder = sys.argv[1]
inputs = dict(np.load(folder + "/inputs.npz"))
for model in (
    keras.saving.load_model(folder + "/model.keras"),
    keras_albert.AlbertPretrainer.from_preset(folder + "/preset"),
):
    outputs = model(inputs)
    for name, expected in np.load(folder + "/expected.npz").items():
        difference = np.abs(keras.ops.convert_to_numpy(outputs[name]) - expected).max()
        assert difference < float(sys.argv[2]), (name, difference)
# The optimizer came along: the next step is the one that the saving process takes.
model = keras.saving.load_model(folder + "/model.keras")
batch = dict(np.load(folder + "/batch.npz"))
y = {"mlm": batch["mlm"], "sentence": batch["sentence"]}
losses = [float(model.train_on_batch(inputs, y, return_dict=True)["loss"]) for _ in range(3)]
np.testing.assert_allclose(losses, batch["losses"], atol=float(sys.argv[2]) * 1000)
assert int(model.optimizer.iterations) == 5
print("equal on", keras.backend.backend())
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_saved_here_and_loaded_in_a_fresh_process_on_any_backend(tmp_path, backend):
    pytest.importorskip(backend)
    model = keras_albert.AlbertPretrainer(make(sharing="attention"))
    inputs = random_inputs(lengths=[10, 7, 3])
    inputs["mask_positions"] = np.array([[1, 2], [3, 0], [1, 0]])
    y = {"mlm": np.arange(6, dtype="int32").reshape(3, 2), "sentence": np.array([0, 1, 0], "int32")}
    model.compile(keras_albert.Lamb(0.01))
    for _ in range(2):  # trained, so that the optimizer has something to carry
        model.train_on_batch(inputs, y)
    np.savez(tmp_path / "inputs.npz", **inputs)
    np.savez(tmp_path / "expected.npz", **outputs_of(model, inputs))
    model.save(tmp_path / "model.keras")
    model.save_to_preset(str(tmp_path / "preset"))
    losses = [float(model.train_on_batch(inputs, y, return_dict=True)["loss"]) for _ in range(3)]
    np.savez(tmp_path / "batch.npz", losses=losses, **y)
    tolerance = "1e-7" if backend == keras.backend.backend() else "1e-5"
    result = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, str(tmp_path), tolerance],
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": backend},
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert f"equal on {backend}" in result.stdout


def trained(policy, optimizer, steps):
    """The losses of `steps` steps on one batch, and how far they moved each weight."""
    inputs = random_inputs(lengths=[10, 7, 3])
    inputs["mask_positions"] = np.array([[1, 2], [3, 0], [1, 0]])
    y = {"mlm": np.arange(6, dtype="int32").reshape(3, 2), "sentence": np.array([0, 1, 0], "int32")}
    keras.utils.set_random_seed(0)
    model = keras_albert.AlbertPretrainer(make(dtype=policy))
    if policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=1024.0)
    model.compile(optimizer)
    before = model.get_weights()
    losses = [
        float(model.train_on_batch(inputs, y, return_dict=True)["loss"]) for _ in range(steps)
    ]
    moved = [(b - a).ravel() for a, b in zip(before, model.get_weights(), strict=True)]
    return losses, np.concatenate(moved)


@pytest.mark.parametrize(
    ("policy", "epsilon"), [("mixed_bfloat16", 2**-8), ("mixed_float16", 2**-11)]
)
def test_gradients_in_mixed_precision_are_those_of_float32(policy, epsilon):
    """SGD moves by the gradient itself: a scale of the loss that is not taken out again shows.

    The LayerNorms of so narrow a model amplify a rounding ten times and more on the way back (24
    times in bfloat16 where the CPU itself multiplies it), and each further step amplifies it again:
    so the bound is 32 roundings, and one step is taken.
    """
    expected_loss, expected = trained("float32", keras.optimizers.SGD(0.1), steps=1)
    loss, moved = trained(policy, keras.optimizers.SGD(0.1), steps=1)
    np.testing.assert_allclose(loss, expected_loss, rtol=2 * epsilon)
    assert np.linalg.norm(expected) > 0.01
    assert np.linalg.norm(moved - expected) < 32 * epsilon * np.linalg.norm(expected)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_training_in_mixed_precision_lowers_the_loss(policy):
    losses, _ = trained(policy, keras_albert.Lamb(0.01), steps=8)
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0] - 0.5


def test_config_holds_exactly_the_arguments():
    config = make(sharing="ffn", num_groups=2).get_config()
    json.dumps(config)
    arguments = set(inspect.signature(keras_albert.AlbertBackbone.__init__).parameters)
    assert set(config) == arguments - {"self", "kwargs"} | {"name", "trainable"}
    assert (config["sharing"], config["num_groups"]) == ("ffn", 2)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(policy):
    exact, mixed = make(), make(dtype=policy)
    mixed.set_weights(exact.get_weights())
    inputs = random_inputs(lengths=[10, 7, 0])  # the last row has no token at all
    expected = outputs_of(exact, inputs)
    for name, value in mixed(inputs).items():
        value = to_numpy(keras.ops.cast(value, "float32"))
        assert np.isfinite(value).all()
        np.testing.assert_allclose(value[:2], expected[name][:2], rtol=0, atol=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary_size": 0}, "`vocabulary_size`"),
        ({"num_layers": 0}, "`num_layers`"),
        ({"num_heads": 5}, "`num_heads` of AlbertBackbone must divide the hidden size"),
        ({"num_heads": 0}, "`num_heads`"),
        ({"embedding_dim": -1}, "`embedding_dim`"),
        ({"hidden_dim": "a"}, "`hidden_dim`"),
        ({"intermediate_dim": 1.5}, "`intermediate_dim`"),
        ({"sharing": "most"}, "`sharing` must be one of"),
        ({"num_groups": 3}, "`num_groups` must divide `num_layers`"),
        ({"num_inner_repetitions": 0}, "`num_inner_repetitions`"),
        ({"hidden_dropout": 1.5}, "`hidden_dropout`.*rate"),
        ({"attention_dropout": -0.5}, "`attention_dropout`.*rate"),
        ({"activation": "gelu_tan"}, "`activation` must be 'gelu_tanh'"),
        ({"max_sequence_length": 0}, "`max_sequence_length`"),
        ({"num_segments": 0}, "`num_segments`"),
        ({"project_embeddings": False}, "`embedding_dim` must equal `hidden_dim`"),
        ({"layer_norm_epsilon": -1}, "`layer_norm_epsilon`"),
        ({"initializer_range": 0}, "`initializer_range`"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


def test_input_longer_than_the_positions():
    with pytest.raises(ValueError, match="input length 33, max_sequence_length=32"):
        make()(random_inputs(length=33))
