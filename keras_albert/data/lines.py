"""The lines of a file of plain text, read in large blocks: a call a line would be slow."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from keras_albert.data import formats
from keras_albert.data.formats import Skipped, StoredFile

LINE_BYTES = 1 << 20  # a longer line is cut, at a space where there is one


def text_lines(file: StoredFile, skipped: Skipped | None) -> Iterator[list[str]]:
    """Yields lines, many at a time; over-long lines come in pieces."""
    number = 1
    for block in _blocks(file.chunks()):
        if number == 1:
            block = block.removeprefix(b"\xef\xbb\xbf")  # a byte order mark
        try:
            lines = block.decode("utf-8").split("\n")
        except UnicodeDecodeError:
            lines = list(_decoded_lines(block, file.path, number, skipped))
        if block.endswith(b"\n"):
            lines.pop()  # what follows the last line end is no line
        yield lines
        number += block.count(b"\n")


def cut_lines(text: str) -> Iterator[str]:
    """Yields the lines of a text that is in memory, cut where those of a file would be."""
    for block in _blocks([text.encode()]):
        yield from block.decode().split("\n")


def _blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cuts a stream of bytes into blocks of whole lines, and pieces of lines that are too long.

    Where a line is cut depends on the line alone, not on how the bytes arrive.
    """
    held, limit = b"", LINE_BYTES
    for part in _parts(chunks):  # so short that only the first line of `held` can be too long
        held += part
        while len(held) >= limit and held.find(b"\n", 0, limit) < 0:
            piece, rest = _cut(held[:limit])
            yield piece
            held, limit = rest + held[limit:], len(rest) + LINE_BYTES
        if end := held.rfind(b"\n") + 1:
            yield held[:end]
            held, limit = held[end:], LINE_BYTES
    if held:
        yield held


def _parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), LINE_BYTES):
            yield chunk[start : start + LINE_BYTES]


def _cut(line: bytes) -> tuple[bytes, bytes]:
    """Cuts an over-long line after its last space, or else before its last character."""
    end = line.rfind(b" ") + 1 or len(line) - 1
    while 1 < end < len(line) and line[end] & 0xC0 == 0x80:
        end -= 1  # never inside a UTF-8 character
    return line[:end], line[end:]


def _decoded_lines(block: bytes, path: Path, number: int, skipped: Skipped | None) -> Iterator[str]:
    """Yields the lines of a block in which some are not UTF-8."""
    for line in block.split(b"\n"):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            formats.refuse(
                skipped,
                "lines",
                f"Text files must be UTF-8. {path}, line {number}: {error.reason} "
                f"({line[error.start : error.start + 4]!r} at byte {error.start} of the line)",
            )
        number += 1
