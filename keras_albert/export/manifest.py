"""What an export consists of: every file's size and SHA-256, and the fingerprint of its vocabulary.

The standard library alone, so that an export is checked where nothing else is installed.
"""

import hashlib
import json
import os
from pathlib import Path

EXTRA = "assets.extra"  # what TensorFlow Serving leaves alone
FILES = "files.json"
ABOUT = "about.json"


def write_manifest(directory: str | os.PathLike) -> None:
    """List every file below `directory` in `assets.extra/files.json`."""
    directory = Path(directory)
    files = {
        path.relative_to(directory).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": _digest(path),
        }
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
    path = directory / EXTRA / FILES
    path.write_text(json.dumps(files, indent=2) + "\n", encoding="utf-8")


def read_about(directory: str | os.PathLike) -> dict:
    """What `assets.extra/about.json` says of the export.

    Raises:
        ValueError: the directory is no export, or the file is damaged.
    """
    return _read(Path(directory), ABOUT)


def check_manifest(directory: str | os.PathLike) -> None:
    """Raise a `ValueError` that names a file that is missing, cut short, changed or added.

    A vocabulary that is not the one of the fingerprint is named as such, whatever the list says.
    """
    directory = Path(directory)
    listed = _read(directory, FILES)
    about = read_about(directory)
    try:
        _check_vocabulary(directory, about["vocabulary"])
        expected = [(name, file["bytes"], file["sha256"]) for name, file in listed.items()]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{FILES} and {ABOUT} of an export must be those that were written. Received: "
            f"{directory / EXTRA}, where something is missing in them: {error!r}"
        ) from None
    for name, written, digest in expected:
        path = directory / name
        if not path.is_file():
            raise ValueError(f"An export must be whole. Received: {path} is missing")
        size = path.stat().st_size
        if size != written:
            how = "cut short" if size < written else "too long"
            raise ValueError(
                f"An export must be whole. Received: {path} is {how}, with {size:,} of "
                f"{written:,} bytes"
            )
        if _digest(path) != digest:
            raise ValueError(
                "An export's files must be those that were written. "
                f"Received: {path} has other content"
            )
    found = (path for path in directory.rglob("*") if path.is_file())
    names = {path.relative_to(directory).as_posix() for path in found}
    added = sorted(names - set(listed) - {f"{EXTRA}/{FILES}"})
    if added:
        raise ValueError(
            f"An export's files must be those that were written. Received also: {added[0]}"
        )


def fingerprint(class_name: str, normalization: dict, vocabulary: bytes) -> str:
    """As `keras_albert.AlbertTokenizer.fingerprint`: the same, the same ids."""
    settings = json.dumps([class_name, normalization], sort_keys=True)
    return hashlib.sha256(settings.encode() + vocabulary).hexdigest()


def _check_vocabulary(directory, said):
    path = directory / EXTRA / said["file"]
    if not path.is_file():
        raise ValueError(f"An export must be whole. Received: {path} is missing")
    found = fingerprint(said["class_name"], said["normalization"], path.read_bytes())
    if found != said["fingerprint"]:
        raise ValueError(
            f"The vocabulary must be the one that the model was exported with, fingerprint "
            f"{said['fingerprint'][:12]}. Received: {path}, fingerprint {found[:12]}"
        )


def _read(directory, name):
    path = directory / EXTRA / name
    if not path.is_file():
        raise ValueError(
            "The directory must be an export of keras_albert.export.saved_model. "
            f"Received: {directory}, where {path} is missing"
        )
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} must be JSON. Received: {error}") from None


def _digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
