"""Released `.tar.gz` and `.zip` files: what a checkpoint needs of them, unpacked flat, bounded."""

import contextlib
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

_WANTED = re.compile(
    r"(?:albert|bert)_config\.json|[\w.-]+\.index|[\w.-]+\.data-\d{5}-of-\d{5}|[\w.-]+\.model"
    r"|vocab\.txt"
)
# Weights hardly compress; an archive that unpacks to much more than it is holds no weights.
_MAX_RATIO = 10
_SLACK = 1 << 26
_MAX_MEMBERS = 10_000


class _Member(NamedTuple):
    name: str
    size: int
    is_file: bool
    is_folder: bool
    open: Callable[[], BinaryIO]


def is_archive(path: Path) -> bool:
    """Whether a file is one that `unpack` reads, by its content."""
    return tarfile.is_tarfile(path) or (path.suffix == ".zip" and zipfile.is_zipfile(path))


def unpack(archive: Path, directory: Path) -> None:
    """Unpack the files of a checkpoint into a directory, without their folders.

    Raises:
        ValueError: the archive is broken, or has a member that leads outside, is a link or a
            device, or unpacks to far more than the archive's size.
    """
    limit = _MAX_RATIO * archive.stat().st_size + _SLACK
    try:
        with contextlib.closing(_members(archive)) as members:
            for count, member in enumerate(members):
                _check(member, archive)
                limit -= member.size
                if limit < 0 or count >= _MAX_MEMBERS:
                    raise ValueError(
                        f"An archive of weights must not unpack to more than {_MAX_RATIO} times "
                        f"its size. Received: {archive}, at {member.name!r}"
                    )
                name = PurePosixPath(member.name).name
                if member.is_file and _WANTED.fullmatch(name):
                    target = directory / name
                    if target.exists():
                        raise ValueError(
                            "An archive must hold one checkpoint: unpack it, and pass the folder. "
                            f"Received: {archive} with {name!r} twice"
                        )
                    with member.open() as source, target.open("wb") as file:
                        shutil.copyfileobj(source, file)
    # A RuntimeError is a password's, or a compression that zipfile does not know.
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,
    ) as error:
        raise ValueError(
            "An archive must be a whole `.tar`, `.tar.gz` or `.zip`, without a password. "
            f"Received: {archive}: {error}"
        ) from error


def _members(archive: Path) -> Iterator[_Member]:
    # In this order: a tar of stored zips is a tar.
    if tarfile.is_tarfile(archive):
        with tarfile.open(archive, "r:*") as tar:
            for info in tar:
                yield _Member(
                    info.name,
                    info.size,
                    info.isfile(),
                    info.isdir(),
                    lambda info=info: tar.extractfile(info),
                )
        return
    with zipfile.ZipFile(archive) as zipped:
        for info in zipped.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where the writer knew no such thing
            yield _Member(
                info.filename,
                info.file_size,
                not info.is_dir() and kind in (0, stat.S_IFREG),
                info.is_dir(),
                lambda info=info: zipped.open(info),
            )


def _check(member: _Member, archive: Path) -> None:
    path = PurePosixPath(member.name)
    inside = not path.is_absolute() and ".." not in path.parts and "\\" not in member.name
    if not inside or not (member.is_file or member.is_folder):
        raise ValueError(
            "An archive must hold plain files and folders, with paths that stay inside. "
            f"Received: {member.name!r} in {archive}"
        )
