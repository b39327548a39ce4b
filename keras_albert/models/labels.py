"""Labels and names of classes: the rules that every task's share."""

import numpy as np

from keras_albert.arguments import check, is_integer


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
