"""Shards: records in ArrayRecord files, each with an index beside it.

`shard-00000.array_record` holds the records; `shard-00000.index` holds a row (tokens, document) of
little-endian uint32 numbers for each, so that a reader knows every length without opening the
shard. A shard appears under its name only when whole. Until then its records are in
`shard-00000.journal`, a plain file that a preparation can be continued from.
"""

import array
import contextlib
import hashlib
import os
import struct
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from keras_albert.data.token_records import decode_record

# One record a chunk, so that reading one reads no other. Uncompressed: ids are dense already
# (zstd saves a fifth), and the bytes then do not depend on a compressor's version.
WRITER_OPTIONS = "group_size:1,uncompressed"
PARTIAL = ".partial"
_FRAME = struct.Struct("<III")  # bytes of the record, its tokens, its document


def read_index(path: str | os.PathLike) -> np.ndarray:
    """The (records, 2) uint32 array of (tokens, document) beside a shard."""
    return np.fromfile(path, "<u4").reshape(-1, 2)


def sha256(path: str | os.PathLike) -> str:
    """The file's SHA-256 as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_shard(
    directory: str | os.PathLike, number: int, records: Iterable[tuple[bytes, int, int]]
) -> dict:
    """Writes a shard and its index.

    Args:
        directory: an existing directory.
        number: of the shard, from 0.
        records: (record, its number of tokens, number of its document).

    Returns:
        The manifest's entry: `name`, `num_records`, `num_tokens`, `num_bytes`, `sha256`,
        `index_sha256`.
    """
    from array_record.python.array_record_module import ArrayRecordWriter

    path = Path(directory, f"shard-{number:05d}.array_record")
    index = path.with_suffix(".index")
    writer = ArrayRecordWriter(str(path) + PARTIAL, WRITER_OPTIONS)
    rows = array.array("I")  # tokens, document, tokens, document, ...
    for record, tokens, document in records:
        writer.write(record)
        rows.extend((tokens, document))
    writer.close()
    rows = np.array(rows, "<u4").reshape(-1, 2)
    rows.tofile(str(index) + PARTIAL)
    for whole in (index, path):  # the shard last: where it is, its index is too
        _rename_when_stored(Path(str(whole) + PARTIAL), whole)
    return {
        "name": path.name,
        "num_records": len(rows),
        "num_tokens": int(rows[:, 0].sum(dtype="int64")),
        "num_bytes": path.stat().st_size,
        "sha256": sha256(path),
        "index_sha256": sha256(index),
    }


class ShardWriter:
    """Writes records into shard after shard of a directory, so that it can be continued.

    Args:
        directory: an existing directory.
        shard_tokens: a shard is full once it holds at least so many tokens.
        state: what `state()` returned, to continue from there; None starts afresh.

    Write records, `close_shard` where `full`, and at the end. After a crash, give a new writer the
    last `state()`: what was written since is dropped, what was written before is there. A journal
    that has become a shard is kept until `forget_journals`, as an older state may still need it.

    Raises:
        ValueError: where the directory does not have what `state` says.
    """

    def __init__(self, directory: str | os.PathLike, shard_tokens: int, state: dict | None = None):
        self.directory = Path(directory)
        self.shard_tokens = shard_tokens
        self.entries: list[dict] = list(state["shards"]) if state else []
        self._tokens = state["tokens"] if state else 0
        self._bytes = state["bytes"] if state else 0
        self._journal = None
        if self._bytes:
            path = self._path()
            if not path.is_file() or path.stat().st_size < self._bytes:
                raise ValueError(
                    "A preparation can be continued only with its journals. Remove the output "
                    f"directory, or pass `overwrite=True`, to start afresh. Missing: {path}"
                )
            os.truncate(path, self._bytes)

    def _path(self) -> Path:
        return self.directory / f"shard-{len(self.entries):05d}.journal"

    def write(self, record: bytes, tokens: int, document: int):
        """Adds a record with its number of tokens; `document` numbers the one that it is from."""
        if self._journal is None:
            self._journal = open(self._path(), "ab" if self._bytes else "wb")
        frame = _FRAME.pack(len(record), tokens, document)
        self._journal.write(frame + record)
        self._bytes += len(frame) + len(record)
        self._tokens += tokens

    @property
    def full(self) -> bool:
        """Whether the shard in progress holds enough."""
        return self._tokens >= self.shard_tokens

    def state(self) -> dict:
        """Where the writer stands; what it has written until now is on disk."""
        if self._journal is not None:
            self._journal.flush()
            os.fsync(self._journal.fileno())
        return {"shards": self.entries, "tokens": self._tokens, "bytes": self._bytes}

    def close_shard(self):
        """Makes a shard of the journal, if there is anything in it."""
        if not self._bytes:
            return
        self.release()
        self.entries.append(
            write_shard(self.directory, len(self.entries), _read_journal(self._path()))
        )
        self._tokens = self._bytes = 0

    def forget_journals(self):
        """Removes the journals of shards that are whole."""
        for number in range(len(self.entries)):
            (self.directory / f"shard-{number:05d}.journal").unlink(missing_ok=True)

    def release(self):
        """Closes the journal's file; writing opens it again."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def _read_journal(path: Path) -> Iterator[tuple[bytes, int, int]]:
    with open(path, "rb") as file:
        while frame := file.read(_FRAME.size):
            size, tokens, document = _FRAME.unpack(frame)
            yield file.read(size), tokens, document


def _rename_when_stored(path: Path, target: Path):
    """Renames after the bytes are on disk, so that a crash cannot leave an empty file."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    os.replace(path, target)


class ShardReader:
    """Random access to the records of several shards; from any thread, and after a pickle or fork.

    Args:
        paths: the shards' paths.
        first_records: (number of shards + 1,) integers: the number of each shard's first record,
            then that of all records.
        dtype: the dtype that ids are stored in.
    """

    def __init__(self, paths: list[Path], first_records: np.ndarray, dtype):
        self.paths = [str(path) for path in paths]
        self.first_records = np.asarray(first_records)
        self.dtype = np.dtype(dtype)
        self._readers: dict[int, object] = {}
        self._process = os.getpid()
        self._lock = threading.Lock()

    def __getstate__(self):
        return self.paths, self.first_records, self.dtype

    def __setstate__(self, state):
        self.__init__(*state)

    def read(self, records: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """The (token_ids, sentence_lengths) of records, in the order asked for.

        Args:
            records: (K,) integers, numbers of records over all shards.

        Raises:
            ValueError: where a record cannot be read; the shard is named.
        """
        records = np.asarray(records)
        shards = np.searchsorted(self.first_records, records, side="right") - 1
        found: list = [None] * len(records)
        for shard in np.unique(shards).tolist():
            places = np.flatnonzero(shards == shard)
            numbers = (records[places] - self.first_records[shard]).tolist()
            with self._named(shard):
                read = self._reader(shard).read
                for place, number in zip(places.tolist(), numbers, strict=True):
                    # One by one: for a list the library wakes a pool of threads, at three times
                    # the processor time.
                    (record,) = read([number])
                    found[place] = decode_record(record, self.dtype)
        return found

    def num_records(self, shard: int) -> int:
        """How many records the file itself says it holds."""
        with self._named(shard):
            return self._reader(shard).num_records()

    def _reader(self, shard: int):
        if self._process != os.getpid():  # a fork shares offsets, and perhaps a lock that is held
            self._readers, self._lock, self._process = {}, threading.Lock(), os.getpid()
        with self._lock:
            if shard not in self._readers:
                from array_record.python.array_record_module import ArrayRecordReader

                self._readers[shard] = ArrayRecordReader(
                    self.paths[shard],
                    options="readahead_buffer_size:0",  # as array_record's own data source does
                    file_reader_buffer_size=32768,
                )
            return self._readers[shard]

    @contextlib.contextmanager
    def _named(self, shard: int):
        try:
            yield
        except (ValueError, RuntimeError, IndexError, OSError) as error:
            raise ValueError(
                f"A shard must be whole. Prepare the corpus again or restore this file: "
                f"{self.paths[shard]} ({str(error)[:200]})"
            ) from error
