"""Readers of HTTP header values, shared by everything that sends requests."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from socket import gaierror
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from proxyd.core.texts.safe_text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TARGET = re.compile(r"<([^<>]*)>")
_PARAMETER = re.compile(
    r"\s*;\s*(?P<name>[!#$&+.^_`|~0-9A-Za-z-]*\*?)"
    r'(?:\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s;,"]*)))?'
)
_MOST_LINKS = 100
_MOST_CHARACTERS = 16_384


@dataclass(frozen=True, slots=True)
class _Link:
    """A target and its relations, in lower case."""

    url: str
    relations: frozenset[str]


def read_links(values: Sequence[str], base: str) -> tuple[_Link, ...]:
    """Return the links of a response from ``base``, in order: absolute http and https URLs only.

    A link whose ``anchor`` names another context is left out.

    >>> links = read_links(['</hub>; rel="hub"', '<b>; title="a, <c>; rel=hub"; rel=Self'], "https://a.example/x/")
    >>> [(link.url, *link.relations) for link in links]
    [('https://a.example/hub', 'hub'), ('https://a.example/x/b', 'self')]
    >>> read_links(['<ftp://a/>; rel=hub', '<http://[>; rel=hub', 'rel=hub'], "https://a.example/")
    ()
    """
    text = ", ".join(values)[:_MOST_CHARACTERS]
    links: list[_Link] = []
    for target, parameters in _entries(text):
        url = absolute(target, base)
        if url is not None and "anchor" not in parameters:
            links.append(_Link(url, frozenset(parameters.get("rel", "").lower().split())))
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


_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")
_LONGEST_WAIT_S = 366 * 86400.0


def http_date_s(text: str) -> float | None:
    """Return the unix seconds of an HTTP date, or ``None``.

    >>> http_date_s("Sun, 06 Nov 1994 08:49:37 GMT")
    784111777.0
    >>> http_date_s("soon")
    """
    try:
        parts = parsedate_tz(text)
        return None if parts is None else float(mktime_tz(parts))
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return the seconds that a response asks us to wait, or ``None``; at least 0 and at most a year.

    A date is measured from the response's own ``Date``, so a server with a wrong clock is understood.

    >>> retry_after_s({"Retry-After": "120"}, now_s=0.0)
    120.0
    >>> later = {"Retry-After": "Sun, 06 Nov 1994 08:49:37 GMT"}
    >>> retry_after_s(later | {"Date": "Sun, 06 Nov 1994 08:49:30 GMT"}, now_s=0.0)
    7.0
    >>> retry_after_s({"Retry-After": "soon"}, now_s=0.0)
    """
    text = headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), _LONGEST_WAIT_S)
    until_s = http_date_s(text) if text else None
    if until_s is None:
        return None
    from_s = http_date_s(headers.get("Date", ""))
    wait_s = until_s - (now_s if from_s is None else from_s)
    return min(max(0.0, wait_s), _LONGEST_WAIT_S) if math.isfinite(wait_s) else None


def fresh_for_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return for how many seconds a response says that it is fresh, or ``None``; at least 0 and at most a year.

    ``max-age`` minus ``Age`` takes precedence over ``Expires``; a response that must be revalidated is fresh for 0 s.
    ``Expires`` is measured from the response's own ``Date``, and an invalid one is in the past (RFC 9111, 4.2).

    >>> fresh_for_s({"Cache-Control": "public, max-age=600", "Age": "100"}, now_s=0.0)
    500.0
    >>> fresh_for_s({"Cache-Control": "no-cache, max-age=600"}, now_s=0.0)
    0.0
    >>> fresh_for_s({"Expires": "0"}, now_s=0.0)
    0.0
    >>> fresh_for_s({}, now_s=0.0)
    """
    directives = _directives(headers.get("Cache-Control", ""))
    if "no-cache" in directives or "no-store" in directives:
        return 0.0
    longest = directives.get("max-age")
    if longest is not None and _SECONDS.fullmatch(longest):
        age = headers.get("Age", "").strip()
        passed = float(age) if _SECONDS.fullmatch(age) else 0.0
        return min(max(0.0, float(longest) - passed), _LONGEST_WAIT_S)
    if "Expires" not in headers:
        return None
    until_s = http_date_s(headers["Expires"])
    from_s = http_date_s(headers.get("Date", ""))
    wait_s = 0.0 if until_s is None else until_s - (now_s if from_s is None else from_s)
    return min(max(0.0, wait_s), _LONGEST_WAIT_S) if math.isfinite(wait_s) else 0.0


def _directives(text: str) -> dict[str, str]:
    """Return the directives of a Cache-Control header; of repeated ones, the first."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        found.setdefault(name.strip().lower(), value.strip().strip('"'))
    return found


def describe(error: BaseException) -> str:
    """Return one line that describes a connection error, without addresses, which may hold secrets."""
    match error:
        case aiohttp.ClientHttpProxyError():
            text = f"the proxy answered {error.status} {error.message}"
        case aiohttp.ClientResponseError():
            text = f"{error.status}, {error.message}"
        case aiohttp.InvalidURL():
            text = "the address cannot be read"
        case aiohttp.ClientConnectorDNSError():
            text = f"{error.host}: {error.os_error.strerror or error.os_error}"
        case aiohttp.ClientConnectorError():  # asyncio's text names errno and a tuple
            refused = isinstance(error.os_error, ConnectionRefusedError)
            text = f"{error.host}: {'connection refused' if refused else error.os_error}"
        case ConnectionRefusedError():
            text = "connection refused"
        case gaierror():
            text = error.strerror or str(error)
        case _:
            text = str(error)
    return one_line(text) or type(error).__name__


async def read_some(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the decoded body, at most ``limit + 1`` bytes, without reading further.

    More than ``limit`` bytes means that the body is longer than allowed.
    """
    pieces: list[bytes] = []
    room = limit + 1
    while room > 0:
        piece = await response.content.read(min(room, 65_536))
        if not piece:
            break
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces)
