"""The outcome of a probe, as a value for every case."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from urllib.parse import urlsplit

from proxyd.core.model.delivery import SecretRef
from proxyd.core.model.item import Item
from proxyd.core.model.profile import Auth, PageClass, Rendering


class OutcomeKind(Enum):
    """Every way a probe can end; the values are the label of ``proxyd_probes_total``."""

    CHANGED = "changed"  # a document was parsed; items holds its whole window
    SAME_BODY = "same_body"  # 200, but the same bytes as last time: not parsed
    NOT_MODIFIED = "not_modified"  # 304
    THROTTLED = "throttled"  # 429, or 503 with a Retry-After
    GONE = "gone"  # 410
    HTTP_ERROR = "http_error"  # any other status that is not a success
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"  # DNS, connection, TLS, cut off in the middle
    BLOCKED = "blocked"  # the network guard refused an address, a scheme or a port
    DISALLOWED = "disallowed"  # robots.txt forbids it
    NO_SECRET = "no_secret"  # the secret of its AUTH is not set; nothing was sent
    NO_BROWSER = "no_browser"  # the browser that renders the page is not set, not there, or died
    TOO_LARGE = "too_large"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    EMPTY = "empty"  # a success without a body
    NOT_A_FEED = "not_a_feed"  # a web page or anything else that is not a feed
    UNREADABLE = "unreadable"  # a page or JSON that holds nothing that the fields of its class read
    UNSAFE = "unsafe"  # declares entities or hides a decompression bomb
    PARSER_FAILED = "parser_failed"  # the parser hung, died or raised

    def __init__(self, label: str) -> None:
        self.is_success = label in {"changed", "same_body", "not_modified"}  # whether the source's state was seen


@dataclass(frozen=True, slots=True)
class Validators:
    """ETag and Last-Modified exactly as the origin sent them."""

    etag: str | None = None
    last_modified: str | None = None


NO_VALIDATORS = Validators()


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a page, as the bytes of a file.

    >>> Picture("image/png", b"...").sha256[:8]
    'ab5df625'
    """

    media_type: str
    data: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """Its hash, by which notifications refer to it."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What a prober needs to know of a source; a source without a page class is read as a feed."""

    source_id: str
    url: str  # the declared address
    validators: Validators = NO_VALIDATORS
    body_hash: str | None = None
    page_class: PageClass | None = None
    reading: str = ""  # the id of the address and of how it is read; an outcome with another reading says nothing
    locale: str | None = None  # the LOCALE of the source, which settles how ambiguous numbers are read
    # The permanent target of the source's redirects, if they agreed repeatedly; asked instead of `url`
    moved_url: str | None = None
    # What the profile adds to requests; sent only to the origin of the address asked first. `post` is the body, if
    # the source is asked by POST.
    headers: tuple[tuple[str, str | SecretRef], ...] = ()
    auth: Auth | None = None
    post: str | None = None
    rendering: Rendering | None = None  # how a browser renders the page; `None` if it is read as the server sends it
    wants_picture: bool = False  # whether a rule keeps a picture of the page as the browser shows it
    holding: str | None = None  # what a site must hold
    obeys_robots: bool = False  # whether the host's robots.txt may forbid the probe
    trace: str = ""  # the step of a trace that the probe belongs to, as a `traceparent` header; empty without a trace

    @property
    def host(self) -> str:
        """The host that is asked first."""
        return host_of(self.moved_url or self.url)


@dataclass(frozen=True, slots=True)
class HubLinks:
    """The WebSub hubs of a source, and the topic by which they know it."""

    hubs: tuple[str, ...]
    topic: str


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """How one probe ended."""

    source_id: str
    kind: OutcomeKind
    # Unix seconds at which the first request started and the last byte was processed
    started_s: float
    finished_s: float
    status: int | None = None
    # The whole window of the source in document order if `kind` is CHANGED; otherwise empty
    items: tuple[Item, ...] = ()
    truncated: bool = False  # whether the window held more items than `items`
    validators: Validators = NO_VALIDATORS
    body_hash: str | None = None
    retry_after_s: float | None = None  # seconds that the origin asked to wait, from `finished_s`
    # Seconds from `finished_s` for which the response says that it stays fresh; `None` if it does not say so
    fresh_for_s: float | None = None
    # How often the document says that it changes (ttl, updatePeriod); `None` if it does not, or was not read
    period_s: float | None = None
    # The target of redirects of kind 301 and 308, up to the first of another kind; `None` without any
    permanent_url: str | None = None
    hub_links: HubLinks | None = None  # the hubs in the response or its document, if that was read
    answered_by: str | None = None  # the host of the last response; `None` without a response
    # Whether bytes of an answer came, of the document or of what had to be read before it, also if the probe failed
    is_answered: bool = False
    certificate: str = ""  # the SHA-256 of a certificate that was not trusted
    certificate_end_s: float | None = None  # when the first of the certificates on the way expires, in unix seconds
    crawl_delay_s: float | None = None  # seconds between requests that robots.txt asks for
    misfits: int = 0  # number of values that do not fit their declared type and read as null
    detail: str = ""  # one line for people: the status, the error or a description of the document
    requests: int = 1  # number of HTTP requests that were started, including redirects
    body_bytes: int = 0
    trace: str = ""  # the trace of the request
    # Whether a hub pushed it without a request. The items of a feed are then only the new ones.
    is_push: bool = False
    is_redirected: bool = False  # whether redirects led to another place than the address asked first
    is_unordered: bool = False  # whether the document lists its items in no particular order, as a sitemap does
    linked_feeds: tuple[str, ...] = ()  # the feeds that a web page links to, if it was read as a feed
    # The page as the browser showed it, if that was asked for and a picture could be taken
    picture: Picture | None = None

    @property
    def is_missing(self) -> bool:
        """Whether the origin says that the page does not exist (404, 410)."""
        return self.status in _MISSING


_MISSING = frozenset({404, 410})


_PLAIN_HOST = re.compile(r"https?://([a-z0-9.-]+)(?::[0-9]+)?(?:[/?#]|\Z)")


@lru_cache(65_536)
def host_of(url: str) -> str:
    """Return the host of an address.

    >>> host_of("https://Example.org./feed")
    'example.org'
    """
    plain = _PLAIN_HOST.match(url)  # as nearly all; to split an address takes ten times as long
    host = (urlsplit(url).hostname or "") if plain is None else plain[1]
    return host.rstrip(".")
