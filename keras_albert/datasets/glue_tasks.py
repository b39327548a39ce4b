"""The table of GLUE's tasks, and the files that its server takes."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from keras_albert.arguments import check, is_integer, is_number, is_path
from keras_albert.whole_files import write_whole

_NLI = ("entailment", "neutral", "contradiction")
_YES_NO = ("entailment", "not_entailment")
_MNLI_SPLITS = ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """One task of GLUE.

    Attributes:
        name: as the benchmark spells it; also the name of its folder.
        texts: the columns with the text, or the two texts.
        label: the column with the label.
        label_names: what the classes mean, in the order of Hugging Face and TFDS; `()` for scores.
        metrics: what the benchmark reports.
        written: how the files and the submission write the classes.
        stored_name, stored_texts: the name and columns of Hugging Face and TFDS.
        splits: that the files have.
        files: the names of the file, where they are not the split's.
        folders: other names of the folder.
        headerless: the columns of files without a header.
    """

    name: str
    texts: tuple[str, ...]
    label: str
    label_names: tuple[str, ...]
    metrics: tuple[str, ...]
    written: tuple[str, ...] = ("0", "1")
    stored_name: str = ""
    stored_texts: tuple[str, ...] = ()
    splits: tuple[str, ...] = ("train", "dev", "test")
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    headerless: tuple[str, ...] = ()

    def __post_init__(self):
        object.__setattr__(self, "stored_name", self.stored_name or _key(self.name))
        object.__setattr__(self, "stored_texts", self.stored_texts or self.texts)

    @property
    def is_regression(self) -> bool:
        """Whether the labels are scores."""
        return not self.label_names


def _key(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


_SENTENCES = ("sentence1", "sentence2")
GLUE_TASKS = (
    GlueTask(
        "CoLA",
        ("sentence",),
        "label",
        ("unacceptable", "acceptable"),
        ("matthews",),
        headerless=("source", "label", "original", "sentence"),
    ),
    GlueTask("SST-2", ("sentence",), "label", ("negative", "positive"), ("accuracy",)),
    GlueTask(
        "MRPC",
        ("#1 String", "#2 String"),
        "Quality",
        ("not_equivalent", "equivalent"),
        ("accuracy", "f1"),
        stored_texts=_SENTENCES,
    ),
    GlueTask("STS-B", _SENTENCES, "score", (), ("pearson", "spearman"), folders=("SST-B",)),
    GlueTask(
        "QQP",
        ("question1", "question2"),
        "is_duplicate",
        ("not_duplicate", "duplicate"),
        ("accuracy", "f1"),
    ),
    GlueTask(
        "MNLI",
        _SENTENCES,
        "gold_label",
        _NLI,
        ("accuracy",),
        written=_NLI,
        splits=_MNLI_SPLITS,
        stored_texts=("premise", "hypothesis"),
    ),
    GlueTask("QNLI", ("question", "sentence"), "label", _YES_NO, ("accuracy",), written=_YES_NO),
    GlueTask("RTE", _SENTENCES, "label", _YES_NO, ("accuracy",), written=_YES_NO),
    GlueTask("WNLI", _SENTENCES, "label", ("not_entailment", "entailment"), ("accuracy",)),
    GlueTask(
        "AX",
        _SENTENCES,
        "label",
        _NLI,
        ("matthews",),
        written=_NLI,
        splits=("test",),
        stored_texts=("premise", "hypothesis"),
        files=("diagnostic.tsv", "AX.tsv", "ax.tsv"),
        folders=("diagnostic",),
    ),
)


def find_task(task: str) -> GlueTask:
    """The row of the table; case, hyphens and underscores do not matter."""
    for row in GLUE_TASKS:
        if isinstance(task, str) and _key(task) == _key(row.name):
            return row
    names = ", ".join(row.name for row in GLUE_TASKS)
    raise ValueError(f"`task` must be one of {names}. Received: task={task!r}")


def write_submission(
    task: str, ids: Sequence, predictions: Sequence, directory: str | os.PathLike
) -> Path:
    """Write the file of predictions that GLUE's server takes: `CoLA.tsv`, `MNLI-m.tsv`, ...

    Args:
        task: a task of GLUE; `"MNLI-m"` and `"MNLI-mm"` for the two test sets of MNLI.
        ids: of the test examples, as `load_glue` gives them.
        predictions: as many classes (integers) or, for STS-B, scores, which are cut to [0, 5].
        directory: to write to; made where there is none.

    Returns:
        The path of the file, which appears only when it is whole.

    Raises:
        ValueError: where a prediction is not one of the task's.

    Example:
    ```python
    keras_albert.datasets.write_submission("RTE", test.ids, logits.argmax(-1), "submission")
    ```
    """
    owner, name = "write_submission", None
    if isinstance(task, str) and _key(task) in ("mnlim", "mnlimm"):
        name = "MNLI-m" if _key(task) == "mnlim" else "MNLI-mm"
        task = "MNLI"
    row = find_task(task)
    if row.name == "MNLI" and name is None:
        raise ValueError(
            f"`task` must say which test set of MNLI: MNLI-m or MNLI-mm. Received: task={task!r}"
        )
    check(owner, "a directory's path", lambda v: is_path(v) and v != "", directory=directory)
    has_length = lambda value: hasattr(value, "__len__") and not isinstance(value, str)
    check(owner, "a sequence", has_length, ids=ids, predictions=predictions)
    if len(ids) != len(predictions):
        raise ValueError(
            "`ids` and `predictions` must be of one length. "
            f"Received: {len(ids)} ids and {len(predictions)} predictions"
        )
    lines = ["index\tprediction\n"]
    for identifier, value in zip(ids, predictions, strict=True):
        lines.append(f"{identifier}\t{_written(row, identifier, value)}\n")
    path = Path(directory) / f"{name or row.name}.tsv"
    write_whole(path, "".join(lines))
    return path


def _written(task: GlueTask, identifier, value) -> str:
    if task.is_regression:
        if not is_number(value):
            raise ValueError(
                f"A prediction of {task.name} must be a finite number. "
                f"Received: {value!r} for {identifier}"
            )
        return f"{min(max(float(value), 0.0), 5.0):.3f}"
    if not is_integer(value) or not 0 <= value < len(task.written):
        raise ValueError(
            f"A prediction of {task.name} must be a class from 0 to {len(task.written) - 1}. "
            f"Received: {value!r} for {identifier}"
        )
    return task.written[int(value)]
