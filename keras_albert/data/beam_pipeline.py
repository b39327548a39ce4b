r"""`prepare_corpus` on a distributed engine: the same shards, whoever runs it and with how many.

    files -> read -> encode -> records ------------------> places -> shards -> manifest
                        \-> summaries -> plan -> places --/

Reading a file is one worker's work; its text is then spread over all workers by the megabyte. What
depends on the order of documents (numbers, duplicates, where a shard ends) is decided in one place,
by `plan`, from 23 bytes a document.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from keras_albert.arguments import check, check_booleans, is_path
from keras_albert.data import beam_steps as steps
from keras_albert.data import manifest as manifests
from keras_albert.data import preparation
from keras_albert.data.beam_files import ATTEMPT, clear_objects, find_inputs, is_object, local_file
from keras_albert.data.corpus_writer import HELDOUT, load_state
from keras_albert.data.documents import read_sources, warn_of_language
from keras_albert.data.encoding import DocumentEncoder
from keras_albert.data.formats import load
from keras_albert.light import LIGHT
from keras_albert.preprocessing.encoders import Encoder
from keras_albert.preprocessing.files import names_files

# The engine of Beam's DirectRunner. By that name, Beam first tries to download another one.
LOCAL_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def prepare_corpus_beam(
    files,
    output: str | os.PathLike,
    *,
    tokenizer,
    options=None,
    sentences: str | Callable = "en",
    document_separator: str = "auto",
    text_field: str = "text",
    on_error: str = "raise",
    drop_duplicates: bool = False,
    holdout: float = 0.0,
    max_document_tokens: int = 8192,
    shard_tokens: int = 50_000_000,
    overwrite: bool = False,
) -> manifests.Manifest:
    """Tokenizes a corpus into shards with Apache Beam: the bytes that `prepare_corpus` writes.

    They depend neither on the runner nor on the number of workers. A worker holds one shard at a
    time (twice `shard_tokens` bytes, and some), and one worker the plan, about 100 bytes a
    document. Each file is read by one worker, so a large corpus should be in several. There is no
    going on after an interruption; the engine repeats what a lost worker did, which changes
    nothing.

    Args:
        files: paths, patterns or directories, as `prepare_corpus` takes them, that every worker
            can read; or names of objects such as `gs://bucket/text/*.jsonl`.
        output: a directory that every worker can write to, or such a name.
        tokenizer: as in `prepare_corpus`.
        options: Beam's `PipelineOptions`, or a list of flags such as `["--runner=FlinkRunner"]`;
            None for this process alone.
        sentences: as in `prepare_corpus`, as is all that follows.
        document_separator: see there.
        text_field: see there.
        on_error: see there.
        drop_duplicates: see there.
        holdout: see there.
        max_document_tokens: see there.
        shard_tokens: see there.
        overwrite: see there.

    Returns:
        The `Manifest` of `output`.

    Raises:
        ValueError: for arguments outside these rules, input that is missing, and an `output` that
            holds a corpus, or the beginnings of one, when not `overwrite`.
        RuntimeError: by the engine, with the message of what went wrong in a worker, such as
            input that is broken or a corpus without text. Within this process, the error itself.
        ImportError: where Apache Beam is not installed.

    Example:
        ```python
        prepare_corpus_beam(
            "/shared/text/*.jsonl.gz",
            "/shared/shards",
            tokenizer=keras_albert.AlbertTokenizer("spiece.model"),
            options=["--runner=FlinkRunner", "--flink_master=host:8081"],
        )
        ```
    """
    beam = load("apache_beam", "A distributed preparation")
    pipeline_options = load("apache_beam.options.pipeline_options", "A distributed preparation")
    preparation.check_settings(holdout, max_document_tokens, shard_tokens)
    check("prepare_corpus_beam", "a directory's path", is_path, output=output)
    check_booleans("prepare_corpus_beam", overwrite=overwrite, drop_duplicates=drop_duplicates)
    if not names_files(files):
        raise ValueError(
            "`files` must be paths, as documents in this process are not at hand in others. "
            f"Received: {str(files)[:200]}"
        )
    tokenizer = preparation.encoder_of(tokenizer)
    encoder = DocumentEncoder(tokenizer, sentences, int(max_document_tokens))
    reading = {
        "document_separator": document_separator,
        "text_field": text_field,
        "on_error": on_error,
    }
    read_sources(iter(()), **reading)  # checks these before anything is deleted
    found = find_inputs(files)
    settings = preparation.settings_of(
        sentences=sentences,
        drop_duplicates=drop_duplicates,
        holdout=holdout,
        max_document_tokens=max_document_tokens,
        shard_tokens=shard_tokens,
        **reading,
    )
    inputs = preparation.inputs_of([(name, size) for _, name, size in found])
    warn_of_language(sentences)
    output = _make_room(output, overwrite)
    if options is None or isinstance(options, (list, tuple)):
        options = pipeline_options.PipelineOptions(list(options or []))
    if not options.view_as(pipeline_options.StandardOptions).runner:
        options.view_as(pipeline_options.StandardOptions).runner = LOCAL_RUNNER

    with _light(isinstance(tokenizer, Encoder)), beam.Pipeline(options=options) as pipeline:
        read = (
            pipeline
            | "files" >> beam.Create(list(enumerate(name for name, _, _ in found)))
            | "spread files" >> beam.Reshuffle()
            | "read" >> beam.FlatMap(steps.Read(**reading)).with_outputs("skipped", main="batches")
        )
        encoded = (
            read.batches
            | "spread text" >> beam.Reshuffle()
            | "encode"
            >> beam.FlatMap(steps.Encode(encoder, float(holdout))).with_outputs(
                "summaries", main="records"
            )
        )
        planned = (
            (encoded.summaries, pipeline | "no text" >> beam.Create([steps.NO_SUMMARY]))
            | "summaries" >> beam.Flatten()
            | "gather summaries" >> beam.GroupByKey()
            | "plan"
            >> beam.FlatMap(steps.plan, int(shard_tokens), drop_duplicates).with_outputs(
                "totals", main="places"
            )
        )
        entries = (
            {"records": encoded.records, "places": planned.places}
            | "join" >> beam.CoGroupByKey()
            | "assign" >> beam.FlatMap(steps.assign)
            | "gather shards" >> beam.GroupByKey()
            | "write" >> beam.Map(steps.write, output)
        )
        finish = steps.Finish(tokenizer, settings, inputs, output, str(files))
        _ = (
            pipeline
            | "end" >> beam.Create([None])
            | "finish"
            >> beam.Map(
                finish,
                beam.pvalue.AsList(entries),
                beam.pvalue.AsSingleton(planned.totals),
                beam.pvalue.AsList(read.skipped),
            )
        )
    with local_file(f"{output}/{manifests.FILE_NAME}") as path:
        return manifests.Manifest.load(path.parent)


def _make_room(output: str | os.PathLike, overwrite: bool) -> str:
    """Removes what an earlier preparation left; returns a name of `output` for all workers."""
    if is_object(output):
        output = os.fspath(output).rstrip("/")
        directories = [steps.directory_of(output, part) for part in range(len(steps.PARTS))]
        clear_objects(output, directories, overwrite)
        return output
    path = Path(output).absolute()
    if not overwrite and load_state(path) is not None:
        raise ValueError(
            "What `prepare_corpus` began, it alone can go on with. Pass `overwrite=True` to start "
            f"afresh, or name another directory. Received: {str(output)!r}"
        )
    preparation.make_room(path, overwrite, {})
    for directory in (path, path / HELDOUT, path / preparation.TOKENIZER):
        for attempt in directory.glob(f"{ATTEMPT}*"):  # of workers that were killed
            shutil.rmtree(attempt, ignore_errors=True)
    path.mkdir(parents=True, exist_ok=True)
    return str(path)


@contextlib.contextmanager
def _light(wanted: bool) -> Iterator[None]:
    """Worker processes that this process starts load no Keras, unless the tokenizer may need it."""
    before = os.environ.get(LIGHT)
    if wanted:
        os.environ[LIGHT] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(LIGHT, None)
        else:
            os.environ[LIGHT] = before
