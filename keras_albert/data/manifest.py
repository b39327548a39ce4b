"""The manifest of a directory of shards, and the tokenizer beside them.

A manifest says what the shards hold, how they were made, and their checksums.
"""

import dataclasses
import importlib.metadata
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from keras_albert.arguments import check, check_integers, is_path
from keras_albert.data.shards import ShardReader, read_index, sha256
from keras_albert.version import __version__

FORMAT_VERSION = 1
FILE_NAME = "manifest.json"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What `prepare_corpus` has written, as `manifest.json` says it.

    Attributes:
        tokenizer: dict with `class_name`, `fingerprint` and `vocabulary_size`.
        token_dtype: `"uint16"` or `"uint32"`.
        num_documents, num_sentences, num_tokens, num_records: totals over the shards.
        shards: a dict for each shard: `name`, `num_records`, `num_tokens`, `num_bytes`, `sha256`,
            `index_sha256`.
        settings: the arguments of `prepare_corpus` that shape the result.
        inputs: dict with `files` (their number), `bytes` and a `sha256` over names and sizes; empty
            where the input was an iterable.
        versions: of this package, array_record, sentencex and sentencepiece.
        format_version: of this file and the records.
    """

    tokenizer: dict
    token_dtype: str
    num_documents: int
    num_sentences: int
    num_tokens: int
    num_records: int
    shards: list[dict]
    settings: dict
    inputs: dict
    versions: dict
    format_version: int = FORMAT_VERSION

    def __post_init__(self):
        for field in ("tokenizer", "settings", "inputs", "versions"):
            value = getattr(self, field)
            check("Manifest", "a dict", lambda v: isinstance(v, dict), **{field: value})
        names = ("num_documents", "num_sentences", "num_tokens", "num_records", "format_version")
        check_integers("Manifest", 0, **{name: getattr(self, name) for name in names})
        check(
            "Manifest",
            "'uint16' or 'uint32'",
            lambda v: v in ("uint16", "uint32"),
            token_dtype=self.token_dtype,
        )
        check(
            "Manifest",
            "a list of dicts",
            lambda v: isinstance(v, list) and all(isinstance(shard, dict) for shard in v),
            shards=self.shards,
        )

    def save(self, directory: str | os.PathLike):
        """Writes `manifest.json`, in one step: it is there whole or not at all."""
        check("save", "an existing directory", os.path.isdir, directory=directory)
        path = Path(directory, FILE_NAME)
        beside = path.with_suffix(".json.partial")
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(self), file, indent=2, sort_keys=True)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "Manifest":
        """Reads the manifest of a directory of shards.

        Raises:
            ValueError: where there is none, or it is not one that this version can read.
        """
        check("load", "a directory's path", is_path, directory=directory)
        path = Path(directory, FILE_NAME)
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(
                f"A directory of shards must hold {FILE_NAME}, which `prepare_corpus` writes when "
                f"it has finished. Received: {str(directory)!r}"
            ) from None
        except ValueError as error:
            raise ValueError(f"{path} is not valid JSON: {error}") from None
        version = fields.get("format_version") if isinstance(fields, dict) else None
        if version != FORMAT_VERSION:
            raise ValueError(
                f"Shards must be of format version {FORMAT_VERSION}; prepare the corpus again. "
                f"Received: {version!r} in {path}"
            )
        try:
            return cls(**fields)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a manifest of shards: {error}") from None

    def open(self, directory: str | os.PathLike, verify: bool = True):
        """Checks the shards and opens them.

        Args:
            directory: where the manifest was loaded from.
            verify: whether to read every byte and compare its SHA-256 (about 0.5 GB a second and
                core). Presence, sizes and numbers of records are checked in any case.

        Returns:
            `(reader, index)`: a `ShardReader` and a (num_records, 2) uint32 array of
            (tokens, document), the shards one after the other.

        Raises:
            ValueError: naming a file that is missing, too short or long, or changed.
        """
        paths = [Path(directory, shard["name"]) for shard in self.shards]
        with ThreadPoolExecutor() as pool:
            parts = list(pool.map(_checked_index, paths, self.shards, [verify] * len(paths)))
        counts = [shard["num_records"] for shard in self.shards]
        reader = ShardReader(paths, np.cumsum([0, *counts]), np.dtype(self.token_dtype))
        for number, (path, count) in enumerate(zip(paths, counts, strict=True)):
            if (received := reader.num_records(number)) != count:
                raise _broken(path, f"{received} records where the manifest has {count}")
        index = np.concatenate(parts) if parts else np.zeros((0, 2), "uint32")
        return reader, index


def _checked_index(path: Path, shard: dict, verify: bool) -> np.ndarray:
    """Checks a shard and its index against the manifest; returns the index."""
    index_path = path.with_suffix(".index")
    for needed in (path, index_path):
        if not needed.is_file():
            raise _broken(needed, "missing")
    if (size := path.stat().st_size) != shard["num_bytes"]:
        raise _broken(path, f"{size} bytes where the manifest has {shard['num_bytes']}")
    # The index is small and everything rests on it: checked always.
    for needed, key in ((index_path, "index_sha256"), *([(path, "sha256")] if verify else [])):
        if sha256(needed) != shard[key]:
            raise _broken(needed, "its SHA-256 is not the manifest's")
    index = read_index(index_path)
    if index.shape != (shard["num_records"], 2) or index[:, 0].sum() != shard["num_tokens"]:
        raise _broken(index_path, f"shape {index.shape} does not fit the manifest")
    return index


def _broken(path: Path, why: str) -> ValueError:
    return ValueError(
        f"Shards must be as `prepare_corpus` wrote them. Restore this file, or prepare the corpus "
        f"again with `overwrite=True`: {path} ({why})"
    )


def versions() -> dict[str, str]:
    """The versions that a manifest records."""
    found = {"keras_albert": __version__}
    for package in ("array_record", "sentencex", "sentencepiece"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def save_tokenizer(tokenizer, directory: Path):
    """Saves a tokenizer as `tokenizer.json` (its Keras configuration) and its assets."""
    if hasattr(tokenizer, "save"):  # an `Encoder`, which needs no Keras
        tokenizer.save(directory)
        return
    import keras

    directory.mkdir(parents=True, exist_ok=True)
    config = keras.saving.serialize_keras_object(tokenizer)
    Path(directory, "tokenizer.json").write_text(json.dumps(config, indent=2, sort_keys=True))
    tokenizer.save_assets(str(directory))


def load_tokenizer(directory: Path):
    """Loads what `save_tokenizer` saved.

    Raises:
        ValueError: where there is no tokenizer, or its class is not known.
    """
    path = Path(directory, "tokenizer.json")
    if not path.is_file():
        raise ValueError(f"Shards must have their tokenizer beside them. Missing: {path}")
    import keras

    config = json.loads(path.read_text())
    if keras.saving.get_registered_object(config.get("registered_name")) is None:
        # Registers our classes with Keras; not at the top, as keras_hub takes seconds to import.
        from keras_albert.preprocessing import albert_tokenizer, bert_tokenizer  # noqa: F401
    try:
        tokenizer = keras.saving.deserialize_keras_object(config)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The tokenizer's class must be registered with Keras before its shards are opened; or "
            f"pass `tokenizer`. {path}: {error}"
        ) from error
    tokenizer.load_assets(str(directory))
    return tokenizer
