"""GLUE's metrics as `fit` shows them, equal to scikit-learn's and SciPy's.

Where such a score is not defined, since all predictions or all labels are the same, it is 0 and
never NaN. A compiled graph cannot warn: `keras_albert.datasets.glue_scores` does.
"""

import keras
from keras import ops

from keras_albert.arguments import check, check_positive_integers

_ROUNDING = 1e-6  # of float32: a spread below it, relative to the mean, is none


class _BinaryCounts(keras.metrics.Metric):
    """The four counts of a two-class confusion matrix."""

    def __init__(self, name, dtype=None):
        super().__init__(name=name, dtype=_float_dtype(self, dtype))
        add = lambda name: self.add_variable((), "zeros", name=name)
        self.true_positives = add("true_positives")
        self.false_positives = add("false_positives")
        self.false_negatives = add("false_negatives")
        self.true_negatives = add("true_negatives")

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_pred = ops.convert_to_tensor(y_pred)
        if len(y_pred.shape) != 2 or y_pred.shape[-1] != 2:
            raise ValueError(
                f"`y_pred` of {type(self).__name__} must be (B, 2) scores of two classes. "
                f"Received: shape {tuple(y_pred.shape)}"
            )
        true_B = ops.equal(ops.reshape(ops.cast(y_true, "int32"), (-1,)), 1)
        pred_B = ops.equal(ops.argmax(y_pred, axis=-1), 1)
        weight_B = _weights(sample_weight, ops.cast(true_B, self.dtype))
        count = lambda a, b: ops.sum(weight_B * ops.cast(ops.logical_and(a, b), self.dtype))
        not_true_B, not_pred_B = ops.logical_not(true_B), ops.logical_not(pred_B)
        self.true_positives.assign_add(count(true_B, pred_B))
        self.false_positives.assign_add(count(not_true_B, pred_B))
        self.false_negatives.assign_add(count(true_B, not_pred_B))
        self.true_negatives.assign_add(count(not_true_B, not_pred_B))


@keras.saving.register_keras_serializable(package="keras_albert")
class F1Score(_BinaryCounts):
    """F1 of class 1, as GLUE scores MRPC and QQP.

    Args:
        name, dtype: as every Keras metric.

    Call arguments:
        y_true: (B,) or (B, 1) classes, 0 or 1.
        y_pred: (B, 2) logits or probabilities.
        sample_weight: (B,), or None.

    Raises:
        ValueError: where `y_pred` is of another shape.

    Example:
    ```python
    classifier.compile(metrics=["accuracy", keras_albert.training.F1Score()])
    ```
    """

    def __init__(self, name="f1", dtype=None):
        super().__init__(name, dtype)

    def result(self):
        wrong = self.false_positives + self.false_negatives
        return _ratio(2.0 * self.true_positives, 2.0 * self.true_positives + wrong)


@keras.saving.register_keras_serializable(package="keras_albert")
class MatthewsCorrelation(_BinaryCounts):
    """Matthews' correlation coefficient of two classes, as GLUE scores CoLA.

    Args:
        name, dtype: as every Keras metric.

    Call arguments:
        y_true: (B,) or (B, 1) classes, 0 or 1.
        y_pred: (B, 2) logits or probabilities.
        sample_weight: (B,), or None.

    Raises:
        ValueError: where `y_pred` is of another shape.

    Example:
    ```python
    classifier.compile(metrics=[keras_albert.training.MatthewsCorrelation()])
    ```
    """

    def __init__(self, name="matthews", dtype=None):
        super().__init__(name, dtype)

    def result(self):
        tp, fp = self.true_positives, self.false_positives
        fn, tn = self.false_negatives, self.true_negatives
        # Of the four margins, each as a ratio: products of counts would not fit into float32.
        right = (
            _ratio(tp, tp + fp) * _ratio(tp, tp + fn) * _ratio(tn, tn + fp) * _ratio(tn, tn + fn)
        )
        wrong = (
            _ratio(fp, tp + fp) * _ratio(fn, tp + fn) * _ratio(fp, tn + fp) * _ratio(fn, tn + fn)
        )
        return ops.sqrt(right) - ops.sqrt(wrong)


@keras.saving.register_keras_serializable(package="keras_albert")
class PearsonCorrelation(keras.metrics.Metric):
    """Pearson's correlation of scores, as GLUE scores STS-B.

    Means and squared deviations of the batches are merged (Chan et al., 1979), all measured from
    the first batch's mean: sums of squares would lose the digits that count.

    Args:
        name, dtype: as every Keras metric.

    Call arguments:
        y_true: (B,) or (B, 1) scores.
        y_pred: (B,) or (B, 1) scores.
        sample_weight: (B,), or None.

    Example:
    ```python
    regressor.compile(metrics=[keras_albert.training.PearsonCorrelation()])
    ```
    """

    def __init__(self, name="pearson", dtype=None):
        super().__init__(name=name, dtype=_float_dtype(self, dtype))
        self.weight = self.add_variable((), "zeros", name="weight")
        self.origin = self.add_variable((2,), "zeros", name="origin")
        self.means = self.add_variable((2,), "zeros", name="means")  # from the origin
        self.products = self.add_variable((3,), "zeros", name="products")  # xx, yy, xy

    def update_state(self, y_true, y_pred, sample_weight=None):
        x_B, y_B = _scores(y_true, self.dtype), _scores(y_pred, self.dtype)
        weight_B = _weights(sample_weight, x_B)
        weight = ops.sum(weight_B)
        mean = lambda values: _ratio(ops.sum(weight_B * values), weight)
        first = ops.stack([mean(x_B), mean(y_B)])
        self.origin.assign(ops.where(ops.equal(self.weight, 0), first, self.origin.value))
        x_B, y_B = x_B - self.origin[0], y_B - self.origin[1]
        means = ops.stack([mean(x_B), mean(y_B)])
        products = _products(x_B - means[0], y_B - means[1], weight_B)
        total = self.weight + weight
        delta = means - self.means
        between = ops.stack([delta[0] * delta[0], delta[1] * delta[1], delta[0] * delta[1]])
        share = _ratio(weight, total)
        self.products.assign_add(products + between * self.weight * share)
        self.means.assign_add(delta * share)
        self.weight.assign(total)

    def result(self):
        noise = self.weight * ops.square(_ROUNDING * (self.origin + self.means))
        return _correlation(self.products, noise)


@keras.saving.register_keras_serializable(package="keras_albert")
class SpearmanCorrelation(keras.metrics.Metric):
    """Spearman's rank correlation of scores, as GLUE scores STS-B.

    Ranks need all values at once, so they are kept, up to `capacity` of them. With more seen the
    result is NaN, rather than that of a part.

    Args:
        capacity: how many values to keep; the training set of STS-B has 5,749.
        name, dtype: as every Keras metric.

    Call arguments:
        y_true: (B,) or (B, 1) scores.
        y_pred: (B,) or (B, 1) scores.
        sample_weight: must be None: ranks have no weights.

    Raises:
        ValueError: where `capacity` is not an integer of at least 1, or weights are given.

    Example:
    ```python
    regressor.compile(metrics=[keras_albert.training.SpearmanCorrelation()])
    ```
    """

    def __init__(self, capacity=8192, name="spearman", dtype=None):
        check_positive_integers("SpearmanCorrelation", capacity=capacity)
        super().__init__(name=name, dtype=_float_dtype(self, dtype))
        self.capacity = capacity
        self.seen = self.add_variable((), "zeros", dtype="int32", name="seen")
        self.true_values = self.add_variable((capacity,), "zeros", name="true_values")
        self.pred_values = self.add_variable((capacity,), "zeros", name="pred_values")

    def update_state(self, y_true, y_pred, sample_weight=None):
        if sample_weight is not None:
            raise ValueError(
                "`sample_weight` of SpearmanCorrelation must be None: ranks have no weights. "
                f"Received: {sample_weight!r}"
            )
        x_B, y_B = _scores(y_true, self.dtype), _scores(y_pred, self.dtype)
        batch = ops.shape(x_B)[0]
        # Beyond the capacity values are overwritten, and `result` says so.
        places_B1 = ops.expand_dims((self.seen + ops.arange(batch)) % self.capacity, 1)
        self.true_values.assign(ops.scatter_update(self.true_values.value, places_B1, x_B))
        self.pred_values.assign(ops.scatter_update(self.pred_values.value, places_B1, y_B))
        self.seen.assign_add(batch)

    def result(self):
        kept = ops.arange(self.capacity) < self.seen
        middle = (ops.cast(self.seen, self.dtype) + 1.0) / 2.0  # the mean of all ranks
        x = self._ranks(self.true_values.value, kept) - middle
        y = self._ranks(self.pred_values.value, kept) - middle
        correlation = _correlation(_products(x, y, ops.cast(kept, self.dtype)), ops.zeros((2,)))
        return ops.where(self.seen > self.capacity, float("nan"), correlation)

    def _ranks(self, values, kept):
        """Ranks from 1; equal values share the mean of theirs."""
        values = ops.where(kept, values, float("inf"))
        ordered = ops.sort(values)
        below = ops.searchsorted(ordered, values, side="left")
        up_to = ops.searchsorted(ordered, values, side="right")
        return ops.cast(below + up_to + 1, self.dtype) / 2.0

    def get_config(self):
        return {**super().get_config(), "capacity": self.capacity}


def _float_dtype(metric, dtype) -> str:
    """float32 unless asked otherwise: lower precision cannot count."""
    rule = "a float dtype, float32 or float64, or None"
    check(type(metric).__name__, rule, lambda v: v in (None, "float32", "float64"), dtype=dtype)
    return dtype or "float32"


def _scores(values, dtype):
    return ops.reshape(ops.cast(values, dtype), (-1,))


def _weights(sample_weight, like):
    if sample_weight is None:
        return ops.ones_like(like)
    return ops.reshape(ops.cast(sample_weight, like.dtype), (-1,))


def _ratio(part, whole):
    """The quotient, 0 where the whole is 0."""
    is_zero = ops.equal(whole, 0)
    return ops.where(is_zero, 0.0, part / ops.where(is_zero, 1.0, whole))


def _products(x, y, weight):
    return ops.stack([ops.sum(weight * x * x), ops.sum(weight * y * y), ops.sum(weight * x * y)])


def _correlation(products, noise):
    """From (xx, yy, xy); 0 where xx or yy is no more than noise."""
    defined = ops.logical_and(products[0] > noise[0], products[1] > noise[1])
    spread = ops.sqrt(ops.where(defined, products[0], 1.0)) * ops.sqrt(
        ops.where(defined, products[1], 1.0)
    )
    return ops.where(defined, products[2] / spread, 0.0)
