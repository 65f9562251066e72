"""The cases of docs/semantics.md: rules, what probes see chronon by chronon, and what comes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.context import NO_CONTEXT
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.known.state import JointInterval, Notification
from proxyd.core.rules.stages.observation import RuleResults
from tests.fleets import RecordingMemory

TEXT = Path(__file__).parents[3] / "docs" / "semantics.md"
T0, CHRONON_S = 1_000_000_000.0, 10.0
CLASSES = """CREATE DOMAIN "D" AS
CLASS::RSS(channel.item.title:String, channel.item.guid:String, channel.item.category:Integer,
channel.item.author:Decimal, channel.item.pubDate:Timestamp, channel.item.updated:Timestamp)
CLASS::ROW EACH CSS 'tr' KEY id (id:String FROM CSS 'td', n:Integer FROM CSS 'td.n')
CLASS::QUOTE EACH CSS 'tr' KEY symbol (symbol:String FROM CSS 'td', last:Decimal FROM CSS 'td.n')
CLASS::PAGE;
CREATE PROFILE "P" AS (DOMAIN "D");
"""
QUERIES = {"ROW": "SELECT id FROM ROW", "SOURCE": "SELECT name FROM SOURCE"}
FIRST_CONTACTS = {
    ("s", "RSS"): "old@-50",
    ("t", "RSS"): "told@-50",
    ("p", "QUOTE"): "ibm=1.5",
    ("q", "QUOTE"): "hp=2.5",
    ("r", "ROW"): "x=1",
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT.*Z")
_STEP = re.compile(r"(?P<at>\d+)(?: (?P<source>[a-z]))?: *(?P<seen>.*?) *(?:-> *(?P<expected>.*))?")
_FAILURES = {
    "304": OutcomeKind.NOT_MODIFIED,
    "404": OutcomeKind.HTTP_ERROR,
    "410": OutcomeKind.GONE,
    "429": OutcomeKind.THROTTLED,
    "500": OutcomeKind.HTTP_ERROR,
    "503": OutcomeKind.HTTP_ERROR,  # without Retry-After
    "timeout": OutcomeKind.TIMEOUT,
    "cut": OutcomeKind.UNREACHABLE,
}


@dataclass
class Step:
    """What a probe in a chronon sees, and what is to come of it."""

    at: int
    source: str
    seen: str
    expected: str


@dataclass
class Case:
    """One case: the rule, the classes of its sources, and the steps."""

    name: str
    trigger: str = "ON INSERT TO RSS"
    query: str = ""
    clauses: str = ""
    start: str = "NOW"
    end: str = "NEVER"
    sources: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    total: str = ""
    page: str = ""
    hosts: str = ""

    def host(self, name: str) -> str:
        return f"{name}.example.org" if self.hosts == "apart" else "example.org"

    def text(self) -> str:
        declared = "".join(
            f"CREATE SOURCE \"{name}\" OF {of} AT 'https://{self.host(name)}/{name}';\n"
            for name, of in self.sources.items()
        )
        query = self.query.replace('"', '""')
        return (
            f'{CLASSES}{declared}INSERT NOTIFICATION "r" INTO "P" SET QUERY "{query}" SET TRIGGER "{self.trigger}"\n'
            f"START {self.start} END {self.end} {self.clauses or 'SET UTILITY STRICT'};\n"
        )


def cases() -> Iterator[Case]:
    """Yield the cases of the page."""
    for block in re.findall(r"```cases\n(.*?)```", TEXT.read_text(encoding="utf-8"), re.DOTALL):
        for text in block.split("\n\n"):
            name, *lines = text.strip().splitlines()
            case = Case(name.strip())
            for line in lines:
                _read_line(case, line.strip())
            of = case.trigger.partition(" TO ")[2].split()[0]
            case.query = case.query or QUERIES.get(of, "SELECT title FROM RSS")
            case.sources = case.sources or {"s": "RSS" if of == "SOURCE" else of}
            written = {each.source for each in case.steps if each.at == 0}
            first = {name: FIRST_CONTACTS.get((name, of)) for name, of in case.sources.items() if name not in written}
            case.steps[:0] = [Step(0, name, seen, "") for name, seen in first.items() if seen]
            yield case


def _read_line(case: Case, line: str) -> None:
    key, _, value = line.partition(" ")
    if key == "ON":
        case.trigger = line
    elif key in {"WHERE", "WHEN", "THEN"}:
        case.trigger = f"{Case.trigger} {line}"
    elif key == "SELECT":
        case.query = line
    elif key in {"SET", "FROM"}:
        case.clauses = line
    elif key in {"start", "end", "total", "page", "hosts"}:
        setattr(case, key, value.strip())
    elif key == "sources":
        case.sources = dict(pair.split(":") for pair in value.split())
    else:
        step = _STEP.fullmatch(line)
        assert step is not None, f"{case.name}: {line!r} is no step"
        case.steps.append(Step(int(step["at"]), step["source"] or "s", step["seen"], step["expected"] or ""))


def time_s(chronon: str) -> float:
    return T0 + CHRONON_S * float(chronon)


def feed_item(text: str) -> Item:
    """Read ``name@5`` (published in chronon 5), ``name`` (without a time); ``name@5!7`` was updated in chronon 7.

    A name such as ``x=3`` has the category 3, ``x=3.5`` the author 3.5.
    """
    named, _, updated = text.partition("!")
    name, _, published = named.partition("@")
    title, _, number = name.partition("=")
    fields: dict[str, str | float | None] = {"channel.item.title": title, "channel.item.guid": title}
    fields["channel.item.author" if "." in number else "channel.item.category"] = number or None
    fields["channel.item.pubdate"] = published_s = time_s(published) if published else None
    fields["channel.item.updated"] = time_s(updated) if updated else None
    return Item(title, fields, published_s, f"hash {text}")


def page_item(text: str, of: str) -> Item:
    """Read ``a=1``: a row and its number; of a page its text, ``_`` for a space and ``|`` between blocks."""
    if of == "PAGE":
        return Item("page", {"text": text.replace("|", "\n\n").replace("_", " ")}, None, text)
    name, _, number = text.partition("=")
    key, value = ("symbol", "last") if of == "QUOTE" else ("id", "n")
    read = None if number == "-" else float(number) if "." in number else int(number)
    return Item(name, {key: name, value: read}, None, text)


class World:
    """A decider with the case's declaration, and what its sources show."""

    def __init__(self, case: Case) -> None:
        checked = check([SourceText("case", case.text())], CheckSettings(chronon_s=CHRONON_S))
        assert checked.declaration is not None, "\n".join(str(error) for error in checked.errors)
        planner = PlannerSettings(grid=ChrononGrid(CHRONON_S), budget=Budget(1.0))
        self.decider = Decider(DeciderSettings(planner), np.random.default_rng(1))
        self.decider.declare(checked.declaration, {"r": T0}, T0)
        self.memory = RecordingMemory()
        self.sources = case.sources
        self.oldest_first = case.page == "oldest first"
        self.joint: dict[str, JointInterval] = {}
        self.shown: dict[str, list[Item]] = {name: [] for name in case.sources}

    async def step(self, step: Step) -> list[Notification]:
        at_s = T0 + CHRONON_S * step.at + 1.0
        if step.seen == "wait":
            return await self.wait(at_s)
        if step.seen == "restart":
            return self.restart(at_s)
        outcome = self.outcome(step, at_s)
        needed = self.decider.outcomes.query_for(outcome)
        known = await self.memory.known(step.source, needed) if needed is not None else NO_CONTEXT
        observation = self.decider.observe(outcome, known)
        assert observation is not None
        await self.memory.record(observation)
        self.decider.outcomes.finish(outcome, observation)
        self.keep(observation.rules)
        return list(observation.rules.notifications)

    def keep(self, results: RuleResults) -> None:
        """Remember the joint intervals as a store does."""
        self.joint |= {each.interval_id: each for each in results.joint}
        for ended in results.ended:
            self.joint.pop(ended, None)

    def restart(self, at_s: float) -> list[Notification]:
        """Go on with what a store remembers."""
        known = self.decider.known
        self.decider = Decider(self.decider.settings, np.random.default_rng(2))
        self.decider.restore(dict(known.states), known.streams.copy(), joint=list(self.joint.values()))
        self.decider.declare(known.compiled.declaration, {"r": T0}, at_s)
        return []

    def outcome(self, step: Step, at_s: float) -> ProbeOutcome:
        seen, of = step.seen, self.sources[step.source]
        seen, _, took = seen.partition(" in ")
        seen, _, moved = seen.partition(" moved ")
        moved_to = f"https://example.org/{moved}" if moved else None
        began_s = at_s - float(took.removesuffix(" s") or 0)
        kind = _FAILURES.get(seen)
        if kind is not None:
            status = int(seen) if seen.isdigit() else None
            detail = seen if status is None else f"HTTP {status}"
            facts = {"detail": detail, "permanent_url": moved_to, "is_answered": seen == "cut"}
            return ProbeOutcome(step.source, kind, began_s, at_s, status, **facts)  # type: ignore[arg-type]
        texts = seen.split() if seen != "nothing" else []
        if of == "RSS":
            new = [feed_item(text) for text in texts]
            names = {item.item_id for item in new}
            kept = [item for item in self.shown[step.source] if item.item_id not in names]
            self.shown[step.source] = kept + new if self.oldest_first else new[::-1] + kept
        else:
            self.shown[step.source] = [page_item(text, of) for text in texts]
        items = tuple(self.shown[step.source])
        changed = OutcomeKind.CHANGED
        return ProbeOutcome(
            step.source, changed, began_s, at_s, 200, items, body_hash=f"{at_s}", permanent_url=moved_to
        )

    async def wait(self, at_s: float) -> list[Notification]:
        sent: list[Notification] = []
        for interval, needed in self.decider.captures.overdue(at_s):
            known = await self.memory.known(interval.event.source_id, needed)
            results = await self.decider.outcomes.end_overdue(interval, known, at_s)
            assert results is not None
            self.keep(results)
            sent += results.notifications
        return sent

    def total(self) -> str:
        streams = self.decider.known.streams.values()
        captured, missed = sum(s.captured for s in streams), sum(s.missed for s in streams)
        return f"captured {captured}, missed {missed}, utility {round(sum(s.utility for s in streams), 3):g}"


def shown(sent: Notification) -> str:
    """Return a notification as the page writes it: interval, marks and rows."""
    data = json.loads(sent.body)["data"]
    start = _chronon(data["interval"]["start"])
    end = "" if data["interval"]["end"] is None else _chronon(data["interval"]["end"]) - 1
    marks = [name for name in ("late", "partial") if data.get(name)]
    marks += ["supplement"] if "supplement_to" in data else []
    rows = ", ".join("/".join(_value(value) for value in row.values()) for row in data["items"])
    return f"{start}..{end}{''.join(' ' + mark for mark in marks)}: {rows}".strip()


def _chronon(text: str) -> int:
    return round((datetime.fromisoformat(text).timestamp() - T0) / CHRONON_S)


def _value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, str) and _TIME.fullmatch(value):
        return f"@{_chronon(value)}"
    return str(value).replace("\n", "|").replace(" ", "_") if isinstance(value, str) else f"{value:g}"


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
async def test_what_the_page_says_is_what_happens(case: Case) -> None:
    world, said = World(case), []
    for step in case.steps:
        sent = await world.step(step)
        said.append(replace(step, expected="; ".join(map(shown, sent)) or "nothing"))
    assert [(step.at, step.expected) for step in said] == [(step.at, step.expected or "nothing") for step in case.steps]
    if case.total:
        assert world.total() == case.total


def test_the_page_has_at_least_200_cases_of_different_names() -> None:
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names) >= 200
