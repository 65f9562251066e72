"""Link headers (RFC 8288): what a response says it is related to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yarl import URL

from proxyd.net.addresses import read_url

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
    """One target and its relations, in lower case."""

    url: str
    relations: frozenset[str]


def read_links(values: Sequence[str], base: str) -> tuple[Link, ...]:
    """Return the links of a response from ``base``, in order: absolute http and https addresses only.

    A link whose ``anchor`` says that it starts elsewhere is none of the response's, and left out.

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
    """Return an http or https address as seen from ``base``; ``None`` where it is none.

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
    """Return where the next entry begins: after blanks and empty entries."""
    while position < len(text) and text[position] in " \t,":
        position += 1
    return position


def _parameters(text: str, position: int) -> tuple[dict[str, str], int]:
    """Return the parameters that begin at ``position``, of those that come twice the first, and where they end."""
    found: dict[str, str] = {}
    while (match := _PARAMETER.match(text, position)) is not None:
        value = match["bare"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
        found.setdefault(match["name"].lower(), value or "")
        position = match.end()
    return found, position
