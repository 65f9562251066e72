"""Asks RDAP once a day when the domains of sites expire; the next probe of a site takes the answer in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from zlib import crc32

import structlog
from publicsuffixlist import PublicSuffixList

from proxyd.base.ports import Clock, Prober
from proxyd.core.model.field_values import parse_iso
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest, host_of
from proxyd.core.model.profile import Declaration, Extraction, Field, FieldType, PageClass, Reader
from proxyd.core.rules.known.compiled import Compiled
from proxyd.core.rules.known.context import DomainAnswer
from proxyd.core.rules.known.knowledge import Knowledge

_DAY_S = 86400.0
_LOOK_S = 15.0  # between two questions, so that a new list of sites is no burst
_JITTER = 0.1  # of a day
_MOST_LOOKED_AT = 500  # sites in a turn: to look at 50,000 would hold the loop
_MOST_DETAIL = 200  # characters
_EXPIRY = "expires"
_ANSWER = PageClass(
    "RDAP",
    "",
    (Field(_EXPIRY, FieldType.STRING, Extraction(Reader.JSON, "$.events[?@.eventAction=='expiration'].eventDate")),),
)
log = structlog.get_logger("domains")


class DomainWatch:
    """Asks for the domain of one site at a time; without an address it asks nothing.

    Answers are kept in what is known of hosts, and with each site once it is probed, so that a restart asks nothing.
    """

    def __init__(self, known: Knowledge, prober: Prober, clock: Clock, url: str) -> None:
        self._known = known
        self._prober = prober
        self._clock = clock
        self._url = url
        self._compiled: Compiled | None = None
        self._sites: Sequence[tuple[str, str]] = ()  # names and hosts of the sites whose domain is told
        self._at = -1  # the one that was looked at last

    async def run(self) -> None:
        """Ask until cancelled."""
        while self._url:
            await self.look()
            await self._clock.sleep(_LOOK_S)

    async def look(self) -> None:
        """Ask for the domain of the next site whose last answer is a day old; look at a bounded number of sites."""
        compiled, now_s = self._known.compiled, self._clock.time_s()
        if compiled is not self._compiled:
            self._compiled, self._sites = compiled, await asyncio.to_thread(_hosts_of_sites, compiled.declaration)
            hosts = {host for _, host in self._sites}
            self._known.domains = {host: each for host, each in self._known.domains.items() if host in hosts}
        for _ in range(min(len(self._sites), _MOST_LOOKED_AT)):
            self._at = (self._at + 1) % len(self._sites)
            name, host = self._sites[self._at]
            if self._known.has(name) and now_s >= self._due_s(name, host):
                self._known.domains[host] = await self._answer(host)
                return

    def _due_s(self, name: str, host: str) -> float:
        answer, state = self._known.domains.get(host), self._known.states.get(name)
        site = None if state is None else state.health.site
        asked_s = max(0.0 if answer is None else answer.asked_s, 0.0 if site is None else site.asked_s)
        return asked_s + _DAY_S * (1.0 + _JITTER * crc32(host.encode()) / 2**32) if asked_s else 0.0

    async def _answer(self, host: str) -> DomainAnswer:
        """Return when the domain of a host expires, by an answer of today or a new one."""
        now_s, domain = self._clock.time_s(), await asyncio.to_thread(_registrable_domain, host)
        if domain is None:
            return DomainAnswer(now_s, problem="the host is in no domain that can be registered")
        for each in self._known.domains.values():
            if each.name == domain and now_s - each.asked_s < _DAY_S / 2:
                return each
        url = f"{self._url.rstrip('/')}/{domain}"
        outcome = await self._prober.probe(ProbeRequest(url, url, page_class=_ANSWER))
        answer = _answer_of(domain, outcome, self._clock.time_s())
        if answer.problem:
            log.info("the expiry of a domain is not known", domain=domain, why=answer.problem)
        return answer


def _answer_of(domain: str, outcome: ProbeOutcome, now_s: float) -> DomainAnswer:
    """Return what an answer of RDAP says."""
    if not outcome.kind.is_success and outcome.kind is not OutcomeKind.UNREADABLE:
        return DomainAnswer(now_s, domain, problem=f"RDAP: {outcome.detail}"[:_MOST_DETAIL])
    written = outcome.items[0].fields.get(_EXPIRY) if outcome.items else None
    end_s = parse_iso(written) if isinstance(written, str) else None
    return DomainAnswer(now_s, domain, end_s, "" if end_s is not None else "RDAP says no expiry")


def _hosts_of_sites(declaration: Declaration) -> list[tuple[str, str]]:
    sites = (each for each in declaration.sources.values() if each.site is not None and each.site.domain is not None)
    return [(each.source_id, host_of(each.url)) for each in sites]


@cache
def _suffixes() -> tuple[PublicSuffixList, PublicSuffixList]:
    """Return the public suffixes, with and without those where private owners give out names."""
    return PublicSuffixList(accept_unknown=False), PublicSuffixList(accept_unknown=False, only_icann=True)


def _registrable_domain(host: str) -> str | None:
    """Return the domain that is registered for a host, or ``None``: an address, or a name that somebody gives out.

    >>> [_registrable_domain(host) for host in ("a.shop.example.co.uk", "me.github.io", "192.0.2.1", "localhost")]
    ['example.co.uk', None, None, None]
    """
    whole, icann = (each.privatesuffix(host) for each in _suffixes())
    return whole if whole is not None and whole == icann else None
