"""Files of a run's state: whole or not there, and checked when they are read.

A state is one `.npz` that any NumPy opens. Its name holds its step and the start of its SHA-256. It
is written beside, synced, renamed, and the directory is synced: a process or a machine that dies at
any moment leaves the states before as they were.

Needs NumPy alone. Not Orbax: it keeps neither epoch nor data position, and fails under
`MirroredStrategy`.
"""

import hashlib
import json
import os
import re
import warnings
import zipfile
from pathlib import Path

import numpy as np

NAME = re.compile(r"step-(\d+)\.([0-9a-f]{16})\.npz")
PARTIAL = "state.partial"


def write_state(directory: Path, step: int, fields: dict, arrays: dict) -> Path:
    """Writes one state; it appears under its name only when it is whole and on the disk.

    Args:
        directory: an existing directory.
        step: in the name; states are ordered by it.
        fields: of JSON.
        arrays: NumPy arrays by name.

    Returns:
        The file's path.

    Raises:
        OSError: where it cannot be written; what was there before stays.
    """
    beside = Path(directory, PARTIAL)
    stored, dtypes = {}, {}
    for name, array in arrays.items():
        if array.dtype.isbuiltin != 1:  # bfloat16 and the like, which .npz does not know
            dtypes[name] = array.dtype.name
            array = array.view(f"u{array.itemsize}")
        stored[name] = array
    text = json.dumps({**fields, "step": step, "dtypes": dtypes})
    try:
        with open(beside, "w+b") as file:
            np.savez(file, fields=np.frombuffer(text.encode(), "uint8"), **stored)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    path = Path(directory, f"step-{step:09d}.{digest}.npz")
    os.replace(beside, path)
    _sync(directory)
    for other in list_states(directory):
        if _step(other) == step and other != path:  # the same step of an earlier try
            other.unlink()
    return path


def read_state(path: Path) -> tuple[dict, dict]:
    """Reads `(fields, arrays)`.

    Raises:
        ValueError: where the contents are not those that the name's checksum belongs to.
    """
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        if digest != NAME.fullmatch(path.name)[2]:
            raise ValueError(f"{path} is damaged: its SHA-256 begins with {digest}")
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as members:
                arrays = dict(members)
            fields = json.loads(arrays.pop("fields").tobytes())
        except (KeyError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is no state of a run: {error}") from None
    dtypes = fields.pop("dtypes")
    if dtypes:
        import ml_dtypes

        for name, dtype in dtypes.items():
            arrays[name] = arrays[name].view(getattr(ml_dtypes, dtype))
    return fields, arrays


def list_states(directory: Path) -> list[Path]:
    """Paths of the states of a directory, the newest first."""
    paths = [path for path in Path(directory).glob("step-*.npz") if NAME.fullmatch(path.name)]
    return sorted(paths, key=_step, reverse=True)


def read_newest(directory: Path) -> tuple[dict, dict, Path] | None:
    """Reads the newest state that is whole, with a warning that names those that are not.

    Returns:
        `(fields, arrays, path)`, or None where there is no state.

    Raises:
        ValueError: where there are states and none of them is whole.
    """
    damaged = []
    for path in list_states(directory):
        try:
            fields, arrays = read_state(path)
        except ValueError as error:
            damaged.append(str(error))
            continue
        if damaged:
            warnings.warn(f"{'; '.join(damaged)}. Going on from {path}, before it.", stacklevel=2)
        return fields, arrays, path
    if damaged:
        raise ValueError(
            "A run goes on from a state that is whole: restore one, or start in another directory. "
            f"Received: {'; '.join(damaged)}"
        )
    return None


def prune_states(directory: Path, keep: int, keep_every: int | None, also: int | None = None):
    """Deletes all but the newest `keep`, the multiples of `keep_every`, and the step `also`."""
    for path in list_states(directory)[keep:]:
        step = _step(path)
        if step != also and not (keep_every and step % keep_every == 0):
            path.unlink()


def _step(path: Path) -> int:
    return int(NAME.fullmatch(path.name)[1])


def _sync(directory: Path):
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
