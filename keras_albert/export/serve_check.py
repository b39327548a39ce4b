"""serve_check: is an export whole, and does it answer without Keras and without this package?"""

import os
import subprocess
import sys
from pathlib import Path

from keras_albert.arguments import check, is_path
from keras_albert.export.allowed_ops import TEXT_OPS
from keras_albert.export.manifest import check_manifest, read_about


def serve_check(directory: str | os.PathLike) -> dict:
    """Check an export as a server meets it.

    Its files are compared with the list that was written with them. Then a process of its own, with
    TensorFlow and the ops of tensorflow-text but neither Keras nor this package, loads it, runs
    every signature on the recorded inputs and compares the answers.

    Args:
        directory: a version directory that `saved_model` wrote.

    Returns:
        A dict of what the export says of itself: task, signatures, labels, versions, vocabulary.

    Raises:
        ValueError: a file is missing, cut short or changed, the vocabulary is another, or a
            signature answers otherwise; the message names it.

    Example:
    >>> keras_albert.export.serve_check("served/1")["task"]
    'AlbertTextClassifier'
    """
    check("serve_check", "a directory's path", is_path, directory=directory)
    directory = Path(directory)
    if not directory.is_dir():
        raise ValueError(
            f"`directory` must be an export. Received: no directory {str(directory)!r}"
        )
    check_manifest(directory)
    program = Path(__file__).with_name("replay.py")
    command = [sys.executable, "-P", program, directory, *sorted(set(TEXT_OPS.values()))]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"},
    )
    if result.returncode:
        lines = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
        raise ValueError(f"An export must load and answer. Received: {directory}: {lines[-1]}")
    return read_about(directory)
