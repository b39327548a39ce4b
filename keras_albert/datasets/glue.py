"""GLUE's nine tasks and its diagnostic set AX, in the files of the benchmark.

The tasks and their files: https://gluebenchmark.com. Fields are separated by tabs and never
quoted. Files in the layout of Hugging Face or TFDS are read too.
"""

import warnings
from pathlib import Path

import numpy as np

from keras_albert.arguments import check, is_path
from keras_albert.datasets import sources
from keras_albert.datasets.examples import Examples
from keras_albert.datasets.glue_tasks import GlueTask, find_task
from keras_albert.datasets.reading import find_file, refuse, text_lines

ORIGIN = "https://gluebenchmark.com/tasks; MRPC: Microsoft's paraphrase corpus"
_HF = "nyu-mll/glue"


def load_glue(task: str, source, split: str = "train", on_error: str = "raise") -> Examples:
    """Read one split of a GLUE task.

    Args:
        task: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI or AX; case and hyphens do not
            matter.
        source: the task's directory or the one above it, with the original files or those of
            Hugging Face (Parquet, Arrow, JSON lines); or one file; or `"hf"` / `"tfds"` to read
            through that library.
        split: `"train"`, `"dev"` or `"test"`; of MNLI `"train"`, `"dev_matched"`,
            `"dev_mismatched"`, `"test_matched"`, `"test_mismatched"`; of AX `"test"`.
        on_error: `"raise"`, or `"skip"` to leave broken rows out with a warning that counts them:
            the original files of QQP have some.

    Returns:
        `Examples`: `x` a list of texts or a pair of lists; `y` classes in the order of
        `label_names`, STS-B's scores from 0 to 5, or None for a test set without labels.

    Raises:
        ValueError: for an unknown task or split, a missing file, or a broken row, with its line.

    Example:
    ```python
    train = keras_albert.datasets.load_glue("RTE", "glue", split="train")
    ```
    """
    task = find_task(task)
    rule = f"one of {', '.join(task.splits)} for {task.name}"
    check("load_glue", rule, lambda value: value in task.splits, split=split)
    check("load_glue", "'raise' or 'skip'", lambda v: v in ("raise", "skip"), on_error=on_error)
    check("load_glue", "a path, 'hf' or 'tfds'", lambda v: is_path(v) and v != "", source=source)
    skipped = [] if on_error == "skip" else None
    rows = []
    for row in _rows(task, source, split, skipped):
        rows.append(row)
    if skipped:
        warnings.warn(
            f"{len(skipped)} broken rows of {task.name} {split} were left out. First: {skipped[0]}",
            UserWarning,
            stacklevel=2,
        )
    if not rows:
        raise ValueError(f"{task.name} {split} must hold at least one row. Received: {source}")
    ids, texts, labels = zip(*rows, strict=True)
    if any(label is None for label in labels) and not all(label is None for label in labels):
        raise ValueError(
            f"All rows of {task.name} {split} must have labels, or none. Received: {source}"
        )
    dtype = "int32" if task.label_names else "float32"
    columns = tuple(map(list, zip(*texts, strict=True)))
    return Examples(
        x=columns if len(columns) > 1 else columns[0],
        y=None if labels[0] is None else np.array(labels, dtype),
        ids=list(ids),
        label_names=task.label_names,
    )


def _rows(task: GlueTask, source, split: str, skipped: list | None):
    """Yields (id, texts, label or None)."""
    if sources.is_name(source):
        tfds = f"glue/{task.stored_name}"
        stored = sources.rows_by_name(source, (_HF, task.stored_name), tfds, _stored(split))
        yield from _guarded(_stored_row, task, stored, skipped)
        return
    path = Path(source).expanduser()
    if path.is_file() and path.suffix in (".tsv", ".txt"):
        yield from _tsv_rows(task, path, split, skipped, dev_ids=None)
        return
    folders = [path, *(path / name for name in (task.name, task.stored_name, *task.folders))]
    files = [path] if path.is_file() else []
    for folder in folders:
        files = files or sources.stored_files(folder, _stored(split))
    if files:
        yield from _guarded(_stored_row, task, sources.rows_of_files(files), skipped)
        return
    names = task.files or (f"{split}.tsv",)
    if task.name == "MRPC":
        names += ("msr_paraphrase_test.txt" if split == "test" else "msr_paraphrase_train.txt",)
    file = find_file(folders, names, f"{task.name} {split}", ORIGIN)
    dev_ids = _mrpc_dev_ids(file.parent, split) if file.name == "msr_paraphrase_train.txt" else None
    yield from _tsv_rows(task, file, split, skipped, dev_ids)


def _guarded(make, task, rows, skipped):
    """Yields what `make` makes of each (place, row), leaving out broken ones if they may be."""
    for place, row in rows:
        try:
            made = make(task, place, row)
        except ValueError as error:
            if skipped is None:
                raise
            skipped.append(str(error))
        else:
            if made is not None:
                yield made


def _tsv_rows(task: GlueTask, path: Path, split: str, skipped: list | None, dev_ids):
    lines = text_lines(path)
    if task.name == "CoLA" and not split.startswith("test"):
        header = list(task.headerless)
    else:
        header = next(lines, (1, ""))[1].split("\t")
    for name in task.texts:
        if name not in header:
            refuse(path, 1, f"{task.name} {split} must have a column {name!r}", "\t".join(header))
    if task.label not in header and not split.startswith("test"):
        refuse(path, 1, f"{task.name} {split} must have a column {task.label!r}", "\t".join(header))

    def row(task, number, line):
        fields = line.split("\t")
        if len(fields) != len(header):
            rule = f"A row of {task.name} must have {len(header)} fields ({', '.join(header)})"
            hint = "" if skipped is not None else "; on_error='skip' leaves such rows out"
            refuse(path, number, rule + hint, line)
        fields = dict(zip(header, fields, strict=True))
        if dev_ids is not None and ((fields["#1 ID"], fields["#2 ID"]) in dev_ids) != (
            split == "dev"
        ):
            return None
        label = fields.get(task.label)
        texts = tuple(fields[name] for name in task.texts)
        counted = number - 1 if task.headerless and not split.startswith("test") else number - 2
        name = fields.get("index", fields.get("id", str(counted)))
        return name, texts, None if label is None else _label(task, path, number, label)

    yield from _guarded(row, task, lines, skipped)


def _label(task: GlueTask, path, line, text: str):
    if task.label_names:
        if text not in task.written:
            rule = f"`{task.label}` must be one of {', '.join(task.written)}"
            refuse(path, line, rule, text)
        return task.written.index(text)
    try:
        score = float(text)
    except ValueError:
        score = -1.0
    if not 0 <= score <= 5:
        refuse(path, line, f"`{task.label}` must be a number from 0 to 5", text)
    return score


def _mrpc_dev_ids(folder: Path, split: str) -> set | None:
    """The pairs of Microsoft's training file that GLUE took for its development set."""
    for name in ("dev_ids.tsv", "mrpc_dev_ids.tsv"):
        if (folder / name).is_file():
            return {tuple(line.split("\t")) for _, line in text_lines(folder / name)}
    if split == "dev":
        raise ValueError(
            "MRPC dev needs dev_ids.tsv beside msr_paraphrase_train.txt, which says what rows are "
            f"in it (from {ORIGIN}). Received: {folder}, which has none"
        )
    return None


def _stored(split: str) -> str:
    return split.replace("dev", "validation")


def _stored_row(task: GlueTask, place: str, row: dict):
    """A row of Hugging Face or TFDS; a label of -1 means that none is given."""
    texts = tuple(row.get(name) for name in task.stored_texts)
    if not all(isinstance(text, str) for text in texts):
        rule = f"A row of {task.name} must have the texts {', '.join(task.stored_texts)}"
        refuse(place, "texts", rule, row)
    label = row.get("label")
    if label is None or label == -1:
        label = None
    elif task.label_names:
        if label not in range(len(task.label_names)):
            refuse(place, "label", f"A label must be below {len(task.label_names)}, or -1", label)
    else:
        label = _label(task, place, "label", label)
    return str(row.get("idx", place)), texts, label
