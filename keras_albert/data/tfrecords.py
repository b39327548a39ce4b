"""TFRecord files without TensorFlow: framing, checksums, random access.

A record is

    uint64              length of the data
    uint32              masked CRC-32C of these eight bytes
    data
    uint32              masked CRC-32C of the data

all little-endian, and a file is records one after the other: nothing says how many, so a file that
was cut between two of them looks whole. A name that ends in `.gz` means a file compressed as one.

What the records hold is the matter of `tfrecord_example`.
"""

import contextlib
import gzip
import os
import shutil
import struct
import tempfile
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.progress import Progress

from keras_albert.data.shards import PARTIAL

HEADER, FOOTER = struct.Struct("<QI"), struct.Struct("<I")
FRAME = HEADER.size + FOOTER.size
BIG = 1 << 30  # bytes; indexing less than this is over before a bar could be read


def masked_crc(data: bytes) -> int:
    """The checksum of a record: CRC-32C, turned by 15 bits, plus a constant.

    Example:
        >>> hex(masked_crc(b""))
        '0xa282ead8'
    """
    import google_crc32c

    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class RecordWriter:
    """Writes one TFRecord file beside its name; `publish` gives it the name.

    Args:
        path: the file; compressed if its name ends in `.gz`.

    Call `write` for each record, `close`, then `publish`; or `abandon`.
    """

    def __init__(self, path: Path):
        self.path = path
        self._partial = Path(f"{path}{PARTIAL}")
        self._file = open(self._partial, "wb")
        self._stream = self._file
        if path.suffix == ".gz":
            # Without name and time in the header, the same records give the same bytes.
            self._stream = gzip.GzipFile(filename="", fileobj=self._file, mode="wb", mtime=0)

    def write(self, data: bytes):
        """Adds one record."""
        length = len(data).to_bytes(8, "little")
        self._stream.write(HEADER.pack(len(data), masked_crc(length)) + data)
        self._stream.write(FOOTER.pack(masked_crc(data)))

    def close(self):
        """Ends the file; its bytes are on disk then."""
        if self._stream is not self._file:
            self._stream.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def publish(self):
        """Gives the file its name."""
        os.replace(self._partial, self.path)

    def abandon(self):
        """Drops what was not published."""
        with contextlib.suppress(OSError):  # a full disk has been reported by then
            self._stream.close()
            self._file.close()
        self._partial.unlink(missing_ok=True)


class RecordReader:
    """Random access to the records of several files; from any thread, and after a pickle or fork.

    Opening walks through all files once, from length to length, and keeps where each record is.
    A compressed file is unpacked into a temporary one first, once in every process.

    Args:
        paths: the files, in order.
        progress: whether to show progress, where there are many bytes.

    Raises:
        ValueError: for a file that is no TFRecord file, or ends inside a record; it is named, with
            the record's number and the byte where it begins.
    """

    def __init__(self, paths: list[Path], progress: bool = True):
        self.paths = [str(path) for path in paths]
        self._forget()
        total = sum(path.stat().st_size for path in paths)
        with Progress(disable=not progress or total < BIG) as bar:
            task = bar.add_task("Finding the records", total=len(paths))
            self._offsets = []
            for number in range(len(paths)):
                self._offsets.append(np.fromiter(self._walk(number), "int64"))
                bar.update(task, completed=number + 1)
        # Each ends with the file's length.
        counts = [len(offsets) - 1 for offsets in self._offsets]
        self.first_records = np.cumsum([0, *counts])

    def __len__(self) -> int:
        return int(self.first_records[-1])

    def __getstate__(self):
        return self.paths, self._offsets, self.first_records

    def __setstate__(self, state):
        self.paths, self._offsets, self.first_records = state
        self._forget()

    def read(self, record: int) -> bytes:
        """The data of a record, counted over all files.

        Raises:
            ValueError: where the bytes do not fit their checksum.
        """
        file, number = self._find(record)
        begin, end = self._offsets[file][number : number + 2].tolist()
        frame = os.pread(self._open(file), end - begin, begin)
        data, footer = frame[HEADER.size : -FOOTER.size], frame[-FOOTER.size :]
        if len(frame) < end - begin or FOOTER.unpack(footer)[0] != masked_crc(data):
            raise ValueError(
                "A record must fit its checksum: its bytes were changed after they were written. "
                f"Restore the file. Received: {self.name(record)}"
            )
        return data

    def name(self, record: int) -> str:
        """Where a record is: its file, its number there (from 0) and its first byte."""
        file, number = self._find(record)
        return f"{self.paths[file]}, record {number} at byte {self._offsets[file][number]}"

    def __del__(self):
        for file in getattr(self, "_files", {}).values():
            file.close()

    def _find(self, record):
        file = int(np.searchsorted(self.first_records, record, side="right")) - 1
        return file, int(record - self.first_records[file])

    def _forget(self):
        self._files = {}
        self._lock = threading.Lock()

    def _open(self, file: int) -> int:
        """The descriptor of a file; reads say where, so that processes can share it."""
        with self._lock:
            if file not in self._files:
                path = self.paths[file]
                self._files[file] = _unpacked(path) if path.endswith(".gz") else open(path, "rb")
            return self._files[file].fileno()

    def _walk(self, file: int) -> Iterator[int]:
        """Where each record begins, and last where the file ends."""
        path, descriptor = self.paths[file], self._open(file)
        size = os.fstat(descriptor).st_size
        offset = number = 0
        while offset < size:
            yield offset
            header = os.pread(descriptor, HEADER.size, offset)
            where = f"{path}, record {number} at byte {offset}"
            if len(header) == HEADER.size:
                length, crc = HEADER.unpack(header)
                if crc != masked_crc(header[:8]):
                    raise ValueError(
                        "A TFRecord file must be a chain of lengths that fit their checksums "
                        "(a compressed one must be named .gz). The file is another kind, or "
                        f"damaged. Received: {where}"
                    )
            if len(header) < HEADER.size or offset + length + FRAME > size:
                raise ValueError(
                    "A TFRecord file must end where a record ends; this one was cut. "
                    f"Received: {where}, in a file of {size} bytes"
                )
            offset, number = offset + length + FRAME, number + 1
        yield size


def _unpacked(path: str):
    """A temporary file without a name, with what a compressed one holds."""
    target = tempfile.TemporaryFile()
    try:
        with gzip.open(path) as source:
            shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        target.close()
        raise ValueError(
            f"A file named .gz must be a whole gzip file. Received: {path} ({error})"
        ) from None
    return target
