"""Load an export as a server does, and compare its answers with the recorded ones.

A program of its own, `python replay.py DIRECTORY`: it imports TensorFlow, NumPy and the standard
library. Keras and this package are hidden from it, and of tensorflow-text it loads the libraries of
ops alone, as a server links them.

`assets.extra/answers.json` is a list of `{"signature", "inputs", "outputs"}`; a tensor in it is
`{"dtype", "shape", "values"}`, and strings are base64.
"""

import base64
import importlib.util
import json
import sys
from pathlib import Path

HIDDEN = ("keras", "keras_albert", "keras_hub", "tf_keras")
ANSWERS = Path("assets.extra", "answers.json")
TOLERANCE = 1e-4  # another machine, or another release of TensorFlow, adds up in another order


class Hiding:
    """A finder of modules that does not find those in `HIDDEN`."""

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        """As the finder that it is around."""
        if name.split(".")[0] in HIDDEN:
            return None
        return self.finder.find_spec(name, path, target)


def to_json(tensor):
    """A NumPy array as JSON."""
    import numpy as np

    array = np.asarray(tensor)
    values = array.ravel().tolist()
    dtype = "string" if array.dtype.kind in "OSU" else array.dtype.name
    if dtype == "string":
        values = [value.encode() if isinstance(value, str) else value for value in values]
        values = [base64.b64encode(value).decode("ascii") for value in values]
    return {"dtype": dtype, "shape": list(array.shape), "values": values}


def from_json(saved):
    """The array of `to_json`; strings are `bytes`."""
    import numpy as np

    if saved["dtype"] == "string":
        values = [base64.b64decode(value) for value in saved["values"]]
        return np.array(values, dtype=object).reshape(saved["shape"])
    return np.array(saved["values"], saved["dtype"]).reshape(saved["shape"])


def read_answers(directory):
    """The recorded calls: a list of `(signature, inputs, outputs)`, dicts of arrays."""
    calls = json.loads((Path(directory) / ANSWERS).read_text(encoding="utf-8"))
    return [
        (
            call["signature"],
            {name: from_json(value) for name, value in call["inputs"].items()},
            {name: from_json(value) for name, value in call["outputs"].items()},
        )
        for call in calls
    ]


def run(signature, inputs):
    """The outputs of a signature, as NumPy arrays."""
    import tensorflow as tf

    specs = signature.structured_input_signature[1]
    fed = {name: tf.constant(value, specs[name].dtype) for name, value in inputs.items()}
    return {name: value.numpy() for name, value in signature(**fed).items()}


def difference(outputs, expected):
    """What is wrong with outputs, as a string; "" where nothing is."""
    import numpy as np

    if set(outputs) != set(expected):
        return f"outputs {sorted(outputs)}, recorded {sorted(expected)}"
    for name, recorded in expected.items():
        value = outputs[name]
        if value.shape != recorded.shape:
            return f"{name!r} has shape {value.shape}, recorded {recorded.shape}"
        if recorded.dtype.kind != "f":
            if not np.array_equal(value, recorded):
                return f"{name!r} is {value.tolist()!r}, recorded {recorded.tolist()!r}"
        elif not np.allclose(value, recorded, rtol=TOLERANCE, atol=TOLERANCE):
            return f"{name!r} differs by {np.abs(value - recorded).max():.2g}"
    return ""


def replay(directory):
    """Raise a `ValueError` that names the first signature whose answers are others."""
    import tensorflow as tf

    loaded = tf.saved_model.load(str(directory))
    checked = []
    for name, inputs, expected in read_answers(directory):
        if name not in loaded.signatures:
            raise ValueError(f"The export has no signature {name!r}")
        if wrong := difference(run(loaded.signatures[name], inputs), expected):
            raise ValueError(f"The signature {name!r} must answer as when it was exported: {wrong}")
        checked.append(name)
    return checked


def main():
    """Hide what a server has not, load the libraries of ops, replay."""
    directory, *libraries = sys.argv[1:]
    sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
    import tensorflow as tf

    ops = Path(importlib.util.find_spec("tensorflow_text").origin).parent / "python" / "ops"
    for library in libraries:
        tf.load_op_library(str(ops / f"{library}.so"))
    try:
        checked = replay(directory)
    except (ValueError, KeyError, OSError, tf.errors.OpError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    if loaded := [name for name in HIDDEN if name in sys.modules]:
        sys.exit(f"The export was loaded with {loaded[0]}, which a server has not")
    print("\n".join(checked))


if __name__ == "__main__":
    main()
