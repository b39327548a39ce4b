"""Files that nobody vouches for: JSON with bounds, paths that stay inside, JSON's numbers.

Configurations are read as data. No path or URL that one names is opened.
"""

import json
import re
from pathlib import Path

MAX_CONFIG_BYTES = 1 << 20
MAX_INDEX_BYTES = 1 << 25  # an index of shards or a tokenizer.json names every tensor or piece
MAX_DEPTH = 32

# The largest that an architecture may ask for; a model beyond them is no ALBERT or BERT.
LIMITS = {
    "vocabulary_size": 4_000_000,
    "num_layers": 512,
    "num_heads": 1_024,
    "hidden_dim": 65_536,
    "embedding_dim": 65_536,
    "intermediate_dim": 262_144,
    "num_groups": 512,
    "num_inner_repetitions": 64,
    "max_sequence_length": 131_072,
    "num_segments": 1_024,
}

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def read_json(path: Path, max_bytes: int = MAX_CONFIG_BYTES) -> dict:
    """Read a JSON object, within bounds of size and depth.

    Raises:
        ValueError: the file is larger or nested deeper than a configuration can be, is no JSON
            object, or has a key twice.
    """
    size = path.stat().st_size
    if size > max_bytes:
        raise ValueError(
            f"A configuration must be at most {max_bytes:,} bytes. Received: {path}, {size:,} bytes"
        )
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise ValueError(
            f"A configuration must be JSON, an object with each key once and nested at most "
            f"{MAX_DEPTH} deep. Received: {path}: {error}"
        ) from error


def parse_json(text: str) -> dict:
    """Parse a JSON object; see `read_json`."""
    depth = 0
    for character in _STRING.sub("", text):
        depth += (character in "[{") - (character in "]}")
        if depth > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} deep")
    value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    if not isinstance(value, dict):
        raise ValueError(f"{type(value).__name__} instead of an object")
    return value


def _object(pairs):
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise ValueError(f"the key {twice[0]!r} stands there twice")
    return value


def _refuse_constant(name):
    raise ValueError(f"{name} is no JSON number")


def inside(directory: Path, name: str) -> Path | None:
    """The file of this name in a checkpoint's directory; None where there is none.

    Raises:
        ValueError: the name has a path in it, or the file lies elsewhere, behind a symbolic link.
    """
    if Path(name).name != name or name in ("", ".", ".."):
        raise ValueError(
            f"Files of a checkpoint must be named without a path. Received: {name!r} in {directory}"
        )
    path = directory / name
    if not path.exists():
        return None
    root = directory.resolve()
    for folder in (root, *root.parents):
        if folder.parent.name == "snapshots":  # Hugging Face's cache: links into ../../blobs
            root = folder.parent.parent
            break
    if not path.resolve().is_relative_to(root):
        raise ValueError(
            "A checkpoint's files must lie in its directory, not behind a symbolic link: pass the "
            f"directory that holds them, or copy them. Received: {path} -> {path.resolve()}"
        )
    return path if path.is_file() else None


def check_arguments(arguments: dict, path) -> dict:
    """Raise a `ValueError` where an architecture is beyond the bounds; return it otherwise."""
    arguments = dict(arguments)
    for name, limit in LIMITS.items():
        value = arguments.get(name, 1)
        if type(value) is not int or not 1 <= value <= limit:
            raise ValueError(
                f"`{name}` of a checkpoint must be an integer from 1 to {limit:,}. "
                f"Received: {value!r} in {path}"
            )
    for name in ("hidden_dropout", "attention_dropout"):
        value = arguments.get(name, 0.0)
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise ValueError(
                f"`{name}` of a checkpoint must be a number from 0 to less than 1. "
                f"Received: {value!r} in {path}"
            )
        arguments[name] = float(value)
    for name in ("layer_norm_epsilon", "initializer_range"):
        value = arguments.get(name, 0.02)
        if type(value) not in (int, float) or not 0 < value <= 1:
            raise ValueError(
                f"`{name}` of a checkpoint must be a number above 0 and at most 1. "
                f"Received: {value!r} in {path}"
            )
    if arguments["hidden_dim"] % arguments["num_heads"]:
        raise ValueError(
            "The heads of a checkpoint must divide its hidden size. Received: "
            f"{arguments['num_heads']} heads, hidden size {arguments['hidden_dim']} in {path}"
        )
    if arguments["num_layers"] % arguments.get("num_groups", 1):
        raise ValueError(
            "The groups of a checkpoint must divide its layers. Received: "
            f"{arguments['num_groups']} groups, {arguments['num_layers']} layers in {path}"
        )
    return arguments
