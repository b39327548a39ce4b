"""Oracle: the same blocks, traced at every depth, and a count of the traces."""

import keras
import numpy as np
import pytest

import keras_albert
from keras_albert.layers import TransformerEncoder, encoder_stack
from keras_albert.models.pretrainer import AlbertPretrainer
from tests.layers.test_remat import assert_same, batch, make, train

if keras.backend.backend() != "tensorflow":
    pytest.skip("graphs of TensorFlow", allow_module_level=True)


@pytest.fixture
def traces(monkeypatch):
    """The calls of blocks and the steps that were traced."""
    found = []

    def counting(owner, name):
        method = getattr(owner, name)

        def count(self, *args, **kwargs):
            found.append(name)
            return method(self, *args, **kwargs)

        monkeypatch.setattr(owner, name, count)

    counting(TransformerEncoder, "call")
    counting(AlbertPretrainer, "train_step")
    return found


ARCHITECTURES = {
    "all": ({"num_layers": 4}, 1 + 1),  # the last is called as it is
    "groups": ({"num_layers": 4, "num_groups": 2}, 2 + 1),
    "none": ({"num_layers": 3, "sharing": "none"}, 3),
    "few": ({"num_layers": 2}, 2),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_steps_are_those_of_blocks_traced_at_every_depth(monkeypatch, traces, name):
    """With dropout, whose masks differ by depth."""
    architecture, count = ARCHITECTURES[name]
    once = train(make(False, **architecture))
    assert traces.count("train_step") == 1
    assert traces.count("call") == count
    monkeypatch.setattr(encoder_stack, "traced_once", lambda blocks: blocks)
    assert_same(train(make(False, **architecture)), once, 1e-5)


@pytest.mark.slow
def test_in_mixed_precision_gradients_of_depths_are_added_in_float32(monkeypatch):
    """XLA fuses the two alike, so that they are equal."""
    options = {"num_layers": 4, "dtype": "mixed_bfloat16"}
    once = train(make(False, **options), jit_compile=True)
    monkeypatch.setattr(encoder_stack, "traced_once", lambda blocks: blocks)
    assert_same(train(make(False, **options), jit_compile=True), once, 1e-6)


def test_fit_traces_a_step_once(traces):
    model = make(False)
    model.compile(keras_albert.Lamb(1e-3))
    x, y = batch()
    model.fit(x, y, 2, epochs=2, verbose=0)
    assert traces.count("train_step") == 1
    model.evaluate(x, y, 2, verbose=0)
    model.fit(x, y, 2, verbose=0)
    assert traces.count("train_step") == 1


def test_without_state_it_gives_its_new_states_back():
    """What a function holds inside could not be given back; the oracle is an eager call."""
    import tensorflow as tf

    encoder = make(False, num_layers=4).backbone.encoder
    x = keras.random.normal((2, 5, 12), seed=1)
    values = [v.value for v in encoder.trainable_variables]
    states = [tf.identity(v.value) for v in encoder.non_trainable_variables]

    def call(x):
        return encoder.stateless_call(values, states, x, training=True)

    (found, moved), (expected, eager) = tf.function(call, autograph=False)(x), call(x)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert moved
    for one, other in zip(moved, eager, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_a_function_would_keep_for_itself_is_heard():
    """Losses of activities, missing weights, and metrics that look at numbers."""
    x, y = batch()
    model = make(False, num_layers=4)
    model.backbone.encoder.feed_forward_0.activity_regularizer = keras.regularizers.L2(1.0)
    model.compile(keras.optimizers.SGD(0.0))
    loss = model.fit(x, y, 4, verbose=0).history["loss"][0]
    plain = make(False, num_layers=4)
    plain.compile(keras.optimizers.SGD(0.0))
    assert loss > 1.5 * plain.fit(x, y, 4, verbose=0).history["loss"][0]

    weights = {"mlm": np.ones((4, 3), "float32"), "sentence": None}
    assert np.isfinite(plain.fit(x, y, 4, sample_weight=weights, verbose=0).history["loss"][0])

    def mean(y_true, y_pred):
        return np.mean(y_pred.numpy()) * keras.ops.ones(())

    plain.compile(keras.optimizers.SGD(0.0), metrics={"sentence": [mean]}, run_eagerly=True)
    plain.fit(x, y, 4, verbose=0)
