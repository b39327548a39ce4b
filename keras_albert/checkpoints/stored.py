"""A checkpoint that is open: its architecture, and its tensors, which are read when asked for."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from keras_albert.checkpoints.names import TASK_HEADS, TIED, Row, axis_sizes, expand

FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class Stored:
    """One tensor of a file: what it is, known without reading it, and how to read it.

    Attributes:
        name: in the file.
        shape, dtype: of the tensor; dtype as NumPy and ml_dtypes name it.
        read: gives the array.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], np.ndarray]

    def value(self) -> np.ndarray:
        """The numbers as float32."""
        value = np.asarray(self.read())
        if tuple(value.shape) != self.shape:
            raise ValueError(
                f"{self.name!r} must have the shape that its file states, {self.shape}. "
                f"Received: {tuple(value.shape)}"
            )
        return value.astype("float32", copy=False)

    def is_finite(self) -> bool:
        """Whether no number of it is infinite or NaN; reads it."""
        value = self.value()
        # Both carry NaN along, and need no array of the tensor's size.
        return value.size == 0 or bool(np.isfinite(value.min()) and np.isfinite(value.max()))


@dataclasses.dataclass
class Checkpoint:
    """What a reader of one format found.

    Attributes:
        path: where.
        format: `"google"`, `"huggingface"`, `"kerashub"` or `"model garden"`.
        family: `"albert"` or `"bert"`.
        arguments: those of `AlbertBackbone`.
        table: the format's rows (`names`).
        tensors: name as in the table -> `Stored`.
        dropped: names of what belongs to an optimizer or a buffer.
        vocabulary: the file of the tokenizer, or what it holds; None where there is none.
        tokenizer_arguments: of `AlbertTokenizer` or `BertTokenizer`.
        notes: what a user should know of how this was read.
        head_class: name of the class here whose head it has; None where only the heads tell.
        head_arguments: of that class, as `class_names`.
    """

    path: Path | str
    format: str
    family: str
    arguments: dict
    table: tuple[Row, ...]
    tensors: dict[str, Stored]
    dropped: list[str] = dataclasses.field(default_factory=list)
    vocabulary: Path | bytes | list[str] | None = None
    tokenizer_arguments: dict = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    head_class: str | None = None
    head_arguments: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Match:
    """A checkpoint's tensors against the rows of its table.

    Attributes:
        found: (row, tensor), of the right shape.
        mismatched: (row, tensor, shape that the architecture asks for).
        missing: rows of which the checkpoint has nothing.
        unexpected: tensors that no row names.
        tied: (second, first) tensor of a variable that a file may hold twice.
    """

    found: list[tuple[Row, Stored]]
    mismatched: list[tuple[Row, Stored, tuple[int, ...]]]
    missing: list[Row]
    unexpected: list[Stored]
    tied: list[tuple[Stored, Stored]]

    @property
    def missing_parts(self) -> list[str]:
        """The heads (or the pooler) of which the checkpoint has nothing at all."""
        found = {row.part for row, _ in self.found}
        return sorted({row.part for row in self.missing} - found - {"backbone"})


def match(checkpoint: Checkpoint) -> Match:
    """Find each row's tensor and compare the shapes with the architecture. Reads no tensor."""
    sizes = axis_sizes(checkpoint.arguments)
    rows = expand(checkpoint.table, checkpoint.arguments)
    result = Match([], [], [], [], [])
    for row in rows:
        tensor = checkpoint.tensors.get(row.theirs)
        if tensor is None:
            result.missing.append(row)
            continue
        axes = row.stored_axes
        known = len(axes) == len(tensor.shape)
        shape = tuple(
            sizes.get(axis, tensor.shape[i] if known else -1) for i, axis in enumerate(axes)
        )
        if shape == tensor.shape:
            result.found.append((row, tensor))
        else:
            result.mismatched.append((row, tensor, shape))
    partly = {row.part for row, _ in result.found}
    result.missing = [r for r in result.missing if r.part not in TASK_HEADS or r.part in partly]
    named = {row.theirs for row in rows}
    for name, tensor in checkpoint.tensors.items():
        first = checkpoint.tensors.get(TIED.get(name, ""))
        if first is not None and first.shape == tensor.shape:
            result.tied.append((tensor, first))
        elif name not in named:
            result.unexpected.append(tensor)
    return result


def check_match(checkpoint: Checkpoint, found: Match) -> None:
    """Raise a `ValueError` unless every tensor fits, and the encoder and each head are whole."""
    where = f"{checkpoint.format} checkpoint {checkpoint.path}"
    if found.mismatched:
        row, tensor, shape = found.mismatched[0]
        raise ValueError(
            "A checkpoint's tensors must have the shapes of its configuration. Received: "
            f"{tensor.name!r} of shape {tensor.shape} for {row.ours!r}, which asks for {shape} "
            f"there ({len(found.mismatched)} do not fit), in {where}"
        )
    for row, tensor in found.found:
        if tensor.dtype not in FLOATS:
            raise ValueError(
                f"A checkpoint's weights must be one of {FLOATS}. "
                f"Received: {tensor.name!r} of dtype {tensor.dtype} for {row.ours!r} in {where}"
            )
    whole = set(found.missing_parts)
    partly = [row.theirs for row in found.missing if row.part not in whole]
    if partly:
        raise ValueError(
            "A checkpoint must have its encoder, and each head, whole. Received: "
            f"{len(partly)} missing, as {partly[:3]}, in {where}"
        )
    for second, first in found.tied:
        if not np.array_equal(second.value(), first.value()):
            raise ValueError(
                "The masked-LM head's output must be tied to the embedding; here it has weights "
                f"of its own. Received: {second.name!r} differs from {first.name!r} in {where}"
            )


def check_finite(checkpoint: Checkpoint, found: Match) -> None:
    """Raise a `ValueError` that names the first tensor with an infinite or NaN weight."""
    for row, tensor in found.found:
        if not tensor.is_finite():
            raise ValueError(
                "A checkpoint's weights must be finite; `allow_nonfinite=True` loads them all the "
                f"same. Received: {tensor.name!r} for {row.ours!r} in {checkpoint.path}"
            )
