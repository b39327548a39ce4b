"""A Wikipedia dump: from MediaWiki's XML to articles, and from wikitext to plain text.

The dump is parsed as a stream by expat; one article is held at a time. Its markup is parsed by
`mwparserfromhell`, and only prose is kept: templates are not expanded, and tables, references,
headings, files and categories are dropped. Source of the XML format:
https://www.mediawiki.org/wiki/Help:Export
"""

import html
import re
from collections.abc import Iterator
from xml.parsers import expat

from keras_albert.data import formats
from keras_albert.data.formats import BrokenFileError, Skipped, StoredFile

_CANONICAL = {"-2": "Media", "6": "File", "14": "Category"}  # names that every wiki understands
_NOT_PROSE = re.compile(r"\s*(media|file|image|category)\s*:", re.IGNORECASE)
_INTERLANGUAGE = re.compile(r"\s*[a-z]{2,3}(-[a-z]+)*\s*:")  # [[de:Albert]]
_DROPPED_TAGS = {
    *("table", "ref", "references", "gallery", "math", "chem", "ce", "timeline", "score", "graph"),
    *("syntaxhighlight", "source", "pre", "code", "imagemap", "hiero", "categorytree", "inputbox"),
    *("templatedata", "section", "mapframe", "maplink", "templatestyles", "style", "hr", "index"),
}
_BLOCK_TAGS = {"br", "p", "div", "blockquote", "li", "dd", "dt", "poem", "center"}
# What is surely dropped and holds most of the markup: taken out first, the parser is twice as fast.
_NOTES = re.compile(
    r"<!--.{,5000}?-->|<ref\b[^<>]*/>|<ref\b[^<>]*>.{,5000}?</ref\s*>", re.DOTALL | re.IGNORECASE
)
_TEMPLATE = re.compile(r"(?<!\{)\{\{[^{}]*\}\}(?!\})")
_TEMPLATE_DEPTH = 8  # deeper ones are left to the parser
_QUOTES = re.compile(r"'{2,}")  # bold and italic
_SWITCH = re.compile(r"__[A-Z]+__")  # __NOTOC__
_HOLLOW = re.compile(r" ?[(（][ ,;:]*[)）]")  # parentheses of which only templates are gone
_OPENED = re.compile(r"([(（])[ ,;:]+")
_BLANKS = re.compile(r"[^\S\n]+")


def articles(file: StoredFile, skipped: Skipped | None) -> Iterator[str]:
    """Yields the wikitext of each article of a dump: the main namespace, without redirects.

    Raises:
        BrokenFileError: for XML that is cut off, malformed, has a document type (which articles
            do not need and attacks do), or is no MediaWiki export; with the line and the byte.
    """
    formats.load("mwparserfromhell", "Reading a Wikipedia dump")  # needed later, missed now
    dump, broken = _Dump(file, skipped), None
    for chunk in file.chunks():
        broken = dump.feed(chunk)
        yield from dump.take()
        if broken:
            raise broken
    if broken := dump.feed(b"", last=True):
        raise broken


class _Dump:
    """The state of a dump's parser: where it stands, and what it has read of the page there."""

    def __init__(self, file: StoredFile, skipped: Skipped | None):
        self.file = file
        self.skipped = skipped
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.open = []  # names of the elements around this place
        self.text = None  # pieces of the element that is read, if any
        self.size = 0
        self.key = None  # of the namespace that is being named
        self.namespaces = {}  # key -> this wiki's name
        self.page = {}
        self.found = []

    def feed(self, data: bytes, last: bool = False) -> BrokenFileError | None:
        try:
            self.parser.Parse(data, last)
        except expat.ExpatError as error:
            return self._broken(expat.ErrorString(error.code))
        except BrokenFileError as error:
            return error

    def take(self) -> list[str]:
        found, self.found = self.found, []
        return found

    def _broken(self, reason: str) -> BrokenFileError:
        return BrokenFileError(
            f"A file whose name ends in .xml must be a whole MediaWiki export. {self.file.path}, "
            f"line {self.parser.CurrentLineNumber}, byte {max(0, self.parser.CurrentByteIndex)} "
            f"of the XML: {reason}"
        )

    def _doctype(self, name, system_id, public_id, has_internal_subset):
        raise self._broken("it must have no document type")

    def _start(self, name, attributes):
        name = name.rpartition(" ")[2]
        if not self.open and name != "mediawiki":
            raise self._broken(f"its first element must be <mediawiki>. Received: <{name}>")
        self.open.append(name)
        match self.open[1:]:
            case ["siteinfo", "namespaces", "namespace"]:
                self.key = attributes.get("key", "0")
                self.text = []
            case ["page"]:
                self.page = {}
            case ["page", "redirect"]:
                self.page["redirect"] = True
            case ["page", "title" | "ns"] | ["page", "revision", "model" | "text"]:
                self.text, self.size = [], 0

    def _characters(self, data):
        if self.text is not None:
            self.size += len(data)
            if self.size <= formats.RECORD_BYTES:
                self.text.append(data)

    def _end(self, name):
        at, text = self.open[1:], "".join(self.text or ())
        self.open.pop()
        self.text = None
        match at:
            case ["siteinfo", "namespaces", "namespace"]:
                self.namespaces[self.key] = text
            case ["page", "title" | "ns"] | ["page", "revision", "model"]:
                self.page[at[-1]] = text
            case ["page", "revision", "text"]:  # of many revisions the last one stays
                self.page["text"], self.page["size"] = text, self.size
            case ["page"]:
                self._finish(self.page)

    def _finish(self, page: dict):
        if not self._is_article(page):
            return
        if page.get("size", 0) > formats.RECORD_BYTES:
            where = f"{self.file.path}, page {page.get('title')!r}"
            rule = f"an article must be no longer than {formats.RECORD_BYTES:,} characters"
            formats.refuse(self.skipped, "records", f"{where}: {rule}")
        elif text := page.get("text", "").strip():
            self.found.append(self._canonical(text))

    def _is_article(self, page: dict) -> bool:
        if "ns" not in page:  # exports up to version 0.5
            prefix, colon, _ = page.get("title", "").partition(":")
            page["ns"] = "1" if colon and prefix in self.namespaces.values() else "0"
        redirects = "redirect" in page or page.get("text", "").lstrip()[:9].upper() == "#REDIRECT"
        model = page.get("model", "wikitext")
        return page["ns"].strip() == "0" and model == "wikitext" and not redirects

    def _canonical(self, text: str) -> str:
        """[[Datei:...]] becomes [[File:...]]: only the dump knows the names of its language."""
        for key, name in _CANONICAL.items():
            local = self.namespaces.get(key, name)
            if local and local != name:
                text = re.sub(rf"\[\[\s*(?i:{re.escape(local)})\s*:", f"[[{name}:", text)
        return text


def plain_text(wikitext: str) -> str:
    """The prose of an article, a paragraph a line."""
    library = formats.load("mwparserfromhell", "Removing Wikipedia's markup")
    wikitext = _NOTES.sub("", wikitext)
    for _ in range(_TEMPLATE_DEPTH):
        wikitext, removed = _TEMPLATE.subn("", wikitext)
        if not removed:
            break
    # Quotes are left to `_QUOTES`: articles do not close them reliably, and parsing them is slow.
    code = library.parse(wikitext, skip_style_tags=True)
    text = _SWITCH.sub("", _QUOTES.sub("", "".join(_prose(code))))
    text = _HOLLOW.sub("", _OPENED.sub(r"\1", _BLANKS.sub(" ", text)))
    lines = (line.strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if any(map(str.isalnum, line)))


def _prose(code) -> Iterator[str]:
    """Yields the strings that a reader sees as running text."""
    for node in code.nodes:
        match type(node).__name__:
            case "Text":
                yield str(node)
            case "HTMLEntity":
                yield html.unescape(str(node))
            case "Wikilink":
                yield from _of_link(node)
            case "ExternalLink" if node.title is not None:
                yield from _prose(node.title)
            case "ExternalLink" if not node.brackets:
                yield str(node.url)
            case "Tag":
                name = str(node.tag).strip().lower()
                if name in _BLOCK_TAGS:
                    yield "\n"
                if name not in _DROPPED_TAGS and node.contents is not None:
                    yield from _prose(node.contents)


def _of_link(link) -> Iterator[str]:
    title = str(link.title)
    if link.text is None:
        if not _NOT_PROSE.match(title) and not _INTERLANGUAGE.match(title):
            yield title.strip().removeprefix(":")
    elif not _NOT_PROSE.match(title):
        text = "".join(_prose(link.text))
        # Two bars and a colon: an image under a name of its language that the dump does not list.
        if ":" not in title or "|" not in text:
            yield text
