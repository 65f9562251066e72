"""Texts that pretend to be something else: markup, script, templates, commands to a terminal, headers, huge ones.

Whatever comes from outside may be any of them, and is a text on every way out.
"""

from __future__ import annotations

import unicodedata

MARKUP = {
    "script": "<script>alert('x')</script>",
    "image": '"><img src=x onerror=alert(1)>',
    "attribute": "' autofocus onfocus='alert(1)",
    "vector": "<svg/onload=alert(1)>",
    "frame": "</textarea></title></bdi><iframe src=//evil.example/></iframe>",
    "link": "javascript:alert(1)",
    "document": "data:text/html,<script>alert(1)</script>",
    "comment": "--><!-- <b>",
    "cdata": "a]]></title><b>&amp;]]>",
    "entities": "&lt;script&gt; &amp;amp; &#60;b&#62; &#0; &nosuch;",
    "template": "{{7*7}} {% raw %} ${7*7} #{7*7} <%= 7*7 %>",
    "format": "%s %(x)s %n {0} {x!r} $(id) `id` ; id",
    "query": "'; DROP TABLE notifications; --",
    "label": 'a"} 1\nproxyd_evil{b="\\',
}
CONTROLS = {
    "header": "a\r\nBcc: evil@example.org\r\n\r\n<b>body",
    "event": "a\n\nid: 9\nevent: evil\ndata: {}\n\n",
    "lines": "a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i",
    "escape": "\x1b[2J\x1b]0;evil\x07\x1b]8;;https://evil.example\x1b\\x\x9b31m",
    "turned": "\u202egpj.exe\u2066x\u2069\u061c\u200e\u200f",
    "invisible": "a\u200bb\ufeffc\u00add\u2060e\U000e0041f",
    "controls": "".join(map(chr, (*range(1, 9), 11, 12, *range(14, 32), *range(127, 160)))),
    "marks": "Z" + "\u0301" * 200,
    "no character": "\ufffe\uffff\U0001ffff\ue000",
}
NO_UTF8 = {"half a pair": "a\ud800b", "pair turned round": "\udc00\ud83d", "byte": "\udcff"}
HUGE = {"a megabyte": "x" * 1_000_000, "deep": "[" * 100_000, "deep markup": "<b>" * 50_000}
SHORT = MARKUP | CONTROLS | NO_UTF8
ALL = SHORT | HUGE
"""All of them, by name."""


def hidden_in(text: str, *, but: str = "\n") -> set[str]:
    """Return the characters of a text that a reader cannot see or that turn others around."""
    return {char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - set(but)


# -- documents and lists


def _nested(count: int, open_tag: str, close_tag: str) -> bytes:
    return (open_tag * count + close_tag * count).encode()


_ENTITIES = "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9))
_LAUGHS = f'<!DOCTYPE x [<!ENTITY a "lol">{_ENTITIES}]>'
_INNER = b'<outline text="b"><outline xmlUrl="https://example.org/"/></outline>'
LISTS = {
    "laughs": f'{_LAUGHS}<opml><body><outline text="&j;" xmlUrl="https://example.org/&j;"/></body></opml>'.encode(),
    "deep": b"<opml><body>" + _nested(100_000, '<outline text="a">', "</outline>") + b"</body></opml>",
    "deep enough": b"<opml><body>"
    + _nested(200, '<outline text="a">', "</outline>").replace(
        b"</outline>", b'<outline xmlUrl="https://example.org/"/>' * 2_000 + b"</outline>", 1
    )
    + b"</body></opml>",
    "long folders": b"<opml><body>"
    + _nested(200, '<outline text="' + "a " * 5_000 + '">', "</outline>").replace(
        b"</outline>",
        _INNER * 5_000 + b"</outline>",
        1,
    )
    + b"</body></opml>",
    "wide": b"<opml><body><outline " + b"".join(b'a%d="x" ' % n for n in range(100_000)) + b"/></body></opml>",
    "long": b'<opml><body><outline text="' + b"x" * 4_000_000 + b'" xmlUrl="https://example.org/"/></body></opml>',
    "cut": b'<opml><body><outline text="a" xmlUrl="https://example.org/"/>',
    "utf-16": "<opml><body><outline text='a' xmlUrl='https://example.org/'/></body></opml>".encode("utf-16"),
    "zeros": b"\0" * 1_000_000,
    "lines": b"\n" * 1_000_000,
    "one line": b"https://example.org/" + b"x" * 4_000_000,
    "many": b"".join(b"https://h%d.example/feed\n" % n for n in range(120_000)),
    "addresses of other kinds": b"file:///etc/passwd\njavascript:alert(1)\nhttp://[::1\n//x\n" * 1_000,
}
"""Lists of feeds, as OPML or as text."""
