"""Reading the addresses that others write: whatever stands in them, they are read whole or not at all."""

from __future__ import annotations

from yarl import URL

LONGEST_URL = 4096


def without_path(text: str) -> str:
    """Return an address as logs may have it: who is asked, not what for, which may be a secret.

    >>> without_path("https://hooks.example:8443/services/T0/B0?token=x"), without_path("https://[")
    ('https://hooks.example:8443/[hidden]', '[hidden]')
    """
    url = read_url(text)
    return "[hidden]" if url is None or url.host is None else f"{url.origin()}/[hidden]"


def read_url(text: str, base: URL | None = None) -> URL | None:
    """Return an address, as seen from ``base`` where that is given; ``None`` where it cannot be read.

    The library reads parts of an address only when they are asked for, and then raises what it pleases; here all of
    them are read at once.

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
