"""From files to documents, and from documents to sentences.

Files are read as a stream: a line at a time, and a document that is very long in parts, so that
memory stays bounded whatever the input. Nothing is tokenized here.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from keras_albert.preprocessing.files import find_files, names_files

SEPARATORS = ("auto", "blank_line", "heading", "file")
PART_CHARACTERS = 1 << 20  # a longer document is handed on in parts of about this length
LINE_BYTES = 1 << 20  # a longer line is cut, at a space where there is one

_HEADING = re.compile(r"#{1,6}\s")
_RULE = re.compile(r"[-*_\s]{3,}$")  # Markdown's thematic break
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)*$")


@dataclasses.dataclass(frozen=True)
class SourceDocument:
    """The sentences of a document, or of a part of a very long one.

    Attributes:
        sentences: list of strings, stripped, none of them empty.
        continues: whether this goes on where the part before it stopped.
        bytes_read: bytes of the input files read so far; 0 when the input is not files.
    """

    sentences: list[str]
    continues: bool = False
    bytes_read: int = 0


def sentence_splitter(sentences: str | Callable) -> Callable[[str], list[str]]:
    """The function from a paragraph to its sentences.

    Args:
        sentences: a language code such as `"en"`, `"de"` or `"ja"` for the rules of the
            `sentencex` library; `"lines"` where every line is one sentence already; or a function
            from a string to a list of strings.

    Raises:
        ValueError: for anything else.
    """
    if callable(sentences):
        return sentences
    if sentences == "lines":
        return lambda line: [line]
    if not isinstance(sentences, str) or not _LANGUAGE.match(sentences):
        raise ValueError(
            '`sentences` must be a language code such as "en", the word "lines" or a function. '
            f"Received: {sentences!r}"
        )
    import sentencex

    return lambda paragraph: sentencex.segment(sentences, paragraph)


def read_documents(
    files, *, document_separator: str = "auto", sentences: str | Callable = "en"
) -> Iterator[SourceDocument]:
    r"""Reads documents from files or from an iterable, as sentences.

    Args:
        files: what `find_files` takes; or any other iterable of documents, each of them a string
            (paragraphs separated by line ends) or a list of sentences.
        document_separator: where a document ends inside a file. `"blank_line"`: at an empty line,
            so one paragraph or one sentence a line (BERT's format). `"heading"`: at a Markdown
            heading of any level; headings and rules are dropped, blank lines mean nothing.
            `"file"`: at the end of the file only. `"auto"`: `"heading"` for names that end in
            `.md`, `"blank_line"` for others.
        sentences: see `sentence_splitter`. Documents given as lists are not split again.

    Yields:
        `SourceDocument`s; documents without text are left out.

    Raises:
        ValueError: for arguments outside these rules, and for text that is not UTF-8 (naming the
            file and the line).

    Example:
        >>> [d.sentences for d in read_documents(iter(["One. Two.\nThree.", ["Four."]]))]
        [['One.', 'Two.', 'Three.'], ['Four.']]
    """
    if document_separator not in SEPARATORS:
        raise ValueError(
            f"`document_separator` must be one of {SEPARATORS}. Received: {document_separator!r}"
        )
    split = sentence_splitter(sentences)
    if names_files(files):
        return _from_files(find_files(files), document_separator, split)
    return _from_iterable(files, split)


def _from_files(paths: list[Path], separator: str, split: Callable) -> Iterator[SourceDocument]:
    bytes_before = 0
    for path in paths:
        how = separator
        if how == "auto":
            how = "heading" if path.suffix == ".md" else "blank_line"
        held, characters, continues, bytes_read = [], 0, False, bytes_before
        for text, bytes_read in _lines(path):
            bytes_read += bytes_before
            heading = _HEADING.match(text) if how == "heading" else None
            ends = heading or (how == "blank_line" and not text)
            if ends or characters >= PART_CHARACTERS:
                if held:
                    yield SourceDocument(held, continues, bytes_read)
                # After a separator a document starts, whatever was handed on before it.
                continues = not ends and bool(held or continues)
                held, characters = [], 0
            if text and not heading and not (how == "heading" and _RULE.match(text)):
                held += _stripped(split(text))
                characters += len(text)
        if held:
            yield SourceDocument(held, continues, bytes_read)
        bytes_before += path.stat().st_size


def _from_iterable(documents: Iterable, split: Callable) -> Iterator[SourceDocument]:
    if not isinstance(documents, Iterable):
        raise ValueError(
            f"`files` must be paths or an iterable of documents. Received: {documents!r}"
        )
    for number, document in enumerate(documents):
        if isinstance(document, str):
            paragraphs = (line.strip() for line in document.splitlines())
            found = [s for p in paragraphs if p for s in _stripped(split(p))]
        elif isinstance(document, (list, tuple)) and all(isinstance(s, str) for s in document):
            found = _stripped(document)
        else:
            raise ValueError(
                "A document must be a string or a list of strings. "
                f"Received, as document {number}: {str(document)[:100]!r}"
            )
        if found:
            yield SourceDocument(found)


def _stripped(sentences: Iterable[str]) -> list[str]:
    return [stripped for sentence in sentences if (stripped := sentence.strip())]


def _lines(path: Path) -> Iterator[tuple[str, int]]:
    """Yields (stripped line, bytes read so far); over-long lines come in pieces."""
    bytes_read, number, rest = 0, 1, b""
    with open(path, "rb") as file:
        while chunk := file.readline(LINE_BYTES):
            bytes_read += len(chunk)
            line, rest = rest + chunk, b""
            whole = line.endswith(b"\n")
            if not whole and len(chunk) == LINE_BYTES:
                line, rest = _cut(line)
            yield _decoded(line, path, number), bytes_read
            number += whole
    if rest:
        yield _decoded(rest, path, number), bytes_read


def _cut(line: bytes) -> tuple[bytes, bytes]:
    """Cuts an over-long line after its last space, or else before its last character."""
    end = line.rfind(b" ") + 1 or len(line) - 1
    while 1 < end < len(line) and line[end] & 0xC0 == 0x80:
        end -= 1  # never inside a UTF-8 character
    return line[:end], line[end:]


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Text files must be UTF-8. {path}, line {number}: {error.reason} "
            f"({line[error.start : error.start + 4]!r} at byte {error.start} of the line)"
        ) from None
    return text.strip()
