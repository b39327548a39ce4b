"""Models as checkpoints of other programs: Hugging Face's directories, Google's TF1 checkpoints.

A checkpoint appears under its name when it is whole.
"""

import os
from pathlib import Path

import keras
import numpy as np

from keras_albert.arguments import check, is_path
from keras_albert.checkpoints.architecture import change_architecture
from keras_albert.checkpoints.configs import (
    ARCHITECTURES,
    from_arguments,
    head_config,
    other_groups,
)
from keras_albert.checkpoints.directories import (
    whole_directory,
    write_tokenizer,
    write_vocabulary,
)
from keras_albert.checkpoints.huggingface import TABLES
from keras_albert.checkpoints.names import (
    GOOGLE_ALBERT,
    GOOGLE_BERT,
    axis_sizes,
    expand,
    find,
    has_projection,
)
from keras_albert.checkpoints.weight_files import write_json, write_safetensors
from keras_albert.models import AlbertBackbone
from keras_albert.preprocessing import AlbertTokenizer, BertTokenizer


def to_huggingface(model, directory: str | os.PathLike, tokenizer=None) -> Path:
    """Write a model as a directory that transformers loads: safetensors, config, tokenizer.

    BERT (no sharing, no factorisation) is written as BERT, everything else as ALBERT; weights that
    ALBERT's format cannot share are written once for each depth. Written whole or not at all.

    Args:
        model: an `AlbertBackbone`, `AlbertPretrainer` or task model; names of classes become
            `id2label`.
        directory: where; it must be new or empty.
        tokenizer: whose vocabulary to write; by default that of the model's preprocessor.

    Returns:
        The directory.

    Raises:
        ImportError: safetensors is not installed.
        ValueError: the directory holds something, the model is of another class, its activation
            has no name there, or it has the beam head, which transformers' ALBERT has not.

    Example:
    ```python
    keras_albert.checkpoints.to_huggingface(model, "out")
    transformers.AutoModel.from_pretrained("out")
    ```
    """
    _check("to_huggingface", model, tokenizer, directory=directory)
    if getattr(model, "head", None) == "beam":
        raise ValueError(
            "transformers has no ALBERT with the beam head: write it by `to_google` or "
            '`to_preset`. Received: head="beam"'
        )
    directory = Path(directory)
    with whole_directory(directory) as beside:
        backbone = _backbone(model)
        family = _family(backbone)
        arguments = backbone.get_config()
        model, arguments = _as_groups(model, arguments, family)
        if family == "albert":
            arguments["project_embeddings"] = True
        tensors = dict(_named(model, TABLES[family], arguments))
        config = from_arguments(arguments, "huggingface", family)
        config |= _architecture(model, family) | head_config(model, family)
        tokenizer = tokenizer or _tokenizer(model)
        config["pad_token_id"] = tokenizer.pad_token_id if tokenizer else 0
        if family == "albert" and tokenizer:
            config["bos_token_id"] = tokenizer.cls_token_id
            config["eos_token_id"] = tokenizer.sep_token_id
        write_json(beside / "config.json", config)
        prefix = "" if isinstance(model, AlbertBackbone) else f"{family}."
        named = {
            (prefix if ours.startswith("backbone.") else "") + theirs: value
            for (theirs, ours), value in tensors.items()
        }
        write_safetensors(beside / "model.safetensors", named)
        if tokenizer:
            write_tokenizer(tokenizer, beside, arguments["max_sequence_length"])
    return directory


def to_google(model, prefix: str | os.PathLike, tokenizer=None) -> Path:
    """Write a model as a checkpoint of Google's original code: variables, config, vocabulary.

    Args:
        model: an `AlbertBackbone`, `AlbertPretrainer` or task model.
        prefix: path of the checkpoint, as `"out/model.ckpt-best"`; its directory must be new or
            empty.
        tokenizer: whose vocabulary to write; by default that of the model's preprocessor.

    Returns:
        The prefix.

    Raises:
        ImportError: TensorFlow is not installed.
        ValueError: the directory holds something, or the architecture is one that the original
            code cannot make: another activation than its gelu, another epsilon, a projection
            where E equals H.

    Example:
    ```python
    keras_albert.checkpoints.to_google(model, "out/model.ckpt-best")
    ```
    """
    _check("to_google", model, tokenizer, prefix=prefix)
    prefix = Path(prefix)
    backbone = _backbone(model)
    family = _family(backbone)
    arguments = backbone.get_config()
    if arguments["layer_norm_epsilon"] != 1e-12:
        raise ValueError(
            "Google's code has LayerNorm's epsilon at 1e-12. "
            f"Received: layer_norm_epsilon={arguments['layer_norm_epsilon']}"
        )
    if has_projection(arguments) and arguments["embedding_dim"] == arguments["hidden_dim"]:
        raise ValueError(
            "Google's code projects embeddings only where their size is not the hidden size. "
            f"Received: project_embeddings=True, both {arguments['hidden_dim']}"
        )
    config = from_arguments(arguments, "google", family)
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            "Checkpoints of Google's original code are written by TensorFlow: pip install "
            "tensorflow"
        ) from error
    with whole_directory(prefix.parent) as beside:
        model, arguments = _as_groups(model, arguments, family)
        config = from_arguments(arguments, "google", family)
        other = other_groups(arguments)
        if other:
            raise ValueError(
                f"Google's code would use other groups at depths {other}, by rounding. Received: "
                f"num_groups={arguments['num_groups']}, num_layers={arguments['num_layers']}"
            )
        table = GOOGLE_ALBERT if family == "albert" else GOOGLE_BERT
        named = {theirs: value for (theirs, _), value in _named(model, table, arguments)}
        names = sorted(named)
        tf.raw_ops.SaveV2(
            prefix=str(beside / prefix.name),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[np.ascontiguousarray(named[name]) for name in names],
        )
        write_json(beside / f"{family}_config.json", config)
        tokenizer = tokenizer or _tokenizer(model)
        if tokenizer:
            write_vocabulary(tokenizer, beside)
    return prefix


def to_preset(model, directory: str | os.PathLike, tokenizer=None) -> Path:
    """Write a model as a preset of this package: `save_to_preset`, whole or not at all.

    Args:
        model: an `AlbertBackbone` or a task model.
        directory: where; it must be new or empty.
        tokenizer: whose vocabulary to write; by default that of the model's preprocessor.

    Returns:
        The directory.

    Raises:
        ValueError: the directory holds something.
    """
    _check("to_preset", model, tokenizer, directory=directory)
    directory = Path(directory)
    with whole_directory(directory) as beside:
        model.save_to_preset(str(beside))
        if tokenizer is not None and _tokenizer(model) is None:
            tokenizer.save_to_preset(str(beside))
    return directory


def _check(owner: str, model, tokenizer, **paths) -> None:
    check(
        owner,
        f"one of {sorted(ARCHITECTURES)}" if owner != "to_preset" else "a model of this package",
        lambda value: (
            isinstance(getattr(value, "backbone", value), AlbertBackbone)
            and (owner == "to_preset" or type(value).__name__ in ARCHITECTURES)
        ),
        model=model,
    )
    check(
        owner,
        "an AlbertTokenizer, a BertTokenizer or None",
        lambda value: value is None or isinstance(value, (AlbertTokenizer, BertTokenizer)),
        tokenizer=tokenizer,
    )
    check(owner, "a path", is_path, **paths)


def _backbone(model) -> AlbertBackbone:
    return model if isinstance(model, AlbertBackbone) else model.backbone


def _tokenizer(model):
    return getattr(getattr(model, "preprocessor", None), "tokenizer", None)


def _family(backbone: AlbertBackbone) -> str:
    """BERT where its format can hold the model, else ALBERT."""
    unshared = backbone.sharing == "none" and backbone.num_inner_repetitions == 1
    return "bert" if unshared and not has_projection(backbone.get_config()) else "albert"


def _as_groups(model, arguments: dict, family: str):
    """The model as ALBERT's format shares it: whole blocks, in groups.

    Other strategies become as many groups as there are depths, the same weights more than once.
    """
    if family == "bert" or arguments["sharing"] == "all":
        return model, arguments
    change = {"sharing": "all", "num_groups": arguments["num_layers"]}
    return change_architecture(model, **change), {**arguments, **change}


def _named(model, table, arguments: dict):
    """((their name, our path), array) of every variable that the model has a place for."""
    sizes = axis_sizes(arguments)
    without_pooler = not getattr(model, "uses_pooler", True)
    for row in expand(table, arguments):
        if row.part == "backbone.pooler" and without_pooler:
            continue  # what nothing has trained, and the other program's class does not have
        variable = find(model, row.ours)
        if variable is not None:
            value = keras.ops.convert_to_numpy(variable.value)
        elif row.ours.startswith("backbone.embedding.projection."):
            # Hugging Face's ALBERT always projects: by the identity, which changes nothing.
            size = sizes["H"]
            value = np.eye(size) if row.ours.endswith(".kernel") else np.zeros(size)
        else:
            continue
        value = value.astype("float32", copy=False)
        shape = [sizes.get(axis, value.shape[-1]) for axis in row.stored_axes]
        yield (row.theirs, row.ours), (value.T if row.transposed else value).reshape(shape)


def _architecture(model, family: str) -> dict:
    name = {"albert": "Albert", "bert": "Bert"}[family]
    head = ARCHITECTURES[type(model).__name__]
    if getattr(model, "objective", None) == "none":
        head = "ForMaskedLM"
    return {
        "architectures": [f"{name}{head}"],
        "model_type": family,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
