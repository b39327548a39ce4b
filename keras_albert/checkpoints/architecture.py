"""Another architecture with the same weights: depth, sharing, positions, vocabulary.

Nothing is averaged. Where a variable of the new model would have to be two of the old one, it is
refused.
"""

import os

import keras
import numpy as np

from keras_albert.arguments import check
from keras_albert.models import AlbertBackbone
from keras_albert.preprocessing import AlbertTokenizer, BertTokenizer

CHANGES = (
    "num_layers",
    "sharing",
    "num_groups",
    "max_sequence_length",
    "positions",
    "vocabulary",
)
_ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


def change_architecture(
    model,
    num_layers: int | None = None,
    sharing: str | None = None,
    num_groups: int | None = None,
    max_sequence_length: int | None = None,
    positions: str = "interpolate",
    vocabulary=None,
):
    """A model of another architecture, with the weights of one that there is.

    Depth i of the new model has the weights of depth `i * old // new` of the old one: a model that
    shares all its weights becomes deeper or shallower by applying them more or less often, as the
    paper starts each depth from the one before (Table 11). Unsharing changes no output.

    Args:
        model: an `AlbertBackbone`, or a task model with one; it is left as it is.
        num_layers: the depth.
        sharing: how depths share; see `AlbertBackbone`. Never more than before.
        num_groups: groups of depths that share.
        max_sequence_length: positions. Fewer are the first ones.
        positions: where there are more, `"interpolate"` stretches the old ones linearly, and
            `"tile"` repeats them.
        vocabulary: a tokenizer, or the path of a `.model` or `.txt`. A piece that the old
            vocabulary has keeps its row, special tokens by their role; the others start anew. The
            model must have a tokenizer.

    Returns:
        A new model of the same class; a task model is compiled anew.

    Raises:
        ValueError: an argument is out of range, or depths with different weights would be shared.

    Source: Lan et al. (2020), section 3.1 and Table 11.

    Example:
    ```python
    deeper = keras_albert.checkpoints.change_architecture(model, num_layers=24)
    ```
    """
    check(
        "change_architecture",
        "an AlbertBackbone, or a model with one",
        lambda value: isinstance(getattr(value, "backbone", value), AlbertBackbone),
        model=model,
    )
    check(
        "change_architecture",
        "'interpolate' or 'tile'",
        lambda value: value in ("interpolate", "tile"),
        positions=positions,
    )
    old = model if isinstance(model, AlbertBackbone) else model.backbone
    config = old.get_config()
    asked = {
        "num_layers": num_layers,
        "sharing": sharing,
        "num_groups": num_groups,
        "max_sequence_length": max_sequence_length,
    }
    config.update({name: value for name, value in asked.items() if value is not None})
    if sharing == "none" and num_groups is None:
        config["num_groups"] = 1  # nothing is shared: the old groups lose their meaning
    tokenizer = kept = None
    if vocabulary is not None:
        tokenizer = _tokenizer(vocabulary)
        kept = kept_pieces(_old_tokenizer(model), tokenizer)
        config["vocabulary_size"] = tokenizer.vocabulary_size()
    new = AlbertBackbone.from_config(config)
    _copy_encoder(old.encoder, new.encoder)
    _copy_embedding(old.embedding, new.embedding, positions, kept)
    _copy(old.pooler, new.pooler)
    new.pooler.trainable = old.pooler.trainable
    if model is old:
        return new
    return _around(model, new, tokenizer, kept)


def kept_pieces(old, new) -> np.ndarray:
    """For every id of a new tokenizer the id of the same piece in an old one, or -1."""
    ids = {piece: id for id, piece in enumerate(old.get_vocabulary())}
    kept = np.array([ids.get(piece, -1) for piece in new.get_vocabulary()])
    for role in _ROLES:
        kept[getattr(new, f"{role}_id")] = getattr(old, f"{role}_id")
    return kept


def _tokenizer(vocabulary):
    if isinstance(vocabulary, (AlbertTokenizer, BertTokenizer)):
        return vocabulary
    if not isinstance(vocabulary, (str, os.PathLike)):
        raise ValueError(
            "`vocabulary` must be a tokenizer, or the path of a `.model` or a `.txt`. "
            f"Received: {vocabulary!r}"
        )
    is_words = str(vocabulary).endswith(".txt")
    return (BertTokenizer if is_words else AlbertTokenizer)(vocabulary)


def _old_tokenizer(model):
    tokenizer = getattr(getattr(model, "preprocessor", None), "tokenizer", None)
    if tokenizer is None:
        raise ValueError(
            "A new vocabulary keeps the rows of the old one's pieces: the model must have a "
            "preprocessor with a tokenizer, and a backbone alone has none. "
            f"Received: {type(model).__name__} without"
        )
    return tokenizer


def _copy(old, new) -> None:
    for source, target in zip(old.weights, new.weights, strict=True):
        target.assign(source.value)


def _copy_encoder(old, new) -> None:
    """Fill the new sublayers, each from the old one at its depths."""
    inner = new.num_inner_repetitions
    sources = {}
    for step, (attention, feed_forward) in enumerate(new.plan):
        depth = (step // inner) * old.num_layers // new.num_layers
        source = old.plan[depth * inner + step % inner]
        for kind, index, from_index in (
            ("attention", attention, source[0]),
            ("feed_forward", feed_forward, source[1]),
        ):
            first = sources.setdefault((kind, index), from_index)
            if first != from_index:
                raise ValueError(
                    f"`{kind}_{index}` of the new model would have to be both {kind}_{first} and "
                    f"{kind}_{from_index} of the old one: depths with different weights cannot be "
                    f"made to share them. Received: sharing={new.sharing!r}, num_groups="
                    f"{new.num_groups} for a model of sharing={old.sharing!r}, num_groups="
                    f"{old.num_groups}"
                )
    for (kind, index), from_index in sources.items():
        _copy(getattr(old, f"{kind}_{from_index}"), getattr(new, f"{kind}_{index}"))


def _copy_embedding(old, new, positions: str, kept) -> None:
    for name in ("segment_embedding", "layer_norm", "projection"):
        if getattr(old, name) is not None:
            _copy(getattr(old, name), getattr(new, name))
    table = _numpy(old.position_embedding.embeddings)
    table = stretch(table, new.max_sequence_length, positions)
    new.position_embedding.embeddings.assign(table)
    _copy_rows(old.token_embedding.embeddings, new.token_embedding.embeddings, kept)


def stretch(table: np.ndarray, length: int, positions: str) -> np.ndarray:
    """A table of positions (P, E) of another length; see `change_architecture`."""
    old = len(table)
    if length <= old:
        return table[:length]
    if positions == "tile":
        return table[np.arange(length) % old]
    place = np.arange(length) * (old - 1) / (length - 1)
    below = np.minimum(place.astype("int64"), max(old - 2, 0))
    weight = (place - below)[:, None].astype(table.dtype)
    above = np.minimum(below + 1, old - 1)
    return table[below] * (1 - weight) + table[above] * weight


def _copy_rows(old, new, kept) -> None:
    if kept is None:
        new.assign(old.value)
        return
    value = np.array(_numpy(new))
    value[kept >= 0] = _numpy(old)[kept[kept >= 0]]
    new.assign(value)


def _around(model, backbone, tokenizer, kept):
    """The task model around a new backbone, with the old heads' weights."""
    old_layers, new_layers = model.backbone.num_layers, backbone.num_layers
    if getattr(model, "early_exit", False) and new_layers != old_layers:
        raise ValueError(
            "A classifier with early exits has a head for every depth, so `num_layers` cannot "
            "change: change the backbone, and fit a new classifier on it. Received: "
            f"num_layers={new_layers} for a classifier of {old_layers}"
        )
    config = model.get_config()
    for name in ("backbone", "preprocessor"):
        config.pop(name, None)
    preprocessor = model.preprocessor
    if preprocessor is not None and (tokenizer is not None or _too_long(preprocessor, backbone)):
        settings = preprocessor.get_config()
        settings["tokenizer"] = tokenizer or preprocessor.tokenizer
        settings["sequence_length"] = min(settings["sequence_length"], backbone.max_sequence_length)
        preprocessor = type(preprocessor)(**settings)
    known = {name: value for name, value in config.items() if name not in ("trainable", "dtype")}
    new = type(model)(backbone=backbone, preprocessor=preprocessor, **known)
    of_backbone = {id(weight) for weight in [*backbone.weights, *model.backbone.weights]}
    sides = [[w for w in side.weights if id(w) not in of_backbone] for side in (model, new)]
    for source, target in zip(*sides, strict=True):
        rows = tuple(source.shape) != tuple(target.shape)  # the masked-LM head's bias, (V,)
        _copy_rows(source, target, kept if rows else None)
    return new


def _too_long(preprocessor, backbone) -> bool:
    return preprocessor.sequence_length > backbone.max_sequence_length


def _numpy(variable) -> np.ndarray:
    return keras.ops.convert_to_numpy(variable.value)
