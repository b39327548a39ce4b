"""Whether this process only prepares text: then the package loads neither Keras nor a backend."""

import os

LIGHT = "KERAS_ALBERT_LIGHT"  # the environment variable that worker processes are started with


def is_light() -> bool:
    """Whether the environment asks for the light package: `keras_albert.data.prepare` alone."""
    return os.environ.get(LIGHT, "") not in ("", "0")
