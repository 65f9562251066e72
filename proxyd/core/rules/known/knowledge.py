"""The declaration, and what is known of its sources and rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from functools import lru_cache

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.outcome import host_of
from proxyd.core.model.profile import Source
from proxyd.core.model.suspension import Suspension
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import PolitenessBudget
from proxyd.core.rates.rate_blend import DEFAULT_MEAN_PER_S
from proxyd.core.rates.week_bins import Cycle
from proxyd.core.rules.known.compiled import NOTHING_COMPILED, Compiled, reading_of
from proxyd.core.rules.known.context import DomainAnswer, Shape, SourceContext
from proxyd.core.rules.known.estimates import Estimates
from proxyd.core.rules.known.failing_rules import FailingRules
from proxyd.core.rules.known.rule_counts import StreamTable
from proxyd.core.rules.known.state import AcceptedMove, SourceState
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.programs.stream_state import StreamState


class Ownership:
    """All sources are planned here. Where several planners divide them, a subclass says which are ours."""

    @property
    def is_whole(self) -> bool:
        """Whether no other planner has any source."""
        return True

    @property
    def has_declaration(self) -> bool:
        """Whether this planner answers for the declaration, and so for what is declared nowhere."""
        return True

    def has(self, url: str) -> bool:
        """Whether this planner has the source that is declared with an address."""
        return True

    def has_host(self, host: str) -> bool:
        """Whether this planner spaces the requests to a host."""
        return True


EVERYTHING = Ownership()


@dataclass(frozen=True, slots=True)
class DeciderSettings:
    """The settings that decisions depend on."""

    planner: PlannerSettings
    # how far the rolling plan looks ahead, and the interval between two layings of planned intervals, in seconds
    epoch_s: float = 604800.0
    source_spacing_s: float = 300.0  # least time between two probes of a source that sets no POLITENESS, in seconds
    # longest time for which proxyd believes an origin that says that nothing changes, in seconds
    freshness_cap_s: float = 21600.0
    subscribes: bool = False  # whether hubs can reach the daemon; if not, no source is subscribed to
    # maps a host to the scope that a throttle of it silences; by default only the host
    throttle_scope: Callable[[str], str] = str
    cycle: Cycle = field(default_factory=Cycle)
    zone: tzinfo | None = UTC  # of the times in sentences for people; ``None`` is that of this machine

    @property
    def grid(self) -> ChrononGrid:
        """The chronons."""
        return self.planner.grid


class Knowledge:
    """The declaration, the estimates and the streams, shared by all parts that decide."""

    def __init__(self, settings: DeciderSettings) -> None:
        self.settings, self.grid = settings, settings.grid
        self.compiled: Compiled = NOTHING_COMPILED
        self.paused: Mapping[str, Suspension] = {}  # by source
        self.owned: Ownership = EVERYTHING
        self.estimates = Estimates(DEFAULT_MEAN_PER_S, settings.cycle)
        self.streams = StreamTable()
        self.failing = FailingRules()
        self.domains: dict[str, DomainAnswer] = {}  # of the hosts of sites, by host

    @property
    def states(self) -> Mapping[str, SourceState]:
        """What is known of each source."""
        return self.estimates.states

    def source(self, source_id: str, reading: str | None = None) -> Source | None:
        """Return a declared source, or ``None`` if it is gone or its reading is no longer ``reading``."""
        source = self.compiled.sources.get(source_id)
        is_other = reading is not None and source is not None and reading != self.compiled.reading(source_id)
        return None if is_other else source

    def has(self, source_id: str, owned: Ownership | None = None) -> bool:
        """Whether this planner has a declared source, now or by another ownership; others plan what it has not."""
        owned = owned or self.owned
        if owned.is_whole:
            return True
        source = self.compiled.declaration.sources.get(source_id)
        return source is not None and owned.has(source.url)

    def has_rule(self, rule: str, owned: Ownership | None = None) -> bool:
        """Whether this planner has all sources of a declared joint rule; otherwise it has none of them."""
        return all(self.has(source_id, owned) for source_id in self.compiled.programs[rule].rule.source_ids[:1])

    def is_planned(self, source_id: str) -> bool:
        """Whether this planner plans probes of a source: a rule asks for it, it is not paused, and it is our own."""
        return source_id in self.compiled.rules_of and source_id not in self.paused and self.has(source_id)

    def address_of_pushes(self, source_id: str) -> str | None:
        """Return the address at which a hub may push a source; ``None`` if none may, or no rule asks for it."""
        source = self.compiled.sources.get(source_id) if source_id in self.compiled.rules_of else None
        return source.url if source is not None and source.may_be_pushed else None

    def state(self, source: Source) -> SourceState:
        """Return what is known of a source."""
        return self.estimates.state(source, self.compiled.requests[source.source_id].reading)

    def state_after_move(self, source: Source, now_s: float) -> SourceState | None:
        """Return the state of a source once its move is accepted, or ``None`` if it has not moved.

        It is that of the reading which the source will have when its declaration names the new address. So it goes on
        then. A move back to the declared address leaves nothing to be accepted.
        """
        before, declared = self.state(source), self.compiled.reading_at_declaration(source.source_id)
        url = before.health.moved_url
        if url is None or declared is None:
            return None
        reading = reading_of(replace(source, url=url), self.compiled.declaration.page_class(source))
        accepted = None if reading == declared else AcceptedMove(url, declared, now_s)
        health = replace(before.health, moved_url=None, moved=None, accepted=accepted)
        return replace(before, url=url, reading=reading, moved_url=None, moved_times=0, health=health)

    def forget_moves(self, compiled: Compiled) -> None:
        """Forget the accepted moves of sources that a declaration declares in another way than before."""
        for source_id, move in list(self.estimates.accepted.items()):
            if compiled.reading_at_declaration(source_id) not in {None, move.instead_of}:
                state = self.estimates.states[source_id]
                self.estimates.keep(replace(state, health=replace(state.health, accepted=None)))

    def next_seq(self, source_id: str, program: RuleProgram) -> int:
        """Return the number of a source's next event for a rule."""
        state = self.states.get(source_id)
        if state is None:
            return 1
        return state.health.next_seq if program.is_of_source else state.next_seq

    def rate_per_s(self, source: Source, now_s: float) -> float:
        """Return the estimated update rate of a source, in items per second."""
        return self.estimates.rate_per_s(self.state(source), source, now_s)

    def politeness(self, source: Source) -> PolitenessBudget:
        """Return how often a source may be probed."""
        asked, spacing_s, chronon_s = source.politeness, self.settings.source_spacing_s, self.grid.length_s
        if asked is None:
            return _share_spacing(spacing_s)
        spacing_s = asked.spacing.in_seconds(chronon_s=chronon_s) if asked.spacing else spacing_s
        per_s = asked.per.in_seconds(chronon_s=chronon_s) if asked.per else 0.0
        return PolitenessBudget(spacing_s, asked.probes, per_s)

    def matching(self, source_id: str) -> float:
        """Return the share of a source's events that match its rules: that of the rule for which it weighs most."""
        asking = self.compiled.programs_of(source_id)
        if not any(map(_selects, asking)):
            return 1.0
        programs = [each for each in asking if source_id in each.event_sources and not each.is_of_source]
        heaviest = max((program.weight for program in programs), default=0.0)
        if not heaviest > 0:
            return 1.0
        shares = (program.weight * self.matching_share(program.rule.name, source_id) for program in programs)
        return max(shares) / heaviest

    def matching_share(self, rule: str, source_id: str) -> float:
        """Return the expected share of a source's events that a rule counts."""
        return self.streams.matching(rule, source_id) if _selects(self.compiled.programs[rule]) else 1.0

    def keep_streams(self, streams: Iterable[StreamState]) -> None:
        """Keep streams as the newest."""
        for stream in streams:
            self.streams[stream.rule, stream.source_id] = stream

    def is_unchanged(self, program: RuleProgram, stream: StreamState, across: StreamState | None) -> bool:
        """Whether a rule and its streams, on one source and across all, are still these."""
        is_same = self.streams.get((stream.rule, stream.source_id)) is stream
        is_same = is_same and self.streams.get((stream.rule, "")) is across
        return is_same and self.compiled.programs.get(stream.rule) is program

    def running(self, source_id: str) -> list[RuleProgram]:
        """Return the rules that a source's events are evaluated for: those that did not fail too often."""
        asking = self.compiled.programs_of(source_id)
        return [program for program in asking if not self.failing.is_suspended(program.rule.name)]

    def context(self, source: Source) -> SourceContext:
        """Return what the observation of a source depends on; rules that failed too often are left out."""
        running = self.running(source.source_id)
        names = [program.rule.name for program in running]
        page_class = self.compiled.declaration.page_class(source)
        return SourceContext(
            source=source,
            page_class=page_class,
            shape=Shape.of(page_class),
            state=self.state(source),
            rules=[(program, self.streams[program.rule.name, source.source_id]) for program in running],
            across={name: self.streams[name, ""] for name in names if (name, "") in self.streams},
            grid=self.grid,
            spacing_s=self.politeness(source).spacing_s,
            blend=self.estimates.blend,
            freshness_cap_s=0.0 if source.freshness is False else self.settings.freshness_cap_s,
            declared_s=self.compiled.declaration_s(source.source_id),
            domain=None if source.site is None else self.domains.get(host_of(source.url)),
            zone=self.settings.zone,
        )


@lru_cache
def _share_spacing(spacing_s: float) -> PolitenessBudget:
    return PolitenessBudget(spacing_s)  # which many sources share


def _selects(program: RuleProgram) -> bool:
    """Return whether a rule counts some of a source's events only."""
    return program.rule.trigger.where is not None and not program.trigger.counts_across
