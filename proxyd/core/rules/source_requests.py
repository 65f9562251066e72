"""What to ask a source for: the address after redirects, validators while its 304s are believed, the reading."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from proxyd.core.model.outcome import NO_VALIDATORS, ProbeRequest, Validators
from proxyd.core.model.profile import Declaration, PageClass, Source
from proxyd.core.rules.state import SourceState

MOVED_AFTER = 3  # probes in a row that a permanent redirect must lead to the same place
EXPECTED_CHANGES = 5.0  # a quiet time in which so many were expected asks for the whole document
MOST_NOT_MODIFIED = 50  # 304s in a row after which it is asked for anyway
FEWEST_NOT_MODIFIED = 3


def reading_of(source: Source, page_class: PageClass) -> str:
    """Return what identifies an address and how it is read: of another reading nothing learned of items holds.

    Feeds are read whole, whatever fields their class declares.
    """
    how = () if page_class.is_feed else (page_class.fields, page_class.each, page_class.key)
    return hashlib.sha256(repr((source.url, how)).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def probe_request(source: Source, declaration: Declaration) -> ProbeRequest:
    """Return the request of a source of which nothing is known yet; pages obey robots.txt unless told otherwise."""
    page_class = declaration.page_class(source)
    obeys_robots = not page_class.is_feed if source.robots is None else source.robots
    return ProbeRequest(
        source.source_id,
        source.url,
        page_class=page_class,
        reading=reading_of(source, page_class),
        headers=source.headers,
        auth=source.auth,
        obeys_robots=obeys_robots,
    )


def moved_url(state: SourceState, source: Source) -> str | None:
    """Return where to ask instead of the declared address, ``None`` where it did not move for good.

    What a profile adds to requests (HEADER, AUTH) is meant for the declared address: it is asked first forever.
    """
    has_secrets = bool(source.headers or source.auth)
    return state.moved_url if state.moved_times >= MOVED_AFTER and not has_secrets else None


def validators(state: SourceState, *, now_s: float, rate_per_s: Callable[[], float]) -> Validators:
    """Return what to ask with: nothing where a 304 would not be believed.

    Some servers answer 304 whatever they are asked. So the whole document is fetched now and then: after a quiet time
    in which the source's own rate expects several changes, or after many 304s. It is a small share of the probes: a
    source that is quiet for long has a low rate, and a changed one is sent whole anyway.
    """
    if now_s < state.distrust_until_s:
        return NO_VALIDATORS
    quiet_s = 0.0 if state.full_s is None else now_s - state.full_s
    is_odd = state.not_modified >= FEWEST_NOT_MODIFIED and rate_per_s() * quiet_s >= EXPECTED_CHANGES
    return NO_VALIDATORS if is_odd or state.not_modified >= MOST_NOT_MODIFIED else state.validators
