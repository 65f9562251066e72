"""Rules and items that ask for far more work than a rule should do."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeAlias

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import EventKind, Item, UpdateEvent, Value
from proxyd.core.rules.known.state import StoredEvent
from proxyd.core.rules.programs.rule_program import RuleProgram, compile_rule
from proxyd.core.rules.stages.answers import MOST_WAITING, MatchTask
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.core.rules.stages.payload import ProbeFacts
from proxyd.core.rules.stages.rule_tasks import RuleTask
from tests.fleets import declaration, rule, source

T0 = 1_000_000_000.0
GRID = ChrononGrid(10.0)
Work: TypeAlias = Generator[RuleTask | MatchTask, Any, None]
"""Yields tasks as the daemon would run them one after the other; takes the result of each."""


@dataclass(frozen=True, slots=True)
class HostileRule:
    """A rule, and the items of one probe on which it takes too long; ``olds`` are their earlier versions."""

    text: str
    items: Sequence[Item]
    olds: Sequence[Item] = ()

    def task(self, name: str = "bad") -> RuleTask:
        """Return what the rule has to do."""
        program = compiled(self.text, name)
        kind = EventKind.UPDATE if self.olds else EventKind.INSERT
        olds: Sequence[Item | None] = self.olds or [None for _ in self.items]
        found = tuple(
            StoredEvent(number, item, T0 + 5, T0 + 10, exact=False, seed=False, kind=kind, old=old)
            for number, (item, old) in enumerate(zip(self.items, olds, strict=True), 1)
        )
        url, is_answer = "https://example.org/s", program.answer is not None
        return RuleTask(program, program.new_stream("s"), found, ProbeFacts(url, GRID), is_answer=is_answer)


def work_of(task: RuleTask) -> Work:
    """Return the work of a probe, and of a second one that finds as much, where a rule remembers the first."""
    step: RuleResults = yield task
    answers = task.program.answer is not None
    if answers:
        yield _match_task(task, step, {})
    if answers or task.program.trigger.longest_s or any(each.seen for each in step.streams[0].totals):
        later = _later(task, step)
        waiting = {str(event.seq): event for event in _firsts(step)[-MOST_WAITING:]}
        step = yield later
        if answers:
            yield _match_task(later, step, waiting)


def _match_task(task: RuleTask, step: RuleResults, waiting: Mapping[str, UpdateEvent]) -> MatchTask:
    given = [each.event for each in step.answers]
    return MatchTask(task.program, task.stream.source_id, waiting, [], _firsts(step), given)


def _firsts(step: RuleResults) -> list[UpdateEvent]:
    return [each.events[-1] for each in step.firings]


def _later(task: RuleTask, step: RuleResults) -> RuleTask:
    """Return the task of the next probe, a minute later."""
    count = len(task.found)
    found = [
        replace(each, seq=each.seq + count, event_s=each.event_s + 60, seen_s=each.seen_s + 60) for each in task.found
    ]
    return replace(task, stream=step.streams[0], found=found)


def compiled(text: str, name: str = "bad") -> RuleProgram:
    """Return the program of a rule on one feed."""
    declared = declaration(source("s"), text)
    return compile_rule(declared.rules[name], declared, accepted_s=T0, chronon_s=GRID.length_s)


def shown(number: int, title: str, link: str = "https://example.org/") -> Item:
    """Return an item of a feed."""
    fields: dict[str, Value] = {"channel.item.title": title, "channel.item.link": link}
    fields["channel.item.pubdate"] = T0 + number
    return Item(f"item {number}", fields, T0 + 5, f"{number} {len(title)}")


def items(count: int, title: str = "a title", link: str = "https://example.org/") -> list[Item]:
    """Return items of equal texts."""
    return [shown(number, title, link) for number in range(count)]


def _blocks(rng: Random, count: int) -> str:
    return "\n\n".join(str(rng.randrange(3)) for _ in range(count))


def _differences() -> HostileRule:
    rng = Random(1)
    text = rule("bad", query="SELECT DIFF(OLD.title, NEW.title) AS d FROM RSS").replace("ON INSERT", "ON UPDATE")
    news = [shown(n, _blocks(rng, 196)) for n in range(100)]
    return HostileRule(text, news, [shown(n, _blocks(rng, 1800)) for n in range(100)])


def _joined() -> HostileRule:
    terms = " OR ".join(f"a.title = b.link || '{n}'" for n in range(190))
    query = f"SELECT a.title FROM RSS a, RSS b WHERE {terms}"
    return HostileRule(rule("bad", query=query, when="COUNT(*) % 317 = 0"), items(317))


def _ordered() -> HostileRule:
    order = ", ".join(["title"] * 600)
    text = rule("bad", query=f"SELECT title FROM RSS ORDER BY {order}", when="COUNT(*) % 1000 = 0")
    return HostileRule(text, [shown(n, "a" * 20_000 + str(n)) for n in range(1000)])


HOSTILE_RULES: Mapping[str, Callable[[], HostileRule]] = {
    "differences of long texts": _differences,
    "a pattern that is a field": lambda: HostileRule(
        rule("bad", where="title LIKE link"), items(200, "ab" * 30_000, "%a_b" * 240)
    ),
    "a pattern of a thousand wildcards": lambda: HostileRule(
        rule("bad", where="title ILIKE '" + "%\u00e9_" * 1600 + "'"), items(50, "\u00e9" * 30_000)
    ),
    "a join of all with all": _joined,
    "an order by long equal texts": _ordered,
    "distinct values": lambda: HostileRule(
        rule("bad", when="COUNT(DISTINCT title) > 100000"), [shown(n, f"{n}") for n in range(20_000)]
    ),
    "a window of many values": lambda: HostileRule(
        rule("bad", when="SUM(LENGTH(title)) OVER 1 HOUR > 1000000000"), items(3_000)
    ),
    "texts that grow": lambda: HostileRule(
        rule("bad", where=" AND ".join(["LENGTH(UPPER(title)) > 1"] * 60)), items(100, "\u00df" * 60_000)
    ),
    "a long list of options": lambda: HostileRule(
        rule("bad", where=f"title IN ({', '.join(repr('a' * 50) for _ in range(900))})"), items(10_000, "b" * 50)
    ),
}
"""Makers of hostile rules, by what is hostile; every one of them takes more work than a rule may do."""
