"""Oracles: scikit-learn and SciPy on all values at once."""

import keras
import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from keras_albert.training import (
    F1Score,
    MatthewsCorrelation,
    PearsonCorrelation,
    SpearmanCorrelation,
)

CLASSES = {
    F1Score: sklearn.metrics.f1_score,
    MatthewsCorrelation: sklearn.metrics.matthews_corrcoef,
}
SCORES = {
    PearsonCorrelation: lambda y, p: scipy.stats.pearsonr(y, p).statistic,
    SpearmanCorrelation: lambda y, p: scipy.stats.spearmanr(y, p).statistic,
}


def updated(metric, y, p, sizes=(7, 1, 20), weights=None):
    """After batches of these sizes, over and over."""
    start = turn = 0
    while start < len(y):
        part = slice(start, start + sizes[turn % len(sizes)])
        metric.update_state(y[part], p[part], None if weights is None else weights[part])
        start, turn = part.stop, turn + 1
    return float(metric.result())


def classes(seed, n=200, rate=0.3):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < rate).astype("int32")
    logits = rng.normal(size=(n, 2)).astype("float32")
    logits[np.arange(n), y] += 1.0
    return y, logits


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_metrics_of_classes(cls, rate):
    y, logits = classes(0, rate=rate)
    assert updated(cls(), y, logits) == pytest.approx(CLASSES[cls](y, logits.argmax(-1)), abs=1e-6)
    column = updated(cls(), y[:, None], logits)
    assert column == updated(cls(), y, logits)
    weights = np.random.default_rng(1).random(len(y)).astype("float32")
    expected = CLASSES[cls](y, logits.argmax(-1), sample_weight=weights)
    assert updated(cls(), y, logits, weights=weights) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("cls", CLASSES)
def test_counts_as_large_as_qqp(cls):
    y, logits = classes(2, n=363_846, rate=0.37)
    got = updated(cls(), y, logits, sizes=(60_000,))
    assert got == pytest.approx(CLASSES[cls](y, logits.argmax(-1)), abs=1e-6)


@pytest.mark.parametrize("cls", SCORES)
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_metrics_of_scores(cls, offset):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 11, 300).astype("float32") / 2  # with ties
    p = (y + rng.normal(size=300) + offset).astype("float32")
    p[::5] = p[0]
    expected = SCORES[cls](y.astype("float64"), p.astype("float64"))
    assert updated(cls(), y, p[:, None]) == pytest.approx(expected, abs=1e-6)
    metric = cls()
    updated(metric, y[::-1], p)
    metric.reset_state()
    assert updated(metric, y, p) == pytest.approx(expected, abs=1e-6)


def test_pearson_with_weights():
    rng = np.random.default_rng(4)
    y, p, w = rng.normal(size=(3, 60)).astype("float32")
    w = np.round(np.abs(w) * 2)  # whole weights are repetitions
    expected = scipy.stats.pearsonr(np.repeat(y, w.astype(int)), np.repeat(p, w.astype(int)))
    got = updated(PearsonCorrelation(), y, p, weights=w)
    assert got == pytest.approx(expected.statistic, abs=1e-6)


def test_what_is_not_defined_is_0():
    for cls in CLASSES:
        assert float(cls().result()) == 0.0
        for label in (0, 1):
            y = np.full(6, 1 - label)
            assert updated(cls(), y, np.eye(2, dtype="float32")[np.full(6, label)]) == 0.0
    for cls in SCORES:
        assert float(cls().result()) == 0.0
        rising, same = np.arange(50, dtype="float32"), np.full(50, 0.1, "float32")
        assert updated(cls(), rising, same) == updated(cls(), same, rising) == 0.0
        assert updated(cls(), rising[:1], rising[:1]) == 0.0


def test_spearman_beyond_its_capacity_is_nan_not_that_of_a_part():
    y = np.arange(10, dtype="float32")
    assert updated(SpearmanCorrelation(capacity=10), y, y, sizes=(4,)) == pytest.approx(1.0)
    assert np.isnan(updated(SpearmanCorrelation(capacity=9), y, y, sizes=(4,)))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_inside_evaluate_and_fit(jit_compile):
    if jit_compile and keras.backend.backend() == "torch":
        pytest.skip("torch compiles through inductor, for minutes")
    y, logits = classes(5, n=50)
    scores = np.random.default_rng(6).normal(size=50).astype("float32")
    x = logits.copy()
    model = keras.Sequential([keras.Input((2,)), keras.layers.Activation("linear")])
    model.compile(
        optimizer=keras.optimizers.SGD(0.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[F1Score(), MatthewsCorrelation()],
        jit_compile=jit_compile,
    )
    logs = model.evaluate(x, y, batch_size=16, verbose=0, return_dict=True)
    assert logs["f1"] == pytest.approx(sklearn.metrics.f1_score(y, x.argmax(-1)), abs=1e-6)
    expected = sklearn.metrics.matthews_corrcoef(y, x.argmax(-1))
    assert logs["matthews"] == pytest.approx(expected, abs=1e-6)

    regressor = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    regressor.compile(
        optimizer=keras.optimizers.SGD(0.0),
        loss="mse",
        metrics=[PearsonCorrelation(), SpearmanCorrelation(capacity=64)],
        jit_compile=jit_compile,
    )
    predicted = regressor.predict(x, verbose=0)[:, 0].astype("float64")
    fitted = regressor.fit(x, scores, batch_size=16, epochs=2, verbose=0).history
    for name, cls in (("pearson", PearsonCorrelation), ("spearman", SpearmanCorrelation)):
        expected = SCORES[cls](scores.astype("float64"), predicted)
        assert fitted[name] == pytest.approx([expected] * 2, abs=1e-6)


@pytest.mark.parametrize("cls", [*CLASSES, *SCORES])
def test_configuration_makes_the_same_metric(cls):
    options = {"capacity": 7} if cls is SpearmanCorrelation else {}
    metric = cls(name="mine", **options)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(metric))
    assert type(again) is cls and again.get_config() == metric.get_config()


def test_wrong_arguments_are_refused():
    for cls in CLASSES:
        for shape in ((4,), (4, 1), (4, 3)):
            with pytest.raises(ValueError, match=r"\(B, 2\) scores.* Received: shape"):
                cls().update_state(np.zeros(4, "int32"), np.zeros(shape, "float32"))
    with pytest.raises(ValueError, match="ranks have no weights. Received"):
        SpearmanCorrelation().update_state(np.zeros(2), np.zeros(2), np.ones(2))
