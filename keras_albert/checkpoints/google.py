"""Reading ALBERT checkpoints in the format of Google's original code (TensorFlow 1)."""

import os

from keras_albert.arguments import check, is_path
from keras_albert.checkpoints.names import GOOGLE_ALBERT, assign, expand
from keras_albert.models import AlbertPretrainer


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
    check(
        "load_google_checkpoint",
        "a keras_albert.AlbertPretrainer",
        lambda value: isinstance(value, AlbertPretrainer),
        model=model,
    )
    check("load_google_checkpoint", "a path", is_path, prefix=prefix)
    prefix = os.fspath(prefix)
    if not os.path.exists(prefix + ".index"):
        raise ValueError(
            "`prefix` must be a checkpoint's path without its `.index` ending, and there is no "
            f"such file. Received: {prefix!r}"
        )
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            "Checkpoints of Google's original code are read by TensorFlow: pip install tensorflow"
        ) from error
    reader = tf.train.load_checkpoint(prefix)
    names = [name for name in reader.get_variable_to_shape_map() if not _of_optimizer(name)]
    tensors = {name: reader.get_tensor(name) for name in names}
    assign(model, expand(GOOGLE_ALBERT, model.backbone), tensors)


def _of_optimizer(name: str) -> bool:
    last = name.rsplit("/", 1)[-1]
    return last in ("adam_m", "adam_v", "global_step") or last.startswith("lamb_")
