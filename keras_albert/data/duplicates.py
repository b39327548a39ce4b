"""Which documents of a corpus were seen before, in a file, so that memory does not grow."""

import os
import sqlite3
from pathlib import Path


class SeenDocuments:
    """Digests of documents and where each was first.

    Args:
        path: of the database; made where absent.

    Asked again about a document, as after a crash, it gives the same answer.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self._database = sqlite3.connect(self.path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS seen (digest INTEGER PRIMARY KEY, number INTEGER)"
        )
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
        """Closes the file and leaves it."""
        self._database.execute("COMMIT")
        self._database.close()
