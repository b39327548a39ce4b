"""Multiple choice: RACE (Lai et al., 2017) and SWAG (Zellers et al., 2018).

Texts stay as they are: filling RACE's "_" with an option is for the preprocessor.
"""

import csv
import io
import re
from pathlib import Path

import numpy as np

from keras_albert.arguments import check, is_path
from keras_albert.datasets import sources
from keras_albert.datasets.examples import Examples
from keras_albert.datasets.reading import find_file, read_json, refuse, text_lines

RACE_ORIGIN = "https://www.cs.cmu.edu/~glai1/data/race"
SWAG_ORIGIN = "https://github.com/rowanz/swagaf, folder data"
_LEVELS = {"middle": ("middle",), "high": ("high",), "all": ("middle", "high")}


def load_race(source, split: str = "train", level: str = "all") -> Examples:
    """Read RACE: a passage, a question and its options.

    Args:
        source: the directory `RACE` with `train/middle/1.txt`, ...; or one with Hugging Face's
            files, which hold the level that they hold; or `"hf"` / `"tfds"`.
        split: `"train"`, `"dev"` or `"test"`.
        level: `"middle"`, `"high"` or `"all"`.

    Returns:
        `Examples` with `x = (articles, questions, options)`, the last a list of lists of strings;
        `y` int32, the place of the right option.

    Raises:
        ValueError: for a missing directory or a broken file, named.

    Example:
    ```python
    dev = keras_albert.datasets.load_race("RACE", split="dev", level="high")
    ```
    """
    _check("load_race", source, split)
    check(
        "load_race",
        "middle, high or all",
        lambda v: isinstance(v, str) and v in _LEVELS,
        level=level,
    )
    stored = split.replace("dev", "validation")
    path = Path(source).expanduser()
    if sources.is_name(source):
        levels = (level,) if source == "hf" else _LEVELS[level]
        rows = []
        for name in levels:
            found = sources.rows_by_name(source, ("ehovy/race", name), f"race/{name}", stored)
            rows += [row for place, one in found for row in _race_stored(place, one)]
    elif files := sources.stored_files(path, stored):
        found = sources.rows_of_files(files)
        rows = [row for place, one in found for row in _race_stored(place, one)]
    else:
        rows = [row for file in _race_files(path, split, level) for row in _race_file(file)]
    return _examples(rows, source)


def _race_files(path: Path, split: str, level: str):
    files = []
    for name in _LEVELS[level]:
        folder = path / split / name
        # Archives made on a Mac have "._1.txt" beside "1.txt".
        found = [file for file in folder.glob("*.txt") if not file.name.startswith(".")]
        if not found:
            raise ValueError(
                f"RACE {split} ({level}) needs {split}/{name}/*.txt (from {RACE_ORIGIN}). "
                f"Received: {path}, which has none"
            )
        files += sorted(found, key=lambda file: (len(file.name), file.name))  # 9 before 10
    return files


def _race_file(path: Path):
    passage = read_json(path)
    if not isinstance(passage, dict):
        refuse(path, 1, "A file of RACE must be a JSON object", passage)
    name = passage.get("id", f"{path.parent.name}{path.name}")
    yield from _race_questions(path, name, passage)


def _race_stored(place: str, row: dict):
    """TFDS has a passage a row, as the files; Hugging Face has a question a row."""
    if "questions" in row:
        yield from _race_questions(place, row.get("example_id", place), row)
        return
    one = {"questions": [row.get("question")], "options": [row.get("options")]}
    one |= {"answers": [row.get("answer")], "article": row.get("article")}
    yield from _race_questions(place, row.get("example_id", place), one)


def _race_questions(place, name: str, passage: dict):
    """Yields (id, (article, question, options), label)."""
    columns = [passage.get(key) for key in ("questions", "options", "answers")]
    article = passage.get("article")
    if not isinstance(article, str) or not all(isinstance(column, list) for column in columns):
        rule = "RACE must have `article`, and lists `questions`, `options`, `answers`"
        refuse(place, 1, rule, sorted(passage))
    if len({len(column) for column in columns}) != 1:
        lengths = [len(column) for column in columns]
        refuse(place, 1, "`questions`, `options` and `answers` must be of one length", lengths)
    for number, (question, options, answer) in enumerate(zip(*columns, strict=True)):
        where = f"question {number}"
        if not isinstance(question, str):
            refuse(place, where, "A question must be a string", question)
        _check_options(place, where, options)
        letters = "ABCDEFGHIJ"[: len(options)]
        if not isinstance(answer, str) or len(answer) != 1 or answer not in letters:
            refuse(place, where, f"The answer must be one of {', '.join(letters)}", answer)
        yield f"{name}-{number}", (article, question, list(options)), letters.index(answer)


def load_swag(source, split: str = "train") -> Examples:
    """Read SWAG: a sentence, the beginning of the next, and its possible endings.

    Args:
        source: a CSV or JSON-lines file in SWAG's columns; or a directory with `train.csv`, ... or
            the `train_full.csv`, ... of all annotations; or one with Hugging Face's files; or
            `"hf"` (TFDS has no SWAG).
        split: `"train"`, `"dev"` or `"test"`; not used for a file.

    Returns:
        `Examples` with `x = (sent1, sent2, endings)`, the last a list of lists of strings; `y`
        int32, the place of the right ending, or None for the test set. The full files name the
        right ending instead of numbering it: there it comes first, and rows have 4 or 5 endings.

    Raises:
        ValueError: for a missing file or a broken row, with its line.

    Example:
    ```python
    train = keras_albert.datasets.load_swag("swag/train.csv")
    ```
    """
    _check("load_swag", source, split)
    stored = split.replace("dev", "validation")
    path = Path(source).expanduser()
    if sources.is_name(source):
        found = sources.rows_by_name(source, ("allenai/swag", "regular"), None, stored)
    elif path.is_file() and path.suffix != ".csv":
        found = sources.rows_of_files([path])
    elif path.is_dir() and (files := sources.stored_files(path, stored)):
        found = sources.rows_of_files(files)
    else:
        name = split.replace("dev", "val")
        names = (f"{name}.csv", f"{name}_full.csv")
        file = path if path.is_file() else find_file([path], names, f"SWAG {split}", SWAG_ORIGIN)
        found = _csv_rows(file)
    rows = []
    for place, row in found:
        rows.append(_swag_row(place, row, len(rows)))
    return _examples(rows, source)


def _csv_rows(path: Path):
    lines = io.StringIO("".join(f"{line}\n" for _, line in text_lines(path)), newline="")
    reader = csv.DictReader(lines, strict=True)
    try:
        for row in reader:
            if None in row or None in row.values():
                rule = f"A row must have {len(reader.fieldnames)} fields"
                refuse(path, reader.line_num, rule, list(row.values()))
            yield f"{path}, line {reader.line_num}", row
    except csv.Error as error:
        refuse(path, reader.reader.line_num, "The file must be CSV as RFC 4180 has it", error)


def _swag_row(place: str, row: dict, number: int):
    if "gold-ending" in row:
        endings = [row["gold-ending"], *_numbered(row, "distractor-")]
        label = 0
    else:
        endings = _numbered(row, "ending")
        label = row.get("label", -1)
    texts = row.get("sent1"), row.get("sent2")
    if not all(isinstance(text, str) for text in texts):
        refuse(place, "texts", "A row of SWAG must have `sent1` and `sent2`", row)
    while endings and not endings[-1]:
        endings.pop()  # rows of the full files may have fewer distractors
    _check_options(place, "endings", endings)
    if str(label) not in ("-1", *map(str, range(len(endings)))):
        refuse(place, "label", f"`label` must be an integer below {len(endings)}", label)
    name = f"{row['video-id']}:{row['fold-ind']}" if "fold-ind" in row else str(number)
    return name, (*texts, endings), None if int(label) < 0 else int(label)


def _numbered(row: dict, prefix: str) -> list[str]:
    names = [name for name in row if re.fullmatch(rf"{prefix}\d+", name or "")]
    return [row[name] for name in sorted(names, key=lambda name: int(name[len(prefix) :]))]


def _check(owner: str, source, split):
    check(owner, "a path, 'hf' or 'tfds'", lambda v: is_path(v) and v != "", source=source)
    rule, splits = "'train', 'dev' or 'test'", ("train", "dev", "test")
    check(owner, rule, lambda value: value in splits, split=split)


def _check_options(place, where: str, options):
    texts = isinstance(options, list) and all(isinstance(o, str) for o in options)
    # An option of RACE may be empty: the original has some.
    if not texts or len(options) < 2:
        refuse(place, where, "A question must have two options or more, all strings", options)


def _examples(rows: list, source) -> Examples:
    if not rows:
        raise ValueError(f"The files must hold at least one question. Received: {source}")
    ids, x, labels = zip(*rows, strict=True)
    if None in labels and any(label is not None for label in labels):
        raise ValueError(f"All questions must have labels, or none. Received: {source}")
    y = None if labels[0] is None else np.array(labels, "int32")
    return Examples(tuple(map(list, zip(*x, strict=True))), y, list(ids))
