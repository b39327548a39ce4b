"""Checks of arguments: what breaks a rule is a `ValueError` that names the rule, then the value."""

import math
import numbers
import os
from collections.abc import Callable, Iterable


def is_integer(value) -> bool:
    """Whether it is an integer, of Python or NumPy; a bool is none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value) -> bool:
    """Whether it is a finite number, of Python or NumPy; a bool is none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def is_path(value) -> bool:
    """Whether it can name a file or a directory."""
    return isinstance(value, (str, os.PathLike))


def check(owner: str, rule: str, holds: Callable, **values) -> None:
    """Raise a `ValueError` naming the first argument for which `holds` is false."""
    for name, value in values.items():
        if not holds(value):
            raise ValueError(f"`{name}` of {owner} must be {rule}. Received: {name}={value!r}")


def check_integers(owner: str, minimum: int, **values) -> None:
    """Raise a `ValueError` naming the first argument that is not an integer from `minimum` up."""
    rule = f"an integer of at least {minimum}"
    check(owner, rule, lambda value: is_integer(value) and value >= minimum, **values)


def check_positive_integers(owner: str, **values) -> None:
    """Raise a `ValueError` naming the first argument that is not an integer of at least 1."""
    check_integers(owner, 1, **values)


def check_rates(owner: str, **values) -> None:
    """Raise a `ValueError` naming the first argument that is not a rate in [0, 1)."""
    rule = "a dropout rate, 0 or more and less than 1"
    check(owner, rule, lambda value: is_number(value) and 0 <= value < 1, **values)


def check_positive_numbers(owner: str, **values) -> None:
    """Raise a `ValueError` naming the first argument that is not a number above 0."""
    check(owner, "a number above 0", lambda value: is_number(value) and value > 0, **values)


def check_booleans(owner: str, **values) -> None:
    """Raise a `ValueError` naming the first argument that is neither True nor False."""
    check(owner, "True or False", lambda value: isinstance(value, bool), **values)


def check_heads(owner: str, hidden_dim: int, num_heads: int) -> None:
    """Raise a `ValueError` where the heads do not divide the hidden size."""
    if hidden_dim % num_heads:
        raise ValueError(
            f"`num_heads` of {owner} must divide the hidden size, so that every head has the same "
            f"width. Received: num_heads={num_heads}, hidden size {hidden_dim}"
        )


def check_known(owner: str, kwargs: dict, known: Iterable[str]) -> None:
    """Raise a `ValueError` for a misspelt argument, which Keras' functional models would drop."""
    for name, value in kwargs.items():
        if name not in known:
            raise ValueError(
                f"{owner} has no argument `{name}`: check its spelling. Received: {name}={value!r}"
            )
