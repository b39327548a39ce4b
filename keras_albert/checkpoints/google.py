"""Reading ALBERT checkpoints in the format of Google's original code (TensorFlow 1)."""

import os

from keras_albert.checkpoints.names import GOOGLE_ALBERT, assign, expand


def load_google_checkpoint(model, prefix: str | os.PathLike) -> None:
    """Load the weights of Google's ALBERT, heads included, into a pretrainer.

    Args:
        model: an `AlbertPretrainer` of the checkpoint's architecture, with `sharing="all"`.
        prefix: the checkpoint's path without `.index` and `.data-...`.

    Raises:
        ImportError: TensorFlow, which reads this format, is not installed.
        ValueError: the file is not there, or does not fit the model. The model is unchanged then.

    Example:
    ```python
    load_google_checkpoint(model, "albert_base/model.ckpt-best")
    ```
    """
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            "Checkpoints of Google's original code are read by TensorFlow: pip install tensorflow"
        ) from error
    prefix = os.fspath(prefix)
    if not os.path.exists(prefix + ".index"):
        raise ValueError(
            "`prefix` must be a checkpoint's path without its `.index` ending, and there is no "
            f"such file. Received: {prefix!r}"
        )
    reader = tf.train.load_checkpoint(prefix)
    tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    assign(model, expand(GOOGLE_ALBERT, model.backbone), tensors)
