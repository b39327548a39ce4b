"""Files of tagged words in the style of CoNLL-2003 (Tjong Kim Sang and De Meulder, 2003)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_albert.arguments import check, check_booleans, is_integer, is_path
from keras_albert.datasets import sources
from keras_albert.datasets.examples import Examples
from keras_albert.datasets.reading import refuse, text_lines

ORIGIN = "https://www.clips.uantwerpen.be/conll2003/ner, or your own"


def load_conll(
    path,
    label_names: Sequence[str] | None = None,
    word_column: int = 0,
    tag_column: int = -1,
    separator: str | None = None,
    comments: bool = False,
    iob1: bool = False,
) -> Examples:
    """Read sentences of tagged words: a word a line, an empty line after each sentence.

    Lines that begin with `-DOCSTART-` stand between documents and are left out.

    Args:
        path: a file (`eng.train`, ...), or Parquet, Arrow or JSON lines in Hugging Face's columns:
            `tokens`, and `ner_tags` as strings or as integers into `label_names`.
        label_names: the tags, in the order of the classes. Give those of the training set for
            every other one. None takes those of the file: O first, the others sorted.
        word_column: the field that holds the word; negative counts from the end.
        tag_column: the field that holds the tag, likewise.
        separator: between fields; None for any run of white space, as CoNLL-2003 has it.
        comments: True leaves out lines that begin with `#`, as CoNLL-U writes them.
        iob1: True takes the tags for IOB1, as CoNLL-2003 has them, and turns them into IOB2.

    Returns:
        `Examples`: `x` a list of lists of words, `y` a list of int32 arrays as long.

    Raises:
        ValueError: for a missing file, or a line with too few fields or a tag not in
            `label_names`, with its number.

    Example:
    ```python
    train = keras_albert.datasets.load_conll("eng.train", iob1=True)
    dev = keras_albert.datasets.load_conll("eng.testa", train.label_names, iob1=True)
    ```
    """
    owner = "load_conll"
    check(owner, "a file's path", is_path, path=path)
    is_names = lambda value: (
        value is None
        or (isinstance(value, (list, tuple)) and value and all(isinstance(v, str) for v in value))
    )
    check(owner, "a list of strings, or None", is_names, label_names=label_names)
    check(owner, "an integer", is_integer, word_column=word_column, tag_column=tag_column)
    is_separator = lambda value: value is None or (isinstance(value, str) and value)
    check(owner, "a string that is not empty, or None", is_separator, separator=separator)
    check_booleans(owner, comments=comments, iob1=iob1)
    path = Path(path).expanduser()
    if not path.is_file():
        raise ValueError(f"A tagged set needs its file (from {ORIGIN}). Received: {path}")
    if path.suffix in (".parquet", ".arrow", ".jsonl", ".json"):
        sentences = [
            _stored(place, row, label_names) for place, row in sources.rows_of_files([path])
        ]
    else:
        sentences = list(_sentences(path, word_column, tag_column, separator, comments))
    if not sentences:
        raise ValueError(f"{path} must hold at least one sentence. Received: none")
    tags = [iob2(row) if iob1 else row for _, row, _ in sentences]
    names = tuple(label_names) if label_names is not None else _names(tags)
    classes = {name: number for number, name in enumerate(names)}
    for row, (_, _, places) in zip(tags, sentences, strict=True):
        for tag, place in zip(row, places, strict=True):
            if tag not in classes:
                refuse(path, place, f"A tag must be one of {', '.join(names)}", tag)
    return Examples(
        x=[words for words, _, _ in sentences],
        y=[np.array([classes[tag] for tag in row], "int32") for row in tags],
        ids=[str(number) for number in range(len(sentences))],
        label_names=names,
    )


def iob2(tags: Sequence[str]) -> list[str]:
    """IOB1 tags of a sentence as IOB2: every span begins with `B-`."""
    result, previous = [], "O"
    for tag in tags:
        starts = tag.startswith("I-") and previous[2:] != tag[2:]
        result.append(f"B-{tag[2:]}" if starts else tag)
        previous = tag
    return result


def _sentences(path: Path, word_column, tag_column, separator, comments):
    """Yields (words, tags, line numbers)."""
    words, tags, lines = [], [], []
    for number, line in text_lines(path):
        if comments and line.startswith("#"):
            continue
        if not line.strip() or line.startswith("-DOCSTART-"):
            if words:
                yield words, tags, lines
            words, tags, lines = [], [], []
            continue
        fields = line.split(separator)
        for column in {word_column, tag_column}:
            if not -len(fields) <= column < len(fields):
                refuse(path, number, f"A line must have a field {column}", line)
        if len(fields) < 2:
            refuse(path, number, "A line must have a word and a tag", line)
        words.append(fields[word_column])
        tags.append(fields[tag_column])
        lines.append(number)
    if words:
        yield words, tags, lines


def _stored(place: str, row: dict, label_names):
    words, tags = row.get("tokens"), row.get("ner_tags")
    if not isinstance(words, list) or not isinstance(tags, list) or len(words) != len(tags):
        refuse(place, "columns", "A row must have `tokens` and as many `ner_tags`", row)
    if any(is_integer(tag) for tag in tags):
        if label_names is None:
            refuse(place, "ner_tags", "Tags as integers need `label_names`", tags)
        if not all(is_integer(tag) and 0 <= tag < len(label_names) for tag in tags):
            refuse(place, "ner_tags", f"A tag must be below {len(label_names)}", tags)
        tags = [label_names[tag] for tag in tags]
    return words, tags, [place] * len(tags)


def _names(tags: list[list[str]]) -> tuple[str, ...]:
    found = {tag for row in tags for tag in row}
    return (*(["O"] if "O" in found else []), *sorted(found - {"O"}))
