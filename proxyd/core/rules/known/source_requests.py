"""What the prober needs to ask a source: its request, its reading, and the validators of its last answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from proxyd.core.model.outcome import NO_VALIDATORS, ProbeRequest, Validators
from proxyd.core.model.profile import Declaration, PageClass, Source
from proxyd.core.rules.known.state import SourceState

MOVED_AFTER = 3  # probes in a row that a permanent redirect must lead to the same place
EXPECTED_CHANGES = 5.0  # the whole document is asked for after a quiet time in which so many changes were expected
MOST_NOT_MODIFIED = 50  # 304s in a row after which the whole document is asked for in any case
FEWEST_NOT_MODIFIED = 3


def reading_of(source: Source, page_class: PageClass | None) -> str:
    """Return the id of an address and the way it is read; what was learned of items holds only for the same id.

    Feeds are read whole, regardless of the fields that their class declares: they need none.
    """
    how = () if page_class is None or page_class.is_feed else (page_class.fields, page_class.each, page_class.key)
    asked: object = (source.url, how) if source.post is None else (source.url, how, source.post)
    shown = asked if source.rendering is None else (asked, source.rendering)
    read = shown if source.locale is None else (shown, source.locale)
    return hashlib.sha256(repr(read).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def probe_request(source: Source, declaration: Declaration, *, wants_picture: bool = False) -> ProbeRequest:
    """Return the first request of a source; HTML pages obey robots.txt unless told otherwise.

    Pictures are of pages that a browser renders. They are no part of the reading.
    """
    page_class = declaration.page_class(source)
    obeys_robots = not page_class.is_feed if source.robots is None else source.robots
    return ProbeRequest(
        source.source_id,
        source.url,
        page_class=page_class,
        reading=reading_of(source, page_class),
        locale=source.locale,
        headers=source.headers,
        auth=source.auth,
        post=source.post,
        rendering=source.rendering,
        wants_picture=wants_picture and source.rendering is not None,
        obeys_robots=obeys_robots,
    )


def url_after_move(state: SourceState, source: Source) -> str | None:
    """Return the address to ask instead of the declared one, or ``None`` if it has not moved permanently.

    If a profile adds HEADER, AUTH or a BODY to requests, these are meant for the declared address, which is then always
    asked first.
    """
    adds = bool(source.headers or source.auth) or source.post is not None
    return state.moved_url if state.moved_times >= MOVED_AFTER and not adds else None


def validators(state: SourceState, *, now_s: float, rate_per_s: Callable[[], float]) -> Validators:
    """Return the validators to send; none if a 304 would not be believed.

    Some servers answer every request with 304. Therefore the whole document is fetched now and then: after a quiet time
    in which the source's own rate expects several changes, or after many 304s. These are a small share of the probes: a
    source that is quiet for long has a low rate, and a changed one is sent whole anyway.
    """
    if now_s < state.distrust_until_s:
        return NO_VALIDATORS
    quiet_s = 0.0 if state.full_s is None else now_s - state.full_s
    is_odd = state.not_modified >= FEWEST_NOT_MODIFIED and rate_per_s() * quiet_s >= EXPECTED_CHANGES
    return NO_VALIDATORS if is_odd or state.not_modified >= MOST_NOT_MODIFIED else state.validators
