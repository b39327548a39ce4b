"""Oracles: NumPy float64 references of the published formulas, closed forms, invariants."""

import keras
import numpy as np
import pytest

import keras_albert
from tests.conftest import to_numpy


def reference_lamb(weights, gradients, steps, rate, excluded, clip=1.0, decay=0.01):
    """`LAMBOptimizer` by its formulas, in float64."""
    weights = [w.astype("float64") for w in weights]
    m, v = ([np.zeros_like(w) for w in weights] for _ in range(2))
    for step in range(steps):
        grads = [g(w, step) for g, w in zip(gradients, weights, strict=True)]
        norm = np.sqrt(sum((g**2).sum() for g in grads))
        grads = [g * min(1.0, clip / norm) if clip else g for g in grads]
        for i, g in enumerate(grads):
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g**2
            update, ratio = m[i] / (np.sqrt(v[i]) + 1e-6), 1.0
            if not excluded[i]:
                update = update + decay * weights[i]
                norms = np.linalg.norm(weights[i]), np.linalg.norm(update)
                ratio = norms[0] / norms[1] if min(norms) > 0 else 1.0
            weights[i] = weights[i] - rate(step) * ratio * update
    return weights


@pytest.mark.parametrize("clip", [1.0, None])
def test_lamb_equals_its_formulas(clip):
    rng = np.random.default_rng(0)
    start = [rng.normal(size=shape).astype("float32") for shape in ((3, 4), (4,), (4,), (2, 2))]
    start[3][:] = 0.0  # a zero norm: the ratio is 1
    names = ("dense/kernel", "dense/bias", "layer_norm/gamma", "zeros/kernel")
    variables = [keras.Variable(w, name=n.split("/")[1]) for w, n in zip(start, names, strict=True)]
    for variable, name in zip(variables, names, strict=True):
        variable._path = name
    # Deterministic gradients that depend on the weights, so that every step matters.
    gradients = [lambda w, step, k=k: np.cos(w + k) * (step + 1) for k in range(4)]
    schedule = keras_albert.WarmupPolynomialDecay(0.05, 2, 8)
    optimizer = keras_albert.Lamb(schedule, global_clipnorm=clip)
    optimizer.build(variables)
    for step in range(8):
        grads = [g(to_numpy(v.value), step) for g, v in zip(gradients, variables, strict=True)]
        optimizer.apply([keras.ops.convert_to_tensor(g, "float32") for g in grads])

    def rate(step):
        return 0.05 * step / 2 if step < 2 else 0.05 * (1 - step / 8)

    expected = reference_lamb(start, gradients, 8, rate, [False, True, True, False], clip)
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_allclose(to_numpy(variable.value), value, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda: keras_albert.Lamb(0.1), "bfloat16"),
        (lambda: keras_albert.Lamb(0.1), "float16"),
    ],
)
def test_lamb_steps_in_other_types(make, dtype):
    """Against the same in float32; weights and gradients are exact in bfloat16."""
    moved = []
    for kind in ("float32", dtype):
        variable = keras.Variable(np.array([[1.0, -2.0], [0.5, 4.0]]), dtype=kind)
        optimizer = make()
        optimizer.build([variable])
        for _ in range(2):
            optimizer.apply([keras.ops.convert_to_tensor([[0.5, 1.0], [-1.0, 0.25]], kind)])
        moved.append(to_numpy(keras.ops.cast(variable.value, "float32")))
    assert np.abs(moved[0] - [[1.0, -2.0], [0.5, 4.0]]).min() > 0.01
    np.testing.assert_allclose(moved[1], moved[0], rtol=2**-5)


def test_adamw_accumulates_as_keras_does_and_decays_only_where_asked():
    """In closed form: Adam's first step is the rate in the direction of the gradient's sign."""
    start, gradient = np.array([1.0, -2.0, 0.5]), np.array([0.5, -1.0, 0.25])
    for options, count in (({"weight_decay": None}, 1), ({"gradient_accumulation_steps": 2}, 2)):
        variable = keras.Variable(start, dtype="float32", name="kernel")
        optimizer = keras_albert.AdamW(0.1, **{"weight_decay": 0.5, **options}, epsilon=1e-12)
        optimizer.build([variable])
        for _ in range(count):
            optimizer.apply([keras.ops.convert_to_tensor(gradient, "float32")])
        decay = 0.0 if "weight_decay" in options else 0.5
        expected = start * (1 - 0.1 * decay) - 0.1 * np.sign(gradient)
        np.testing.assert_allclose(to_numpy(variable.value), expected, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:Gradients do not exist for variables")
@pytest.mark.parametrize("fused", [True, False] if keras.backend.backend() == "torch" else [False])
@pytest.mark.parametrize("clip", [1.0, None])
def test_adamw_equals_its_formulas(clip, fused, monkeypatch):
    """An epsilon that shows, gradients that lie otherwise in memory and one that is missing."""
    if not fused:
        monkeypatch.setattr(keras_albert.AdamW, "_is_fused", lambda self, variables: False)
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=shape).astype("float32") for shape in ((3, 5), (5,), (4, 2))]
    names = ("kernel", "bias", "embeddings")
    variables = [keras.Variable(w, name=n) for w, n in zip(weights, names, strict=True)]
    unused = keras.Variable(weights[1], name="unused")
    schedule = keras_albert.WarmupPolynomialDecay(0.05, 2, 8)
    optimizer = keras_albert.AdamW(schedule, 0.1, epsilon=0.05, global_clipnorm=clip)
    assert optimizer._is_fused(variables) == fused
    expected = [w.astype("float64") for w in weights]
    m, v = ([np.zeros_like(w) for w in expected] for _ in range(2))
    for step in range(8):
        drawn = [rng.normal(size=w.T.shape).astype("float32") for w in weights]
        grads = [keras.ops.convert_to_tensor(g) for g in drawn]
        grads = [keras.ops.transpose(g) if len(g.shape) == 2 else g for g in grads]
        optimizer.apply([*grads, None], [*variables, unused])
        rate = 0.05 * step / 2 if step < 2 else 0.05 * (1 - step / 8)
        norm = np.sqrt(sum((g**2).sum() for g in drawn)) if clip else 0.0
        for i, g in enumerate(drawn):
            np.testing.assert_array_equal(to_numpy(grads[i]), g.T)  # they are the caller's
            g = g.T.astype("float64") * min(1.0, clip / norm if norm else 1.0)
            m[i], v[i] = 0.9 * m[i] + 0.1 * g, 0.999 * v[i] + 0.001 * g**2
            if i != 1:
                expected[i] -= rate * 0.1 * expected[i]
            corrected = np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
            expected[i] -= rate * corrected * m[i] / (np.sqrt(v[i]) + 0.05)
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_allclose(to_numpy(variable.value), value, rtol=0, atol=2e-6)
    np.testing.assert_array_equal(to_numpy(unused.value), weights[1])


def test_what_the_default_expressions_exclude_in_a_real_model():
    backbone = keras_albert.AlbertBackbone(40, 2, 2, 4, 8, 16)
    model = keras_albert.AlbertPretrainer(backbone)
    variables = model.trainable_variables
    optimizer = keras_albert.Lamb()
    optimizer.build(variables)
    for variable, excluded in zip(variables, optimizer._excluded, strict=True):
        # Matrices and tables are adapted; biases, gamma and beta are vectors.
        assert excluded == (len(variable.shape) == 1), variable.path


def test_sparse_gradients_of_embeddings_without_clipping():
    def trained(clip):
        keras.utils.set_random_seed(1)
        table = keras.layers.Embedding(5, 3)
        model = keras.Sequential([keras.Input((2,), dtype="int32"), table])
        model.compile(keras_albert.Lamb(0.1, global_clipnorm=clip), "mse")
        for _ in range(3):
            model.train_on_batch(np.array([[0, 3], [3, 1]]), np.ones((2, 2, 3), "float32"))
        return to_numpy(table.embeddings)

    np.testing.assert_allclose(trained(None), trained(1e9), rtol=1e-5)


def test_lamb_serialises_and_continues_where_it_stopped(tmp_path):
    def fresh():
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        schedule = keras_albert.WarmupPolynomialDecay(0.1, 2, 10)
        model.compile(keras_albert.Lamb(schedule, exclude=["kernel"], weight_decay=0.1), "mse")
        return model

    x, y = np.ones((4, 3), "float32"), np.ones((4, 2), "float32")
    straight, stopped = fresh(), fresh()
    for _ in range(6):
        straight.train_on_batch(x, y)
    for _ in range(3):
        stopped.train_on_batch(x, y)
    stopped.save(tmp_path / "model.keras")
    resumed = keras.saving.load_model(tmp_path / "model.keras")
    assert resumed.optimizer.get_config() == stopped.optimizer.get_config()
    for _ in range(3):
        resumed.train_on_batch(x, y)
    for one, other in zip(straight.variables, resumed.variables, strict=True):
        np.testing.assert_array_equal(to_numpy(one.value), to_numpy(other.value))


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_schedule_in_closed_form(power):
    schedule = keras_albert.WarmupPolynomialDecay(
        2.0, warmup_steps=10, total_steps=40, power=power, end_learning_rate=0.5
    )
    for step in range(60):
        expected = 0.2 * step if step < 10 else 1.5 * (1 - min(step, 40) / 40) ** power + 0.5
        np.testing.assert_allclose(float(schedule(step)), expected, rtol=1e-6)
    clone = keras_albert.WarmupPolynomialDecay.from_config(schedule.get_config())
    assert clone.get_config() == schedule.get_config()
    assert float(keras_albert.WarmupPolynomialDecay(2.0, 0, 40)(0)) == 2.0


def test_masked_lm_loss_is_the_mean_over_masked_tokens():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 3, 5)).astype("float32")
    targets = rng.integers(0, 5, (2, 3))
    weights = np.array([[1, 0, 0], [1, 1, 0]], "float32")
    log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    cross_entropy = -np.take_along_axis(log_probabilities, targets[..., None], -1)[..., 0]
    loss = keras_albert.MaskedLMLoss()
    received = float(loss(targets, logits, sample_weight=weights))
    np.testing.assert_allclose(received, (weights * cross_entropy).sum() / (3 + 1e-5), rtol=1e-6)
    assert float(loss(targets, logits, sample_weight=0 * weights)) == 0.0
    received = float(loss(targets, logits))
    np.testing.assert_allclose(received, cross_entropy.sum() / (6 + 1e-5), rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: keras_albert.Lamb(beta_1=1.0), r"`beta_1` must be in \[0, 1\)"),
        (lambda: keras_albert.Lamb(beta_2=-0.1), r"`beta_2` must be in \[0, 1\)"),
        (lambda: keras_albert.Lamb(weight_decay=-1), "`weight_decay` must not be negative"),
        (lambda: keras_albert.Lamb(epsilon=0), "`epsilon` must be above 0"),
        (lambda: keras_albert.Lamb(exclude=["("]), "does not compile"),
        (lambda: keras_albert.WarmupPolynomialDecay(1, 5, 5), "less than `total_steps`"),
        (lambda: keras_albert.WarmupPolynomialDecay(1, -1, 5), "`warmup_steps` .*at least 0"),
        (lambda: keras_albert.WarmupPolynomialDecay(1, 0, 0), "`total_steps` .*at least 1"),
        (lambda: keras_albert.WarmupPolynomialDecay(-1, 0, 5), "must not be negative"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
