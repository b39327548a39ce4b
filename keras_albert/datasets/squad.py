"""SQuAD 1.1 and 2.0 (Rajpurkar et al., 2016 and 2018), from the original JSON."""

import dataclasses
import warnings
from pathlib import Path

from keras_albert.arguments import check, is_integer, is_path
from keras_albert.datasets import sources
from keras_albert.datasets.reading import read_json

ORIGIN = "https://rajpurkar.github.io/SQuAD-explorer"


@dataclasses.dataclass(frozen=True)
class SquadExample:
    """One question.

    Attributes:
        id, title, context, question: strings; `context` is the paragraph, unchanged.
        answers: the gold answers, one or more, in the order of the file; none if it has no answer.
        answer_starts: for each the place of its first character in `context`.
        is_impossible: whether the paragraph does not answer the question (2.0).
    """

    id: str
    title: str
    context: str
    question: str
    answers: tuple[str, ...] = ()
    answer_starts: tuple[int, ...] = ()
    is_impossible: bool = False

    @property
    def misplaced(self) -> tuple[str, ...]:
        """The answers that do not stand where the file says."""
        pairs = zip(self.answers, self.answer_starts, strict=True)
        return tuple(
            text
            for text, start in pairs
            if start < 0 or self.context[start : start + len(text)] != text
        )


def load_squad(source, split: str = "train", version: str = "1.1") -> list[SquadExample]:
    """Read SQuAD's questions.

    An answer that does not stand at its offset is kept, since scoring needs its text, and named in
    a warning; `example.misplaced` lists it.

    Args:
        source: the JSON file, of either version; or a directory with Hugging Face's files; or
            `"hf"` / `"tfds"` to read through that library.
        split: `"train"` or `"dev"`; not used for a JSON file, which is one split.
        version: `"1.1"` or `"2.0"`, for `"hf"` and `"tfds"`; a file says itself.

    Returns:
        A list of `SquadExample`, in the order of the file.

    Raises:
        ValueError: where the file is missing or not SQuAD's JSON, with the place in it; where an
            id comes twice.

    Example:
    ```python
    examples = keras_albert.datasets.load_squad("squad/dev-v2.0.json")
    ```
    """
    owner = "load_squad"
    check(owner, "a path, 'hf' or 'tfds'", lambda v: is_path(v) and v != "", source=source)
    check(owner, "'train' or 'dev'", lambda value: value in ("train", "dev"), split=split)
    check(owner, "'1.1' or '2.0'", lambda value: value in ("1.1", "2.0"), version=version)
    stored = "validation" if split == "dev" else split
    path = Path(source).expanduser()
    if sources.is_name(source):
        hf = ("rajpurkar/squad_v2",) if version == "2.0" else ("rajpurkar/squad",)
        tfds = "squad/v2.0" if version == "2.0" else "squad/v1.1"
        rows = sources.rows_by_name(source, hf, tfds, stored)
        examples = [_of_row(place, row) for place, row in rows]
    elif path.is_dir() and (files := sources.stored_files(path, stored)):
        examples = [_of_row(place, row) for place, row in sources.rows_of_files(files)]
    elif path.is_file():
        examples = list(_of_json(path))
    else:
        names = f"{split}-v1.1.json or {split}-v2.0.json"
        raise ValueError(f"SQuAD needs {names} (from {ORIGIN}). Received: {path}, not a file")
    _check_ids(examples, source)
    broken = [(e.id, text) for e in examples for text in e.misplaced]
    if broken:
        warnings.warn(
            f"{len(broken)} answers of {source} do not stand at their offsets; they serve for "
            f"scoring, not for training. First: {broken[:3]}",
            UserWarning,
            stacklevel=2,
        )
    return examples


def _of_json(path: Path):
    articles = _part(read_json(path), "data", list, path)
    for a, article in enumerate(articles):
        place = f"{path}, article {a}"
        for p, paragraph in enumerate(_part(article, "paragraphs", list, place)):
            where = f"{place}, paragraph {p}"
            context = _part(paragraph, "context", str, where)
            for q, asked in enumerate(_part(paragraph, "qas", list, where)):
                question = f"{where}, question {q}"
                answers = _part(asked, "answers", list, question) if "answers" in asked else []
                yield _example(
                    question,
                    _part(asked, "id", str, question),
                    article.get("title", ""),
                    context,
                    _part(asked, "question", str, question),
                    [_part(answer, "text", str, question) for answer in answers],
                    [_part(answer, "answer_start", int, question) for answer in answers],
                    asked.get("is_impossible", False),
                )


def _of_row(place: str, row: dict) -> SquadExample:
    answers = _part(row, "answers", dict, place)
    texts = _part(answers, "text", list, place)
    strings = [_part(row, name, str, place) for name in ("id", "context", "question")]
    name, context, question = strings
    starts = _part(answers, "answer_start", list, place)
    return _example(place, name, row.get("title", ""), context, question, texts, starts, not texts)


def _example(place, name, title, context, question, texts, starts, is_impossible):
    # 2.0's impossible questions have plausible answers under another key, and no answers.
    if is_impossible and texts:
        raise ValueError(
            f"A question with `is_impossible` must have no answers. {place}. Received: {texts}"
        )
    if not all(map(is_integer, starts)) or len(starts) != len(texts):
        raise ValueError(
            f"Every answer must have an integer `answer_start`. {place}. Received: {starts}"
        )
    return SquadExample(
        name, title, context, question, tuple(texts), tuple(starts), bool(is_impossible)
    )


def _part(value, key: str, kind: type, place):
    part = value.get(key) if isinstance(value, dict) else None
    if not isinstance(part, kind):
        name = {list: "a list", str: "a string", int: "an integer", dict: "an object"}[kind]
        raise ValueError(
            f"SQuAD's JSON must have {name} under {key!r}. {place}. Received: {str(value)[:100]}"
        )
    return part


def _check_ids(examples: list[SquadExample], source):
    seen = set()
    for example in examples:
        if example.id in seen:
            raise ValueError(
                f"Every question must have its own id. {source}. Received: {example.id!r} twice"
            )
        seen.add(example.id)
