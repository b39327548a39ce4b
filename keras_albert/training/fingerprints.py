"""What makes a run the same run: its data, its model, how it was compiled, and the versions."""

import hashlib
import importlib.metadata
import json
from pathlib import Path

import keras
import numpy as np

# How batches are made, not what is in them.
NOT_CONTENT = {
    "max_queue_size",
    "num_processes",
    "prefetch",
    "process_index",
    "start_step",
    "use_multiprocessing",
    "workers",
}
# `name` is numbered by Keras, by how many objects the process has made before.
NOT_SETTINGS = {"build_config", "module", "name", "registered_name", "shared_object_id"}


def describe_data(data) -> dict:
    """A flat dict of a stream's settings, its tokenizer, its shards, and batch 0.

    Settings are the public attributes that are plain values. The digest of batch 0 finds what
    settings do not say: other text, another seed, code that masks otherwise.
    """
    found = {"data": type(data).__name__, **_settings(data)}
    for number, part in enumerate(getattr(data, "datasets", ())):
        found.update({f"{key} of part {number}": value for key, value in _settings(part).items()})
    start, data.start_step = data.start_step, 0
    try:
        batch = data[0]
    finally:
        data.start_step = start
    digest = hashlib.sha256()
    for leaf in keras.tree.flatten(batch):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return {**found, "batch 0": digest.hexdigest()[:16]}


def describe_model(model) -> dict:
    """A flat dict of a compiled model: objective, shapes, optimizer and losses."""
    shapes = [[v.name, list(v.shape), str(v.dtype)] for v in model.variables]
    compiled = model.get_compile_config() or {}
    found = {
        "model": type(model).__name__,
        "objective of the model": getattr(model, "objective", None),
        "variables": hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:16],
        "optimizer": keras.saving.serialize_keras_object(model.optimizer),
        "loss": compiled.get("loss"),
        "loss_weights": compiled.get("loss_weights"),
    }
    # As JSON reads them again, so that what was saved compares equal.
    return json.loads(json.dumps(dict(_flatten(found)), default=repr))


def describe_code() -> dict:
    """Versions, the backend, and a digest of this package's own files."""
    backend = keras.backend.backend()
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        digest.update(path.read_bytes())
    return {
        "keras_albert": importlib.metadata.version("keras-albert"),
        "code of keras_albert": digest.hexdigest()[:16],
        "keras": keras.__version__,
        "backend": f"{backend} {importlib.metadata.version(backend)}",
    }


def differences(saved: dict, now: dict) -> list[str]:
    """Lines that name what differs: `batch_size: 32 -> 64`."""
    return [
        f"{name}: {saved.get(name)!r} -> {now.get(name)!r}"
        for name in sorted({*saved, *now})
        if saved.get(name) != now.get(name)
    ]


def _settings(data) -> dict:
    plain = (bool, int, float, str, type(None))
    found = {}
    for name, value in vars(data).items():
        value = list(value) if isinstance(value, (list, tuple)) else value
        values = value if isinstance(value, list) else [value]
        public = not name.startswith("_") and name not in NOT_CONTENT
        if public and all(isinstance(one, plain) for one in values):
            found[name] = value
    manifest = getattr(data, "manifest", None)
    if manifest is not None:
        found["tokenizer"] = manifest.tokenizer["fingerprint"]
        shards = "".join(shard["sha256"] for shard in manifest.shards)
        found["shards"] = hashlib.sha256(shards.encode()).hexdigest()[:16]
    return found


def _flatten(value, name=""):
    """(dotted name, plain value) of nested dicts, without Keras' own book-keeping and numbering."""
    if not isinstance(value, dict):
        yield name, value
        return
    for key, inner in value.items():
        if key not in NOT_SETTINGS:
            inside = name if key == "config" else f"{name}.{key}" if name else str(key)
            yield from _flatten(inner, inside)
