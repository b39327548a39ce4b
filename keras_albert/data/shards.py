"""Shards: token ids of documents in ArrayRecord files, each with an index beside it.

`shard-00000.array_record` holds one record a document (a long document is cut into several):

    uint32              number of sentences n
    n x uint16          tokens in each sentence
    rest                the token ids, uint16 or uint32 (the manifest's `token_dtype`)

all little-endian. `shard-00000.index.npy` is a uint32 array with a row (tokens, document) for each
record, so that a reader knows every length without opening the shard. A shard appears under its
name only when whole.
"""

import array
import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

# One record a chunk, so that reading one reads no other. Uncompressed: ids are dense already
# (zstd saves a fifth), and the bytes then do not depend on a compressor's version.
WRITER_OPTIONS = "group_size:1,uncompressed"
MAX_SENTENCE_TOKENS = 65535  # lengths are uint16
PARTIAL = ".partial"


def token_dtype(vocabulary_size: int) -> np.dtype:
    """The smallest of uint16 and uint32, little-endian, that holds every id."""
    return np.dtype("<u2" if vocabulary_size <= 65536 else "<u4")


def encode_record(token_ids: np.ndarray, sentence_lengths: np.ndarray, dtype) -> bytes:
    """The bytes of one record.

    Args:
        token_ids: (N,) integers, the sentences one after the other.
        sentence_lengths: (M,) integers that sum to N, each at most 65,535.
        dtype: the dtype that ids are stored in.

    Raises:
        ValueError: where the lengths do not sum to N or do not fit.

    Example:
        >>> record = encode_record(np.array([5, 6, 7]), np.array([2, 1]), "<u2")
        >>> [a.tolist() for a in decode_record(record, "<u2")]
        [[5, 6, 7], [2, 1]]
    """
    token_ids, sentence_lengths = np.asarray(token_ids), np.asarray(sentence_lengths)
    if sentence_lengths.sum() != len(token_ids):
        raise ValueError(
            "`sentence_lengths` must sum to the number of tokens. "
            f"Received: {sentence_lengths.sum()} and {len(token_ids)}"
        )
    if len(sentence_lengths) and sentence_lengths.max() > MAX_SENTENCE_TOKENS:
        raise ValueError(
            f"A sentence holds at most {MAX_SENTENCE_TOKENS} tokens. "
            f"Received: {sentence_lengths.max()}"
        )
    return (
        np.array(len(sentence_lengths), "<u4").tobytes()
        + sentence_lengths.astype("<u2").tobytes()
        + token_ids.astype(dtype).tobytes()
    )


def decode_record(record: bytes, dtype) -> tuple[np.ndarray, np.ndarray]:
    """Returns (token_ids (N,) of `dtype`, sentence_lengths (M,) uint16): views of the record.

    Raises:
        ValueError: where the record is not one that `encode_record` makes.
    """
    sentences = int(np.frombuffer(record, "<u4", 1)[0]) if len(record) >= 4 else -1
    start = 4 + 2 * sentences
    if sentences < 0 or start > len(record) or (len(record) - start) % np.dtype(dtype).itemsize:
        raise ValueError(f"Not a record of token ids. Received: {len(record)} bytes")
    return np.frombuffer(record, dtype, offset=start), np.frombuffer(record, "<u2", sentences, 4)


def cuts(lengths_M: np.ndarray, most: int) -> Iterator[int]:
    """Where to cut a document into records of at most `most` tokens and about equal length.

    Args:
        lengths_M: (M,) tokens in each sentence, none above `most`.
        most: tokens in a record at most.

    Yields:
        The numbers of sentences after which a record ends; the last is M.

    Example:
        >>> list(cuts(np.array([4, 4, 4, 4, 4]), 16))
        [3, 5]
    """
    ends_M = np.cumsum(lengths_M)
    first, start = 0, 0
    while first < len(ends_M):
        left = ends_M[-1] - start
        wanted = start + left / -(-left // most)
        after = int(np.searchsorted(ends_M, wanted)) + 1  # the first sentence to reach it, included
        while after > first + 1 and ends_M[after - 1] - start > most:
            after -= 1
        first, start = after, ends_M[after - 1]
        yield after


def sha256(path: str | os.PathLike) -> str:
    """The file's SHA-256 as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class ShardWriter:
    """Writes records into `shard-00000.array_record`, `shard-00001...` of a directory.

    Args:
        directory: an existing directory.
        dtype: the dtype that ids are stored in.
        shard_tokens: a shard is closed once it holds at least so many tokens.

    Call `close` at the end; `entries` then has one dict for each shard, as the manifest keeps it.
    Records never written to a whole shard are lost: a shard in progress is not under its name.
    """

    def __init__(self, directory: str | os.PathLike, dtype, shard_tokens: int):
        self.directory = Path(directory)
        self.dtype = np.dtype(dtype)
        self.shard_tokens = shard_tokens
        self.entries: list[dict] = []
        self._start()

    def _start(self):
        self._writer, self._tokens = None, 0
        self._rows = array.array("I")  # tokens, document, tokens, document, ...

    def write(self, token_ids: np.ndarray, sentence_lengths: np.ndarray, document: int):
        """Adds one record; `document` numbers the document that it is from."""
        if self._writer is None:
            from array_record.python.array_record_module import ArrayRecordWriter

            self._path = self.directory / f"shard-{len(self.entries):05d}.array_record"
            self._writer = ArrayRecordWriter(str(self._path) + PARTIAL, WRITER_OPTIONS)
        self._writer.write(encode_record(token_ids, sentence_lengths, self.dtype))
        self._rows.extend((len(token_ids), document))
        self._tokens += len(token_ids)
        if self._tokens >= self.shard_tokens:
            self.close()

    def close(self):
        """Finishes the shard in progress, if there is one, and gives it its name."""
        if self._writer is None:
            return
        self._writer.close()
        index = self._path.with_suffix(".index.npy")
        with open(str(index) + PARTIAL, "wb") as file:
            np.save(file, np.array(self._rows, "<u4").reshape(-1, 2))
        for path in (index, self._path):  # the shard last: where it is, its index is too
            _rename_when_stored(Path(str(path) + PARTIAL), path)
        self.entries.append(
            {
                "name": self._path.name,
                "num_records": len(self._rows) // 2,
                "num_tokens": self._tokens,
                "num_bytes": self._path.stat().st_size,
                "sha256": sha256(self._path),
                "index_sha256": sha256(index),
            }
        )
        self._start()

    def abandon(self):
        """Drops the shard in progress."""
        if self._writer is not None:
            with contextlib.suppress(RuntimeError):  # a full disk has been reported by then
                self._writer.close()
            Path(str(self._path) + PARTIAL).unlink(missing_ok=True)
            self._start()


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
        for shard in np.unique(shards):
            places = np.flatnonzero(shards == shard)
            with self._named(shard):
                reader = self._reader(shard)
                for place in places:
                    # One by one: for a list the library wakes a pool of threads, at three times
                    # the processor time.
                    (record,) = reader.read([int(records[place] - self.first_records[shard])])
                    found[place] = decode_record(record, self.dtype)
        return found

    def num_records(self, shard: int) -> int:
        """How many records the file itself says it holds."""
        with self._named(shard):
            return self._reader(shard).num_records()

    def _reader(self, shard: int):
        with self._lock:
            if self._process != os.getpid():  # a fork shares file offsets: open anew
                self._readers, self._process = {}, os.getpid()
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
