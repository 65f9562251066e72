"""A declaration plans the same sources alike, however it was come by: at once, or by many edits, each in parts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from proxyd.core.model.profile import Source
from proxyd.core.model.suspension import Subject, Suspension
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.compiled import Compiled
from proxyd.core.rules.known.knowledge import Knowledge
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

T0 = 1_000_000_000.0
NAMES = [f"s{number}" for number in range(5)]
_sources = st.dictionaries(
    st.sampled_from(NAMES),
    st.builds(
        lambda host, options: {"host": host, "options": options},
        st.sampled_from(["a.example", "b.example", "c.example"]),
        st.sampled_from(["", "EXPECT 3 PER HOUR", "POLITENESS 1 PROBES PER HOUR", "LOCALE 'de'"]),
    ),
)
_rules = st.dictionaries(
    st.sampled_from(["r0", "r1", "r2", "r3"]),
    st.builds(
        lambda when, start, end, clauses, named: (
            {"when": when, "start": start, "end": end, "clauses": clauses},
            named,
        ),
        st.sampled_from(["", "COUNT(*) % 3 = 0", "title LIKE '%x%'"]),
        st.sampled_from(["NOW", '"20 minutes" + NOW', "'2001-09-09T02:00:00Z'"]),
        st.sampled_from(["NEVER", '"40 minutes" + NOW']),
        st.sampled_from(["", "SET LIFE WINDOW(10 MINUTES)", "SET POLICY UNIFORM(5 MINUTES)", "SET POLICY SUP"]),
        st.sets(st.sampled_from(NAMES)),
    ),
    max_size=3,
)
_edits = st.lists(
    st.tuples(
        _sources,
        _rules,
        st.integers(0, 3),  # parts in which sources are placed before the next edit
        st.sampled_from([None, *NAMES]),  # the source that is probed then
        st.sets(st.sampled_from(NAMES), max_size=2),  # the paused sources
    ),
    min_size=1,
    max_size=5,
)


def declared(sources: Mapping[str, Mapping[str, str]], rules: Mapping[str, Any]) -> Any:
    texts = [source(name, **how) for name, how in sources.items()]
    for name, (how, named) in rules.items():
        known = sorted(named & sources.keys())
        only = "FROM SOURCES " + ", ".join(known) if known else ""
        texts.append(rule(name, **{**how, "clauses": f"{how['clauses']} {only}"}))
    return declaration(*texts)


def derived(compiled: Compiled) -> dict[str, Any]:
    """Return what a declaration is compiled to, in a form that can be compared."""
    return {
        "sources": compiled.sources,
        "requests": compiled.requests,
        "rules_of": {name: list(rules) for name, rules in compiled.rules_of.items()},
        "hosts": dict(compiled.asked_hosts),
        "edges": list(compiled.edges),
        "programs": {
            name: (each.rule, each.accepted_s, each.event_sources, each.mark)
            for name, each in compiled.programs.items()
        },
    }


def planned(each: PlannedSource, known: Knowledge) -> dict[str, Any]:
    each.matching = known.matching(each.source_id)  # learned with all sources, and taken over with its own outcomes
    return {
        "host": each.host,
        "budget": each.log.budget,
        "weight": each.weight,
        "seen": each.last_seen_s,
        "demands": [(type(demand).__name__, demand.rule) for demand in each.demands.rules],
        "losses": each.demands.losses,
    }


class Rates:
    """The update rates at which each source may be planned: those at the times at which it may have been placed.

    A rate falls as its evidence ages, and that of a source not seen yet follows what the others show; the planner
    takes it when a source is placed and with each of its own outcomes.
    """

    def __init__(self, found: Decider) -> None:
        self.found = found
        self.per_s = dict[str, set[float]]()
        self._sources = dict[str, Source]()

    def may_place(self, *times_s: float, seen: str | None = None) -> None:
        """Note that sources may be placed at these times; ``seen`` is the one that was, by its own outcome."""
        known = self.found.known
        for name, each in known.compiled.sources.items():
            rates = {known.rate_per_s(each, time_s) for time_s in times_s}
            is_same = self._sources.get(name) == each and name != seen
            self.per_s[name] = self.per_s[name] | rates if is_same else rates
        self._sources = dict(known.compiled.sources)


_PLAIN = {"host": "a.example", "options": ""}
_ALWAYS = {"when": "", "start": "NOW", "end": "NEVER", "clauses": ""}


@example([({"s0": _PLAIN}, {}, 0, "s0", set()), ({"s0": _PLAIN}, {"r0": (_ALWAYS, set())}, 0, "s0", set())])
@example(
    [
        ({"s0": _PLAIN, "s4": _PLAIN}, {"r0": (_ALWAYS, {"s0", "s4"})}, 0, "s4", {"s0"}),
        ({"s0": _PLAIN, "s4": _PLAIN}, {"r0": (_ALWAYS, {"s0", "s4"})}, 0, "s4", set()),
    ]
)
@given(edits=_edits)
async def test_edits_lead_where_the_last_declaration_leads_at_once(edits: list[Any]) -> None:
    found, accepted = decider(declaration(), now_s=T0), dict[str, float]()
    drive, rates = Drive(found), Rates(found)
    for number, (sources, rules, parts, probed, paused) in enumerate(edits):
        now_s = T0 + 600.0 * number
        wanted = declared(sources, rules)
        accepted = {name: accepted.get(name, now_s) for name in wanted.rules}
        found.pause({name: Suspension(Subject.SOURCE, name, now_s, "ada", None) for name in paused}, now_s)
        found.declare(wanted, accepted, now_s, in_parts=True)
        rates.may_place(now_s, now_s + 60.0)
        some = found.placement.place_in_parts(repeat(now_s).__next__, size=1)
        for _ in range(parts):
            next(some, None)
        if probed in found.known.compiled.sources:
            await drive.see(changed(probed, [item(f"{number}", now_s)], now_s + 60.0))
            rates.may_place(now_s + 60.0, seen=probed)
    end_s = T0 + 600.0 * len(edits)
    now = found.settings.grid.chronon_at(end_s)
    rates.may_place(found.settings.grid.start_s(now))
    found.choose(now)
    fresh = restarted(found, end_s)
    assert derived(found.known.compiled) == derived(fresh.known.compiled)
    assert found.known.streams.copy() == fresh.known.streams.copy()
    fresh.choose(now)
    plans = [
        {name: planned(each, made.known) for name, each in sorted(made.planner.sources.items())}
        for made in (found, fresh)
    ]
    assert plans[0] == plans[1]
    assert all(each.rate_per_s in rates.per_s[name] for name, each in found.planner.sources.items())
    known = fresh.known
    now_per_s = {name: known.rate_per_s(known.compiled.sources[name], end_s) for name in fresh.planner.sources}
    assert {name: each.rate_per_s for name, each in fresh.planner.sources.items()} == now_per_s


def restarted(found: Decider, now_s: float) -> Decider:
    """Return a decider that knows the same and takes the declaration in whole."""
    known = found.known
    accepted = {name: each.accepted_s for name, each in known.compiled.programs.items()}
    fresh = decider(declaration(), now_s=now_s)
    fresh.restore(dict(known.states), known.streams.copy(), weeks=dict(known.estimates.weeks))
    fresh.pause(known.paused, now_s)
    fresh.declare(known.compiled.declaration, accepted, now_s)
    return fresh


async def test_a_source_is_seen_before_it_is_placed_without_a_rule_that_asked_for_it() -> None:
    found = decider(declaration(source("s"), rule("r"), rule("gone", clauses="SET POLICY SUP")), now_s=T0)
    drive = Drive(found)
    wanted = declaration(source("s"), rule("r"))
    found.declare(wanted, {"r": T0}, T0 + 60.0, in_parts=True)
    assert found.placement.is_waiting
    await drive.see(changed("s", [item("1", T0 + 60.0)], T0 + 120.0))
    found.placement.place_if_waiting("s", T0 + 120.0)
    assert [each.rule for each in found.planner.sources["s"].demands.rules] == ["r"]
