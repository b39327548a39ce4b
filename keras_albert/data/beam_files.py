"""Files of a distributed preparation: on a shared file system, or in an object store.

A name with `://` is an object's (`gs://`, `s3://`, `hdfs://`) and goes through Beam's
`FileSystems`; ArrayRecord and the readers need files, so objects are copied from and to a temporary
directory. Every other name is a path.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from keras_albert.data import manifest as manifests
from keras_albert.data.formats import load
from keras_albert.data.preparation import TOKENIZER
from keras_albert.preprocessing.files import find_files

ATTEMPT = ".attempt-"  # starts the name of a directory that one attempt of a worker writes into


def is_object(name: str | os.PathLike) -> bool:
    """Whether a name is of an object store."""
    return "://" in os.fspath(name)


def find_inputs(files) -> list[tuple[str, str, int]]:
    """The (name, its last part, size in bytes) of input files, in `find_files`'s order.

    Raises:
        ValueError: where an entry of `files` names nothing.
    """
    names = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    if not any(map(is_object, names)):
        return [(str(path), path.name, path.stat().st_size) for path in find_files(names)]
    found = {}
    for name in map(os.fspath, names):
        if not is_object(name):
            matches = [(str(path), path.stat().st_size) for path in find_files(name)]
        else:
            matches = sorted(_match(name))
        if not matches:
            raise ValueError(
                f"Every entry of `files` must name a file. No object found for: {name!r}"
            )
        found.update(matches)
    return [(path, path.rpartition("/")[2], size) for path, size in found.items()]


@contextlib.contextmanager
def local_file(name: str) -> Iterator[Path]:
    """A file to read; for an object, a copy for as long as it is needed."""
    if not is_object(name):
        yield Path(name)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, name.rpartition("/")[2])
        with _file_systems().open(name, compression_type=_as_it_is()) as source:
            with open(path, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        try:
            yield path
        except ValueError as error:  # the copy means nothing to who reads the message
            raise ValueError(str(error).replace(str(path), name)) from error


@contextlib.contextmanager
def published(directory: str) -> Iterator[Path]:
    """A directory of this attempt alone, whose files then appear in `directory`, each in one step.

    An attempt that fails leaves nothing, and one that is repeated replaces equal bytes.
    """
    if is_object(directory):
        with tempfile.TemporaryDirectory() as beside:
            yield Path(beside)
            for path in _index_first(beside):
                target = f"{directory}/{path.name}"
                # A store shows an object only when its writer is closed.
                with _file_systems().create(target, compression_type=_as_it_is()) as file:
                    with open(path, "rb") as source:
                        shutil.copyfileobj(source, file, 1 << 20)
        return
    os.makedirs(directory, exist_ok=True)
    beside = tempfile.mkdtemp(prefix=ATTEMPT, dir=directory)
    try:
        os.chmod(beside, 0o755)
        yield Path(beside)
        for path in _index_first(beside):
            os.replace(path, Path(directory, path.name))
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _index_first(directory: str) -> list[Path]:
    """A shard's index, then the shard: where it is, its index is too."""
    return sorted(Path(directory).iterdir(), reverse=True)


def clear_objects(output: str, directories: list[str], overwrite: bool):
    """Removes what an earlier preparation left in an object store, and no more.

    Raises:
        ValueError: for a corpus that is whole, when not `overwrite`.
    """
    whole = _match(f"{output}/{manifests.FILE_NAME}")
    if whole and not overwrite:
        raise ValueError(
            "`output` must not hold a corpus already. Pass `overwrite=True` to replace it, or name "
            f"another directory. Received: {output!r}"
        )
    _delete(whole)  # first: no longer whole
    for directory in directories:
        for pattern in (manifests.FILE_NAME, "shard-*", f"{TOKENIZER}/*"):
            _delete(_match(f"{directory}/{pattern}"))


def _match(pattern: str) -> list[tuple[str, int]]:
    (result,) = _file_systems().match([pattern])
    return [(found.path, found.size_in_bytes) for found in result.metadata_list]


def _delete(found: list[tuple[str, int]]):
    if found:
        _file_systems().delete([name for name, _ in found])


def _file_systems():
    return load("apache_beam.io.filesystems", "An object store").FileSystems


def _as_it_is():
    return load("apache_beam.io.filesystem", "An object store").CompressionTypes.UNCOMPRESSED
