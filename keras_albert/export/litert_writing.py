"""A task model's LiteRT file, written under TensorFlow.

Imported only where TensorFlow is Keras' backend.
"""

import contextlib
import tempfile
import warnings
from pathlib import Path

import numpy as np
import tensorflow as tf

TOLERANCE = 1e-4


def write(model, path: Path, length: int, quantize, representative) -> None:
    """Write the file, and compare its answers with the model's where they are not quantised."""
    function = make_function(model, length)
    holder = tf.Module()
    holder.variables_ = [weight.value for weight in model.weights]
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(holder, folder, signatures={"serving_default": function})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        if quantize:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if representative:
            x = dict(np.load(representative))
            count = len(x["token_ids"])
            converter.representative_dataset = lambda: (
                {name: values[i : i + 1] for name, values in x.items()} for i in range(count)
            )
        with quiet():
            data = converter.convert()
    if not quantize:
        compare(function, data, length)
    path.write_bytes(data)


@contextlib.contextmanager
def quiet():
    """Without TensorFlow's note that its interpreter will be a package of its own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Interpreter is deprecated", UserWarning)
        yield


def make_function(model, length):
    """The model as a concrete function of ids, with the names of the ONNX export."""
    specs = {
        name: tf.TensorSpec([None] * (tensor.ndim - 1) + [length], tensor.dtype, name)
        for name, tensor in model.input.items()
        if name != "start_positions"
    }
    if "mask_positions" in specs:
        specs["mask_positions"] = tf.TensorSpec([None, None], tf.int32, "mask_positions")
    is_beam = "start_positions" in model.input
    name = "vectors" if hasattr(model, "pooling") else "logits"
    if getattr(model, "num_classes", None) == 1 and not model.same_length:
        name = "value"

    def answer(**x):
        if is_beam:
            x["start_positions"] = tf.zeros([tf.shape(x["token_ids"])[0]], tf.int32)
        outputs = model(x, training=False)
        if not isinstance(outputs, dict):
            return {name: outputs[:, 0] if name == "value" else outputs}
        if is_beam:  # what depends on the true start
            outputs = {key: value for key, value in outputs.items() if key != "end"}
        return outputs

    return tf.function(answer, autograph=False).get_concrete_function(**specs)


def compare(function, data: bytes, length) -> None:
    """Raise a `RuntimeError` where the file's outputs are not the function's."""
    with quiet():
        runner = tf.lite.Interpreter(model_content=data).get_signature_runner()
    x = probe(function.structured_input_signature[1], length)
    outputs = runner(**x)
    expected = function(**{name: tf.constant(values) for name, values in x.items()})
    for name, value in expected.items():
        if name.startswith("beam_"):  # of equal probabilities any may stand first
            continue
        difference = float(np.abs(outputs[name] - value.numpy()).max())
        if not difference <= TOLERANCE * max(1.0, float(np.abs(value).max())):
            raise RuntimeError(
                f"The file's {name!r} must equal the model's. They differ by {difference:.2g}"
            )


def probe(specs, length) -> dict[str, np.ndarray]:
    """Inputs to compare with: rows of two lengths."""
    shape = (2, length) if specs["token_ids"].shape.rank == 2 else (2, 1, length)
    mask = np.arange(length) < np.array([length, length // 2]).reshape(-1, *[1] * (len(shape) - 1))
    x = {
        "token_ids": (np.arange(2 * length).reshape(shape) % 5 * mask).astype("int32"),
        "segment_ids": (mask & (np.arange(length) > 2)).astype("int32"),
        "padding_mask": mask,
    }
    if "mask_positions" in specs:
        x["mask_positions"] = np.array([[1, 3], [1, 0]], "int32")
    return x
