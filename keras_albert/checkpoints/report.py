"""What a checkpoint holds, and where each of its variables goes."""

import dataclasses
import os

from keras_albert.arguments import check, check_booleans, is_path
from keras_albert.checkpoints.files import inside, read_json
from keras_albert.checkpoints.opening import is_own_preset, open_checkpoint, place_of
from keras_albert.checkpoints.stored import match


@dataclasses.dataclass(frozen=True)
class Report:
    """A checkpoint, described; printing it gives a text.

    Attributes:
        path, format, family: where it is, and what.
        architecture: arguments of `AlbertBackbone`.
        parameters: numbers in all the variables that are mapped.
        variables: (their name, their shape, our path, our shape) of those.
        mismatched: (their name, their shape, our path, the shape that the configuration asks for).
        missing: parts (heads, the pooler) and variables that the checkpoint lacks.
        unexpected: (name, shape) of variables that nothing here has a place for.
        dropped: names of an optimizer's variables and of buffers.
        nonfinite: names of variables with an infinite or NaN weight; None where not looked for.
        vocabulary: name of the vocabulary's file, None where there is none.
        notes: what else a user should know.
    """

    path: str
    format: str
    family: str
    architecture: dict
    parameters: int
    variables: list[tuple]
    mismatched: list[tuple]
    missing: list[str]
    unexpected: list[tuple]
    dropped: list[str]
    nonfinite: list[str] | None
    vocabulary: str | None
    notes: list[str]

    def __str__(self):
        lines = [
            f"{self.path}: {self.format}, {self.family}",
            f"parameters: {self.parameters:,} in {len(self.variables)} variables",
            "architecture:",
            *(f"  {name} = {value!r}" for name, value in sorted(self.architecture.items())),
            f"vocabulary: {self.vocabulary or 'none'}",
            "variables (theirs -> ours):",
            *(
                f"  {name} {_shape(shape)} -> {ours} {_shape(our_shape)}"
                for name, shape, ours, our_shape in self.variables
            ),
        ]
        if self.mismatched:
            lines.append("MISMATCHED (theirs, ours; the shape that the configuration asks for):")
            for name, shape, ours, wanted in self.mismatched:
                lines.append(f"  {name} {_shape(shape)}, {ours}; {_shape(wanted)}")
        unexpected = [f"{name} {_shape(shape)}" for name, shape in self.unexpected]
        for title, names in (
            ("missing (newly initialised in a model that has them)", self.missing),
            ("unexpected (not used)", unexpected),
            ("dropped (optimizer and buffers)", self.dropped),
            ("NON-FINITE", self.nonfinite),
            ("notes", self.notes),
        ):
            if names is None:
                lines.append(f"{title}: not looked for")
            elif len(names) <= 1:
                lines.append(f"{title}: {names[0] if names else 'none'}")
            else:
                lines += [f"{title}:", *(f"  {name}" for name in names)]
        return "\n".join(lines)


def report(path: str | os.PathLike, check_finite: bool = True) -> Report:
    """Describe a checkpoint of another program, without making a model.

    Args:
        path: what `from_preset` takes.
        check_finite: look for infinite and NaN weights, which reads every tensor once.

    Raises:
        ValueError: nothing is there, the format is not known, or a file breaks a rule. What does
            not fit the configuration is reported, not raised.

    Example:
    ```python
    print(keras_albert.checkpoints.report("albert_base_v2.tar.gz"))
    ```
    """
    check("report", "a path or handle", is_path, path=path)
    check_booleans("report", check_finite=check_finite)
    place = place_of(path)
    if place is None:
        raise ValueError(
            f"A report is of a local checkpoint or of 'hf://owner/name'. Received: {path!r}"
        )
    if is_own_preset(place):
        return _of_own_preset(place)
    with open_checkpoint(place, os.fspath(path)) as checkpoint:
        found = match(checkpoint)
        parts = found.missing_parts
        return Report(
            path=os.fspath(path),
            format=checkpoint.format,
            family=checkpoint.family,
            architecture=checkpoint.arguments,
            parameters=sum(_count(tensor.shape) for _, tensor in found.found),
            variables=[
                (tensor.name, tensor.shape, row.ours, _our_shape(row, tensor.shape))
                for row, tensor in found.found
            ],
            mismatched=[
                (tensor.name, tensor.shape, row.ours, shape)
                for row, tensor, shape in found.mismatched
            ],
            missing=parts + [row.theirs for row in found.missing if row.part not in parts],
            unexpected=[(tensor.name, tensor.shape) for tensor in found.unexpected],
            dropped=checkpoint.dropped,
            nonfinite=[t.name for _, t in found.found if not t.is_finite()]
            if check_finite
            else None,
            vocabulary=getattr(checkpoint.vocabulary, "name", None)
            or ("tokenizer.json" if checkpoint.vocabulary else None),
            notes=checkpoint.notes,
        )


def _of_own_preset(place) -> Report:
    config = read_json(inside(place, "config.json"))["config"]
    metadata = inside(place, "metadata.json")
    return Report(
        path=str(place),
        format="keras_albert preset",
        family="bert" if config.get("sharing") == "none" else "albert",
        architecture={k: v for k, v in config.items() if k not in ("name", "trainable", "dtype")},
        parameters=read_json(metadata).get("parameter_count", 0) if metadata else 0,
        variables=[],
        mismatched=[],
        missing=[],
        unexpected=[],
        dropped=[],
        nonfinite=None,
        vocabulary="assets/tokenizer" if (place / "assets" / "tokenizer").is_dir() else None,
        notes=["a preset of this package is read by its own names, which need no table"],
    )


def _our_shape(row, shape: tuple) -> tuple:
    if row.transposed:
        return shape[::-1]
    if not row.stored:
        return shape
    # The axes of heads (N, D) are one of ours.
    sizes = dict(zip(row.stored_axes, shape, strict=True))
    sizes.setdefault("H", sizes["N"] * sizes["D"])
    return tuple(sizes[axis] for axis in row.axes.split())


def _count(shape: tuple) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


def _shape(shape: tuple) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"
