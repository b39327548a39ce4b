"""Released `.tar.gz` archives: the few files that a checkpoint needs, unpacked flat and bounded."""

import re
import shutil
import tarfile
from pathlib import Path, PurePosixPath

_WANTED = re.compile(
    r"(?:albert|bert)_config\.json|[\w.-]+\.index|[\w.-]+\.data-\d{5}-of-\d{5}|[\w.-]+\.model"
    r"|vocab\.txt"
)
# Weights hardly compress; an archive that unpacks to much more than it is holds no weights.
_MAX_RATIO = 10
_SLACK = 1 << 26
_MAX_MEMBERS = 10_000


def unpack(archive: Path, directory: Path) -> None:
    """Unpack the files of a checkpoint into a directory, without their folders.

    Raises:
        ValueError: the archive is broken, or has a member that leads outside, is a link or a
            device, or unpacks to far more than the archive's size.
    """
    limit = _MAX_RATIO * archive.stat().st_size + _SLACK
    try:
        with tarfile.open(archive, "r:*") as tar:
            for count, member in enumerate(tar):
                _check(member, archive)
                limit -= member.size
                if limit < 0 or count >= _MAX_MEMBERS:
                    raise ValueError(
                        f"An archive of weights must not unpack to more than {_MAX_RATIO} times "
                        f"its size. Received: {archive}, at {member.name!r}"
                    )
                name = PurePosixPath(member.name).name
                if member.isfile() and _WANTED.fullmatch(name):
                    target = directory / name
                    if target.exists():
                        raise ValueError(
                            "An archive must hold one checkpoint: unpack it, and pass the folder. "
                            f"Received: {archive} with {name!r} twice"
                        )
                    with tar.extractfile(member) as source, target.open("wb") as file:
                        shutil.copyfileobj(source, file)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(
            f"An archive must be a whole `.tar` or `.tar.gz`. Received: {archive}: {error}"
        ) from error


def _check(member: tarfile.TarInfo, archive: Path) -> None:
    path = PurePosixPath(member.name)
    inside = not path.is_absolute() and ".." not in path.parts and "\\" not in member.name
    if not inside or not (member.isfile() or member.isdir()):
        raise ValueError(
            "An archive must hold plain files and folders, with paths that stay inside. "
            f"Received: {member.name!r} in {archive}"
        )
