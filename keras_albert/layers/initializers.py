"""The initializer of every kernel and table in the released models."""

import keras


def get_initializer(identifier=None):
    """Resolve an initializer as Keras does; None is a truncated normal of 0.02.

    Raises:
        ValueError: for what is no initializer.
    """
    if identifier is None:
        return keras.initializers.TruncatedNormal(stddev=0.02)  # as in the released checkpoints
    try:
        initializer = keras.initializers.get(identifier)
    except (TypeError, ValueError):
        initializer = None
    if not isinstance(initializer, keras.initializers.Initializer):
        raise ValueError(
            "`kernel_initializer` must be a keras.initializers.Initializer or the name of one. "
            f"Received: {identifier!r}"
        )
    return initializer
