"""Classes: the layers that score them, their labels and names. The same for every task."""

import keras
import numpy as np

from keras_albert.arguments import check, is_integer
from keras_albert.layers.dropout import Dropout


def check_class_names(owner: str, class_names, num_classes: int) -> None:
    """Raise a `ValueError` unless there is one different string for each class, or None."""
    check(
        owner,
        f"None, or a list of {num_classes} different strings, one for each class",
        lambda names: (
            names is None
            or (
                isinstance(names, (list, tuple))
                and all(isinstance(name, str) for name in names)
                and len(set(names)) == len(names) == num_classes
            )
        ),
        class_names=class_names,
    )


def check_class_labels(labels, num_classes: int) -> None:
    """Raise a `ValueError` naming the first label that is no integer in [0, num_classes)."""
    array = np.asarray(labels)
    if array.dtype.kind in "iu" and array.ndim == 1:
        wrong = np.flatnonzero((array < 0) | (array >= num_classes))
    else:
        valid = (is_integer(label) and 0 <= label < num_classes for label in labels)
        wrong = [i for i, is_valid in enumerate(valid) if not is_valid]
    if len(wrong):
        raise ValueError(
            f"`y` must be integers from 0 to {num_classes - 1}, as the model has "
            f"num_classes={num_classes}. Received: {labels[wrong[0]]!r} at index {wrong[0]}"
        )


def add_classifier(model, backbone, units: int, dropout: float) -> None:
    """Give a task model `classifier_dropout` and `classifier`, a linear layer."""
    model.classifier_dropout = Dropout(
        dropout, dtype=backbone.dtype_policy, name="classifier_dropout"
    )
    model.classifier = keras.layers.Dense(
        units,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=backbone.initializer_range),
        dtype=backbone.dtype_policy,
        name="classifier",
    )


def classify(model, features):
    """Logits in float32 of features, by the layers of `add_classifier`."""
    logits = model.classifier(model.classifier_dropout(features))
    return keras.layers.Activation("linear", dtype="float32", name="logits")(logits)
