"""Oracles: the run without the bad batch, closed forms of norms."""

import keras
import numpy as np
import pytest

import keras_albert
from keras_albert.training.safety import GradientWatch, SkipNonFinite
from tests.conftest import to_numpy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 4, 3)).astype("float32")
Y = X.sum(2, keepdims=True)


def make_model(optimizer):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)]
    )
    model.compile(optimizer, "mse")
    return model


def optimizers():
    schedule = keras_albert.WarmupPolynomialDecay(0.1, 2, 20)
    return {
        "lamb": keras_albert.Lamb(schedule),
        "adamw": keras.optimizers.AdamW(schedule, global_clipnorm=1.0),
        "accumulated": keras.optimizers.AdamW(0.1, gradient_accumulation_steps=2),
    }


def train(model, batches):
    for x, y in batches:
        model.train_on_batch(x, y)
    return [to_numpy(variable) for variable in model.variables]


def values(variables):
    return [to_numpy(variable) for variable in variables]


@pytest.mark.parametrize("name", ["lamb", "adamw", "accumulated"])
def test_the_run_with_bad_batches_is_the_run_without_them(name):
    good = list(zip(X, Y, strict=True))
    spoiled = [X[0] * np.nan, Y[0]], [X[1], Y[1] * np.inf], [X[2], Y[2] + np.nan]
    mixed = [*good[:3], *spoiled[:2], *good[3:8], spoiled[2], *good[8:]]
    with_bad, without = (
        make_model(SkipNonFinite(optimizers()[name])),
        make_model(optimizers()[name]),
    )
    for found, expected in zip(train(with_bad, mixed), train(without, good), strict=True):
        np.testing.assert_array_equal(found, expected)
    inner = values(with_bad.optimizer.inner.variables)
    for found, expected in zip(inner, values(without.optimizer.variables), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert int(with_bad.optimizer.skipped) == 3
    assert int(with_bad.optimizer.skipped_in_a_row) == 0
    assert int(with_bad.optimizer.iterations) == int(without.optimizer.iterations)
    assert float(with_bad.optimizer.learning_rate) == float(without.optimizer.learning_rate)


def test_bad_steps_in_a_row_are_counted_until_a_good_one():
    model = make_model(SkipNonFinite(keras_albert.Lamb(0.1)))
    counts = []
    for bad in (0, 1, 1, 0, 1):
        model.train_on_batch(X[0] * (np.nan if bad else 1), Y[0])
        counts.append((int(model.optimizer.skipped), int(model.optimizer.skipped_in_a_row)))
    assert counts == [(0, 0), (1, 1), (2, 2), (2, 0), (3, 1)]


def test_the_norm_is_that_of_the_gradient_before_clipping():
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((2,)), layer])
    model.compile(SkipNonFinite(keras.optimizers.SGD(1.0, global_clipnorm=1.0)), "mse")
    # d (0 + 0.5)^2 / d w = x = (3, 4), of norm 5; clipped to 1, then subtracted.
    model.train_on_batch(np.array([[3.0, 4.0]]), np.array([[-0.5]]))
    assert float(model.optimizer.gradient_norm) == 5.0
    np.testing.assert_allclose(to_numpy(layer.kernel)[:, 0], [-0.6, -0.8], rtol=1e-6)


def test_apply_outside_of_a_model():
    variable = keras.Variable(np.zeros(2, "float32"))
    optimizer = SkipNonFinite(keras.optimizers.SGD(1.0))
    for gradient in ([1.0, 2.0], [np.inf, 0.0], [0.0, 1.0]):
        optimizer.apply([keras.ops.array(gradient)], [variable])
    np.testing.assert_array_equal(to_numpy(variable), [-1.0, -3.0])
    assert int(optimizer.skipped) == 1


def test_sparse_gradients_of_embeddings_count_each_row_once():
    table = keras.layers.Embedding(5, 1, embeddings_initializer="zeros")
    model = keras.Sequential([keras.Input((3,), dtype="int32"), table])
    model.compile(SkipNonFinite(keras.optimizers.SGD(0.0)), "mse")
    model.train_on_batch(np.array([[2, 2, 1]]), np.ones((1, 3, 1), "float32"))
    # d mse / d row = sum over its occurrences of 2 (0 - 1) / 3: -4/3 for row 2, -2/3 for row 1.
    np.testing.assert_allclose(float(model.optimizer.gradient_norm), (16 + 4) ** 0.5 / 3, rtol=1e-6)


def test_a_saved_model_keeps_the_counts_and_goes_on(tmp_path):
    model = make_model(SkipNonFinite(keras_albert.Lamb(0.1)))
    train(model, [(X[0], Y[0]), (X[0] * np.nan, Y[0])])
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert int(again.optimizer.skipped) == 1
    assert isinstance(again.optimizer.inner, keras_albert.Lamb)
    for found, expected in zip(
        train(again, [(X[1], Y[1])]), train(model, [(X[1], Y[1])]), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_under_keras_loss_scaling():
    model = make_model(keras.optimizers.LossScaleOptimizer(SkipNonFinite(keras_albert.Lamb(0.1))))
    plain = make_model(keras_albert.Lamb(0.1))
    good = list(zip(X[:3], Y[:3], strict=True))
    found = train(model, [*good[:1], (X[0] * np.nan, Y[0]), *good[1:]])
    for one, other in zip(found, train(plain, good), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_what_is_no_optimizer_is_refused():
    with pytest.raises(ValueError, match="`optimizer` of SkipNonFinite must be a keras optimizer"):
        SkipNonFinite("adam")


def test_the_watch_notes_spikes_and_skips_and_stops_at_the_limit():
    watch = GradientWatch(limit=3, spike=5.0)
    assert all(watch.observe(step, 1.0, 0, 0) is None for step in range(20))
    assert watch.observe(20, 4.9, 0, 0) is None
    assert watch.observe(21, 5.1, 0, 0) == {"event": "spike", "gradient_norm": 5.1, "median": 1.0}
    for row in (1, 2):
        event = watch.observe(21 + row, np.nan, row, row)
        assert event["event"] == "skipped" and event["skipped"] == row
    with pytest.raises(RuntimeError, match="3 steps in a row .* ends at step 24"):
        watch.observe(24, np.nan, 3, 3)


@pytest.mark.parametrize("bad", [{"limit": 0}, {"spike": 1.0}, {"limit": 1.5}])
def test_the_watch_refuses(bad):
    with pytest.raises(ValueError, match=f"`{next(iter(bad))}` of GradientWatch must be"):
        GradientWatch(**bad)
