"""Link headers (RFC 8288) and URLs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yarl import URL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TARGET = re.compile(r"<([^<>]*)>")
_PARAMETER = re.compile(
    r"\s*;\s*(?P<name>[!#$&+.^_`|~0-9A-Za-z-]*\*?)"
    r'(?:\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s;,"]*)))?'
)
_MOST_LINKS = 100
_MOST_CHARACTERS = 16_384


@dataclass(frozen=True, slots=True)
class Link:
    """A target and its relations, in lower case."""

    url: str
    relations: frozenset[str]


def read_links(values: Sequence[str], base: str) -> tuple[Link, ...]:
    """Return the links of a response from ``base``, in order: absolute http and https URLs only.

    A link whose ``anchor`` names another context is left out.

    >>> links = read_links(['</hub>; rel="hub"', '<b>; title="a, <c>; rel=hub"; rel=Self'], "https://a.example/x/")
    >>> [(link.url, *link.relations) for link in links]
    [('https://a.example/hub', 'hub'), ('https://a.example/x/b', 'self')]
    >>> read_links(['<ftp://a/>; rel=hub', '<http://[>; rel=hub', 'rel=hub'], "https://a.example/")
    ()
    """
    text = ", ".join(values)[:_MOST_CHARACTERS]
    links: list[Link] = []
    for target, parameters in _entries(text):
        url = absolute(target, base)
        if url is not None and "anchor" not in parameters:
            links.append(Link(url, frozenset(parameters.get("rel", "").lower().split())))
        if len(links) == _MOST_LINKS:
            break
    return tuple(links)


def absolute(target: str, base: str) -> str | None:
    """Return ``target`` as an absolute http or https URL relative to ``base``, or ``None`` if it is not one.

    >>> absolute("../b#c", "https://a.example/x/y")
    'https://a.example/b'
    >>> absolute("javascript:x", "https://a.example/")
    """
    url = read_url(target.strip(), URL(base))
    if url is None or url.scheme not in {"http", "https"} or not url.raw_host:
        return None
    return str(url.with_fragment(None))


def _entries(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    position = _begin(text, 0)
    while position < len(text):
        match = _TARGET.match(text, position)
        if match is not None:
            parameters, position = _parameters(text, match.end())
            yield match[1], parameters
        comma = text.find(",", position)
        position = len(text) if comma < 0 else _begin(text, comma + 1)


def _begin(text: str, position: int) -> int:
    """Return the start of the next entry, after blanks and empty entries."""
    while position < len(text) and text[position] in " \t,":
        position += 1
    return position


def _parameters(text: str, position: int) -> tuple[dict[str, str], int]:
    """Return the parameters that begin at ``position``, the first of repeated ones, and their end."""
    found: dict[str, str] = {}
    while (match := _PARAMETER.match(text, position)) is not None:
        value = match["bare"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
        found.setdefault(match["name"].lower(), value or "")
        position = match.end()
    return found, position


LONGEST_URL = 4096


def without_path(text: str) -> str:
    """Return a URL for logs: only its origin, because the rest may be secret.

    >>> without_path("https://hooks.example:8443/services/T0/B0?token=x"), without_path("https://[")
    ('https://hooks.example:8443/[hidden]', '[hidden]')
    """
    url = read_url(text)
    return "[hidden]" if url is None or url.host is None else f"{url.origin()}/[hidden]"


def read_url(text: str, base: URL | None = None) -> URL | None:
    """Return a URL, relative to ``base`` if given, or ``None`` if it cannot be read.

    The library parses some parts of a URL only on access, and then raises various errors; this accesses all of them
    at once.

    >>> read_url("/feed", URL("https://example.org/blog/"))
    URL('https://example.org/feed')
    >>> read_url("//[:x]/", URL("https://example.org/")), read_url("http://xn--[]a@")
    (None, None)
    """
    try:
        url = URL(text) if base is None else base.join(URL(text))
        parts = (url.scheme, url.raw_host, url.host, url.port, url.raw_user, url.raw_path_qs, str(url))
        if url.raw_host is not None:
            url.origin()
    except (ValueError, IndexError, UnicodeError):
        return None
    return url if len(str(parts[-1])) <= LONGEST_URL else None
