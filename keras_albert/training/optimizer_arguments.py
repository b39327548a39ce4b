"""What the optimizers here ask of arguments and gradients, and which variables they leave alone."""

import re

import keras
from keras import ops

from keras_albert.arguments import check, is_number


def check_optimizer(owner: str, learning_rate, global_clipnorm) -> None:
    """Raise a `ValueError` for a rate or a norm that is none."""
    check(
        owner,
        "a number of at least 0, a keras LearningRateSchedule or a function",
        lambda rate: callable(rate) or (is_number(rate) and rate >= 0),
        learning_rate=learning_rate,
    )
    check(
        owner,
        "a number above 0, or None for no clipping",
        lambda norm: norm is None or (is_number(norm) and norm > 0),
        global_clipnorm=global_clipnorm,
    )


def dense_gradients(grads, variables):
    """Gradients of the shapes of their variables.

    TensorFlow's gradients of embeddings are sparse, with a row for every occurrence of a token:
    added to zeros, occurrences are summed before anything is squared. Keras would clip by the norm
    of the single rows, which is another one.
    """
    if keras.backend.backend() != "tensorflow":
        return list(grads)
    return [
        grad if grad is None else ops.add(ops.zeros(variable.shape, grad.dtype), grad)
        for grad, variable in zip(grads, variables, strict=True)
    ]


class Exclusion:
    """Variables whose path one of several regular expressions matches.

    Args:
        owner: for errors.
        exclude: an expression, or a list of them; `self.exclude` is the list.

    Raises:
        ValueError: it is something else, or an expression does not compile.
    """

    def __init__(self, owner: str, exclude):
        check(
            owner,
            "a regular expression or a list of them",
            lambda value: (
                isinstance(value, (str, list, tuple)) and all(isinstance(v, str) for v in value)
            ),
            exclude=exclude,
        )
        self.exclude = [exclude] if isinstance(exclude, str) else list(exclude)
        try:
            self._patterns = [re.compile(pattern) for pattern in self.exclude]
        except re.error as error:
            raise ValueError(
                f"`exclude` holds regular expressions, and one does not compile: {error}. "
                f"Received: {self.exclude}"
            ) from error

    def __contains__(self, variable) -> bool:
        return any(pattern.search(variable.path) for pattern in self._patterns)
