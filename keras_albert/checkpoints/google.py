"""Checkpoints of Google's original code: ALBERT v1 and v2, BERT, and what TF-Hub made of them.

A checkpoint is a prefix, beside it `albert_config.json` (or `bert_config.json`) and the vocabulary.
TensorFlow reads the file format.
"""

import os
import re
from pathlib import Path

from keras_albert.arguments import check, is_path
from keras_albert.checkpoints.configs import (
    dropout_note,
    infer_arguments,
    other_groups,
    to_arguments,
)
from keras_albert.checkpoints.files import inside, read_json
from keras_albert.checkpoints.keras_tables import garden_table
from keras_albert.checkpoints.names import (
    GOOGLE_ALBERT,
    GOOGLE_BERT,
    PROJECTION,
    TASK_HEADS,
    expand,
    find,
)
from keras_albert.checkpoints.stored import Checkpoint, Stored, check_finite, check_match, match
from keras_albert.models import AlbertPretrainer

CONFIGS = ("albert_config.json", "bert_config.json")
_OBJECT = "/.ATTRIBUTES/VARIABLE_VALUE"


def find_prefix(path: Path) -> Path | None:
    """The prefix that a path means: itself, its `.index`, or the only one in its directory."""
    if path.suffix == ".index":
        path = path.with_suffix("")
    if Path(f"{path}.index").is_file():
        return path
    if not path.is_dir():
        return None
    saved_model = path / "variables" / "variables"
    if Path(f"{saved_model}.index").is_file():
        return saved_model
    found = sorted(path.glob("*.index"))
    if len(found) > 1:
        raise ValueError(
            "A directory with several checkpoints does not say which is meant: pass the path of "
            f"one, without `.index`. Received: {[file.name for file in found]} in {path}"
        )
    return found[0].with_suffix("") if found else None


def open_google(prefix: Path, given: dict, name: str) -> Checkpoint:
    """Open a checkpoint by its prefix.

    Args:
        prefix: the path without `.index`.
        given: `num_layers` and `num_heads`, for one without a configuration.
        name: what the user called it; tells v2 and "uncased".
    """
    tensors, dropped = _read_index(prefix)
    shapes = {key: tensor.shape for key, tensor in tensors.items()}
    folder = prefix.parent
    folders = [folder, folder.parent / "assets"] if folder.name == "variables" else [folder]
    config_path = _first(folders, CONFIGS)
    family, table, form = _kind(shapes, prefix)
    notes = []
    if config_path is not None:
        config = read_json(config_path)
        arguments = to_arguments(config, "google", family, config_path, shapes)
        notes += dropout_note(name, arguments)
    elif (family, form) == ("albert", "google"):
        arguments = infer_arguments(shapes, given, prefix)
        notes.append(
            f"no albert_config.json: depth {arguments['num_layers']} and {arguments['num_heads']} "
            "heads are those of the released size or as passed, and dropout is 0"
        )
    else:
        raise ValueError(
            f"This checkpoint must have `{family}_config.json` beside it. Received: {prefix}"
        )
    other = other_groups(arguments)
    if other:
        notes.append(
            f"Google's code uses the group before at depths {other}, by rounding; here each depth "
            "has its own, so that outputs differ"
        )
    vocabulary, tokenizer_arguments = _vocabulary(folders, name)
    return Checkpoint(
        prefix,
        form,
        family,
        arguments,
        table,
        tensors,
        dropped,
        vocabulary,
        tokenizer_arguments,
        notes,
    )


def load_google_checkpoint(model, prefix: str | os.PathLike) -> None:
    """Load the weights of Google's ALBERT, heads included, into a pretrainer that there is.

    `AlbertPretrainer.from_preset` makes the model too.

    Args:
        model: an `AlbertPretrainer` of the checkpoint's architecture, with `sharing="all"`.
        prefix: the checkpoint's path without `.index` and `.data-...`.

    Raises:
        ImportError: TensorFlow, which reads this format, is not installed.
        ValueError: the file is not there, or does not fit the model. The model is unchanged then.

    Example:
    ```python
    load_google_checkpoint(model, "albert_base/model.ckpt-best")
    ```
    """
    check(
        "load_google_checkpoint",
        "a keras_albert.AlbertPretrainer",
        lambda value: isinstance(value, AlbertPretrainer),
        model=model,
    )
    check("load_google_checkpoint", "a path", is_path, prefix=prefix)
    prefix = Path(os.fspath(prefix))
    if not Path(f"{prefix}.index").exists():
        raise ValueError(
            "`prefix` must be a checkpoint's path without its `.index` ending, and there is no "
            f"such file. Received: {str(prefix)!r}"
        )
    tensors, dropped = _read_index(prefix)
    arguments = {**model.backbone.get_config(), "sharing": "all"}
    checkpoint = Checkpoint(prefix, "google", "albert", arguments, GOOGLE_ALBERT, tensors, dropped)
    rows = [row for row in expand(GOOGLE_ALBERT, arguments) if row.part not in TASK_HEADS]
    variables = {row.ours: find(model, row.ours) for row in rows}
    absent = [name for name, variable in variables.items() if variable is None]
    if absent:
        raise ValueError(f"The model has no {absent[0]!r}, which the checkpoint has weights for.")
    filled = {id(variable) for variable in variables.values()}
    missing = [weight.path for weight in model.weights if id(weight) not in filled]
    if missing:
        raise ValueError(
            f"The checkpoint has nothing for these weights of the model: {missing[:5]}"
        )
    found = match(checkpoint)
    if found.unexpected:
        raise ValueError(
            "The checkpoint has variables that this model has no place for: "
            f"{[tensor.name for tensor in found.unexpected[:5]]}. Make the model with the "
            "checkpoint's groups, inner repetitions and heads."
        )
    if found.missing:
        raise ValueError(f"The checkpoint has no variable {found.missing[0].theirs!r}.")
    check_match(checkpoint, found)
    check_finite(checkpoint, found)
    for row, tensor in found.found:
        value = tensor.value()
        variables[row.ours].assign(value.T if row.transposed else value)


def _read_index(prefix: Path) -> tuple[dict[str, Stored], list[str]]:
    """Names, shapes and dtypes of a checkpoint's variables, and the names that are left out."""
    _check_data_files(prefix)
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            "Checkpoints of Google's original code are read by TensorFlow: pip install tensorflow"
        ) from error
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        shapes = reader.get_variable_to_shape_map()
        dtypes = {name: dtype.name for name, dtype in reader.get_variable_to_dtype_map().items()}
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"A TensorFlow checkpoint must have a whole `.index`. Received: {prefix}: {error}"
        ) from error
    tensors, dropped, total = {}, [], 0
    for name in sorted(shapes):
        key = _clean(name)
        if key is None:
            dropped.append(name)
            continue
        shape = tuple(int(size) for size in shapes[name])
        size = tf.as_dtype(dtypes[name]).size or 1
        for length in shape:
            size *= length
        total += size
        if key in tensors:
            raise ValueError(
                "A checkpoint must have each variable once. "
                f"Received: {name!r} and {tensors[key].name!r} in {prefix}"
            )
        tensors[key] = Stored(name, shape, dtypes[name], _reading(reader, name, prefix))
    stored = sum(file.stat().st_size for file in _data_files(prefix))
    if total > stored:
        raise ValueError(
            "A TensorFlow checkpoint's data must be as long as its index says. "
            f"Received: {stored:,} bytes of {total:,} in {prefix}"
        )
    return tensors, dropped


def _reading(reader, name, prefix):
    def read():
        try:
            return reader.get_tensor(name)
        except Exception as error:  # TensorFlow raises several of its own, and RuntimeError
            raise ValueError(
                f"The variable {name!r} cannot be read. Received: {prefix}: {error}"
            ) from error

    return read


def _data_files(prefix: Path) -> list[Path]:
    start = f"{prefix.name}.data-"
    return sorted(file for file in prefix.parent.iterdir() if file.name.startswith(start))


def _check_data_files(prefix: Path) -> None:
    inside(prefix.parent, f"{prefix.name}.index")
    files = [inside(prefix.parent, file.name) for file in _data_files(prefix)]
    numbers = [re.fullmatch(r".*\.data-(\d{5})-of-(\d{5})", str(file)) for file in files]
    counts = {int(number[2]) for number in numbers if number}
    if not files or None in numbers or counts != {len(files)}:
        raise ValueError(
            "A TensorFlow checkpoint must have all its shards, `.data-00000-of-0000N` and on. "
            f"Received: {[file.name for file in _data_files(prefix)]} for {prefix}"
        )


def _clean(name: str) -> str | None:
    """A variable's name as in the tables; None for what belongs to the optimizer."""
    last = name.rsplit("/", 1)[-1]
    if last in ("adam_m", "adam_v", "global_step") or last.startswith("lamb_"):
        return None
    if name.endswith(_OBJECT):
        name = name.removesuffix(_OBJECT).removeprefix("model/")
        if "/.OPTIMIZER_SLOT/" in name or name.startswith(("optimizer/", "save_counter")):
            return None
        # Model Garden's pretrainer as a whole, rather than its parts.
        return re.sub("^encoder_network/", "encoder/", name)
    if name == "_CHECKPOINTABLE_OBJECT_GRAPH" or name.startswith("save_counter"):
        return None
    return name.removeprefix("module/")


def _kind(shapes: dict, prefix: Path):
    """(family, table, format) of a checkpoint, by the names of its variables."""
    if any("layer_shared" in name or "word_embeddings_2" in name for name in shapes):
        raise ValueError(
            "This is albert_zh's layout, whose segments, positions and LayerNorm stand at the "
            "hidden size, after a projection without bias: another architecture, which cannot be "
            f"held here. Received: {prefix}"
        )
    if any(name.startswith("bert/encoder/transformer/group_") for name in shapes):
        return "albert", GOOGLE_ALBERT, "google"
    if any(name.startswith("bert/encoder/layer_0/") for name in shapes):
        return "bert", GOOGLE_BERT, "google"
    table = garden_table(shapes)
    if table is not None:
        family = "albert" if any(row.ours.startswith(PROJECTION) for row in table) else "bert"
        return family, table, "model garden"
    raise ValueError(
        "A TensorFlow checkpoint must be Google's ALBERT or BERT, or a Model Garden encoder. "
        f"Received: variables as {sorted(shapes)[:5]} in {prefix}"
    )


def _first(folders, names) -> Path | None:
    for folder in folders:
        for name in names:
            path = inside(folder, name) if folder.is_dir() else None
            if path is not None:
                return path
    return None


def _vocabulary(folders, name):
    """The vocabulary's file and the tokenizer's arguments, which no configuration states."""
    pieces = [f for folder in folders if folder.is_dir() for f in sorted(folder.glob("*.model"))]
    if len(pieces) == 1:
        return inside(pieces[0].parent, pieces[0].name), {}
    words = _first(folders, ("vocab.txt",))
    # The released cased models say so in their names; the others are lower-cased.
    cased = re.search(r"(?<!un)cased", name.lower()) is not None
    return words, ({"lowercase": not cased} if words else {})
