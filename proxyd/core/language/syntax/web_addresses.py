"""Addresses as people and other programs write them, in the form that the language takes."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit, urlunsplit

from yarl import URL

from proxyd.core.errors import ConfigError

_LONGEST_ADDRESS = 4096  # a longer one is not asked
_PLAIN_ADDRESS = re.compile(r"https?://[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::[0-9]{1,4})?(?:[/?#][\x21-\x7e]*)?")  # nearly all
_NOT_PRINTABLE = re.compile(r"[^\x21-\x7e]")
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_AROUND = " \t\r\n\f\xa0\u200b\u2060\ufeff"
_BREAKS = str.maketrans("", "", "\t\r\n")  # as browsers do: mail programs break long addresses
_FEED_SCHEME = re.compile(
    r"(?:feed|rss|pcast|podcast|itpc):(?://)?(?=https?:)|(?:feed|rss|pcast|podcast|itpc)://", re.I
)
_USER = re.compile(r"//[^/?#]*@")
WITHOUT_USER = "an address must not hold a user or password"


def address_problem(url: str) -> str | None:
    """Return why an address cannot be asked.

    >>> address_problem("https://example.org/feed"), address_problem("https://example.org:65536/")
    (None, "'https://example.org:65536/' is not an address")
    """
    is_plain = len(url) <= _LONGEST_ADDRESS and _PLAIN_ADDRESS.fullmatch(url)
    return None if is_plain else _problem_of_unusual(url)


def _problem_of_unusual(url: str) -> str | None:
    if _NOT_PRINTABLE.search(url):
        return "an address may contain only printable ASCII without spaces"
    if len(url) > _LONGEST_ADDRESS:
        return f"an address may have {_LONGEST_ADDRESS} characters at most"
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return f"{url!r} is not an address"
    if parts.scheme not in ("http", "https") or not host:
        return f"{without_user(url)!r} is not an http or https address"
    if parts.username is not None or parts.password is not None:
        return WITHOUT_USER
    return None


def plain_address(text: str) -> str:
    """Return an address as the language takes it, if it can be meant; ``address_problem`` judges the result.

    Feed schemes become http, names of hosts punycode, and what is not printable ASCII is percent-encoded in UTF-8. An
    address that is fine is not changed, and user and password are never left out silently.

    >>> plain_address(" feed://b\u00fccher.example/a b?q=\u00fc ")
    'http://xn--bcher-kva.example/a%20b?q=%C3%BC'
    """
    url = _FEED_SCHEME.sub(_http, text.strip(_AROUND).translate(_BREAKS), count=1)
    if len(url) > _LONGEST_ADDRESS or address_problem(url) is None:
        return url
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            return url
        user, at, host = parts.netloc.rpartition("@")
        return urlunsplit(
            parts._replace(
                netloc=quote(user, safe=_PRINTABLE) + at + _ascii_host(host), **_quote_paths(parts._asdict())
            )
        )
    except ValueError:
        return url


def address_to_watch(text: str) -> str:
    """Return the address that someone asks to watch; raises ``ConfigError`` if it cannot be asked."""
    url = plain_address(text)
    problem = address_problem(url)
    if problem == WITHOUT_USER:
        raise ConfigError([f"{problem}; declare it as a source without them, with AUTH BASIC 'user' SECRET ENV '...'"])
    if problem is not None:
        raise ConfigError([f"{without_user(text)!r} is not an address; it starts with https:// or http://"])
    return url


def without_user(url: str) -> str:
    """Return an address for people, without the user and password that it may hold.

    >>> without_user("http://me:pw@h.example/k")
    'http://[hidden]@h.example/k'
    """
    return _USER.sub("//[hidden]@", url, count=1)


def _http(scheme: re.Match[str]) -> str:
    return "" if scheme.string[scheme.end() :].lower().startswith(("http:", "https:")) else "http://"


def _quote_paths(parts: dict[str, str]) -> dict[str, str]:
    return {name: quote(parts[name], safe=_PRINTABLE) for name in ("path", "query", "fragment")}


def _ascii_host(host: str) -> str:
    """Return a host, and its port, in ASCII; raises ``ValueError`` if no name can be so."""
    if host.isascii():
        return host
    name, colon, port = host.partition(":")
    return (URL.build(scheme="http", host=name).raw_host or "") + colon + port
