"""From files to documents, and from documents to sentences.

Files are read as a stream: a block of lines at a time, and a document of text that is very long in
parts, so that memory stays bounded whatever the input. Reading (`read_sources`) is quick; the work
on the text (`sentences_of`) is a pure function that other processes can do. Nothing is tokenized
here, and neither Keras nor a large library is imported until a file needs it.
"""

import dataclasses
import functools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from keras_albert.data import formats, records, wikipedia
from keras_albert.data.formats import Skipped, StoredFile
from keras_albert.data.lines import cut_lines, text_lines
from keras_albert.preprocessing.files import find_files, names_files

SEPARATORS = ("auto", "blank_line", "heading", "file")
ON_ERROR = ("raise", "skip")
PART_CHARACTERS = 1 << 22  # a longer document is handed on in parts of about this length

# With rules of their own in `sentencex`, which has no list of them to ask for.
LANGUAGES = (
    *("am", "ar", "bg", "bn", "ca", "da", "de", "el", "en", "es", "fi", "fr", "gu", "hi", "hy"),
    *("it", "ja", "kk", "kn", "ml", "mr", "my", "nl", "pa", "pl", "pt", "ru", "sk", "ta", "te"),
    "uk",
)

_HEADING = re.compile(r"#{1,6}\s")
_RULE = re.compile(r"[-*_\s]{3,}$")  # Markdown's thematic break
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)*$")


@dataclasses.dataclass(frozen=True)
class Source:
    """A document, or a part of a very long one, as it was read: before any work on its text.

    Attributes:
        text: a string, its paragraphs separated by line ends; or a list of sentences.
        continues: whether this goes on where the part before it stopped.
        bytes_read: bytes of the input files, as they are stored, read so far; 0 when the input is
            not files.
        markup: `"wikitext"` where `text` still holds that, otherwise None.
    """

    text: str | list[str]
    continues: bool = False
    bytes_read: int = 0
    markup: str | None = None


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
            `sentencex` library (others than `LANGUAGES` get those of a related language, or of
            English); `"lines"` where every line is one sentence already; or a function
            from a string to a list of strings.

    Returns:
        A function that can be pickled, unless `sentences` is one that cannot.

    Raises:
        ValueError: for anything else.
    """
    if callable(sentences):
        return sentences
    if sentences == "lines":
        return _whole
    if not isinstance(sentences, str) or not _LANGUAGE.match(sentences):
        raise ValueError(
            '`sentences` must be a language code such as "en", the word "lines" or a function. '
            f"Received: {sentences!r}"
        )
    import sentencex

    return functools.partial(sentencex.segment, sentences)


def warn_of_language(sentences: str | Callable) -> None:
    """Warns of a language code without rules of its own: a misspelt one is not told otherwise."""
    if isinstance(sentences, str) and sentences not in (*LANGUAGES, "lines"):
        warnings.warn(
            f"There are no rules for sentences of the language {sentences!r}: those of a related "
            f"language are used, or else of English. Languages with rules: {', '.join(LANGUAGES)}",
            stacklevel=3,
        )


def _whole(line: str) -> list[str]:
    return [line]


def read_documents(
    files,
    *,
    document_separator: str = "auto",
    sentences: str | Callable = "en",
    text_field: str = "text",
    on_error: str = "raise",
) -> Iterator[SourceDocument]:
    r"""Reads documents from files or from an iterable, as sentences.

    Args:
        files: what `find_files` takes; or any other iterable of documents. A name's suffixes say
            how a file is read: `.gz`, `.bz2`, `.xz` and `.zst` are decompressed; then `.jsonl`,
            `.ndjson` and `.json` hold an object a line, `.parquet` a row, and `.xml` a Wikipedia
            dump (MediaWiki's export format), an article a document; all else is plain text in
            UTF-8. A document of an iterable is a string (paragraphs separated by line ends), a
            list of sentences, or a mapping with either under `text_field`, as the rows of Hugging
            Face `datasets` and TensorFlow Datasets are; bytes are taken for UTF-8.
        document_separator: where a document ends inside a file of plain text. `"blank_line"`: at
            an empty line, so one paragraph or one sentence a line (BERT's format). `"heading"`: at
            a Markdown heading of any level; headings and rules are dropped, blank lines mean
            nothing. `"file"`: at the end of the file only. `"auto"`: `"heading"` for names that
            end in `.md`, `"blank_line"` for others.
        sentences: see `sentence_splitter`. Documents given as lists are not split again.
        text_field: the field of JSON lines and mappings, the column of Parquet, that holds the
            text: a string or a list of sentences.
        on_error: `"raise"`, or `"skip"` to leave out lines and records that are not as they should
            be, and of a file that breaks off what the break makes incomplete.

    Yields:
        `SourceDocument`s; documents without text are left out.

    Raises:
        ValueError: for arguments outside these rules, and for bad data (naming the file and the
            line, row or byte, or the number of the document).
        ImportError: where the library that reads a format is not installed.

    Example:
        >>> [d.sentences for d in read_documents(iter(["One. Two.\nThree.", ["Four."]]))]
        [['One.', 'Two.', 'Three.'], ['Four.']]
    """
    split = sentence_splitter(sentences)
    warn_of_language(sentences)
    sources = read_sources(
        files, document_separator=document_separator, text_field=text_field, on_error=on_error
    )
    return _split(sources, split)


def _split(sources: Iterable[Source], split: Callable) -> Iterator[SourceDocument]:
    for source in sources:
        if found := sentences_of(source, split):
            yield SourceDocument(found, source.continues, source.bytes_read)


def sentences_of(source: Source, split: Callable[[str], list[str]]) -> list[str]:
    """The sentences of a document, stripped, none of them empty; its markup is removed here.

    Args:
        source: what `read_sources` gave.
        split: what `sentence_splitter` gave.
    """
    text = source.text
    if not isinstance(text, str):
        return _stripped(text)
    if source.markup == "wikitext":
        text = wikipedia.plain_text(text)
    paragraphs = _stripped(text.split("\n"))
    return [sentence for paragraph in paragraphs for sentence in _stripped(split(paragraph))]


def read_sources(
    files,
    *,
    document_separator: str = "auto",
    text_field: str = "text",
    on_error: str = "raise",
    skipped: Skipped | None = None,
) -> Iterator[Source]:
    """Reads documents from files or from an iterable, and leaves their text as it is.

    Args:
        files: see `read_documents`, as for what is not named here.
        document_separator: see there.
        text_field: see there.
        on_error: see there.
        skipped: with `on_error="skip"`, where to count what is left out.

    Yields:
        `Source`s; documents without text are left out, unless markup hides that.

    Raises:
        ValueError: for wrong arguments at once, for bad data when it is met.
    """
    if document_separator not in SEPARATORS:
        raise ValueError(
            f"`document_separator` must be one of {SEPARATORS}. Received: {document_separator!r}"
        )
    if not isinstance(text_field, str) or not text_field:
        raise ValueError(f"`text_field` must be the name of a field. Received: {text_field!r}")
    if on_error not in ON_ERROR:
        raise ValueError(f"`on_error` must be one of {ON_ERROR}. Received: {on_error!r}")
    skipped = None if on_error == "raise" else skipped or Skipped()
    if names_files(files):
        return _from_files(find_files(files), document_separator, text_field, skipped)
    if not isinstance(files, Iterable) or isinstance(files, (Mapping, bytes)):
        raise ValueError(
            "`files` must be paths or an iterable of documents (of a dictionary of splits, choose "
            f"one). Received: {str(files)[:200]}"
        )
    return _from_iterable(files, text_field, skipped)


def _from_files(
    paths: list[Path], separator: str, field: str, skipped: Skipped | None
) -> Iterator[Source]:
    bytes_before = 0
    for path in paths:
        file = StoredFile(path)
        markup = "wikitext" if file.kind == "xml" else None
        try:
            for text, continues in _texts(file, separator, field, skipped):
                yield Source(text, continues, bytes_before + file.position, markup)
        except formats.BrokenFileError as error:
            if skipped is None:
                raise
            skipped.add("files", str(error))
        bytes_before += path.stat().st_size


def _texts(
    file: StoredFile, separator: str, field: str, skipped: Skipped | None
) -> Iterator[tuple[str | list[str], bool]]:
    """Yields (text, continues)."""
    if file.kind in ("text", "markdown"):
        if separator == "auto":
            separator = "heading" if file.kind == "markdown" else "blank_line"
        yield from _plain_documents(file, separator, skipped)
    elif file.kind == "xml":
        for text in wikipedia.articles(file, skipped):
            yield text, False
    else:
        read = records.json_lines if file.kind == "json" else records.parquet_rows
        for text in read(file, field, skipped):
            yield from _in_parts(_paragraphs(text))


def _from_iterable(documents: Iterable, field: str, skipped: Skipped | None) -> Iterator[Source]:
    for number, document in enumerate(documents):
        try:
            if isinstance(document, Mapping):
                text = records.field_text(document, field)
            else:
                text = records.as_text(document)
        except ValueError as error:
            formats.refuse(skipped, "records", f"`files`, document {number}: {error}")
            continue
        for part, continues in _in_parts(_paragraphs(text)):
            yield Source(part, continues)


def _paragraphs(text: str | list[str]) -> str | list[str]:
    return "\n".join(_stripped(text.splitlines())) if isinstance(text, str) else text


def _in_parts(text: str | list[str]) -> Iterator[tuple[str | list[str], bool]]:
    """Yields (text, continues): a document whole, or a very long one as a text file's would be."""
    is_string = isinstance(text, str)
    if (len(text) if is_string else sum(map(len, text))) <= PART_CHARACTERS:
        if text:
            yield text, False
        return
    held, characters, continues = [], 0, False
    for piece in _stripped(cut_lines(text)) if is_string else text:
        if characters >= PART_CHARACTERS:
            yield "\n".join(held) if is_string else held, continues
            held, characters, continues = [], 0, True
        held.append(piece)
        characters += len(piece)
    yield "\n".join(held) if is_string else held, continues


def _stripped(sentences: Iterable[str]) -> list[str]:
    return [stripped for sentence in sentences if (stripped := sentence.strip())]


def _plain_documents(
    file: StoredFile, separator: str, skipped: Skipped | None
) -> Iterator[tuple[str, bool]]:
    """Yields (paragraphs joined by line ends, continues)."""
    blank_line, heading = separator == "blank_line", separator == "heading"
    held, characters, continues = [], 0, False
    for lines in text_lines(file, skipped):
        for line in lines:
            line = line.strip()
            ends = heading and line[:1] == "#" and _HEADING.match(line)
            ends = ends or (blank_line and not line)
            if ends or characters >= PART_CHARACTERS:
                if held:
                    yield "\n".join(held), continues
                # After a separator a document starts, whatever was handed on before it.
                continues = not ends and bool(held or continues)
                held, characters = [], 0
            if line and not (heading and (ends or _RULE.match(line))):
                held.append(line)
                characters += len(line)
    if held:
        yield "\n".join(held), continues
