"""Which files a user means by a path, a pattern, a directory, or a list of these."""

import glob
import os
from collections.abc import Iterator
from pathlib import Path


def find_files(files) -> list[Path]:
    """The files that `files` names: each once, in the order given, matches of a pattern sorted.

    Args:
        files: a path, a glob pattern (`**` included), a directory (all files below it whose names
            do not start with a dot), or a list of these. `~` is expanded.

    Returns:
        A list of `pathlib.Path`.

    Raises:
        ValueError: where a path, pattern or directory names no file.
    """
    names = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    if not names:
        raise ValueError("`files` must name at least one file. Received: an empty list")
    found: dict[Path, None] = {}
    for name in names:
        path = Path(os.path.expanduser(name))
        if path.is_dir():
            matches = sorted(_files_below(path))
        elif path.exists():
            matches = [path]
        else:
            matches = sorted(Path(p) for p in glob.glob(str(path), recursive=True))
            matches = [match for match in matches if match.is_file()]
        if not matches:
            is_text = len(str(name).split()) > 3
            hint = ", or pass documents as an iterator: `iter(documents)`" if is_text else ""
            raise ValueError(
                "Every entry of `files` must name a file, a directory with files or a pattern that "
                f"matches files{hint}. No file found for: {str(name)[:200]!r}"
            )
        found.update(dict.fromkeys(matches))
    return list(found)


def _files_below(directory: Path) -> Iterator[Path]:
    for folder, subfolders, names in os.walk(directory):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        yield from (Path(folder, name) for name in names if not name.startswith("."))


def names_files(files) -> bool:
    """Whether `files` means paths; otherwise it is an iterable of documents."""
    if isinstance(files, (str, os.PathLike)):
        return True
    if not isinstance(files, (list, tuple)):
        return False
    return all(isinstance(name, (str, os.PathLike)) for name in files)
