"""Files of examples: found, decoded and refused by line; written whole."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path


def refuse(path, line: int | str, rule: str, value):
    """Raise the `ValueError` of a broken row: file, line, rule, value."""
    place = f"line {line}" if isinstance(line, int) else line
    raise ValueError(f"{rule}. {path}, {place}. Received: {str(value)[:200]!r}")


def text_lines(path) -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, line) of a UTF-8 file; only a newline ends a line."""
    lines = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        try:
            yield number, line.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            bad = line[error.start : error.start + 4]
            refuse(path, number, f"Files must be UTF-8 (byte {error.start}: {error.reason})", bad)


def read_json(path):
    """The value of a whole JSON file."""
    text = "\n".join(line for _, line in text_lines(path))
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        part = text[error.pos : error.pos + 40]
        refuse(path, error.lineno, f"The file must be whole JSON ({error.msg})", part)


def json_lines(path) -> Iterator[tuple[int, dict]]:
    """Yields (line number, object) of a file with one JSON object a line."""
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            refuse(path, number, f"Every line must be a JSON object ({error.msg})", line)
        if not isinstance(row, dict):
            refuse(path, number, "Every line must be a JSON object", line)
        yield number, row


def find_file(folders: Iterable[Path], names: Iterable[str], what: str, origin: str) -> Path:
    """The first of `names` in the first of `folders` that has one."""
    folders, names = list(folders), list(names)
    for folder in folders:
        for name in names:
            if (folder / name).is_file():
                return folder / name
    raise ValueError(
        f"{what} needs the file {' or '.join(names)} (from {origin}). "
        f"Received: {folders[0]}, which has none"
    )
