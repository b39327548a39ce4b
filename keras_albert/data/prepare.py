"""`prepare_corpus`: text in, shards of token ids out. Nothing random happens here.

Masks and segment pairs are drawn when examples are read (`PretrainingDataset`), so one preparation
serves every sequence length, objective and epoch.
"""

import collections
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from keras_albert.arguments import check, check_booleans, is_path
from keras_albert.data import manifest as manifests
from keras_albert.data.corpus_writer import CorpusWriter, forget_state
from keras_albert.data.documents import Skipped, Source, read_sources, warn_of_language
from keras_albert.data.encoding import DocumentEncoder, EncodedDocument
from keras_albert.data.preparation import (
    TOKENIZER,
    check_settings,
    encoder_of,
    inputs_of,
    make_room,
    manifest_of,
    no_text,
    only_writer,
    settings_of,
)
from keras_albert.data.progress_bar import progress_bar
from keras_albert.data.workers import map_in_order, usable_cores
from keras_albert.preprocessing.encoders import Encoder
from keras_albert.preprocessing.files import find_files, names_files

BATCH_CHARACTERS = 1 << 20  # text given to the tokenizer at a time
BATCH_DOCUMENTS = 4096  # at most, where they are tiny
MOST_WORKERS = 8  # unless more are asked for: each takes memory
SAVE_SECONDS = 10.0  # at most so much work is lost when a preparation is killed


def prepare_corpus(
    files,
    output: str | os.PathLike,
    *,
    tokenizer,
    sentences: str | Callable = "en",
    document_separator: str = "auto",
    text_field: str = "text",
    on_error: str = "raise",
    drop_duplicates: bool = False,
    holdout: float = 0.0,
    max_document_tokens: int = 8192,
    shard_tokens: int = 50_000_000,
    num_workers: int | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> manifests.Manifest:
    """Tokenizes a corpus into shards that `PretrainingDataset` reads.

    Input is streamed: memory does not grow with it. The same input, tokenizer and settings give
    the same bytes, whatever the number of workers. `manifest.json` is written last. A preparation
    that was interrupted, or killed, goes on where it was when it is run again: what is known by
    then is read over, not tokenized again. With other settings, or where the input read so far has
    changed, it refuses.

    Args:
        files: a path, pattern or directory, a list of these, or an iterable of documents (strings,
            lists of sentences, or dicts with `text_field`); see `read_documents` for the formats.
        output: directory to write to; made where absent. It then holds `shard-*.array_record`, an
            index beside each, `tokenizer/` and `manifest.json`.
        tokenizer: `AlbertTokenizer`, `BertTokenizer`, the `encoder` of one, or a serialisable
            object with their `encode_batch`, `fingerprint`, `vocabulary_size`, `save_assets` and
            `load_assets`.
        sentences: how to find sentences: a language code, `"lines"` or a function.
        document_separator: of plain text: `"auto"`, `"blank_line"`, `"heading"` or `"file"`.
        text_field: field of JSON lines, column of Parquet, or key of dicts that holds the text.
        on_error: `"raise"`, or `"skip"` to leave out what is broken; it is counted in the
            manifest's `inputs`.
        drop_duplicates: whether to keep only the first of documents with the same sentences. Of a
            document of more than 4 million characters (not of Wikipedia), its first part is
            compared.
        holdout: the share of documents, 0 to 1 (exclusive), that goes to `output/heldout` instead,
            a directory of shards of its own. A hash of the text chooses, so duplicates stay
            together and a document's side does not depend on its neighbours.
        max_document_tokens: a longer document is cut, between sentences, into records of about
            equal length, so that reading one example stays cheap. At most 65,535. A single
            sentence that is longer is cut too.
        shard_tokens: tokens in a shard, at least.
        num_workers: processes that find sentences and tokenize, 60 to 150 MB each; None for one a
            core, at most 8 (for a tokenizer of yours: this process alone). They start once the
            corpus proves larger than a few megabytes, and load neither Keras nor a backend: a
            function given as `sentences` must not need `keras_albert`.
        overwrite: whether to replace what `output` holds already, and start afresh; also where
            that is what an interrupted run with the same arguments has done.
        progress: whether to show progress.

    Returns:
        The `Manifest` of `output` (`Manifest.load("output/heldout")` reads the other).

    Raises:
        ValueError: for arguments outside these rules, input that is missing or broken, a corpus
            without text, an `output` that holds a corpus, or the beginnings of another, when not
            `overwrite`, and one that holds other things.
        RuntimeError: where a worker process was killed.

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
    check_settings(holdout, max_document_tokens, shard_tokens, num_workers)
    check("prepare_corpus", "a directory's path", is_path, output=output)
    check_booleans(
        "prepare_corpus", overwrite=overwrite, progress=progress, drop_duplicates=drop_duplicates
    )
    tokenizer = encoder_of(tokenizer)
    encoder = DocumentEncoder(tokenizer, sentences, int(max_document_tokens))
    if num_workers is None:
        num_workers = min(usable_cores(), MOST_WORKERS) if isinstance(tokenizer, Encoder) else 1
    # All of the input's names are checked here, before anything is deleted.
    skipped = Skipped()
    sources = read_sources(
        files,
        document_separator=document_separator,
        text_field=text_field,
        on_error=on_error,
        skipped=skipped,
    )
    settings = settings_of(
        sentences=sentences,
        document_separator=document_separator,
        text_field=text_field,
        on_error=on_error,
        drop_duplicates=drop_duplicates,
        holdout=holdout,
        max_document_tokens=max_document_tokens,
        shard_tokens=shard_tokens,
    )
    warn_of_language(sentences)
    output = Path(os.path.expanduser(output))
    inputs = _inputs(files, output)
    job = {**settings, "tokenizer": tokenizer.fingerprint(), "versions": manifests.versions()}
    with only_writer(output):
        writer = CorpusWriter(
            output,
            job,
            shard_tokens=shard_tokens,
            holdout=holdout,
            drop_duplicates=drop_duplicates,
            state=make_room(output, overwrite, job),
        )
        if progress and writer.sources:
            _announce(writer)
        try:
            with progress_bar(inputs.get("bytes", 0), progress) as advance:
                chained = _skip_known(_chained(sources), writer, output)
                saved = time.monotonic()
                for bytes_read, chain, document in _encoded(chained, encoder, num_workers):
                    writer.add(document, chain)
                    advance(bytes_read, sum(tokens for _, tokens in document.records))
                    if time.monotonic() - saved >= SAVE_SECONDS:
                        writer.save()
                        saved = time.monotonic()
                advance(inputs.get("bytes", 0), 0)
            writer.finish()
        finally:
            writer.release()
        for name, part in writer.parts.items():
            if not part.documents:
                forget_state(output)
                raise no_text(name, files, holdout)
        counts = {"documents": writer.sources, "duplicates": writer.duplicates}
        inputs = {**inputs, **counts, "skipped": skipped.as_dict()}
        for part in reversed(writer.parts.values()):  # `output`'s manifest last
            manifest = manifest_of(
                tokenizer,
                settings,
                inputs,
                documents=part.documents,
                sentences=part.sentences,
                shards=part.writer.entries,
            )
            manifests.save_tokenizer(tokenizer, part.directory / TOKENIZER)
            manifest.save(part.directory)
        writer.forget()
    return manifest


def _announce(writer: CorpusWriter):
    shards = sum(len(part.writer.entries) for part in writer.parts.values())
    print(
        f"Going on with what was begun in {writer.directory}: done are the first "
        f"{writer.sources:,} documents (parts of very long ones count), of which {shards:,} whole "
        f"shard{'' if shards == 1 else 's'}.",
        flush=True,
    )


def _chained(sources: Iterable[Source]) -> Iterator[tuple[Source, str]]:
    """Gives each source a hash of all that was read until then."""
    chain = ""
    for source in sources:
        text = source.text if isinstance(source.text, str) else "\n".join(source.text)
        data = chain.encode() + text.encode("utf-8", "surrogatepass")
        chain = hashlib.blake2b(data, digest_size=16).hexdigest()
        yield source, chain


def _skip_known(chained: Iterator[tuple[Source, str]], writer: CorpusWriter, output: Path):
    """Reads over what an interrupted preparation has seen; returns the rest."""
    chain = ""
    for _ in range(writer.sources):
        _, chain = next(chained, (None, None))
    if chain != writer.chain:
        raise ValueError(
            "A preparation goes on only over the input that it began with, and `files` has "
            "changed. Pass `overwrite=True` to start afresh. Received: other text in the first "
            f"{writer.sources:,} documents than when {str(output)!r} was begun"
        )
    return chained


def _encoded(
    chained: Iterable[tuple[Source, str]], encoder: DocumentEncoder, num_workers: int
) -> Iterator[tuple[int, str, EncodedDocument]]:
    """Yields (bytes read, chain, document), encoding by the batch, in several processes."""
    in_work = collections.deque()

    def batches():
        for batch in in_batches(chained):
            in_work.append([(source.bytes_read, chain) for source, chain in batch])
            yield [source for source, _ in batch]

    for documents in map_in_order(encoder, batches(), num_workers):
        for (bytes_read, chain), document in zip(in_work.popleft(), documents, strict=True):
            yield bytes_read, chain, document


def in_batches(chained: Iterable[tuple[Source, str]]) -> Iterator[list[tuple[Source, str]]]:
    """Gathers what `_chained` gives, about `BATCH_CHARACTERS` of text at a time."""
    batch, characters = [], 0
    for source, chain in chained:
        batch.append((source, chain))
        text = source.text
        characters += len(text) if isinstance(text, str) else sum(map(len, text))
        if characters >= BATCH_CHARACTERS or len(batch) >= BATCH_DOCUMENTS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _inputs(files, output: Path) -> dict:
    if not names_files(files):
        return {}
    found = find_files(files)
    inside = [path for path in found if output.resolve() in path.resolve().parents]
    if inside:
        raise ValueError(
            "`output` must not hold input files: what is written there would be read as text. "
            f"Received: {str(output)!r} and {str(inside[0])!r}"
        )
    return inputs_of([(path.name, path.stat().st_size) for path in found])
