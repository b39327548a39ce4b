"""Whether this process does without Keras: it prepares text, or answers from an ONNX file."""

import importlib.util
import os

LIGHT = "KERAS_ALBERT_LIGHT"  # the environment variable that worker processes are started with


def is_light() -> bool:
    """Whether the environment asks for the light package, or has no Keras.

    Then `keras_albert.data.prepare` and `keras_albert.runtime` can be imported, and nothing else.
    """
    return os.environ.get(LIGHT, "") not in ("", "0") or importlib.util.find_spec("keras") is None
