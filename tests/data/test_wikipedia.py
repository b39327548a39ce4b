"""Oracles: wikitext beside the prose that a reader of the page sees, and dumps written by hand."""

import bz2
import re
import tracemalloc
from xml.sax.saxutils import escape

import hypothesis
import pytest
from hypothesis import strategies as st

from keras_albert.data import formats
from keras_albert.data.documents import Skipped, read_documents, read_sources
from keras_albert.data.wikipedia import plain_text

pytestmark = pytest.mark.backend_free

pytest.importorskip("mwparserfromhell")

GERMAN = {"-2": "Medium", "0": "", "1": "Diskussion", "6": "Datei", "14": "Kategorie"}


def page(text, title="A title", ns="0", extra="", model="wikitext"):
    ns = f"<ns>{ns}</ns>" if ns is not None else ""
    return (
        f"  <page>\n    <title>{title}</title>{ns}<id>1</id>{extra}\n    <revision><id>2</id>"
        f"<comment>no text</comment><model>{model}</model>\n"
        f'      <text bytes="9" xml:space="preserve">{escape(text)}</text></revision>\n  </page>\n'
    )


def dump(*pages, version="0.11", namespaces=None):
    named = (f'<namespace key="{k}">{n}</namespace>' for k, n in (namespaces or {}).items())
    return (
        f'<mediawiki xmlns="http://www.mediawiki.org/xml/export-{version}/" xml:lang="en">\n'
        f"<siteinfo><sitename>W</sitename><namespaces>{''.join(named)}</namespaces></siteinfo>\n"
        f"{''.join(pages)}</mediawiki>\n"
    )


@pytest.fixture
def write(tmp_path):
    def write(content, name="wiki.xml"):
        data = content if isinstance(content, bytes) else content.encode()
        path = tmp_path / name
        path.write_bytes(bz2.compress(data) if name.endswith(".bz2") else data)
        return path

    return write


def texts(path, **settings):
    return [source.text for source in read_sources(path, **settings)]


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("'''Albert''' was ''a [[physics|physicist]]''.", "Albert was a physicist."),
        ("Born in [[Ulm]]{{citation needed|date=May}}, he left.", "Born in Ulm, he left."),
        ("{{Infobox|a={{b|{{c}}}}|d=[[x]]}}\nOne.", "One."),
        ("{{a|{{b|{{c|{{d|{{e|{{f|{{g|{{h|{{i|{{j}}}}}}}}}}}}}}}}}}}}One.", "One."),
        ("One.<ref>[http://a.b Book], p. 3</ref> Two.<ref name='x' /> Three.", "One. Two. Three."),
        ("One<!-- hidden\n\n hidden -->.", "One."),
        ("== Life ==\nOne.\n=== Youth ===\n\nTwo.", "One.\nTwo."),
        ("{| class=x\n|-\n! Year\n|-\n| 1905\n{| \n| inner\n|}\n|}\nAfter.", "After."),
        ("[[File:A.jpg|thumb|200px|A [[cat]] in ''art''.]]One.", "One."),
        ("[[image:A.jpg|A cat.]] [[ Category : Cats|*]][[Media:a.ogg|hear]]One.", "One."),
        ("[[Картинка:A.jpg|мини|A [[cat]].]]One.", "One."),
        ("One.\n\n[[de:Katze]]\n[[zh-min-nan:Niau]]\n[[Category:Cats]]", "One."),
        ("See [[:Category:Cats]] and [[wikt:cat|the cat]].", "See Category:Cats and the cat."),
        (
            "[[Star Trek: Discovery]] has [[Terminator 2: X|none]].",
            "Star Trek: Discovery has none.",
        ),
        ("A [http://a.b ''linked'' word] and [http://a.b] none.", "A linked word and none."),
        ("* One\n* Two {{x}}items\n# 3\n; Term\n: Means", "One\nTwo items\n3\nTerm\nMeans"),
        ("5&nbsp;km &amp; 3&#x20AC; &lt;b&gt;", "5 km & 3€ <b>"),
        ("H<sub>2</sub>O <small>is</small> <b>water</b>.", "H2O is water."),
        ("One<br/>Two<math>x^2</math><gallery>a.jpg|b</gallery>", "One\nTwo"),
        ("Ulm ({{IPA|x}}; born 1879) is ( {{x}} ) here.", "Ulm (born 1879) is here."),
        ("__NOTOC__\nOne.\n{{DEFAULTSORT:x}}\n*\n|}\n", "One."),
        ("<nowiki>[[raw]]</nowiki> text", "[[raw]] text"),
        ("An ''italic and [[link and {{template", "An italic and [[link and {{template"),
        ("<ref>unclosed, 'One'.\n\nTwo.", "<ref>unclosed, 'One'.\nTwo."),
        ("日本語の[[記事|文]]。{{脚注}}（{{x}}）", "日本語の文。"),
        ("{{only|a template}}", ""),
    ],
)
def test_markup_is_removed(wikitext, expected):
    assert plain_text(wikitext) == expected


DROPPED = ["{{a|b=[[c]]|{{d}}}}", "<ref>{{cite|x}}</ref>", "<ref name=a/>", "<!-- [[x -->", ""]
DROPPED += ["[[File:x.jpg|thumb|[[y]] {{z}}]]", "[[Category:x]]", "<math>a</math>", "__TOC__"]
DROPPED += ["\n{| class=a\n| b\n|}\n", "\n== h ==\n"]


@hypothesis.given(st.lists(st.tuples(st.sampled_from(DROPPED), st.integers(0, 999))))
def test_prose_stays_whole_whatever_is_dropped_between(pieces):
    wikitext = "".join(f" {dropped} [[Target|{word}]]" for dropped, word in pieces)
    assert plain_text(wikitext).split() == [str(word) for _, word in pieces]


@pytest.mark.parametrize("version", ["0.3", "0.10", "0.11", "0.99"])
@pytest.mark.parametrize("name", ["wiki.xml", "wiki.xml.bz2", "enwiki-articles1.xml-p1p41242.bz2"])
def test_articles_of_the_main_namespace_are_read(write, version, name):
    path = write(
        dump(
            page("'''One''' is [[1|here]].\n\n== H ==\nTwo & <three>.", title="Not text"),
            page("A talk.", ns="1"),
            page("A redirect's rest.", extra='<redirect title="x" />'),
            page("#redirect [[x]]"),
            page("body {}", model="css"),
            page(""),
            page("Four."),
            version=version,
        ),
        name,
    )
    assert texts(path) == ["'''One''' is [[1|here]].\n\n== H ==\nTwo & <three>.", "Four."]
    assert {source.markup for source in read_sources(path)} == {"wikitext"}
    assert [d.sentences for d in read_documents(path)] == [
        ["One is here.", "Two & <three>."],
        ["Four."],
    ]


def test_names_of_the_dump_s_language_are_known(write):
    text = "[[Datei:A.jpg|Eine Katze]]Eins.[[ kategorie:Katzen]] [[Diskussion:A|Zwei]]."
    path = write(dump(page(text), namespaces=GERMAN))
    [document] = read_documents(path, sentences="lines")
    assert document.sentences == ["Eins. Zwei."]


def test_old_dumps_name_the_namespace_in_the_title_only(write):
    path = write(
        dump(
            page("One.", title="A", ns=None),
            page("Not.", title="Diskussion:A", ns=None),
            page("Two.", title="Nier:Automata", ns=None),
            version="0.3",
            namespaces=GERMAN,
        )
    )
    assert texts(path) == ["One.", "Two."]


def test_the_last_of_many_revisions_is_read(write):
    first, last = page("Old."), page("New.")
    pages = first.replace(
        "</revision>", "</revision>" + re.search("<rev.*</rev.*?>", last, re.S)[0]
    )
    assert texts(write(dump(pages))) == ["New."]


def test_dumps_cut_short_are_named_and_lose_only_what_is_cut(write):
    pages = [f"Article {i} is here." for i in range(20)]
    content = dump(*map(page, pages)).encode()
    for size in [*range(0, len(content), 97), len(content) - 2]:
        path = write(content[:size])
        with pytest.raises(ValueError, match=r"wiki\.xml, line \d+, byte \d+ of the XML: "):
            texts(path)
        skipped = Skipped()
        kept = texts(path, on_error="skip", skipped=skipped)
        assert kept == pages[: content[:size].count(b"</page>")]
        assert skipped.counts == {"files": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (dump(page("One.")).replace("</title>", "</tile>"), r"line 4, byte \d+.*mismatched tag"),
        (dump(page("One.")) + "<more/>", r"line 9, .*junk after document element"),
        (dump(page("One.")).replace("One", "&unknown;"), "undefined entity"),
        ("<rss><page/></rss>", "line 1, byte 0 .*must be <mediawiki>. Received: <rss>"),
        ("Plain text.", "line 1.*not well-formed|line 1.*syntax error"),
        (dump(page("café")).encode("latin-1"), "line 6, .*invalid token"),
    ],
)
def test_broken_dumps_are_named(write, content, message):
    with pytest.raises(ValueError, match=rf"wiki\.xml, .*({message})"):
        texts(write(content))


@pytest.mark.parametrize(
    "entity", ['"' + "&e;" * 50 + '"', 'SYSTEM "file:///etc/hostname"', '"harmless"']
)
def test_document_types_are_refused(write, entity):
    doctype = f'<!DOCTYPE mediawiki [<!ENTITY e "x"><!ENTITY f {entity}>]>'
    path = write(doctype + dump(page("One.")).replace("One", "&f;"))
    with pytest.raises(ValueError, match=r"wiki\.xml, line 1.*no document type"):
        texts(path)


def test_articles_that_are_too_long_are_named_or_skipped(write, monkeypatch):
    monkeypatch.setattr(formats, "RECORD_BYTES", 1000)
    path = write(dump(page("One."), page("x" * 2000, title="Long"), page("Two.")))
    with pytest.raises(ValueError, match=r"wiki\.xml, page 'Long': .*1,000 characters"):
        texts(path)
    skipped = Skipped()
    assert texts(path, on_error="skip", skipped=skipped) == ["One.", "Two."]
    assert skipped.counts == {"records": 1}


def test_memory_does_not_grow_with_the_dump(write, monkeypatch):
    monkeypatch.setattr(formats, "CHUNK_BYTES", 1 << 14)
    peaks = []
    for count in (100, 600):
        path = write(dump(*[page("All work and no play. " * 50)] * count))
        list(read_sources(path))
        tracemalloc.start()
        assert sum(1 for _ in read_sources(path)) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
