"""A declaration ready to run: the request of each source and the rules that ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from proxyd.core.model.outcome import ProbeRequest, host_of
from proxyd.core.model.profile import EMPTY_DECLARATION, Declaration, Source
from proxyd.core.rules.programs.rule_program import RuleProgram, compile_rule
from proxyd.core.rules.source_health import AcceptedMove
from proxyd.core.rules.source_requests import probe_request


@dataclass(frozen=True, slots=True)
class Compiled:
    """A declaration and what is derived from it, by source and by rule.

    ``since_s`` says since when each source is declared, in unix seconds; ``rules_of`` leaves out sources without rules.
    ``hosts`` is the number of hosts that are asked. ``moved`` holds the sources that are asked at another address than
    the declared one, because their move was accepted.
    """

    declaration: Declaration
    since_s: Mapping[str, float]
    requests: Mapping[str, ProbeRequest]
    programs: Mapping[str, RuleProgram]
    rules_of: Mapping[str, Sequence[str]]
    hosts: int = 0
    sources: Mapping[str, Source] = field(default_factory=dict)
    moved: Mapping[str, AcceptedMove] = field(default_factory=dict)

    @classmethod
    def of(
        cls, declaration: Declaration, accepted: Mapping[str, float], since_s: Mapping[str, float], *, chronon_s: float
    ) -> Compiled:
        """Return a checked declaration ready to run; ``accepted`` holds each rule's NOW."""
        rules_of: dict[str, list[str]] = {}
        programs = {
            name: compile_rule(rule, declaration, accepted_s=accepted[name], chronon_s=chronon_s)
            for name, rule in declaration.rules.items()
        }
        for name, rule in declaration.rules.items():
            for source_id in rule.source_ids:
                rules_of.setdefault(source_id, []).append(name)
        shown = {name for rule in declaration.rules.values() if rule.keeps_screenshot for name in rule.source_ids}
        sources = declaration.sources
        requests = {
            name: probe_request(source, declaration, wants_picture=name in shown) for name, source in sources.items()
        }
        return cls(declaration, since_s, requests, programs, rules_of, _hosts(sources, rules_of), sources)

    def following(self, accepted: Mapping[str, AcceptedMove]) -> Compiled:
        """Return the same declaration with these moves, as far as they are of what is declared."""
        if not accepted and not self.moved:
            return self
        moved = {name: move for name, move in accepted.items() if self.declared_reading(name) == move.instead_of}
        declared = self.declaration.sources
        sources = {**declared, **{name: replace(declared[name], url=move.url) for name, move in moved.items()}}
        again = {
            name: probe_request(sources[name], self.declaration, wants_picture=self.requests[name].wants_picture)
            for name in self.moved.keys() | moved.keys()
        }
        return replace(
            self,
            requests={**self.requests, **again},
            hosts=_hosts(sources, self.rules_of),
            sources=sources,
            moved=moved,
        )

    def declared_s(self, source_id: str) -> float:
        """Return since when a source is declared, or 0 if that is unknown."""
        return self.since_s.get(source_id, 0.0)

    def reading(self, source_id: str) -> str:
        """Return the reading of a declared source; what was learned under another reading does not hold."""
        return self.requests[source_id].reading

    def declared_reading(self, source_id: str) -> str | None:
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

    def next_period_s(self, now_s: float) -> float:
        """Return when the next period of a rule begins or ends, in unix seconds."""
        edges = (edge for program in self.programs.values() for edge in (program.start_s, program.end_s))
        return min((edge for edge in edges if edge > now_s), default=inf)

    def programs_of(self, source_id: str) -> list[RuleProgram]:
        """Return the rules that ask for a source."""
        return [self.programs[name] for name in self.rules_of.get(source_id, ())]


def _hosts(sources: Mapping[str, Source], asked: Iterable[str]) -> int:
    return len({host_of(sources[name].url) for name in asked})


NOTHING_COMPILED = Compiled(EMPTY_DECLARATION, {}, {}, {}, {})
