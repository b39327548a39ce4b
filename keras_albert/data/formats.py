"""From stored files to their bytes: which format and compression, and what to do about damage.

Everything is a stream. A file that breaks off or was damaged ends in an error, never in fewer
documents. What the bytes mean is for `lines`, `records` and `wikipedia` to say.
"""

import dataclasses
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

CHUNK_BYTES = 1 << 20  # read, and handed on, at a time
RECORD_BYTES = 64 << 20  # a longer record is refused, so that memory stays bounded
MESSAGES = 10  # of `Skipped`, kept in full

_STORED_BYTES = 1 << 16  # of a compressed file, decompressed at a time
_COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
_JSON_LINES = re.compile(r"\.(jsonl|ndjson|json)$")
_XML = re.compile(r"\.xml(-\w+)*$")  # also "enwiki-latest-pages-articles1.xml-p1p41242"


@dataclasses.dataclass
class Skipped:
    """What was left out while reading with `on_error="skip"`.

    Attributes:
        counts: how many of each kind: `"lines"` of text, `"records"` (a line of JSON, a row of
            Parquet, an article, a document of an iterable), `"files"` that could not be read, or
            not to their end.
        first: the first ten messages.
    """

    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    first: list[str] = dataclasses.field(default_factory=list)

    def add(self, kind: str, message: str) -> None:
        """Counts one, and keeps its message if it is among the first."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if len(self.first) < MESSAGES:
            self.first.append(message)

    def as_dict(self) -> dict:
        """For JSON: `{"counts": {...}, "first": [...]}`."""
        return dataclasses.asdict(self)


class BrokenFileError(ValueError):
    """A file that cannot be read, or not beyond the place that the message names."""


def refuse(skipped: Skipped | None, kind: str, message: str) -> None:
    """Counts bad data where it may be skipped; raises a `ValueError` where it may not."""
    if skipped is None:
        raise ValueError(message)
    skipped.add(kind, message)


def load(name: str, purpose: str):
    """A library of the extra `prepare`, imported only where it is needed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(
            f'{purpose} needs the library `{name}`: pip install "keras-albert[prepare]"'
        ) from None


class StoredFile:
    """A file as it is stored, perhaps compressed, read from its beginning to its end.

    Attributes:
        path: `pathlib.Path`.
        compression: the suffix that says so, or `""`.
        kind: `"json"`, `"parquet"`, `"xml"`, `"markdown"` or `"text"`, by the suffix before it.
        position: bytes of the file read so far.
    """

    def __init__(self, path: Path):
        name = path.name.lower()
        self.path = path
        self.compression = path.suffix.lower() if name.endswith(_COMPRESSIONS) else ""
        self.kind = _kind(name.removesuffix(self.compression))
        self.position = 0

    def chunks(self) -> Iterator[bytes]:
        """Yields the bytes, uncompressed, about `CHUNK_BYTES` at a time.

        Raises:
            BrokenFileError: for compressed data that is damaged or ends too early, after all
                that comes before has been yielded.
        """
        held, size = [], 0
        with open(self.path, "rb") as file:
            try:
                for piece in _pieces(file, self.compression):
                    self.position = file.tell()
                    held.append(piece)
                    size += len(piece)
                    if size >= CHUNK_BYTES:
                        yield b"".join(held)
                        held, size = [], 0
            except _DamageError as error:
                if held:
                    yield b"".join(held)
                raise BrokenFileError(
                    f"A file whose name ends in {self.compression} must hold whole compressed "
                    f"data. {self.path}, at or before byte {file.tell()}: {error}"
                ) from None
        if held:
            yield b"".join(held)


def _kind(name: str) -> str:
    if _JSON_LINES.search(name):
        return "json"
    if _XML.search(name):
        return "xml"
    return {".parquet": "parquet", ".md": "markdown"}.get(Path(name).suffix, "text")


class _DamageError(Exception):
    """One exception for what each library of compression raises."""


def _pieces(file, compression: str) -> Iterator[bytes]:
    if not compression:
        while piece := file.read(CHUNK_BYTES):
            yield piece
        return
    pieces, errors = _decompressed(file, compression)
    try:
        yield from pieces
    except (EOFError, *errors) as error:
        if isinstance(error, OSError) and error.errno:
            raise  # the disk, not the data
        raise _DamageError(error) from None
    if not file.tell():
        raise _DamageError("the file is empty")


def _decompressed(file, compression: str) -> tuple[Iterator[bytes], tuple]:
    """Gives (pieces of at most `CHUNK_BYTES`, exceptions that damaged data raises)."""
    if compression == ".gz":
        import gzip
        import zlib

        stream = gzip.GzipFile(fileobj=file)
        return iter(lambda: stream.read1(CHUNK_BYTES), b""), (OSError, zlib.error)
    if compression == ".bz2":
        import bz2

        return _streams(file, bz2.BZ2Decompressor), (OSError,)
    if compression == ".xz":
        import lzma

        return _streams(file, lzma.LZMADecompressor), (lzma.LZMAError,)
    try:
        from compression import zstd  # Python 3.14; before that the same module by another name
    except ImportError:
        zstd = load("backports.zstd", "Reading .zst files")
    return _streams(file, zstd.ZstdDecompressor), (zstd.ZstdError,)


def _streams(file, make) -> Iterator[bytes]:
    """Decompresses a file of one or more streams, as parallel compressors and dumps write them.

    `bz2.open` and `lzma.open` take a damaged second stream for rubbish after the first and end
    there without a word. Here only zeros may follow a stream, as padding, or another stream.
    """
    stream, data = None, b""
    while True:
        if not data and (stream is None or stream.needs_input):
            data = file.read(_STORED_BYTES)
            if not data:
                break
        if stream is None:
            data = data.lstrip(b"\0")
            if not data:
                continue
            stream = make()
        piece, data = stream.decompress(data, CHUNK_BYTES), b""
        if stream.eof:
            stream, data = None, stream.unused_data
        if piece:
            yield piece
    if stream is not None:
        raise EOFError("the file ends inside the compressed data")
