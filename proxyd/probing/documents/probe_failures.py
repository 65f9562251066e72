"""The errors of probes, each with its outcome.

::

    FetchError
    |- TooLargeError            the decoded body is longer than allowed
    |- TooManyRedirectsError
    |- DisallowedError          robots.txt forbids it
    |- ThrottledError           the host asks for less, by 429 or Retry-After, before the document could be asked for
    |- BadStatusError           HTTP_ERROR: robots.txt answers 503, so the document was not asked for
    |- NoSecretError            the secret of its AUTH is not set
    |- NoBrowserError           there is no browser to render the page with
    `- DecompressionBombError   UNSAFE: a small body that decodes to a huge one
    FetchTimeoutError
    `- QueueTimeoutError        others held the host for too long
    FeedParseError
    |- EmptyDocumentError
    |- NotAFeedError            with the feeds a web page links to
    |- UnreadableDocumentError  contains nothing that its class reads, or is of another kind
    |- SelectorError            a selector of the class cannot be read
    |- UnsafeDocumentError      declares entities
    `- ParserFailedError        the parser hung, died or raised
"""

from __future__ import annotations

from proxyd.core.errors import BlockedAddressError, FeedParseError, FetchError, FetchTimeoutError, ProbeError
from proxyd.core.model.outcome import OutcomeKind


class TooLargeError(FetchError):
    """The body is longer than allowed."""


class TooManyRedirectsError(FetchError):
    """The redirects do not end."""


class DisallowedError(FetchError):
    """The robots.txt of the host forbids it."""


class ThrottledError(FetchError):
    """The host asks for fewer requests."""


class BadStatusError(FetchError):
    """A file that had to be read first answers with an error."""


class NoSecretError(FetchError):
    """The secret is not set."""


class NoBrowserError(FetchError):
    """There is no browser to render the page with."""


class QueueTimeoutError(FetchTimeoutError):
    """The queue of the host is too long."""


class DecompressionBombError(FetchError):
    """A small body decodes to a huge one."""


class EmptyDocumentError(FeedParseError):
    """The body is empty."""


class NotAFeedError(FeedParseError):
    """The document is not a feed.

    Parameters
    ----------
    links
        Feeds that a web page links to, absolute, in page order.
    """

    def __init__(self, message: str | None = None, *, links: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.links = links


class UnreadableDocumentError(FeedParseError):
    """The document contains nothing that its class reads."""


class SelectorError(FeedParseError):
    """The selector cannot be read."""


class UnsafeDocumentError(FeedParseError):
    """The document declares entities."""


class ParserFailedError(FeedParseError):
    """The parser hung, died or raised."""


_KINDS: tuple[tuple[type[ProbeError], OutcomeKind], ...] = (
    (BlockedAddressError, OutcomeKind.BLOCKED),
    (DisallowedError, OutcomeKind.DISALLOWED),
    (ThrottledError, OutcomeKind.THROTTLED),
    (BadStatusError, OutcomeKind.HTTP_ERROR),
    (NoSecretError, OutcomeKind.NO_SECRET),
    (NoBrowserError, OutcomeKind.NO_BROWSER),
    (TooLargeError, OutcomeKind.TOO_LARGE),
    (TooManyRedirectsError, OutcomeKind.TOO_MANY_REDIRECTS),
    (DecompressionBombError, OutcomeKind.UNSAFE),
    (UnsafeDocumentError, OutcomeKind.UNSAFE),
    (EmptyDocumentError, OutcomeKind.EMPTY),
    (ParserFailedError, OutcomeKind.PARSER_FAILED),
    (FetchTimeoutError, OutcomeKind.TIMEOUT),
    (UnreadableDocumentError, OutcomeKind.UNREADABLE),
    (SelectorError, OutcomeKind.UNREADABLE),
    (FeedParseError, OutcomeKind.NOT_A_FEED),
    (FetchError, OutcomeKind.UNREACHABLE),
)


def kind_of(error: ProbeError) -> OutcomeKind:
    """Return the outcome of an error.

    >>> kind_of(TooLargeError())
    <OutcomeKind.TOO_LARGE: 'too_large'>
    >>> kind_of(FetchError("no route to host"))
    <OutcomeKind.UNREACHABLE: 'unreachable'>
    >>> kind_of(UnreadableDocumentError("no row matches p.price"))
    <OutcomeKind.UNREADABLE: 'unreadable'>
    """
    return next((kind for family, kind in _KINDS if isinstance(error, family)), OutcomeKind.UNREACHABLE)
