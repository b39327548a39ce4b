"""Which documents of a corpus were seen before, in a file, so that memory does not grow."""

import os
import sqlite3
from pathlib import Path


class SeenDocuments:
    """Digests of documents and where each was first.

    Args:
        path: of the database; made where absent.
        known: number of documents that the state to go on from has seen; what is in the database
            beyond these is forgotten.

    Raises:
        ValueError: where documents are known and the database is not there.
    """

    def __init__(self, path: str | os.PathLike, known: int = 0):
        self.path = Path(path)
        if known and not self.path.is_file():
            raise ValueError(
                "A preparation that drops duplicates can be continued only with its database. "
                "Remove the output directory, or pass `overwrite=True`, to start afresh. "
                f"Missing: {self.path}"
            )
        self._database = sqlite3.connect(self.path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")  # on disk before the state is
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS seen (digest INTEGER PRIMARY KEY, number INTEGER)"
        )
        self._database.execute("DELETE FROM seen WHERE number >= ?", (known,))
        self._database.execute("BEGIN")

    def is_duplicate(self, digest: int, number: int) -> bool:
        """Whether a document before the `number`th has this digest (unsigned, 64 bits)."""
        key = digest - 2**63  # SQLite's integers are signed
        run = self._database.execute
        if run("INSERT OR IGNORE INTO seen VALUES (?, ?)", (key, number)).rowcount:
            return False
        (first,) = run("SELECT number FROM seen WHERE digest = ?", (key,)).fetchone()
        return first < number

    def save(self):
        """Puts what was added on disk."""
        self._database.execute("COMMIT")
        self._database.execute("BEGIN")

    def close(self):
        """Closes the file; what was not saved is lost."""
        self._database.execute("ROLLBACK")
        self._database.close()
