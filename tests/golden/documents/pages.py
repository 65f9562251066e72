"""Pages of JSON, of HTML by CSS and XPath, and whole pages."""

from __future__ import annotations

import codecs
import gzip
import json

from proxyd.core.model.profile import Extraction, Field, FieldType, PageClass, Reader
from tests.golden.documents.case import Case


def page_class(each: str = "", key: str = "", **fields: str) -> PageClass:
    """Return a class; a field is written ``Type READER selector``, EACH is ``READER selector``."""
    return PageClass(
        "C",
        "D",
        tuple(
            Field(path, FieldType(text.split()[0]), _extraction(text.partition(" ")[2]) if " " in text else None)
            for path, text in fields.items()
        ),
        _extraction(each) if each else None,
        tuple(key.split()),
    )


def _extraction(text: str) -> Extraction:
    reader, _, selector = text.partition(" ")
    return Extraction(Reader(reader), selector)


PAGE = PageClass("PAGE", "D", (Field("text", FieldType.STRING),))
QUAKES = page_class(
    "JSON $.features[*]", "id", id="String JSON $.id", mag="Decimal JSON $.mag", time="Timestamp JSON $.time"
)
LINKS = page_class("CSS li", "link", link="URL CSS a", label="String CSS a", when="Timestamp CSS time")
ROWS = page_class("XPATH //tr[td]", "name", name="String XPATH td[1]", price="Decimal XPATH td[2]")


def one_json(name: str, value: object, field: str) -> Case:
    return Case(name, json.dumps(value).encode(), "application/json", page_class(v=field))


def quakes(name: str, body: object) -> Case:
    return Case(name, body if isinstance(body, bytes) else json.dumps(body).encode(), "application/json", QUAKES)


JSON = [
    one_json("a number as Decimal", {"a": 1.5}, "Decimal JSON $.a"),
    one_json("a text as Decimal", {"a": " 1.50 "}, "Decimal JSON $.a"),
    one_json("a fraction as Integer", {"a": 1.5, "b": 1}, "Integer JSON $.a"),
    one_json("a whole float as Integer", {"a": 2.0}, "Integer JSON $.a"),
    one_json("a truth as Integer", {"a": True}, "Integer JSON $.a"),
    one_json("a truth as String", {"a": False}, "String JSON $.a"),
    one_json("a word as Boolean", {"a": "yes"}, "Boolean JSON $.a"),
    one_json("another word as Boolean", {"a": "maybe"}, "Boolean JSON $.a"),
    one_json("a number as String", {"a": 7}, "String JSON $.a"),
    one_json("an object as String", {"a": {"y": 1, "x": [None]}}, "String JSON $.a"),
    one_json("an object as Integer", {"a": {"y": 1}}, "Integer JSON $.a"),
    one_json("an object as URL", {"a": []}, "URL JSON $.a"),
    one_json("a relative URL", {"a": "../x"}, "URL JSON $.a"),
    one_json("a sentence as URL", {"a": "not an address"}, "URL JSON $.a"),
    one_json("a javascript URL", {"a": "javascript:x"}, "URL JSON $.a"),
    one_json("seconds as Timestamp", {"a": 1772366400}, "Timestamp JSON $.a"),
    one_json("milliseconds as Timestamp", {"a": 1772366400250}, "Timestamp JSON $.a"),
    one_json("microseconds as Timestamp", {"a": "1772366400250000"}, "Timestamp JSON $.a"),
    one_json("iso 8601 as Timestamp", {"a": "2026-03-01T12:00:00Z"}, "Timestamp JSON $.a"),
    one_json("a day as Timestamp", {"a": "2026-03-01"}, "Timestamp JSON $.a"),
    one_json("rfc 822 as Timestamp", {"a": "Sun, 01 Mar 2026 12:00:00 GMT"}, "Timestamp JSON $.a"),
    one_json("a word as Timestamp", {"a": "soon"}, "Timestamp JSON $.a"),
    one_json("null", {"a": None}, "String JSON $.a"),
    one_json("nothing there", {"b": 1}, "String JSON $.a"),
    one_json("the first of several", {"a": [{"b": 1}, {"b": 2}]}, "Integer JSON $..b"),
    one_json("a filter", {"a": [{"k": "x", "v": 1}, {"k": "y", "v": 2}]}, "Integer JSON $.a[?@.k=='y'].v"),
    one_json("match", {"a": ["axb", "ab", "xaxb"]}, "String JSON $.a[?match(@, 'a.b')]"),
    one_json("search", {"a": ["x", "yaxbz"]}, "String JSON $.a[?search(@, 'a[xy]b')]"),
    one_json("a pattern that takes for ever", {"a": ["a" * 5000 + "!", "b"]}, "String JSON $.a[?match(@, '(a|a)*b')]"),
    one_json("a selector that cannot be read", {"a": 1}, "String JSON $.a["),
    one_json("a function that there is not", {"a": [1]}, "String JSON $.a[?evil(@)]"),
    one_json("a lone surrogate", {"a": "x\ud800y\u0000"}, "String JSON $.a"),
    one_json("deeper than a selector goes", json.loads("[" * 200 + "]" * 200), "String JSON $..a"),
    quakes(
        "rows", {"features": [{"id": "a", "mag": 4.5, "time": 1772366400000}, {"id": "b", "mag": "?", "time": None}]}
    ),
    quakes("rows with one key twice", {"features": [{"id": "a", "mag": 1}, {"id": "a", "mag": 2}]}),
    quakes("rows without a key", {"features": [{"id": "a"}, {"mag": 2}, {"id": None}]}),
    quakes("no row has a key", {"features": [{"mag": 1}]}),
    quakes("keys that are numbers", {"features": [{"id": 12345678901234567890}, {"id": 12345678901234567891}]}),
    quakes("no rows today", {"features": []}),
    quakes("no list of rows", {"error": "maintenance"}),
    quakes("rows that are no objects", {"features": [1, "a", None, {"id": "a"}]}),
    quakes("a web page", b"<!doctype html><html><body>Login</body></html>"),
    quakes("xml", b"<a/>"),
    quakes("plain text", b"oops"),
    quakes("cut off", b'{\n "features": [\n {"id": '),
    quakes("an empty body", b""),
    quakes("gzip by mistake", gzip.compress(b"{}", mtime=0)),
    quakes("a mark", codecs.BOM_UTF8 + b'{"features": [{"id": "a"}]}'),
    quakes("utf-16", '{"features": [{"id": "\u00e4"}]}'.encode("utf-16-le")),
    quakes("numbers without an end", b'{"features": [{"id": "a", "mag": NaN}, {"id": "b", "mag": 1e999}]}'),
    quakes("a number of 5000 digits", b'{"features": [{"id": "a", "mag": ' + b"9" * 5000 + b"}]}"),
    Case(
        "a key of two fields",
        b'[{"a": "x", "b": 1}, {"a": "x", "b": 2}]',
        None,
        page_class("JSON $[*]", "a b", a="String JSON $.a", b="Integer JSON $.b"),
    ),
]


def html_case(name: str, body: str | bytes, reads: PageClass, content_type: str | None = "text/html") -> Case:
    return Case(name, body if isinstance(body, bytes) else body.encode(), content_type, reads)


def by_css(name: str, body: str, field: str) -> Case:
    return html_case(name, body, page_class(v=field))


_LIST = "<ul><li><a href='/1'>One</a> <time datetime='2026-03-01T12:00:00Z'>today</time><li><a href='/2'>Two</a></ul>"
_TABLE = "<table><tr><th>n<th>p<tr><td>Tea<td>3.50<tr><td>Cake<td>sold out</table>"
_MIXED = page_class("CSS tr:has(td)", "name", name="String XPATH ./td[1]", price="Decimal CSS td:nth-child(2)")
_MIXED_BACK = page_class("XPATH //tr[td]", "name", name="String CSS td", price="Decimal XPATH td[2]")

HTML = [
    by_css("css", "<main><h1> The\n <b>title</b></h1></main>", "String CSS main h1"),
    by_css("css, nothing there", "<p>a", "String CSS main h1"),
    by_css("css that cannot be read", "<p>a", "String CSS p[["),
    by_css("an attribute by css", "<p data-x='7'>a", "Integer CSS p::attr(data-x)"),
    by_css("a meta element", "<meta property=og:title content=' a '>", "String CSS meta[property='og:title']"),
    by_css("a meta element by name", "<meta name=x content=1><meta NAME=Price content='3.50'>", "Decimal META price"),
    by_css(
        "a meta element by property",
        "<meta property=og:title content=''><meta property='OG:Title' content=b>",
        "String META og:title",
    ),
    by_css("no meta element of the name", "<meta itemprop=a content=b><meta charset=utf-8>", "String META b"),
    by_css("a script inside", "<div>a<script>b()</script><style>c</style></div>", "String CSS div"),
    by_css("line breaks and cells", "<div>a<br>b<table><tr><td>c<td>d</table></div>", "String CSS div"),
    by_css("references", "<p>caf&eacute; &amp; &#x1F600;&nbsp;x", "String CSS p"),
    by_css("an image as URL", "<img src='/a.png'>", "URL CSS img"),
    by_css("a script as URL", "<a href='javascript:x'>a</a>", "URL CSS a"),
    by_css("xpath of an element", "<main><p>a <b>b</b><p>c</main>", "String XPATH //main"),
    by_css("xpath of a text", "<p>a<b>b</b>", "String XPATH //p/text()"),
    by_css("xpath of an attribute", "<a href='/x'>a</a>", "URL XPATH //a/@href"),
    by_css("xpath of a number", "<p><p><p>", "Integer XPATH count(//p)"),
    by_css("xpath of a truth", "<p>", "Boolean XPATH count(//p) > 2"),
    by_css("xpath that is no number", "<p>a", "Decimal XPATH number(//p)"),
    by_css("xpath that cannot be read", "<p>", "String XPATH //p["),
    by_css("xpath with a variable", "<p>a", "String XPATH //p[$x]/text()"),
    by_css("xpath of another document", "<p>", "String XPATH document('file:///etc/passwd')"),
    by_css("xpath with a function of exslt", "<p>", "String XPATH re:test('a', 'a')"),
    html_case("rows by css", _LIST, LINKS),
    html_case("rows by xpath", _TABLE, ROWS),
    html_case("rows by css, fields by both", _TABLE, _MIXED),
    html_case("rows by xpath, fields by both", _TABLE, _MIXED_BACK),
    html_case("no rows", "<p>maintenance", LINKS),
    html_case("rows without a key", "<ul><li>a<li>b</ul>", LINKS),
    html_case("one key twice", "<ul><li><a href=/1>a</a><li><a href=/1>b</a></ul>", LINKS),
    html_case("json", b'{"a": 1}', LINKS),
    html_case("a picture", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x01", LINKS),
    html_case("nothing", b"", LINKS),
    html_case("20000 elements deep", "<div>" * 20_000, LINKS),
    html_case("not closed", "<ul><li><a href=/1>One", LINKS),
    html_case("zero bytes", "<ul><li><a href=/1>O\x00ne</a></ul>" + "x" * 100, LINKS),
]

_P = page_class(v="String CSS p")
_WORD = "Gr\u00fc\u00dfe \u20ac"
CHARSETS = [
    html_case("utf-8 unsaid", f"<p>{_WORD}", _P),
    html_case("utf-8 by meta", f"<meta charset=utf-8><p>{_WORD}", _P, None),
    html_case("windows-1252 by meta", f"<meta charset='windows-1252'><p>{_WORD}".encode("cp1252"), _P),
    html_case("windows-1252 called latin-1", f"<p>{_WORD}".encode("cp1252"), _P, "text/html; charset=ISO-8859-1"),
    html_case(
        "koi8-r by http-equiv",
        "<meta http-equiv=Content-Type content='text/html; charset=koi8-r'><p>\u041f\u0440\u0438".encode("koi8-r"),
        _P,
    ),
    html_case("header against meta", f"<meta charset=koi8-r><p>{_WORD}".encode(), _P, "text/html; charset=utf-8"),
    html_case("mark against header", codecs.BOM_UTF8 + f"<p>{_WORD}".encode(), _P, "text/html; charset=koi8-r"),
    html_case("utf-16 with a mark", f"<p>{_WORD}".encode("utf-16"), _P),
    html_case("utf-16 by meta, which cannot be", f"<meta charset=utf-16><p>{_WORD}".encode(), _P),
    html_case("nothing said, windows-1252 sent", f"<p>{_WORD}".encode("cp1252"), _P),
    html_case("utf-8 said, latin-1 sent", "<p>Gr\u00fc\u00dfe".encode("latin-1"), _P, "text/html; charset=utf-8"),
    html_case("a codec that is no charset", f"<p>{_WORD}".encode(), _P, "text/html; charset=punycode"),
    html_case("a charset in a comment", f"<!-- <meta charset=koi8-r> --><p>{_WORD}".encode(), _P),
]

_PAGE_HTML = (
    "<html><head><title>T</title><style>x</style></head><body><nav>Home</nav><header>Site</header><h1>News</h1>"
    "<p>One <b>bold</b>\n word.<script>x()</script><p hidden>secret<p aria-hidden=true>icon<ul><li>a<li>b</ul>"
    "<table><tr><td>Tea<td>3</table><pre>x\n  y\n\nz</pre>loose<button>Buy</button><footer>(c)</footer></body></html>"
)
WHOLE = [
    html_case("html", _PAGE_HTML, PAGE),
    html_case("html without a header", _PAGE_HTML, PAGE, None),
    html_case("plain text", "a\nb\n\n\nc  \n", PAGE, "text/plain"),
    html_case("markup as plain text", "<p>a\n\nb", PAGE, "text/plain"),
    html_case("json", b'{"b": [1], "a": null}', PAGE, "application/json"),
    html_case("json that is none", b'{"b": ', PAGE, "application/json"),
    html_case("nothing to read", "<html><body><script>x</script></body></html>", PAGE),
    html_case("an empty body", b" ", PAGE),
    html_case("binary", bytes(range(32)) * 9, PAGE, "application/octet-stream"),
    html_case("gzip by mistake", gzip.compress(b"a", mtime=0), PAGE),
    html_case("a very long page", "<p>word</p>" * 60_000, PAGE),
    html_case("xml", "<?xml version='1.0'?><a><b>x</b><b>y</b></a>", PAGE, "application/xml"),
]

GROUPS: dict[str, list[Case]] = {
    "json_pages": JSON,
    "html_pages": HTML,
    "html_charsets": CHARSETS,
    "whole_pages": WHOLE,
}
