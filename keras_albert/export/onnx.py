"""onnx: a task model as one ONNX file, with its tokenizer inside."""

import base64
import json
import os
import tempfile
from pathlib import Path

import keras
import numpy as np

from keras_albert.arguments import check, is_path
from keras_albert.export.tasks import check_task
from keras_albert.models.pretrainer import AlbertPretrainer
from keras_albert.runtime.loading import SETTINGS, VOCABULARY
from keras_albert.whole_files import write_whole

QUANTIZATIONS = (None, "float16", "int8")
OF_PREPROCESSOR = ("sequence_length", "option_length", "doc_stride", "max_query_length")
OF_MODEL = ("num_classes", "class_names", "head", "null_threshold", "pooling", "objective")


def onnx(model, path: str | os.PathLike, quantize: str | None = None) -> Path:
    """Write a task model as an ONNX file: ids in, logits out, of any batch and length.

    Inputs are `token_ids` and `segment_ids` int32, `padding_mask` bool, each (B, S), of multiple
    choice (B, N, S), and of `AlbertPretrainer` also `mask_positions` int32 (B, P). Rows are cut to
    the model's positions. Outputs are float32: `logits`, of a regression `value` (B,), of an
    embedder `vectors`, of a pretrainer `mlm` and `sentence`, of spans `start` and `end`; of the
    beam head what it gives, without `end`.

    A weight that several depths share is stored once. The file's metadata hold the tokenizer and
    what `keras_albert.runtime.load` needs to take strings, with neither Keras nor TensorFlow.

    Args:
        model: a task model, of any backend. Without a preprocessor the file takes ids alone.
        path: the file's. It appears under its name when it is whole.
        quantize: None keeps float32. `"float16"` stores matrices in half the bytes, and computes
            in float32. `"int8"` stores them in a quarter, with a scale for each column, and rounds
            what they are multiplied with as it comes. A pretrainer's embedding, which gives its
            logits too, stays float32.

    Returns:
        The file's path.

    Raises:
        ValueError: an argument breaks its rule, or the model cannot be written so.
        RuntimeError: the file answers otherwise than the model.
        ImportError: `onnx` and `onnxruntime` are not installed.

    Source: ONNX operators, opset 20; ONNX Runtime's guide, "Quantize ONNX models".

    Example:
    ```python
    keras_albert.export.onnx(classifier, "model.onnx")
    keras_albert.runtime.load("model.onnx").predict_classes(["not bad"])
    ```
    """
    check_task("onnx", model)
    check("onnx", "a file's path", is_path, path=path)
    check_float(model)
    check("onnx", f"one of {QUANTIZATIONS}", lambda x: x in QUANTIZATIONS, quantize=quantize)
    try:
        from onnx.checker import check_model

        from keras_albert.export.onnx_heads import make_model
    except ImportError:
        raise ImportError(
            "ONNX files are written with `pip install onnx onnxruntime`, or "
            '`pip install "keras-albert[onnx]"`'
        ) from None
    written = make_model(model, metadata(model), half=quantize == "float16")
    check_model(written, full_check=True)
    data = written.SerializeToString()
    if quantize is None:
        compare(model, data)
    elif quantize == "int8":
        data = quantized(written, tied=isinstance(model, AlbertPretrainer))
    write_whole(path, data)
    return Path(path)


def check_float(model) -> None:
    """Raise a `ValueError` for a model whose weights Keras has quantised."""
    for layer in model._flatten_layers():
        if mode := getattr(layer, "quantization_mode", None):
            raise ValueError(
                "`model` of onnx must have its weights in floating point: quantise the export "
                f"instead. Received: a model whose layer {layer.name!r} is {mode}"
            )


def metadata(model) -> dict[str, str]:
    """What is to be known of a model beside its graph; strings, as ONNX stores them."""
    about = {"task": type(model).__name__}
    about |= {name: getattr(model, name) for name in OF_MODEL if hasattr(model, name)}
    about["max_sequence_length"] = model.backbone.max_sequence_length
    preprocessor = model.preprocessor
    if preprocessor is None:
        return {SETTINGS: json.dumps(about)}
    for name in OF_PREPROCESSOR:
        if hasattr(preprocessor, name):
            about[name] = getattr(preprocessor, name)
    encoder = preprocessor.tokenizer.encoder
    about["tokenizer"] = {
        "class_name": encoder.class_name,
        "normalization": encoder.normalization,
        "fingerprint": encoder.fingerprint(),
    }
    vocabulary = base64.b64encode(encoder.vocabulary_bytes).decode("ascii")
    return {SETTINGS: json.dumps(about), VOCABULARY: vocabulary}


def quantized(written, tied: bool) -> bytes:
    """The model with matrices as 8-bit integers; a table that is tied to the logits stays whole."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        quantize_dynamic(
            written,
            path,
            op_types_to_quantize=["MatMul"] if tied else ["MatMul", "Gather"],
            per_channel=True,
            # Unsigned: sums of signed weights overflow on processors without VNNI.
            weight_type=QuantType.QUInt8,
        )
        return path.read_bytes()


def compare(model, data: bytes) -> None:
    """Raise a `RuntimeError` where the file's outputs are not the model's."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    x = probe(model, "mask_positions" in names)
    outputs = dict(
        zip([value.name for value in session.get_outputs()], session.run(None, x), strict=True)
    )
    if "start_positions" in getattr(model, "input", {}):
        x["start_positions"] = np.zeros(len(x["token_ids"]), "int32")
    expected = model(x, training=False)
    if not isinstance(expected, dict):
        expected = dict.fromkeys(outputs, expected)
    tolerance = 5e-2 if model.backbone.compute_dtype != "float32" else 1e-4
    for name, output in outputs.items():
        if name.startswith("beam_"):  # of equal probabilities any may stand first
            continue
        wanted = keras.ops.convert_to_numpy(keras.ops.cast(expected[name], "float32"))
        difference = float(np.abs(wanted.reshape(output.shape) - output).max(initial=0))
        if not difference <= tolerance * max(1.0, float(np.abs(wanted).max(initial=0))):
            raise RuntimeError(
                f"The file's {name!r} must equal the model's. They differ by {difference:.2g}"
            )


def probe(model, masks: bool) -> dict[str, np.ndarray]:
    """Inputs to compare with: rows of ids of two lengths."""
    length = min(16, model.backbone.max_sequence_length)
    size = model.backbone.vocabulary_size
    mask = np.arange(length) < np.array([[length], [length // 2]])
    ids = np.arange(2 * length).reshape(2, length) * 7919 % size
    x = {
        "token_ids": (ids * mask).astype("int32"),
        "segment_ids": (mask & (np.arange(length) > 2)).astype("int32"),
        "padding_mask": mask,
    }
    if len(model.input["token_ids"].shape) == 3:
        return {name: values[:, None] for name, values in x.items()}
    if masks:
        x["mask_positions"] = np.array([[1, 3], [1, 0]], "int32")
    return x
