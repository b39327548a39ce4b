"""Checks of constructor arguments that several layers share."""


def check_positive_integers(owner: str, **values: int) -> None:
    """Raise a `ValueError` naming the first argument that is not an integer of at least 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(
                f"`{name}` of {owner} must be an integer of at least 1. Received: {name}={value!r}"
            )


def check_rates(owner: str, **values: float) -> None:
    """Raise a `ValueError` naming the first argument that is not a rate in [0, 1)."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise ValueError(
                f"`{name}` of {owner} is a dropout rate: 0 or more, and less than 1. "
                f"Received: {name}={value!r}"
            )


def check_heads(owner: str, hidden_dim: int, num_heads: int) -> None:
    """Raise a `ValueError` where the heads do not divide the hidden size."""
    if hidden_dim % num_heads:
        raise ValueError(
            f"`num_heads` of {owner} must divide the hidden size, so that every head has the same "
            f"width. Received: num_heads={num_heads}, hidden size {hidden_dim}"
        )


def check_positive_numbers(owner: str, **values: float) -> None:
    """Raise a `ValueError` naming the first argument that is not a number above 0."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise ValueError(
                f"`{name}` of {owner} must be a number above 0. Received: {name}={value!r}"
            )
