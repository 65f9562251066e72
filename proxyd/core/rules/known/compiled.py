"""What runs: the declaration compiled, and what the prober needs to ask each of its sources."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from operator import itemgetter

from proxyd.core.model.outcome import NO_VALIDATORS, ProbeRequest, Validators, host_of
from proxyd.core.model.profile import EMPTY_DECLARATION, Declaration, NotificationRule, PageClass, Source, owner_of
from proxyd.core.rules.known.state import AcceptedMove, SourceState
from proxyd.core.rules.programs.rule_program import RuleProgram, compile_rule
from proxyd.core.rules.programs.stream_state import StreamState

MOVED_AFTER = 3  # probes in a row that a permanent redirect must lead to the same place
_EXPECTED_CHANGES = 5.0  # the whole document is asked for after a quiet time in which so many changes were expected
MOST_NOT_MODIFIED = 50  # 304s in a row after which the whole document is asked for in any case
_FEWEST_NOT_MODIFIED = 3


def reading_of(source: Source, page_class: PageClass | None) -> str:
    """Return the id of an address and the way it is read; what was learned of items holds only for the same id."""
    # feeds are read whole, whatever fields their class declares: they need none
    how = () if page_class is None or page_class.is_feed else (page_class.fields, page_class.each, page_class.key)
    asked: object = (source.url, how) if source.post is None else (source.url, how, source.post)
    shown = asked if source.rendering is None else (asked, source.rendering)
    read: object = shown if source.locale is None else (shown, source.locale)
    if source.ignored:
        read = read, source.ignored
    return hashlib.sha256(repr(read).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def probe_request(source: Source, declaration: Declaration, *, wants_picture: bool = False) -> ProbeRequest:
    """Return the first request of a source; HTML pages obey robots.txt unless told otherwise."""
    page_class = declaration.page_class(source)
    obeys_robots = not page_class.is_feed if source.robots is None else source.robots
    return ProbeRequest(
        source.source_id,
        source.url,
        page_class=replace(page_class, ignored=source.ignored) if source.ignored else page_class,
        reading=reading_of(source, page_class),
        locale=source.locale,
        headers=source.headers,
        auth=source.auth,
        post=source.post,
        rendering=source.rendering,
        holding=None if source.site is None else source.site.holding,
        # pictures, which a browser takes, are no part of the reading
        wants_picture=wants_picture and source.rendering is not None,
        obeys_robots=obeys_robots,
    )


def url_after_move(state: SourceState, source: Source) -> str | None:
    """Return the address to ask instead of the declared one, or ``None`` if it has not moved permanently."""
    # these are meant for the declared address, which is then always asked first
    adds = bool(source.headers or source.auth) or source.post is not None
    return state.moved_url if state.moved_times >= MOVED_AFTER and not adds else None


def validators(state: SourceState, *, now_s: float, rate_per_s: Callable[[], float]) -> Validators:
    """Return the validators to send; none if a 304 would not be believed."""
    if now_s < state.distrust_until_s:
        return NO_VALIDATORS
    # Some servers answer every request with 304, so the whole document is fetched after a quiet time in which the rate
    # expects several changes, or after many 304s. These are few probes: a source that is quiet for long has a low rate,
    # and a changed one is sent whole anyway.
    quiet_s = 0.0 if state.full_s is None else now_s - state.full_s
    is_odd = state.not_modified >= _FEWEST_NOT_MODIFIED and rate_per_s() * quiet_s >= _EXPECTED_CHANGES
    return NO_VALIDATORS if is_odd or state.not_modified >= MOST_NOT_MODIFIED else state.validators


@dataclass(frozen=True, slots=True)
class Compiled:
    """A declaration and what is derived from it, by source and by rule."""

    declaration: Declaration
    since_s: Mapping[str, float]  # since when each source is declared, in unix seconds
    requests: Mapping[str, ProbeRequest]
    programs: Mapping[str, RuleProgram]
    rules_of: Mapping[str, Sequence[str]]  # in the order of their declaration; without sources that no rule asks for
    asked_hosts: Mapping[str, int] = field(default_factory=dict)  # how many sources with rules each has
    sources: Mapping[str, Source] = field(default_factory=dict)
    moved: Mapping[str, AcceptedMove] = field(default_factory=dict)  # sources whose move was accepted
    twins: Mapping[str, Sequence[str]] = field(default_factory=dict)  # sources that owners read alike, by their reading
    edges: Sequence[tuple[float, str]] = ()  # beginnings and ends of periods to come, ascending, with their rules

    @property
    def hosts(self) -> int:
        """The number of hosts that are asked."""
        return len(self.asked_hosts)

    def following(self, accepted: Mapping[str, AcceptedMove]) -> Compiled:
        """Return the same declaration with these moves, as far as they are of what is declared."""
        if not accepted and not self.moved:
            return self
        moved = {name: move for name, move in accepted.items() if self.reading_at_declaration(name) == move.instead_of}
        if moved == self.moved:
            return self
        declared = self.declaration.sources
        sources = {**declared, **{name: replace(declared[name], url=move.url) for name, move in moved.items()}}
        others = self.moved.keys() | moved.keys()
        again = {
            name: probe_request(sources[name], self.declaration, wants_picture=self.requests[name].wants_picture)
            for name in others
        }
        asked = others & self.rules_of.keys()
        return replace(
            self,
            requests={**self.requests, **again},
            asked_hosts=_recount_hosts(self.asked_hosts, gone=_urls(self.sources, asked), new=_urls(sources, asked)),
            sources=sources,
            moved=moved,
        )

    def declaration_s(self, source_id: str) -> float:
        """Return since when a source is declared, or 0 if that is unknown."""
        return self.since_s.get(source_id, 0.0)

    def reading(self, source_id: str) -> str:
        """Return the reading of a declared source; what was learned under another reading does not hold."""
        return self.requests[source_id].reading

    def reading_at_declaration(self, source_id: str) -> str | None:
        """Return the reading that a source has at its declared address; ``None`` if it is not declared."""
        if source_id in self.moved:
            return self.moved[source_id].instead_of
        request = self.requests.get(source_id)
        return None if request is None else request.reading

    def url_of(self, source_id: str) -> str:
        """Return the address of a source, or an empty text if it is not declared."""
        source = self.sources.get(source_id)
        return "" if source is None else source.url

    def continues(self, rule: str, previous: Compiled) -> bool:
        """Whether a rule keeps its NOW, or is new in this process and resumes its stored streams."""
        before, now = previous.programs.get(rule), self.programs.get(rule)
        return now is not None and (before is None or before.accepted_s == now.accepted_s)

    def edges_between(self, since_s: float, until_s: float) -> Sequence[tuple[float, str]]:
        """Return the beginnings and ends of periods after one time and up to another, in unix seconds."""
        first, last = (bisect_right(self.edges, at_s, key=itemgetter(0)) for at_s in (since_s, until_s))
        return self.edges[first:last]

    def programs_of(self, source_id: str) -> list[RuleProgram]:
        """Return the rules that ask for a source."""
        return [self.programs[name] for name in self.rules_of.get(source_id, ())]


NOTHING_COMPILED = Compiled(EMPTY_DECLARATION, {}, {}, {}, {})


@dataclass(frozen=True, slots=True)
class Swap:
    """A declaration ready to run in place of another, and what is different about it."""

    before: Compiled
    after: Compiled
    # the sources to plan again, or no longer: those that are declared otherwise, or asked for by other rules
    sources: Sequence[str]
    rules: Sequence[str]  # the rules that are new, gone, or other than before in more than their sources
    gained: Mapping[str, Sequence[str]]  # for each of the other rules, the sources that it had not before
    fresh: Mapping[str, Sequence[StreamState]]  # for each rule, streams of the sources that it had not before


def compile_declaration(
    declaration: Declaration,
    accepted: Mapping[str, float],
    since_s: Mapping[str, float],
    *,
    chronon_s: float,
    before: Compiled = NOTHING_COMPILED,
) -> Swap:
    """Return a declaration, by each rule's NOW and each source's beginning, ready to run in place of ``before``."""
    return _Compilation(declaration, accepted, before, chronon_s).swap(since_s)


class _Compilation:
    """Compiles what one declaration has that another has not."""

    def __init__(
        self, declaration: Declaration, accepted: Mapping[str, float], before: Compiled, chronon_s: float
    ) -> None:
        self._new, self._old = declaration, before.declaration
        self._accepted = accepted
        self._before = before
        self._chronon_s = chronon_s
        self._has_same_classes = declaration.domains == before.declaration.domains
        self._other_sources = self._differing()  # new, gone or declared otherwise
        self._rules: list[str] = []
        self._gained: dict[str, list[str]] = {}
        self._to_place = dict(self._other_sources)
        self._changed_rules_of: dict[str, set[str]] = {}  # rules that ask for a source, or do not, unlike before

    def swap(self, since_s: Mapping[str, float]) -> Swap:
        programs = {name: self._program(rule) for name, rule in self._new.rules.items()}
        for name in [each for each in self._old.rules if each not in programs]:
            self._rules.append(name)
            self._note(name, self._old.rules[name].source_ids)
        rules_of = self._rules_of()
        edges = ((at_s, p.rule.name) for p in programs.values() for at_s in (p.start_s, p.end_s) if at_s > p.accepted_s)
        requests = self._requests()
        after = Compiled(
            self._new,
            since_s,
            requests,
            programs,
            rules_of,
            self._hosts(rules_of),
            self._new.sources,
            twins=_twins(requests),
            edges=sorted(edge for edge in edges if edge[0] < inf),
        )
        fresh = {name: self._fresh(programs[name]) for name in (*self._rules, *self._gained) if name in programs}
        return Swap(self._before, after, tuple(self._to_place), self._rules, self._gained, fresh)

    def _fresh(self, program: RuleProgram) -> list[StreamState]:
        """Return streams of the sources that a rule had not before; there may be many, so they are made in advance."""
        if self._before is NOTHING_COMPILED:  # at a start most are in the store
            return []
        before, sources = self._old.rules.get(program.rule.name), program.rule.source_ids
        was = frozenset(() if before is None else before.source_ids)
        return list(program.new_streams(each for each in dict.fromkeys(sources) if each not in was))

    def _differing(self) -> dict[str, None]:
        new, old = self._new.sources, self._old.sources
        found = {name: None for name, each in new.items() if (was := old.get(name)) is not each and was != each}
        found |= {name: None for name in old if name not in new}
        if self._has_same_classes:
            return found
        known = self._old.domains
        others = {
            (domain.name, name)
            for domain in self._new.domains.values()
            for name, page_class in domain.classes.items()
            if domain.name not in known or known[domain.name].classes.get(name) != page_class
        }
        return found | {name: None for name, each in new.items() if (each.domain, each.page_class) in others}

    def _program(self, rule: NotificationRule) -> RuleProgram:
        """Return the program of a rule, the one from before if everything that it depends on is the same."""
        name, old, accepted_s = rule.name, self._before.programs.get(rule.name), self._accepted[rule.name]
        is_kept = old is not None and (old.accepted_s, old.chronon_s) == (accepted_s, self._chronon_s)
        is_kept = is_kept and self._has_same_classes
        if old is not None and is_kept and old.rule == rule and self._other_sources.keys().isdisjoint(rule.source_ids):
            return old
        if old is not None and is_kept and replace(old.rule, source_ids=rule.source_ids) == rule:
            was = set(old.rule.source_ids)
            self._gained[name] = [each for each in rule.source_ids if each not in was]
            self._note(name, was.symmetric_difference(rule.source_ids))
        else:
            self._rules.append(name)
            was = set() if old is None else set(old.rule.source_ids)
            self._note(name, was.symmetric_difference(rule.source_ids))
            self._to_place.update(dict.fromkeys(rule.source_ids))
        return compile_rule(rule, self._new, accepted_s=accepted_s, chronon_s=self._chronon_s)

    def _note(self, rule: str, sources: Iterable[str]) -> None:
        """Note that a rule asks for these sources, or does not, unlike before."""
        for name in sources:
            self._changed_rules_of.setdefault(name, set()).add(rule)

    def _rules_of(self) -> dict[str, Sequence[str]]:
        """Return the rules of each source in the order of their declaration, which decides between equals."""
        found = dict(self._before.rules_of)
        place = {name: number for number, name in enumerate(self._new.rules)}
        alike: dict[tuple[str, ...], tuple[str, ...]] = {}  # most sources share their rules with others
        others: Iterable[str] = self._changed_rules_of
        for name in others if self._has_same_order() else dict.fromkeys((*found, *others)):
            before = found.pop(name, ())
            changed = self._changed_rules_of.get(name, set())
            rules = tuple(sorted(changed.symmetric_difference(before), key=place.__getitem__))
            if rules != before:
                self._to_place[name] = None
            if rules:
                found[name] = alike.setdefault(rules, rules)
        return found

    def _has_same_order(self) -> bool:
        new, old = self._new.rules, self._old.rules
        return [name for name in new if name in old] == [name for name in old if name in new]

    def _requests(self) -> dict[str, ProbeRequest]:
        wanted, before = _sources_with_pictures(self._new), _sources_with_pictures(self._old)
        found = dict(self._before.requests)
        for name in self._other_sources.keys() | self._before.moved.keys() | (wanted ^ before):
            source = self._new.sources.get(name)
            if source is None:
                found.pop(name, None)
            else:
                found[name] = probe_request(source, self._new, wants_picture=name in wanted)
        return found

    def _hosts(self, rules_of: Mapping[str, Sequence[str]]) -> Mapping[str, int]:
        others = self._other_sources.keys() | self._changed_rules_of.keys() | self._before.moved.keys()
        return _recount_hosts(
            self._before.asked_hosts,
            gone=_urls(self._before.sources, others & self._before.rules_of.keys()),
            new=_urls(self._new.sources, others & rules_of.keys()),
        )


def _sources_with_pictures(declaration: Declaration) -> set[str]:
    return {name for rule in declaration.rules.values() if rule.keeps_screenshot for name in rule.source_ids}


def _urls(sources: Mapping[str, Source], names: Iterable[str]) -> list[str]:
    return [sources[name].url for name in names]


def _recount_hosts(asked: Mapping[str, int], *, gone: Iterable[str], new: Iterable[str]) -> Mapping[str, int]:
    """Return the number of sources on each host, without those at some addresses and with those at others.

    >>> _recount_hosts({"a.example": 2, "b.example": 1}, gone=["https://b.example/"], new=["https://a.example/x"])
    {'a.example': 3}
    """
    change = Counter(map(host_of, new))
    change.subtract(map(host_of, gone))
    found = dict(asked)
    for host, more in change.items():
        found[host] = found.get(host, 0) + more
        if not found[host]:
            del found[host]
    return found


def _twins(requests: Mapping[str, ProbeRequest]) -> dict[str, list[str]]:
    """Return the sources of each reading that several have, of which at least one belongs to a profile."""
    owned = {request.reading for name, request in requests.items() if owner_of(name) is not None}
    found: dict[str, list[str]] = {reading: [] for reading in owned}
    for name, request in requests.items() if owned else ():
        if request.reading in found:
            found[request.reading].append(name)
    return {reading: names for reading, names in found.items() if len(names) > 1}
