"""Preset directories of KerasHub's own ALBERT and BERT, read without building its models."""

from pathlib import Path

from keras_albert.checkpoints.files import check_arguments, inside, read_json
from keras_albert.checkpoints.keras_tables import KERASHUB_ALBERT, KERASHUB_BERT
from keras_albert.checkpoints.stored import Checkpoint, Stored

CLASSES = {
    "keras_hub>AlbertBackbone": ("albert", KERASHUB_ALBERT),
    "keras_hub>BertBackbone": ("bert", KERASHUB_BERT),
    "keras_nlp>AlbertBackbone": ("albert", KERASHUB_ALBERT),
    "keras_nlp>BertBackbone": ("bert", KERASHUB_BERT),
}
_ARGUMENTS = (
    "vocabulary_size",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "max_sequence_length",
    "num_segments",
)
_ALBERT_ARGUMENTS = ("embedding_dim", "num_groups", "num_inner_repetitions")
_MAX_OBJECTS = 100_000


def open_kerashub(directory: Path) -> Checkpoint:
    """Open a preset directory whose `config.json` names a class of `CLASSES`."""
    config_path = inside(directory, "config.json")
    config = read_json(config_path)
    family, table = CLASSES[config["registered_name"]]
    config = config.get("config")
    names = _ARGUMENTS + (_ALBERT_ARGUMENTS if family == "albert" else ())
    missing = [name for name in names if not isinstance(config, dict) or name not in config]
    if missing:
        raise ValueError(
            f"The configuration of a KerasHub preset must have {names}. "
            f"Missing: {missing} in {config_path}"
        )
    dropout = config.get("dropout", 0.0)  # one rate for everything
    arguments = {
        **{name: config[name] for name in names},
        "hidden_dropout": dropout,
        "attention_dropout": dropout,
        "activation": "gelu_tanh",
        "sharing": "all" if family == "albert" else "none",
    }
    if family == "bert":
        arguments["embedding_dim"] = arguments["hidden_dim"]
    elif arguments["embedding_dim"] == arguments["hidden_dim"]:
        arguments["project_embeddings"] = True  # KerasHub always projects
    weights = inside(directory, "model.weights.h5")
    if weights is None:
        raise ValueError(
            f"A KerasHub preset must have `model.weights.h5` in one piece. Received: {directory}"
        )
    tensors, dropped = _read(weights, "")
    task = inside(directory, "task.weights.h5")
    notes = []
    if task is not None:
        heads, of_optimizer = _read(task, "task/")
        tensors, dropped = {**tensors, **heads}, dropped + of_optimizer
        if any("masked_lm_head" in name for name in heads):
            activation = "" if family == "albert" else ", and the exact gelu"
            notes.append(
                f"KerasHub's masked-LM head has LayerNorm's epsilon at 1e-5{activation}; here it "
                "is as the original's, so that its logits differ a little"
            )
    vocabulary, tokenizer_arguments = _vocabulary(directory)
    return Checkpoint(
        directory,
        "kerashub",
        family,
        check_arguments(arguments, config_path),
        table,
        tensors,
        dropped,
        vocabulary,
        tokenizer_arguments,
        notes,
    )


def _read(path: Path, prefix: str) -> tuple[dict[str, Stored], list[str]]:
    """The datasets of an HDF5 file that lie in it themselves, uncompressed."""
    import h5py

    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"The weights must be an HDF5 file. Received: {path}: {error}") from error
    tensors, dropped, groups, count = {}, [], [("", file)], 0
    while groups:
        name, group = groups.pop()
        for key in group:
            count += 1
            full = f"{name}{key}"
            if count > _MAX_OBJECTS or not isinstance(group.get(key, getlink=True), h5py.HardLink):
                raise ValueError(
                    "An HDF5 file of weights must hold its objects itself, without links. "
                    f"Received: {full!r} in {path}"
                )
            child = group[key]
            if isinstance(child, h5py.Group):
                if len(full) > 1_000:  # a group that holds itself
                    raise ValueError(f"Groups of HDF5 must end. Received: {full[:80]!r} in {path}")
                groups.append((f"{full}/", child))
            elif full.startswith("optimizer/"):
                dropped.append(prefix + full)
            else:
                _check_dataset(child, full, path)
                clean = full
                for part in ("query", "key", "value", "output"):  # as Keras 3.0 to 3.5 wrote them
                    clean = clean.replace(f"_layer/_{part}_dense", f"_layer/{part}_dense")
                tensors[prefix + clean] = Stored(
                    prefix + full,
                    tuple(child.shape),
                    _dtype(child),
                    lambda child=child: _array(child),
                )
    return tensors, dropped


def _dtype(dataset) -> str:
    # Keras writes bfloat16 as its bytes, and says so.
    return str(dataset.attrs.get("dtype", dataset.dtype))


def _array(dataset):
    if _dtype(dataset) == "bfloat16":
        import ml_dtypes

        return dataset[()].view(ml_dtypes.bfloat16).reshape(dataset.shape)
    return dataset[()]


def _check_dataset(dataset, name, path):
    stored = dataset.id.get_storage_size()
    if dataset.external or dataset.is_virtual or dataset.shape is None or stored < dataset.nbytes:
        raise ValueError(
            "A dataset of weights must lie in its file with all its numbers, uncompressed. "
            f"Received: {name!r} of shape {dataset.shape}, stored in {stored:,} bytes, in {path}"
        )


def _vocabulary(directory: Path):
    folder = directory / "assets" / "tokenizer"
    if not folder.is_dir() or not folder.resolve().is_relative_to(directory.resolve()):
        return None, {}
    pieces = inside(folder, "vocabulary.spm")
    if pieces:
        return pieces, {}
    words = inside(folder, "vocabulary.txt")
    config_path = inside(directory, "tokenizer.json")
    config = read_json(config_path).get("config", {}) if config_path else {}
    return words, ({"lowercase": config.get("lowercase", False) is True} if words else {})
