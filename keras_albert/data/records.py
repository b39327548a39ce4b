"""Records with a field of text: JSON lines, Parquet, rows of Python objects."""

import json
from collections.abc import Iterator, Mapping

from keras_albert.data import formats
from keras_albert.data.formats import Skipped, StoredFile

ROWS = 64  # of Parquet, at a time


def json_lines(file: StoredFile, field: str, skipped: Skipped | None) -> Iterator[str | list[str]]:
    """Yields the text of each line's JSON object; empty lines mean nothing."""
    for number, line in _lines(file.chunks()):
        try:
            text = _from_json(line, number, field)
        except (ValueError, RecursionError) as error:
            formats.refuse(skipped, "records", f"{file.path}, line {number}: {error}")
            continue
        if text:
            yield text


def _from_json(line: bytes | None, number: int, field: str) -> str | list[str] | None:
    if line is None:
        raise ValueError(f"a line of JSON must be no longer than {formats.RECORD_BYTES:,} bytes")
    if not line.strip():
        return None
    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"a line must be a JSON object ({error.msg}, at character {error.pos} of the line)"
        ) from None
    if not isinstance(record, dict):
        raise ValueError(f"a line must be a JSON object. Received: {text[:100]!r}")
    return field_text(record, field)


def _lines(chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Yields (number from 1, line), with None for a line that is too long to be held."""
    number, rest, too_long = 1, b"", False
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield number, None if too_long or len(line) > formats.RECORD_BYTES else line
            number, too_long = number + 1, False
        if len(rest) > formats.RECORD_BYTES:
            rest, too_long = b"", True
    if rest or too_long:
        yield number, None if too_long else rest


def parquet_rows(
    file: StoredFile, field: str, skipped: Skipped | None
) -> Iterator[str | list[str]]:
    """Yields the text of each row; `file.position` moves with the rows."""
    if file.compression:
        raise formats.BrokenFileError(
            f"Parquet is compressed inside, and its file must not be compressed again: {file.path}"
        )
    parquet = formats.load("pyarrow.parquet", "Reading Parquet")
    size, row = file.path.stat().st_size, 0
    try:
        with parquet.ParquetFile(
            file.path, buffer_size=formats.CHUNK_BYTES, page_checksum_verification=True
        ) as table:
            if field not in table.schema_arrow.names:
                raise formats.BrokenFileError(
                    f"`text_field` must be one of the columns. {file.path}: received {field!r}; "
                    f"columns: {table.schema_arrow.names}"
                )
            for batch in table.iter_batches(ROWS, columns=[field]):
                for value in batch.column(0):
                    file.position = size * (row + 1) // table.metadata.num_rows
                    try:
                        text = as_text(value.as_py())
                    except ValueError as error:
                        formats.refuse(
                            skipped, "records", f"{file.path}, row {row} (from 0): {error}"
                        )
                        text = None
                    row += 1
                    if text:
                        yield text
    except (OSError, formats.load("pyarrow", "Reading Parquet").ArrowException) as error:
        if getattr(error, "errno", None):
            raise  # the disk, not the data
        raise formats.BrokenFileError(
            f"A file whose name ends in .parquet must be whole. {file.path}, after {row} rows: "
            f"{error}"
        ) from None


def field_text(record: Mapping, field: str) -> str | list[str]:
    """The text of a record; a `ValueError` says what is wrong, the caller says where."""
    if field not in record:
        raise ValueError(
            f"`text_field` must be one of the record's fields. Received: {field!r}; "
            f"fields: {list(record)[:20]}"
        )
    return as_text(record[field])


def as_text(value) -> str | list[str]:
    """A string, or a list of sentences, from what libraries of data give for these."""
    if isinstance(value, (str, bytes)):
        return _as_string(value)
    if hasattr(value, "tolist"):  # NumPy's arrays
        value = value.tolist()
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, (str, bytes)) for v in value):
        raise ValueError(
            f"a text must be a string or a list of strings. Received: {str(value)[:100]!r}"
        )
    return [_as_string(v) for v in value]


def _as_string(value: str | bytes) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8")
    value.encode("utf-8")  # half a surrogate pair, which JSON can hold, is no text
    return value
