"""What every way to prepare a corpus shares: settings, checks, the output directory, manifests."""

import contextlib
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from keras_albert.arguments import check, check_integers, is_integer, is_number
from keras_albert.data import manifest as manifests
from keras_albert.data.corpus_writer import (
    DUPLICATES,
    HELDOUT,
    STATE,
    forget_state,
    load_state,
)
from keras_albert.data.shards import PARTIAL
from keras_albert.data.token_records import MAX_SENTENCE_TOKENS, token_dtype
from keras_albert.preprocessing.encoders import Encoder

TOKENIZER = "tokenizer"  # the directory beside the shards
# What a preparation that was stopped at once leaves, and what `keras-albert prepare` trains.
BEFORE_SHARDS = {"lock", HELDOUT, "spiece.model", "spiece.json", "spiece.json.partial"}
BEFORE_SHARDS |= {f"{DUPLICATES}{end}" for end in ("", "-wal", "-shm")} | {f"{STATE}.partial"}


def settings_of(*, sentences: str | Callable, **settings) -> dict:
    """The arguments that shape the result, as a manifest keeps them."""
    integers = ("max_document_tokens", "shard_tokens")
    return {
        **settings,
        "sentences": sentences if isinstance(sentences, str) else _name(sentences),
        "holdout": float(settings["holdout"]),
        **{name: int(settings[name]) for name in integers},
    }


def manifest_of(
    tokenizer, settings: dict, inputs: dict, *, documents: int, sentences: int, shards: list[dict]
) -> manifests.Manifest:
    """The manifest of a part whose shards are written."""
    return manifests.Manifest(
        tokenizer={
            "class_name": getattr(tokenizer, "class_name", type(tokenizer).__name__),
            "fingerprint": tokenizer.fingerprint(),
            "vocabulary_size": int(tokenizer.vocabulary_size()),
        },
        token_dtype=token_dtype(tokenizer.vocabulary_size()).name,
        num_documents=documents,
        num_sentences=sentences,
        num_tokens=sum(shard["num_tokens"] for shard in shards),
        num_records=sum(shard["num_records"] for shard in shards),
        shards=shards,
        settings=settings,
        inputs=inputs,
        versions=manifests.versions(),
    )


def no_text(part: str, files, holdout: float) -> ValueError:
    """The error for a part of the corpus that no document went to."""
    which = "held-out " if part else ""
    return ValueError(
        f"A corpus must have {which}text: `files` gave no {which}document with tokens. "
        f"Received: files={str(files)[:200]}, holdout={holdout}"
    )


@contextlib.contextmanager
def only_writer(output: Path):
    """Makes the directory, and refuses to share it with another preparation that is running."""
    import fcntl

    _check_directory(output)
    output.mkdir(parents=True, exist_ok=True)
    path = output / "lock"
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                "Only one preparation may write to `output` at a time: wait for the other, or name "
                f"another directory. Received: {str(output)!r}"
            ) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _check_directory(output: Path):
    if output.exists() and not output.is_dir():
        raise ValueError(f"`output` must be a directory. Received: {str(output)!r}, a file")


def check_room(output: Path, overwrite: bool):
    """Raises a `ValueError` where `output` is no place for a corpus; changes nothing."""
    _check_directory(output)
    _check_ours(output)
    if Path(output, manifests.FILE_NAME).exists() and not overwrite:
        raise ValueError(
            "`output` must not hold a corpus already. Use it as it is, pass `overwrite=True` to "
            f"replace it, or name another directory. Received: {str(output)!r}"
        )


def _check_ours(output: Path):
    """Refuses a directory of something else: shards among other files, and `tokenizer` replaced."""
    if not output.exists() or any(output.glob("shard-*")):
        return
    if load_state(output) is not None:
        return
    with contextlib.suppress(ValueError):  # other programs have a manifest.json too
        manifests.Manifest.load(output)
        return
    names = {path.name for path in output.iterdir() if not path.name.startswith(".")}
    if others := sorted(names - BEFORE_SHARDS):
        raise ValueError(
            "`output` must be a directory that is new, empty or of a corpus. Name another. "
            f"Received: {str(output)!r}, which holds {', '.join(map(repr, others[:5]))}"
        )


def make_room(output: Path, overwrite: bool, job: dict) -> dict | None:
    """Returns the state to go on from; or removes what is there, and no more, and returns None."""
    check_room(output, overwrite)
    state = None if overwrite else load_state(output)
    if state is not None:
        was = state["job"]
        if was != job:
            differ = [f"{k}: {was.get(k)!r}, now {v!r}" for k, v in job.items() if was.get(k) != v]
            raise ValueError(
                "A preparation goes on only with the settings that it began with. Pass these, or "
                f"`overwrite=True` to start afresh. Received: {str(output)!r} holds the beginnings "
                f"of another ({'; '.join(differ)})"
            )
        return state
    if Path(output, HELDOUT, manifests.FILE_NAME).exists() and not overwrite:
        raise ValueError(
            "`output` must not hold a corpus already, in its directory for held-out documents "
            "either. Pass `overwrite=True` to replace it, or name another directory. "
            f"Received: {str(output / HELDOUT)!r}"
        )
    for directory in (output, output / HELDOUT):
        Path(directory, manifests.FILE_NAME).unlink(missing_ok=True)  # first: no longer whole
        forget_state(directory)
        endings = ("array_record", "index", "journal", f"array_record{PARTIAL}")
        for ending in (*endings, f"index{PARTIAL}"):
            for path in directory.glob(f"shard-*.{ending}"):
                path.unlink()
        shutil.rmtree(directory / TOKENIZER, ignore_errors=True)
    with contextlib.suppress(OSError):
        Path(output, HELDOUT).rmdir()  # only if nothing else is in it
    return None


def inputs_of(files: list[tuple[str, int]]) -> dict:
    """What a manifest says of input files, from their (name, size)s."""
    listing = "\n".join(f"{name}\t{size}" for name, size in files)
    digest = hashlib.sha256(listing.encode()).hexdigest()
    return {"files": len(files), "bytes": sum(size for _, size in files), "sha256": digest}


def _name(function: Callable) -> str:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', None) or 'builtins'}.{name}"


def check_settings(holdout, max_document_tokens, shard_tokens, num_workers=None):
    """Raises a `ValueError` for numbers that a preparation cannot use."""
    if not is_number(holdout) or not 0 <= holdout < 1:
        raise ValueError(f"`holdout` must be at least 0 and below 1. Received: {holdout!r}")
    if not is_integer(max_document_tokens) or not 8 <= max_document_tokens <= MAX_SENTENCE_TOKENS:
        raise ValueError(
            f"`max_document_tokens` must be an integer from 8 to {MAX_SENTENCE_TOKENS}. "
            f"Received: {max_document_tokens!r}"
        )
    check_integers("prepare_corpus", 1, shard_tokens=shard_tokens)
    if num_workers is not None:
        check_integers("prepare_corpus", 1, num_workers=num_workers)


def encoder_of(tokenizer):
    """The part of a tokenizer that needs no Keras; the tokenizer itself where there is none."""
    encoder = getattr(tokenizer, "encoder", None)
    ours = type(tokenizer).__module__.startswith("keras_albert.")  # a subclass may do otherwise
    if encoder is not None and ours and encoder.class_name == type(tokenizer).__name__:
        return encoder
    needed = ("encode_batch", "fingerprint", "vocabulary_size")
    if not isinstance(tokenizer, Encoder):
        needed += ("save_assets", "load_assets")
    check(
        "prepare_corpus",
        f"an AlbertTokenizer, a BertTokenizer or an object with {', '.join(needed)}",
        lambda value: all(hasattr(value, name) for name in needed),
        tokenizer=tokenizer,
    )
    tokenizer.fingerprint()  # one without a vocabulary is refused before anything is deleted
    return tokenizer
