"""Encoded documents -> two directories of shards, resumable: what `prepare_corpus` writes with."""

import json
import os
from pathlib import Path

from keras_albert.data.duplicates import SeenDocuments
from keras_albert.data.encoding import EncodedDocument, held_out
from keras_albert.data.shards import ShardWriter

HELDOUT = "heldout"
STATE = "progress.json"
DUPLICATES = "duplicates.sqlite"


class Part:
    """One directory of shards as it grows: the corpus itself, or what is held out of it."""

    def __init__(self, directory: Path, shard_tokens: int, state: dict | None):
        directory.mkdir(parents=True, exist_ok=True)
        state = state or {"documents": 0, "sentences": 0, "writer": None}
        self.directory = directory
        self.documents, self.sentences = state["documents"], state["sentences"]
        self.writer = ShardWriter(directory, shard_tokens, state["writer"])

    def add(self, document: EncodedDocument):
        """Adds a document, or what continues the last."""
        # A first part without tokens leaves nothing to continue.
        self.documents += not (document.continues and self.documents)
        self.sentences += document.num_sentences
        for record, tokens in document.records:
            self.writer.write(record, tokens, self.documents - 1)

    def state(self) -> dict:
        """What `Part` needs to go on from here."""
        return {
            "documents": self.documents,
            "sentences": self.sentences,
            "writer": self.writer.state(),
        }


class CorpusWriter:
    """Sends each document to the corpus or to the held-out part, or drops it as a duplicate.

    Args:
        directory: of the corpus; made where absent.
        job: what must be the same for a preparation to be continued, kept with the state.
        shard_tokens, holdout, drop_duplicates: as `prepare_corpus` takes them.
        state: what `load_state` found, to go on from there; None starts afresh.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        job: dict,
        *,
        shard_tokens: int,
        holdout: float,
        drop_duplicates: bool,
        state: dict | None = None,
    ):
        self.directory, self.job, self.holdout = Path(directory), job, holdout
        places = {"": self.directory, **({HELDOUT: self.directory / HELDOUT} if holdout else {})}
        state = state or {}
        found = state.get("parts", {})
        self.parts = {
            name: Part(place, shard_tokens, found.get(name)) for name, place in places.items()
        }
        self.sources, self.chain = state.get("sources", 0), state.get("chain", "")
        self.duplicates = state.get("duplicates", 0)
        self._current = state.get("current", "")  # the part of the last document; None: dropped
        self._seen = None
        if drop_duplicates:
            self._seen = SeenDocuments(self.directory / DUPLICATES, self.sources)
        for part in self.parts.values():
            part.writer.forget_journals()

    def add(self, document: EncodedDocument, chain: str):
        """Adds the next source's document.

        Args:
            document: the document.
            chain: a hash of all sources up to this one, by which a changed input is known.
        """
        if not document.continues:
            is_held_out = bool(self.holdout) and held_out(document.digest, self.holdout)
            self._current = HELDOUT if is_held_out else ""
            if (
                self._seen is not None
                and document.records
                and self._seen.is_duplicate(document.digest, self.sources)
            ):
                self._current = None
                self.duplicates += 1
        if self._current is not None and document.records:
            self.parts[self._current].add(document)
        self.sources, self.chain = self.sources + 1, chain
        if any(part.writer.full for part in self.parts.values()):
            self._close_shards(lambda writer: writer.full)

    def save(self):
        """Puts on disk all that is needed to go on from here."""
        if self._seen is not None:
            self._seen.save()
        state = {
            "job": self.job,
            "sources": self.sources,
            "chain": self.chain,
            "current": self._current,
            "duplicates": self.duplicates,
            "parts": {name: part.state() for name, part in self.parts.items()},
        }
        path = self.directory / STATE
        beside = path.with_suffix(".json.partial")
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)

    def finish(self):
        """Closes the last shards; the state stays until `forget`."""
        self._close_shards(lambda writer: True)

    def _close_shards(self, which):
        for part in self.parts.values():
            if which(part.writer):
                part.writer.close_shard()
        self.save()  # from now on the journals of these shards are not needed
        for part in self.parts.values():
            part.writer.forget_journals()

    def release(self):
        """Closes all files and leaves them."""
        for part in self.parts.values():
            part.writer.release()
        if self._seen is not None:
            self._seen.close()
            self._seen = None

    def forget(self):
        """Removes what was kept for going on."""
        self.release()
        forget_state(self.directory)


def load_state(directory: str | os.PathLike) -> dict | None:
    """The state that an interrupted preparation left; None where there is none."""
    try:
        return json.loads(Path(directory, STATE).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None


def forget_state(directory: str | os.PathLike):
    """Removes what is kept in a directory for going on, journals aside."""
    names = (STATE, f"{STATE}.partial", *(f"{DUPLICATES}{end}" for end in ("", "-wal", "-shm")))
    for name in names:
        Path(directory, name).unlink(missing_ok=True)
