"""Which format a path holds, and opening it."""

import contextlib
import inspect
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from keras_albert.checkpoints.archives import is_archive, unpack
from keras_albert.checkpoints.files import check_arguments, inside, read_json
from keras_albert.checkpoints.google import find_prefix, open_google
from keras_albert.checkpoints.huggingface import HUB, download, open_huggingface
from keras_albert.checkpoints.kerashub import CLASSES, open_kerashub
from keras_albert.checkpoints.stored import Checkpoint
from keras_albert.models import AlbertBackbone
from keras_albert.models.presets import parameter_count

OURS = "keras_albert>"
# What a configuration of this package leaves out.
DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(AlbertBackbone).parameters.items()
    if parameter.default is not parameter.empty
}
_PRESET_FILES = ("config.json", "task.json", "tokenizer.json", "preprocessor.json", "metadata.json")


def place_of(source: str | os.PathLike) -> Path | None:
    """The local path of a checkpoint, downloaded from `hf://` if need be.

    None for the handles of other hubs (as `kaggle://`), which KerasHub reads.
    """
    source = os.fspath(source)
    if source.startswith(HUB):
        return download(source)
    if "://" in source:
        return None
    path = Path(source).expanduser()
    if not path.exists() and not Path(f"{path}.index").exists():
        raise ValueError(
            "A checkpoint must be a directory, a `.tar.gz` or `.zip`, the prefix of a TensorFlow "
            f"checkpoint, or 'hf://owner/name'. There is nothing at: {source!r}"
        )
    return path.resolve()


def is_own_preset(path: Path) -> bool:
    """Whether a path is a directory that `save_to_preset` of this package wrote.

    Raises:
        ValueError: a configuration in it is beyond the bounds of `files`, or asks for a larger
            model than the weights beside it can be.
    """
    config = _config(path)
    if not str(config.get("registered_name", "")).startswith(OURS):
        return False
    configs = {name: read_json(path / name) for name in _PRESET_FILES if inside(path, name)}
    weights = inside(path, "model.weights.h5")
    task = configs.get("task.json", {}).get("config", {})
    for name, holder in (("config.json", config), ("task.json", task.get("backbone"))):
        if isinstance(holder, dict) and isinstance(holder.get("config"), dict):
            arguments = check_arguments({**DEFAULTS, **holder["config"]}, path / name)
            # One byte each at the least, whatever the dtype.
            if weights and parameter_count(arguments) > weights.stat().st_size:
                raise ValueError(
                    "A preset's weights must be as many as its configuration asks for. Received: "
                    f"{parameter_count(arguments):,} asked for, {weights.stat().st_size:,} bytes "
                    f"in {weights}"
                )
    return True


@contextlib.contextmanager
def open_checkpoint(
    path: Path, name: str | None = None, given: dict | None = None
) -> Iterator[Checkpoint]:
    """Open a checkpoint of another program; its tensors can be read inside the `with`.

    Args:
        path: from `place_of`.
        name: what the user called it, where that tells more than the path.
        given: `num_layers` and `num_heads`, where the checkpoint may not state them.

    Raises:
        ValueError: the format is not known, or something in it breaks a rule.
    """
    name, given = name or str(path), given or {}
    with contextlib.ExitStack() as stack:
        if path.is_file() and path.suffix != ".index":
            if not is_archive(path):
                raise ValueError(
                    "A file must be a `.tar.gz` or `.zip` of a checkpoint; of Hugging Face's files "
                    "pass the directory, and load `.keras` by `keras.saving.load_model`. "
                    f"Received: {path}"
                )
            archive = path
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keras_albert_")))
            unpack(archive, path)
        yield _open(path, name, given)


def _open(path: Path, name: str, given: dict) -> Checkpoint:
    config = _config(path)
    if config.get("registered_name") in CLASSES:
        return open_kerashub(path)
    if "model_type" in config:
        return open_huggingface(path, name)
    prefix = find_prefix(path)
    if prefix is not None:
        return open_google(prefix, given, name)
    raise ValueError(
        "A checkpoint must be of Google's ALBERT or BERT, TF-Hub, Hugging Face, KerasHub or this "
        f"package. Received: {name!r}, with neither `config.json` of a known model nor `.index`"
    )


def _config(path: Path) -> dict:
    config = inside(path, "config.json") if path.is_dir() else None
    return read_json(config) if config else {}
