"""What attackers send: texts that pretend to be something else, lists, answers of origins, and requests.

Whatever text comes from outside may be one of the texts, and stays a text on every way out.
"""

from __future__ import annotations

import gzip
import unicodedata
import zlib
from dataclasses import dataclass

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


# -- what an origin or a receiver answers


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes to send: the beginning, and a piece that is repeated for ever where there is one, quickly or ``slow``."""

    begin: bytes
    piece: bytes = b""
    slow: bool = False


def _ok(*headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join(("HTTP/1.1 200 OK", *headers, "", "")).encode() + body


def _whole(body: bytes, *headers: str) -> Sent:
    return Sent(_ok(f"Content-Length: {len(body)}", *headers, body=body))


_RSS = '<rss version="2.0"><channel><title>t</title>%s</channel></rss>'
_EMPTY_MEMBER = gzip.compress(b"")
_MANY = "".join(f"<item><guid>{n}</guid><title>{n}</title></item>" for n in range(50_000))
ANSWERS = {
    "headers without end": Sent(b"HTTP/1.1 200 OK\r\n", b"X-a: 1\r\n" * 1_000),
    "a header without end": Sent(b"HTTP/1.1 200 OK\r\nX-a: ", b"1" * 65_536),
    "headers that drip": Sent(b"HTTP/1.1 200 OK\r\n", b"X-a: 1\r\n", slow=True),
    "interim answers without end": Sent(b"", b"HTTP/1.1 103 Early Hints\r\nX-a: 1\r\n\r\n" * 1_000),
    "a body without end": Sent(_ok(), b"x" * 65_536),
    "a body that drips": Sent(_ok("Content-Length: 1000000"), b"x", slow=True),
    "chunks without end": Sent(_ok("Transfer-Encoding: chunked"), b"1\r\nx\r\n" * 10_000),
    "chunk extensions without end": Sent(_ok("Transfer-Encoding: chunked", body=b"1;a="), b"x" * 65_536),
    "chunks that become garbage": Sent(_ok("Transfer-Encoding: chunked", body=b"1\r\nx\r\nzz\r\n")),
    "a gzip bomb": _whole(gzip.compress(b"\0" * 20_000_000), "Content-Encoding: gzip"),
    "a deflate bomb": _whole(zlib.compress(b"\0" * 20_000_000), "Content-Encoding: deflate"),
    "gzip members without end": Sent(_ok("Content-Encoding: gzip"), _EMPTY_MEMBER * 3_276),
    "padding without end": Sent(_ok("Content-Encoding: gzip", body=gzip.compress(b"x")), b"\0" * 65_536),
    "a brotli bomb": Sent(_ok("Content-Encoding: br"), b"\xce\xb2\xcf\x81" * 10_000),
    "a zstd bomb": Sent(_ok("Content-Encoding: zstd"), b"\x28\xb5\x2f\xfd" * 10_000),
    "encodings of encodings": _whole(gzip.compress(_EMPTY_MEMBER), "Content-Encoding: gzip, gzip"),
    "a 304 with a body": Sent(b"HTTP/1.1 304 Not Modified\r\n\r\n", b"x" * 65_536),
    "redirects without end": Sent(b"HTTP/1.1 302 Found\r\nLocation: ?again\r\nContent-Length: 0\r\n\r\n"),
    "another protocol": Sent(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    "silence": Sent(b""),
    "an entity bomb": _whole((_LAUGHS + _RSS % "<item><title>&j;</title></item>").encode()),
    "a deep document": _whole((_RSS % ("<a>" * 100_000)).encode()),
    "a document of attributes": _whole((_RSS % f"<item {' '.join(f'a{n}=x' for n in range(50_000))}/>").encode()),
    "many items": _whole((_RSS % _MANY).encode()),
    "a long text": _whole((_RSS % f"<item><guid>1</guid><title>{'x' * 5_000_000}</title></item>").encode()),
    "deep JSON": _whole(b"[" * 1_000_000, "Content-Type: application/feed+json"),
    "zeros": _whole(b"\0" * 5_000_000),
}
"""What origins and receivers answer."""


# -- what strangers send to the listener


def _post(path: str, *headers: str) -> bytes:
    return "\r\n".join((f"POST {path} HTTP/1.1", "Host: localhost", *headers, "", "")).encode()


_FORM = "Content-Type: application/x-www-form-urlencoded"
_CALLBACK = "/websub/" + "A" * 32
REQUESTS = {
    "a head without end": Sent(b"GET / HTTP/1.1\r\n", b"X-a: 1\r\n" * 1_000),
    "a line without end": Sent(b"GET /", b"x" * 65_536),
    "a head that drips": Sent(b"GET / HTTP/1.1\r\n", b"X", slow=True),
    "nothing": Sent(b""),
    "a body without end": Sent(_post("/api/v1/import", "Transfer-Encoding: chunked"), b"1\r\nx\r\n" * 10_000),
    "a body that drips": Sent(_post("/sign-in", _FORM, "Content-Length: 100000"), b"x", slow=True),
    "a form of fields": Sent(_post("/sign-in", _FORM, "Content-Length: 200000") + b"a&" * 100_000),
    "a bomb": Sent(
        _post("/api/v1/profiles", "Content-Encoding: gzip", "Content-Length: 19471") + gzip.compress(b"\0" * 20_000_000)
    ),
    "members without end": Sent(
        _post("/api/v1/import", "Content-Encoding: gzip", "Content-Length: 900000000"), _EMPTY_MEMBER * 3_276
    ),
    "a brotli bomb": Sent(_post("/sign-in", "Content-Encoding: br", "Content-Length: 900000000"), b"\xce" * 65_536),
    "a forged push": Sent(
        _post(_CALLBACK, "X-Hub-Signature: sha256=" + "0" * 64, "Content-Length: 4000000"), b"x" * 65_536
    ),
    "a forged verification": Sent(
        f"GET {_CALLBACK}?hub.mode=subscribe&hub.challenge=x HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    ),
    "another host": Sent(b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n" * 100),
    "requests without end": Sent(b"", b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100),
    "guesses": Sent(
        b"GET /api/v1/sources HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer pxd_000000000000_"
        + b"x" * 43
        + b"\r\n\r\n"
    ),
    "an upgrade": Sent(
        b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", b"x" * 65_536
    ),
    "another protocol": Sent(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 1_000),
}
"""What anybody may send to the listener without a token."""
