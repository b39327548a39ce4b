"""`prepare_corpus`: text in, shards of token ids out. Nothing random happens here.

Masks and segment pairs are drawn when examples are read (`PretrainingDataset`), so one preparation
serves every sequence length, objective and epoch.

Suffixes: M sentences of a document, N tokens of a document.
"""

import contextlib
import hashlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from keras_albert.arguments import check, check_booleans, is_integer, is_number, is_path
from keras_albert.data import manifest as manifests
from keras_albert.data.documents import SourceDocument, read_documents
from keras_albert.data.shards import MAX_SENTENCE_TOKENS, PARTIAL, ShardWriter, cuts, token_dtype
from keras_albert.preprocessing.files import find_files, names_files

BATCH_CHARACTERS = 1 << 20  # text given to the tokenizer at a time
HELDOUT = "heldout"
TOKENIZER = "tokenizer"


def prepare_corpus(
    files,
    output: str | os.PathLike,
    *,
    tokenizer,
    sentences: str | Callable = "en",
    document_separator: str = "auto",
    holdout: float = 0.0,
    max_document_tokens: int = 8192,
    shard_tokens: int = 50_000_000,
    overwrite: bool = False,
    progress: bool = True,
) -> manifests.Manifest:
    """Tokenizes a corpus into shards that `PretrainingDataset` reads.

    Input is streamed: memory does not grow with it. The same input, tokenizer and settings give
    the same bytes. `manifest.json` is written last, so a preparation that was interrupted is not
    taken for a whole one; running it again starts afresh.

    Args:
        files: a path, pattern or directory, a list of these, or an iterable of documents (strings,
            or lists of sentences); see `keras_albert.data.read_documents`.
        output: directory to write to; made where absent. It then holds `shard-*.array_record`, an
            index beside each, `tokenizer/` and `manifest.json`.
        tokenizer: `AlbertTokenizer`, `BertTokenizer`, or a serialisable object with their
            `encode_batch`, `fingerprint`, `vocabulary_size`, `save_assets` and `load_assets`.
        sentences: how to find sentences: a language code, `"lines"` or a function.
        document_separator: `"auto"`, `"blank_line"`, `"heading"` or `"file"`.
        holdout: the share of documents, 0 to 1 (exclusive), that goes to `output/heldout` instead,
            a directory of shards of its own. A hash of the text chooses, so duplicates stay
            together and a document's side does not depend on its neighbours.
        max_document_tokens: a longer document is cut, between sentences, into records of about
            equal length, so that reading one example stays cheap. At most 65,535. A single
            sentence that is longer is cut too.
        shard_tokens: tokens in a shard, at least.
        overwrite: whether to replace a corpus that `output` holds already.
        progress: whether to show progress.

    Returns:
        The `Manifest` of `output` (`Manifest.load("output/heldout")` reads the other).

    Raises:
        ValueError: for arguments outside these rules, files that are missing or not UTF-8, a corpus
            without text, and an `output` that holds a corpus when not `overwrite`.

    Example:
        ```python
        tokenizer = keras_albert.AlbertTokenizer("spiece.model")
        manifest = keras_albert.prepare_corpus(
            "books/*.md", "shards/", tokenizer=tokenizer, holdout=0.05
        )
        print(manifest.num_tokens)
        data = keras_albert.PretrainingDataset("shards/")
        held_out = keras_albert.PretrainingDataset("shards/heldout", static=True)
        ```
    """
    _check(holdout, max_document_tokens, shard_tokens)
    check("prepare_corpus", "a directory's path", is_path, output=output)
    check_booleans("prepare_corpus", overwrite=overwrite, progress=progress)
    _check_tokenizer(tokenizer)
    # All of the input's names are checked here, before anything is deleted.
    documents = read_documents(files, document_separator=document_separator, sentences=sentences)
    inputs = _inputs(files)
    settings = {
        "sentences": sentences if isinstance(sentences, str) else _name(sentences),
        "document_separator": document_separator,
        "holdout": float(holdout),
        "max_document_tokens": int(max_document_tokens),
        "shard_tokens": int(shard_tokens),
    }
    _make_room(Path(output), overwrite)
    parts = [_Part(Path(output), tokenizer, shard_tokens)]
    if holdout:
        parts.append(_Part(Path(output, HELDOUT), tokenizer, shard_tokens))
    try:
        with _progress(inputs.get("bytes"), progress) as advance:
            part = parts[0]
            for document, ids_N, lengths_M in _tokenized(documents, tokenizer):
                if not document.continues:
                    part = parts[_is_held_out(document.sentences, holdout)]
                part.add(ids_N, lengths_M, document.continues, max_document_tokens)
                advance(document.bytes_read, len(ids_N))
            advance(inputs.get("bytes", 0), 0)
        for part in parts:
            part.writer.close()
    finally:
        for part in parts:
            part.writer.abandon()
    for part, where in zip(parts, ("", "held-out "), strict=False):
        if not part.documents:
            raise ValueError(
                f"A corpus must have {where}text: `files` gave no {where}document with tokens. "
                f"Received: files={str(files)[:200]}, holdout={holdout}"
            )
    for part in reversed(parts):  # the manifest of `output` last: where it is, all is
        manifest = part.finish(tokenizer, settings, inputs)
    return manifest


class _Part:
    """One directory of shards as it grows."""

    def __init__(self, directory: Path, tokenizer, shard_tokens: int):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.dtype = token_dtype(tokenizer.vocabulary_size())
        self.writer = ShardWriter(directory, self.dtype, shard_tokens)
        self.documents = self.sentences = 0

    def add(self, ids_N: np.ndarray, lengths_M: np.ndarray, continues: bool, most: int):
        if not len(ids_N):
            return
        # A first part without tokens, or a tokenizer that drops it, leaves nothing to continue.
        self.documents += not (continues and self.documents)
        self.sentences += len(lengths_M)
        if lengths_M.max() > most:
            parts = [n for m in lengths_M for n in [most] * (m // most) + [m % most] if n]
            lengths_M = np.array(parts)
        ends_M = np.cumsum(lengths_M)
        first = start = 0
        for last in cuts(lengths_M, most):
            end = ends_M[last - 1]
            self.writer.write(ids_N[start:end], lengths_M[first:last], self.documents - 1)
            first, start = last, end

    def finish(self, tokenizer, settings: dict, inputs: dict) -> manifests.Manifest:
        manifests.save_tokenizer(tokenizer, self.directory / TOKENIZER)
        shards = self.writer.entries
        manifest = manifests.Manifest(
            tokenizer={
                "class_name": type(tokenizer).__name__,
                "fingerprint": tokenizer.fingerprint(),
                "vocabulary_size": int(tokenizer.vocabulary_size()),
            },
            token_dtype=self.dtype.name,
            num_documents=self.documents,
            num_sentences=self.sentences,
            num_tokens=sum(shard["num_tokens"] for shard in shards),
            num_records=sum(shard["num_records"] for shard in shards),
            shards=shards,
            settings=settings,
            inputs=inputs,
            versions=manifests.versions(),
        )
        manifest.save(self.directory)
        return manifest


def _tokenized(documents: Iterable[SourceDocument], tokenizer):
    """Yields (document, token ids (N,) int32, sentence lengths (M,)), tokenizing by the batch."""
    for batch in _batches(documents):
        encoded = iter(tokenizer.encode_batch([s for d in batch for s in d.sentences]))
        for document in batch:
            ids = [s for s in itertools.islice(encoded, len(document.sentences)) if s]
            lengths_M = np.fromiter(map(len, ids), "int64", len(ids))
            flat = itertools.chain.from_iterable(ids)
            yield document, np.fromiter(flat, "int32", int(lengths_M.sum())), lengths_M


def _batches(documents: Iterable[SourceDocument]) -> Iterator[list[SourceDocument]]:
    batch, characters = [], 0
    for document in documents:
        batch.append(document)
        characters += sum(map(len, document.sentences))
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _is_held_out(sentences: list[str], holdout: float) -> bool:
    if not holdout:
        return False
    digest = hashlib.blake2b("\n".join(sentences).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") < holdout * 2**64


def _make_room(output: Path, overwrite: bool):
    """Removes what an interrupted, or with `overwrite` a finished, preparation left; no more."""
    if output.exists() and not output.is_dir():
        raise ValueError(f"`output` must be a directory. Received: {str(output)!r}, a file")
    if Path(output, manifests.FILE_NAME).exists() and not overwrite:
        raise ValueError(
            "`output` must not hold a corpus already. Use it as it is, pass `overwrite=True` to "
            f"replace it, or name another directory. Received: {str(output)!r}"
        )
    for directory in (output, output / HELDOUT):
        Path(directory, manifests.FILE_NAME).unlink(missing_ok=True)  # first: no longer whole
        for pattern in ("shard-*.array_record", "shard-*.index.npy", f"*{PARTIAL}"):
            for path in directory.glob(pattern):
                path.unlink()
        shutil.rmtree(directory / TOKENIZER, ignore_errors=True)
    with contextlib.suppress(OSError):
        Path(output, HELDOUT).rmdir()  # only if nothing else is in it


def _inputs(files) -> dict:
    if not names_files(files):
        return {}
    paths = find_files(files)
    sizes = [path.stat().st_size for path in paths]
    listing = "\n".join(f"{path.name}\t{size}" for path, size in zip(paths, sizes, strict=True))
    digest = hashlib.sha256(listing.encode()).hexdigest()
    return {"files": len(paths), "bytes": sum(sizes), "sha256": digest}


def _name(function: Callable) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"


def _check(holdout: float, max_document_tokens: int, shard_tokens: int):
    if not is_number(holdout) or not 0 <= holdout < 1:
        raise ValueError(f"`holdout` must be at least 0 and below 1. Received: {holdout!r}")
    if not is_integer(max_document_tokens) or not 8 <= max_document_tokens <= MAX_SENTENCE_TOKENS:
        raise ValueError(
            f"`max_document_tokens` must be an integer from 8 to {MAX_SENTENCE_TOKENS}. "
            f"Received: {max_document_tokens!r}"
        )
    if not is_integer(shard_tokens) or shard_tokens < 1:
        raise ValueError(f"`shard_tokens` must be a positive integer. Received: {shard_tokens!r}")


def _check_tokenizer(tokenizer):
    needed = ("encode_batch", "fingerprint", "vocabulary_size", "save_assets", "load_assets")
    check(
        "prepare_corpus",
        f"an AlbertTokenizer, a BertTokenizer or an object with {', '.join(needed)}",
        lambda value: all(hasattr(value, name) for name in needed),
        tokenizer=tokenizer,
    )
    tokenizer.fingerprint()  # one without a vocabulary is refused before anything is deleted


@contextlib.contextmanager
def _progress(total_bytes: int | None, show: bool):
    """Gives a function of (bytes read so far, tokens added) that moves the bar."""
    if not show:
        yield lambda bytes_read, tokens: None
        return
    columns = (
        TextColumn("Preparing"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%  {task.fields[tokens]:,} tokens  {task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task("", total=total_bytes, tokens=0, rate="")

        def advance(bytes_read: int, tokens: int):
            state = bar.tasks[0]
            tokens += state.fields["tokens"]
            rate = f"{tokens / max(state.elapsed or 0, 1e-3):,.0f}/s"
            bar.update(task, completed=bytes_read, tokens=tokens, rate=rate)

        yield advance
