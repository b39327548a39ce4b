"""The activation that ALBERT's released code calls "gelu"."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_albert")
def gelu_tanh(x):
    """GELU by the tanh approximation, as in Google's code.

    Keras' own `"gelu"` is the exact (erf) form, which Hugging Face's BERT uses.
    Same shape and dtype as `x`.
    """
    return ops.gelu(x, approximate=True)


def get_activation(identifier):
    """Resolve `"gelu_tanh"`, or anything that `keras.activations.get` knows.

    Raises:
        ValueError: for a name that neither knows.
    """
    if identifier == "gelu_tanh":
        return gelu_tanh
    try:
        return keras.activations.get(identifier)
    except ValueError as error:
        raise ValueError(
            "`activation` must be 'gelu_tanh' (ALBERT and BERT as released), 'gelu' (the exact, "
            f"erf form) or the name of another Keras activation. Received: {identifier!r}"
        ) from error


def serialize_activation(activation):
    """The inverse of `get_activation`: a plain name wherever there is one."""
    return "gelu_tanh" if activation is gelu_tanh else keras.activations.serialize(activation)
