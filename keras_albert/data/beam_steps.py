"""The steps of a distributed preparation: functions of their inputs, whoever runs them, how often.

A batch is about a megabyte of one file's text; its key, (number of the file, number of the batch),
says where it stands in the corpus. Only `plan` sees all of it, 23 bytes a document. Batches are
pickled here, as Beam's coders take each object in them on its own.

Suffixes: N documents (or parts of very long ones) of the corpus, K those that one part keeps.
"""

import collections
import pickle
from collections.abc import Iterable, Iterator

import numpy as np

from keras_albert.data import manifest as manifests
from keras_albert.data import preparation, prepare
from keras_albert.data.beam_files import local_file, published
from keras_albert.data.corpus_writer import HELDOUT
from keras_albert.data.documents import read_sources
from keras_albert.data.encoding import DocumentEncoder, held_out
from keras_albert.data.formats import MESSAGES, Skipped, load
from keras_albert.data.shards import write_shard

PARTS = ("", HELDOUT)
DROPPED = -1
SUMMARY = np.dtype(
    [
        ("digest", "<u8"),
        ("tokens", "<u8"),
        ("sentences", "<u4"),
        ("held_out", "?"),
        ("continues", "?"),
        ("has_tokens", "?"),
    ]
)
PLACE = np.dtype([("part", "i1"), ("shard", "<u4"), ("document", "<u4")])
NO_SUMMARY = (0, ((-1, 0), b""))  # so that a corpus without text has a plan too

Key = tuple[int, int]


class Read:
    """(Number of a file, its name) -> (key, sources); tagged `skipped`, what was left out.

    Args:
        **reading: `document_separator`, `text_field` and `on_error` of `read_sources`.
    """

    def __init__(self, **reading):
        self.reading = reading

    def __call__(self, file: tuple[int, str]) -> Iterator:
        number, name = file
        skipped = Skipped()
        with local_file(name) as path:
            sources = read_sources([path], skipped=skipped, **self.reading)
            batches = prepare.in_batches((source, "") for source in sources)
            for count, batch in enumerate(batches):
                yield (number, count), pickle.dumps([source for source, _ in batch])
        skipped.first = [message.replace(str(path), name) for message in skipped.first]
        yield _tagged("skipped", (number, skipped.as_dict()))


class Encode:
    """(Key, sources) -> (key, records of each); tagged `summaries`, what `plan` must know of them.

    Args:
        encoder: the work on the text.
        holdout: the share of documents to hold out.
    """

    def __init__(self, encoder: DocumentEncoder, holdout: float):
        self.encoder = encoder
        self.holdout = holdout

    def __call__(self, batch: tuple[Key, bytes]) -> Iterator:
        key, sources = batch
        if hasattr(self.encoder.tokenizer, "num_threads"):
            self.encoder.tokenizer.num_threads = 1  # the workers are the parallelism
        documents = self.encoder(pickle.loads(sources))
        summaries = [
            (
                document.digest,
                sum(tokens for _, tokens in document.records),
                document.num_sentences,
                held_out(document.digest, self.holdout),
                document.continues,
                bool(document.records),
            )
            for document in documents
        ]
        yield key, pickle.dumps([document.records for document in documents])
        yield _tagged("summaries", (0, (key, np.array(summaries, SUMMARY).tobytes())))


def plan(
    summaries: tuple[int, Iterable[tuple[Key, bytes]]], shard_tokens: int, drop_duplicates: bool
) -> Iterator:
    """All summaries -> (key, the places of its documents); tagged `totals`, a dict of counts.

    Decides what `CorpusWriter` does as documents come by: the part, what is a duplicate, where a
    shard ends, and the documents' numbers. Takes some 100 bytes of memory a document.
    """
    keys, summaries = zip(*sorted(summaries[1]), strict=True)
    sizes = [len(summary) // SUMMARY.itemsize for summary in summaries]
    documents_N = np.frombuffer(b"".join(summaries), SUMMARY)
    # A part that continues a document goes where its beginning went.
    first_N = np.where(documents_N["continues"], 0, np.arange(len(documents_N)))
    first_N = np.maximum.accumulate(first_N)
    part_N = documents_N["held_out"].astype("i1")
    duplicates = 0
    if drop_duplicates:
        asked = np.flatnonzero(documents_N["has_tokens"] & ~documents_N["continues"])
        _, firsts = np.unique(documents_N["digest"][asked], return_index=True)
        repeated = np.delete(asked, firsts)
        part_N[repeated] = DROPPED
        duplicates = len(repeated)
    part_N = np.where(documents_N["has_tokens"], part_N[first_N], DROPPED)

    places_N = np.zeros(len(documents_N), PLACE)
    places_N["part"] = part_N
    totals = {"sources": len(documents_N), "duplicates": duplicates, "parts": []}
    for part in range(len(PARTS)):
        kept_K = np.flatnonzero(part_N == part)
        starts_K = ~documents_N["continues"][kept_K]
        starts_K[:1] = True  # a first part without tokens leaves nothing to continue
        places_N["document"][kept_K] = np.cumsum(starts_K) - 1
        places_N["shard"][kept_K] = _shards(documents_N["tokens"][kept_K], shard_tokens)
        sentences = documents_N["sentences"][kept_K].sum(dtype="int64")
        totals["parts"].append({"documents": int(starts_K.sum()), "sentences": int(sentences)})
    ends = np.cumsum(sizes)
    for key, size, end in zip(keys, sizes, ends, strict=True):
        if size:
            yield key, places_N[end - size : end].tobytes()
    yield _tagged("totals", totals)


def _shards(tokens_K: np.ndarray, shard_tokens: int) -> np.ndarray:
    """The shard of each document: one is full after that with which it holds enough."""
    shards_K = np.zeros(len(tokens_K), "uint32")
    ends_K = np.cumsum(tokens_K, dtype="int64")
    start = before = 0
    while start < len(tokens_K):
        end = int(np.searchsorted(ends_K, before + shard_tokens)) + 1
        shards_K[end:] += 1
        start, before = end, ends_K[min(end, len(ends_K)) - 1]
    return shards_K


def assign(batch: tuple[Key, dict]) -> Iterator[tuple[tuple[int, int], tuple[Key, bytes]]]:
    """(Key, its records and their places) -> ((part, shard), (key, rows of `write_shard`))."""
    key, joined = batch
    (records,), (places,) = joined["records"], joined["places"]
    rows = collections.defaultdict(list)
    places = np.frombuffer(places, PLACE).tolist()
    for document, (part, shard, number) in zip(pickle.loads(records), places, strict=True):
        if part != DROPPED:
            rows[part, shard].extend((record, tokens, number) for record, tokens in document)
    for shard, of_shard in rows.items():
        yield shard, (key, pickle.dumps(of_shard))


def write(shard: tuple[tuple[int, int], Iterable], output: str) -> tuple[int, int, dict]:
    """((part, shard), its rows in any order) -> (part, shard, the manifest's entry)."""
    (part, number), chunks = shard
    chunks = sorted(chunks, key=lambda chunk: chunk[0])
    rows = (row for _, chunk in chunks for row in pickle.loads(chunk))
    with published(directory_of(output, part)) as directory:
        entry = write_shard(directory, number, rows)
    return part, number, entry


class Finish:
    """Writes the tokenizers and, when all else is there, the manifests.

    Args:
        tokenizer: as `prepare_corpus` uses it.
        settings, inputs: of the manifest; `inputs` without what is counted on the way.
        output: directory of the corpus.
        files: as the user gave them.
    """

    def __init__(self, tokenizer, settings: dict, inputs: dict, output: str, files: str):
        self.tokenizer = tokenizer
        self.settings = settings
        self.inputs = inputs
        self.output = output
        self.files = files

    def __call__(self, _, entries: list, totals: dict, skipped: list):
        """Args: what `write` returned, in any order; `plan`'s totals; what `Read` left out."""
        holdout = self.settings["holdout"]
        parts = list(enumerate(PARTS if holdout else PARTS[:1]))
        for part, name in parts:
            if not totals["parts"][part]["documents"]:
                raise preparation.no_text(name, self.files, holdout)
        inputs = {
            **self.inputs,
            "documents": totals["sources"],
            "duplicates": totals["duplicates"],
            "skipped": _joined(skipped),
        }
        for part, _ in reversed(parts):  # `output` last: where its manifest is, all is
            shards = sorted((number, entry) for of, number, entry in entries if of == part)
            manifest = preparation.manifest_of(
                self.tokenizer,
                self.settings,
                inputs,
                shards=[entry for _, entry in shards],
                **totals["parts"][part],
            )
            directory = directory_of(self.output, part)
            with published(f"{directory}/{preparation.TOKENIZER}") as beside:
                manifests.save_tokenizer(self.tokenizer, beside)
            with published(directory) as beside:
                manifest.save(beside)


def directory_of(output: str, part: int) -> str:
    """Where a part's shards are."""
    return f"{output}/{PARTS[part]}" if PARTS[part] else output


def _joined(skipped: list[tuple[int, dict]]) -> dict:
    """What was left out of all files, as if they had been read one after the other."""
    total = Skipped()
    for _, found in sorted(skipped, key=lambda numbered: numbered[0]):
        for kind, count in found["counts"].items():
            total.counts[kind] = total.counts.get(kind, 0) + count
        total.first += found["first"][: MESSAGES - len(total.first)]
    return total.as_dict()


def _tagged(tag: str, value):
    return load("apache_beam.pvalue", "A distributed preparation").TaggedOutput(tag, value)
