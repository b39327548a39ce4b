"""litert: a task model as a LiteRT (TensorFlow Lite) file."""

import os
import tempfile
from pathlib import Path

import numpy as np

from keras_albert.arguments import check, check_integers, is_path
from keras_albert.export.conversion import convert
from keras_albert.export.tasks import check_task
from keras_albert.whole_files import write_whole

QUANTIZATIONS = (None, "int8")


def litert(
    model,
    path: str | os.PathLike,
    length: int = 128,
    quantize: str | None = None,
    representative=None,
) -> Path:
    """Write a task model as a LiteRT file: ids of one length in, logits out.

    The signature `serving_default` has the inputs and outputs of `keras_albert.export.onnx`, with
    S = `length`; the batch, the options of multiple choice and the masks of a pretrainer are open.
    Rows are packed to `length`, as the preprocessor's `call` with that `sequence_length` does. A
    weight that several depths share is stored once. A model of JAX or PyTorch is converted in a
    process under TensorFlow.

    Args:
        model: a task model.
        path: the file's. It appears under its name when it is whole.
        length: S.
        quantize: None keeps float32; `"int8"` stores matrices as int8.
        representative: raw examples, as the model's `predict` takes them, some hundreds of those
            that it will meet. With them `"int8"` computes in int8 too, with the ranges that they
            show; this loses more accuracy. Without, it computes in float32 where it can, and
            rounds the inputs of matrices as they come.

    Returns:
        The file's path.

    Raises:
        ValueError: an argument breaks its rule.
        RuntimeError: the conversion failed, or the file answers otherwise than the model.

    Source: LiteRT's guide, "Post-training quantization".

    Example:
    ```python
    keras_albert.export.litert(classifier, "model.tflite", length=64)
    small = keras_albert.export.litert(
        classifier, "small.tflite", length=64, quantize="int8", representative=texts
    )
    ```
    """
    check_task("litert", model)
    check("litert", "a file's path", is_path, path=path)
    check_integers("litert", 4, length=length)
    if length > model.backbone.max_sequence_length:
        raise ValueError(
            "`length` of litert must not be above the backbone's max_sequence_length="
            f"{model.backbone.max_sequence_length}. Received: length={length}"
        )
    check("litert", f"one of {QUANTIZATIONS}", lambda x: x in QUANTIZATIONS, quantize=quantize)
    if representative is not None and (quantize is None or model.preprocessor is None):
        raise ValueError(
            "`representative` of litert goes with quantize='int8' and a model that has a "
            f"preprocessor. Received: quantize={quantize!r}, preprocessor={model.preprocessor!r}"
        )
    with tempfile.TemporaryDirectory() as folder:
        written, examples = Path(folder, "model.tflite"), None
        if representative is not None:
            examples = str(Path(folder, "representative.npz"))
            np.savez(examples, **packed(model, representative, length))
        options = {"length": length, "quantize": quantize, "representative": examples}
        convert(model, "litert_writing", written, options)
        write_whole(path, written.read_bytes())
    return Path(path)


def packed(model, examples, length) -> dict[str, np.ndarray]:
    """Raw examples as inputs of the model."""
    rows = [row._replace(label=None) for row in model.preprocessor.encode(examples)]
    if not rows:
        raise ValueError("`representative` must hold at least one example. Received: none")
    x = model.collate(rows, length)
    return x if isinstance(x, dict) else x[0]
