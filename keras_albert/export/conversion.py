"""From a model trained on any backend to a SavedModel: written under TensorFlow.

`python -m keras_albert.export.conversion MODEL.keras DIRECTORY OPTIONS` is the other process, for
models of JAX and PyTorch; OPTIONS is JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import keras


def convert(model, directory: Path, options: dict) -> None:
    """Write a model's SavedModel to a directory, in this process or in one under TensorFlow.

    Raises:
        RuntimeError: the other process failed; the message ends with its error.
    """
    if keras.backend.backend() == "tensorflow":
        from keras_albert.export.writing import write

        write(model, directory, **options)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        module = "keras_albert.export.conversion"
        result = subprocess.run(
            [sys.executable, "-m", module, path, directory, json.dumps(options)],
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
    from keras_albert.export.writing import write

    path, directory, options = sys.argv[1:]
    write(keras.saving.load_model(path, compile=False), Path(directory), **json.loads(options))


if __name__ == "__main__":
    main()
