"""Models from checkpoints: what `from_preset` of every model class does."""

import inspect
import math
import os
import warnings

import keras
import numpy as np
from keras.src.backend.common import global_state

from keras_albert import models
from keras_albert.arguments import check, check_booleans, is_path
from keras_albert.checkpoints.architecture import CHANGES, change_architecture
from keras_albert.checkpoints.files import inside, read_json
from keras_albert.checkpoints.names import find
from keras_albert.checkpoints.opening import (
    DEFAULTS,
    OURS,
    is_own_preset,
    open_checkpoint,
    place_of,
)
from keras_albert.checkpoints.stored import Checkpoint, Match, check_finite, check_match, match
from keras_albert.models import AlbertBackbone, AlbertPretrainer, AlbertSpanExtractor
from keras_albert.preprocessing import AlbertTokenizer, BertTokenizer

_ARGUMENTS = frozenset(DEFAULTS)
# What may differ from the checkpoint; the weights fix the rest.
_FREE = {"hidden_dropout", "attention_dropout", "initializer_range", "dtype"}


def from_checkpoint(cls, own_preset, preset, load_weights=True, **kwargs):
    """A model from any checkpoint or preset; `from_preset` of the models passes on to this.

    Args:
        cls: the model class.
        own_preset: KerasHub's `from_preset`, which reads presets of this package.
        preset: a path or handle.
        load_weights: whether to load weights, or to make the architecture alone.
        **kwargs: `strict`, `allow_nonfinite`, changes of the architecture
            (`architecture.change_architecture`), arguments of the backbone and of the model.
    """
    strict, allow_nonfinite = kwargs.pop("strict", False), kwargs.pop("allow_nonfinite", False)
    check_booleans("from_preset", strict=strict, allow_nonfinite=allow_nonfinite)
    changes = {name: kwargs.pop(name) for name in CHANGES if name in kwargs}
    path = place_of(preset)
    if path is None or is_own_preset(path):
        place = str(preset if path is None else path)
        try:
            if path is not None and cls is not AlbertBackbone:
                kwargs = _own_parts(cls, path, load_weights, kwargs)
            model = own_preset(place, load_weights=load_weights, **kwargs)
        except TypeError as error:  # of Keras, for a class or function of another module
            raise ValueError(
                f"A preset's configuration must be of Keras and this package. Received: {place}: "
                f"{error}"
            ) from error
        if load_weights and not allow_nonfinite:
            _check_variables(model, place)
        if load_weights and path is not None and not isinstance(model, AlbertBackbone):
            _say(path, _heads_not_saved(cls, model, path, kwargs), strict)
    else:
        given = {**changes, **kwargs}
        with open_checkpoint(path, os.fspath(preset), given) as checkpoint:
            found = match(checkpoint)
            check_match(checkpoint, found)
            if load_weights and not allow_nonfinite:
                check_finite(checkpoint, found)
            compiles = cls is not AlbertBackbone and kwargs.pop("compile", True)
            kwargs = {**_head_arguments(cls, checkpoint, found, kwargs), **kwargs}
            if load_weights:
                model = _filled(cls, checkpoint, found, kwargs, strict)
            else:
                model = _build(cls, checkpoint, kwargs)
            if compiles:
                model.compile()
    return change_architecture(model, **changes) if changes else model


def load(preset: str | os.PathLike, **kwargs):
    """The model that a checkpoint or preset holds, with the heads that it has and no other.

    Args:
        preset: a path or handle; see `keras_albert.AlbertBackbone.from_preset`.
        **kwargs: arguments of the class's `from_preset`.

    Returns:
        An `AlbertPretrainer` where there is a masked-LM head (with objective `"none"` where there
        is no sentence head); the task model whose head there is (an `AlbertTextClassifier` where
        the checkpoint does not say of which task); else an `AlbertBackbone`. Of a preset, the class
        that was saved.

    Raises:
        ValueError: see `keras_albert.AlbertBackbone.from_preset`.

    Example:
    ```python
    model = keras_albert.checkpoints.load("albert_base_v2.tar.gz")
    ```
    """
    path = _local(preset)
    if is_own_preset(path):
        task = inside(path, "task.json")
        name = read_json(task)["registered_name"] if task else "keras_albert>AlbertBackbone"
        cls = keras.saving.get_registered_object(name) if name.startswith(OURS) else None
        return (cls or AlbertBackbone).from_preset(str(path), **kwargs)
    with open_checkpoint(path, os.fspath(preset), kwargs) as checkpoint:
        parts = {row.part for row, _ in match(checkpoint).found}
        named = checkpoint.head_class
    if "masked_lm_head" in parts:
        objective = "sop" if "sentence_head" in parts else "none"
        return AlbertPretrainer.from_preset(preset, **{"objective": objective, **kwargs})
    if "beam_head" in parts:
        return AlbertSpanExtractor.from_preset(preset, **{"head": "beam", **kwargs})
    if "span_head" in parts:
        return AlbertSpanExtractor.from_preset(preset, **kwargs)
    if "classifier" in parts:
        cls = getattr(models, named or "AlbertTextClassifier")
        return cls.from_preset(preset, **kwargs)
    return AlbertBackbone.from_preset(preset, **kwargs)


def load_tokenizer(preset: str | os.PathLike):
    """The tokenizer of a checkpoint or preset, from its vocabulary; None where it has none.

    Args:
        preset: a path or handle; see `keras_albert.AlbertBackbone.from_preset`.

    Returns:
        An `AlbertTokenizer`, a `BertTokenizer` or None.

    Raises:
        ValueError: the checkpoint or its vocabulary breaks a rule.

    Example:
    ```python
    tokenizer = keras_albert.checkpoints.load_tokenizer("uncased_L-12_H-768_A-12/")
    ```
    """
    path = _local(preset)
    if is_own_preset(path):
        config = inside(path, "tokenizer.json")
        if config is None:
            return None
        is_words = read_json(config)["registered_name"].endswith("BertTokenizer")
        return (BertTokenizer if is_words else AlbertTokenizer).from_preset(str(path))
    with open_checkpoint(path, os.fspath(preset)) as checkpoint:
        return make_tokenizer(checkpoint)


def _local(preset):
    check("load", "a path or handle", is_path, preset=preset)
    path = place_of(preset)
    if path is None:
        raise ValueError(
            "`preset` must be a local checkpoint or 'hf://owner/name'; handles of other hubs are "
            f"read by a model class's `from_preset`. Received: {preset!r}"
        )
    return path


def make_tokenizer(checkpoint: Checkpoint):
    """The tokenizer of an open checkpoint's vocabulary; None where it has none."""
    vocabulary = checkpoint.vocabulary
    if vocabulary is None:
        return None
    is_words = isinstance(vocabulary, list) or getattr(vocabulary, "suffix", "") == ".txt"
    cls = BertTokenizer if is_words else AlbertTokenizer
    return cls(vocabulary, **checkpoint.tokenizer_arguments)


def _build(cls, checkpoint: Checkpoint, kwargs: dict):
    """The model in the checkpoint's architecture, not compiled."""
    fixed = checkpoint.arguments
    given = {name: value for name, value in kwargs.items() if name in _ARGUMENTS}
    for name in given.keys() - _FREE:
        if given[name] != fixed.get(name, DEFAULTS.get(name)):
            raise ValueError(
                f"`{name}` is fixed by the weights of a checkpoint, at "
                f"{fixed.get(name, DEFAULTS.get(name))!r} in {checkpoint.path}. "
                f"Received: {name}={given[name]!r}"
            )
    own = {name: value for name, value in kwargs.items() if name not in _ARGUMENTS}
    if cls is AlbertBackbone:
        return cls(**{**fixed, **given}, **own)
    backbone = AlbertBackbone(**{**fixed, **given})
    if "preprocessor" not in own and cls.preprocessor_cls is not None:
        tokenizer = make_tokenizer(checkpoint)
        if tokenizer is not None:
            own["preprocessor"] = _preprocessor(cls, tokenizer, backbone.max_sequence_length)
    return cls(backbone, compile=False, **own)


def _head_arguments(cls, checkpoint: Checkpoint, found: Match, given: dict) -> dict:
    """Arguments of a model's head that its checkpoint knows: classes, their names, dropout."""
    known = inspect.signature(cls.__init__).parameters
    arguments = {k: v for k, v in checkpoint.head_arguments.items() if k in known}
    biases = (t.shape[0] for row, t in found.found if row.ours == "classifier.bias")
    count = given.get("num_classes", next(biases, None))
    if "num_classes" in known and count is not None:
        arguments["num_classes"] = count
    if len(arguments.get("class_names") or ()) != count:
        arguments.pop("class_names", None)
    return arguments


def _filled(cls, checkpoint: Checkpoint, found: Match, kwargs: dict, strict: bool):
    """The model with the checkpoint's weights; says what is left over, on both sides.

    Each variable is made of its tensor: memory for random weights that nobody sees, which takes
    several times the largest variable to draw, is never asked for.
    """
    errors = []
    # Variables are initialised when the outermost scope ends.
    with keras.StatelessScope():
        model = _build(cls, checkpoint, kwargs)
        rows = [(row, tensor, _place(model, row, tensor)) for row, tensor in found.found]
        said = _left_over(model, rows, found)
        for row, tensor, variable in rows:
            if variable is not None:
                variable._initializer = _Tensor(row, tensor, errors)
        # The largest first: while the model is small, there is room for the copies in between.
        waiting = global_state.get_global_attribute("uninitialized_variables", [])
        waiting.sort(key=lambda variable: -math.prod(variable.shape))
        if strict and said:
            for variable in model.weights:
                variable._initializer = keras.initializers.Zeros()
    if errors and not (strict and said):
        raise errors[0]
    _say(checkpoint.path, said, strict)
    for line in checkpoint.notes:
        warnings.warn(f"{checkpoint.path}: {line}", UserWarning, stacklevel=5)
    return model


def _say(path, said: list[str], strict: bool) -> None:
    """Warn of what is left over, or raise."""
    if strict and said:
        raise ValueError(
            "With strict=True, model and checkpoint must have the same variables. "
            f"Received: {path}: {'; '.join(said)}"
        )
    for line in said:
        warnings.warn(f"{path}: {line}", UserWarning, stacklevel=6)


def _place(model, row, tensor):
    """The model's variable for a row; None where there is none, or for other classes."""
    variable = find(model, row.ours)
    fits = variable is not None and math.prod(variable.shape) == math.prod(tensor.shape)
    return variable if fits else None


class _Tensor(keras.initializers.Initializer):
    """An initializer that reads a tensor of a checkpoint, as our variable holds it."""

    def __init__(self, row, tensor, errors):
        self.row, self.tensor, self.errors = row, tensor, errors

    def __call__(self, shape, dtype=None):
        try:
            value = self.tensor.value()
            value = np.reshape(value.T if self.row.transposed else value, shape)
        except Exception as error:
            # Raised afterwards: Keras would not recover from it in the middle of a scope.
            self.errors.append(error)
            value = np.zeros(shape, "float32")
        # In memory of its own: torch keeps the array that it is given.
        value = np.require(value, requirements=["C_CONTIGUOUS", "WRITEABLE"])
        return keras.ops.convert_to_tensor(value, dtype=dtype)


def _left_over(model, rows: list, found: Match) -> list[str]:
    """What the checkpoint has nothing for, and what of it is not used."""
    filled = {id(variable) for _, _, variable in rows}
    if not getattr(model, "uses_pooler", True):
        filled |= {id(weight) for weight in model.backbone.pooler.weights}
    missing = _parts(model, [weight for weight in model.weights if id(weight) not in filled])
    unused = [tensor.name for tensor in found.unexpected]
    if not isinstance(model, AlbertBackbone):  # a backbone is asked for without heads
        used = {tensor.name for _, tensor, variable in rows if variable is not None}
        unused += sorted({tensor.name for _, tensor, _ in rows} - used)
    said = [f"newly initialised: {', '.join(missing)}"] if missing else []
    return said + ([f"not used: {', '.join(unused)}"] if unused else [])


def _parts(model, weights: list) -> list[str]:
    """The heads, or the backbone's pooler, that weights belong to."""
    backbone = model if isinstance(model, AlbertBackbone) else model.backbone
    pooler = {id(weight) for weight in backbone.pooler.weights}
    return sorted({"backbone.pooler" if id(w) in pooler else w.path.split("/")[0] for w in weights})


def _own_parts(cls, path, load_weights: bool, kwargs: dict) -> dict:
    """Arguments with the parts of a preset that KerasHub would make otherwise.

    It knows no arguments of the backbone, and would take any preprocessor of a class derived from
    the one that is wanted, or one of a length that the backbone may not have.
    """
    free = {name: kwargs[name] for name in _FREE - {"dtype"} if name in kwargs}
    kwargs = {name: value for name, value in kwargs.items() if name not in free}
    if free:
        backbone = AlbertBackbone.from_preset(str(path), load_weights=load_weights, **free)
        kwargs["backbone"] = backbone
    saved = inside(path, "preprocessor.json")
    name = f"{OURS}{cls.preprocessor_cls.__name__}"
    if "preprocessor" not in kwargs and inside(path, "tokenizer.json"):
        if saved is None or read_json(saved)["registered_name"] != name:
            longest = read_json(path / "config.json")["config"]["max_sequence_length"]
            kwargs["preprocessor"] = _preprocessor(cls, load_tokenizer(path), longest)
    return kwargs


def _preprocessor(cls, tokenizer, longest: int):
    """The preprocessor of a model class, as long as its default where the backbone is."""
    default = inspect.signature(cls.preprocessor_cls).parameters["sequence_length"].default
    return cls.preprocessor_cls(tokenizer, sequence_length=min(default, longest))


def _heads_not_saved(cls, model, path, kwargs: dict) -> list[str]:
    """The heads of a model that a preset of this package has no weights for, as KerasHub decides.

    It reads them where the preset was saved from this class, and no number of classes is given.
    """
    task = inside(path, "task.json")
    saved = keras.saving.get_registered_object(read_json(task)["registered_name"]) if task else None
    same = isinstance(saved, type) and issubclass(saved, cls) and "num_classes" not in kwargs
    if same and inside(path, "task.weights.h5"):
        return []
    of_backbone = {id(weight) for weight in model.backbone.weights}
    heads = _parts(model, [weight for weight in model.weights if id(weight) not in of_backbone])
    return [f"newly initialised: {', '.join(heads)}"] if heads else []


def _check_variables(model, place: str) -> None:
    """The same rule as `stored.check_finite`, of a model that is loaded."""
    for variable in model.weights:
        if "float" in str(variable.dtype):
            value = keras.ops.convert_to_numpy(variable.value).astype("float32", copy=False)
            if value.size and not (np.isfinite(value.min()) and np.isfinite(value.max())):
                raise ValueError(
                    "A preset's weights must be finite; `allow_nonfinite=True` loads them all the "
                    f"same. Received: {variable.path} in {place}"
                )
