"""From a model trained on any backend to what TensorFlow writes.

`python -m keras_albert.export.conversion MODEL.keras MODULE PATH OPTIONS` is the other process, for
models of JAX and PyTorch; OPTIONS is JSON, and MODULE has `write(model, path, **options)`.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import keras


def convert(model, module: str, path: Path, options: dict) -> None:
    """Call `write` of a module under TensorFlow: in this process, or in one for it.

    Args:
        model: a task model.
        module: the name of a module of this package, without the package's.
        path: what it writes to.
        options: what else it takes, as JSON knows it.

    Raises:
        RuntimeError: the other process failed; the message ends with its error.
    """
    if keras.backend.backend() == "tensorflow":
        write = importlib.import_module(f"keras_albert.export.{module}").write
        write(model, path, **options)
        return
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "model.keras"
        model.save(saved)
        program = "keras_albert.export.conversion"
        result = subprocess.run(
            [sys.executable, "-m", program, saved, module, path, json.dumps(options)],
            capture_output=True,
            text=True,
            env={**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
    if result.returncode:
        lines = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
        raise RuntimeError(
            "The model could not be exported under TensorFlow, which `pip install "
            f'"keras-albert[tensorflow]"` installs: {lines[-1]}'
        )


def main():
    """The other process."""
    import keras_albert  # noqa: F401 - what is in the file is registered by it

    saved, module, path, options = sys.argv[1:]
    model = keras.saving.load_model(saved, compile=False)
    convert(model, module, Path(path), json.loads(options))


if __name__ == "__main__":
    main()
