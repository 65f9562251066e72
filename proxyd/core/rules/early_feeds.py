"""Feeds that may be probed before a large declaration is loaded: which ones, when they are due, and their requests.

They are chosen with each plan of the week, and stored with it. A feed is among them if its probe needs nothing of the
declaration: only its address and EXPECT are declared, and it is the only source of its host.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxyd.core.model.outcome import ProbeRequest, host_of
from proxyd.core.model.profile import FieldType, PageClass, Source
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.source_record import SourceRecord
from proxyd.core.rules.compiled import Compiled
from proxyd.core.rules.source_requests import reading_of, validators
from proxyd.core.rules.state import SourceState

_NUMBERS = frozenset({FieldType.INTEGER, FieldType.DECIMAL})


class EarlyFeeds(NamedTuple):
    """Feeds that may be probed early, by a plan made at ``made_s``.

    ``due_s`` says when each is due, earliest first; shape (feeds,), in unix seconds as ``made_s``.

    Examples
    --------
    >>> found = EarlyFeeds(5.0, ["a", "b", "c"], np.array([10.0, 20.0, 30.0]))
    >>> EarlyFeeds.unpack(found.pack()).due(15.0, 25.0)
    ['b']
    """

    made_s: float
    names: Sequence[str]
    due_s: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        week: WeekPlan,
        compiled: Compiled,
        scope_of: Callable[[str], str],
        made_s: float,
        *,
        also_asked: Mapping[str, int] = MappingProxyType({}),
    ) -> EarlyFeeds:
        """Return those of a declaration that a plan knows; this takes seconds for a million sources.

        ``scope_of`` maps a host to the scope that shares limits, ``also_asked`` counts the sources that lead to a host
        although they are declared elsewhere.
        """
        names = [*_lone_feeds(compiled, scope_of, made_s, also_asked)]
        due_s = week.dues_s(names)
        order = np.argsort(due_s, kind="stable")[: int(np.isfinite(due_s).sum())]
        return cls(made_s, [names[number] for number in order.tolist()], due_s[order])

    def due(self, since_s: float, now_s: float) -> list[str]:
        """Return those that have become due since ``since_s``, when proxyd last asked for anything."""
        first, last = np.searchsorted(self.due_s, [since_s, now_s], side="right").tolist()
        return list(self.names[first:last])

    def pack(self) -> bytes:
        """Return them as bytes, for ``unpack``."""
        whole = [self.made_s, self.names, self.due_s.round().tolist()]
        pieces = json.JSONEncoder().iterencode(whole)  # slower than dumps, but lets the event loop run in between
        return zlib.compress("".join(pieces).encode(), 1)

    @classmethod
    def unpack(cls, packed: bytes) -> EarlyFeeds:
        """Return what ``pack`` packed; raises ``ValueError`` if it is damaged."""
        try:
            made_s, names, due_s = json.loads(zlib.decompress(packed))
        except zlib.error as error:
            raise ValueError(str(error)) from error
        return cls(made_s, names, np.array(due_s, dtype=np.float64))


def _lone_feeds(
    compiled: Compiled, scope_of: Callable[[str], str], now_s: float, also_asked: Mapping[str, int]
) -> Iterator[str]:
    """Yield the feeds that may be asked early, of rules whose periods have begun and do not end."""
    changing = {rule for at_s, rule in compiled.edges if at_s > now_s}
    of_scope = Counter[str]()
    for host, sources in (*compiled.asked_hosts.items(), *also_asked.items()):
        of_scope[scope_of(host)] += sources
    for source_id, rules in compiled.rules_of.items():
        source = compiled.sources[source_id]
        if of_scope[scope_of(host_of(source.url))] != 1 or not changing.isdisjoint(rules):
            continue
        if is_plain(source, compiled.declaration.page_class(source)):
            yield source_id


def is_plain(source: Source, kind: PageClass) -> bool:
    """Whether a source is a feed of which at most the address and EXPECT are declared.

    Feeds whose class declares numbers are read in another way.
    """
    if not kind.is_feed or any(each.type in _NUMBERS for each in kind.fields):
        return False
    return replace(source, expect=None) == Source(source.source_id, source.page_class, source.domain, source.url)


def _request(source_id: str, url: str) -> ProbeRequest:
    return ProbeRequest(source_id, url, reading=reading_of(Source(source_id, "", "", url), None))


def early_request(
    state: SourceState, record: SourceRecord | None, now_s: float, *, made_s: float, spacing_s: float
) -> ProbeRequest | None:
    """Return the request for an early feed, asked ``spacing_s`` after its last probe at the earliest.

    ``None`` if it was asked since the plan was made at ``made_s``, may not be asked yet, was read otherwise before, is
    read at another address by now, or is pushed.
    """
    request = _request(state.source_id, state.url)
    if (
        record is None
        or state.reading != request.reading
        or state.moved_url is not None
        or state.health.accepted is not None
        or state.last_push_s is not None
    ):
        return None
    last_s = -inf if state.last_start_s is None else state.last_start_s
    if (
        last_s >= made_s
        or max(state.not_before_s, state.fresh_until_s, last_s + max(spacing_s, record.host_spacing_s)) > now_s
    ):
        return None
    known = validators(state, now_s=now_s, rate_per_s=lambda: record.rate_per_s)
    return replace(request, validators=known, body_hash=state.body_hash)
