"""Rows of sources: how a source fares, and what happened to it, are read back as they were written."""

from __future__ import annotations

from proxyd.core.model.item import EventKind, Item, Value
from proxyd.core.rules.known.state import SourceHealth, SourceState, StoredEvent
from proxyd.core.rules.programs.stream_state import Spell
from proxyd.store import rows
from proxyd.store.databases import tables as t
from tests.stored import row_of


def test_the_health_of_a_source_is_kept() -> None:
    health = SourceHealth(
        failing=Spell(2, 10.0, 20.0),
        is_sure=True,
        moved_url="https://example.net/",
        moved=Spell(3, 1.0, 5.0),
        silent={"price": Spell(1, 5.0, 5.0)},
        status=500,
        latency_s=0.5,
        next_seq=7,
    )
    state = SourceState("s", "https://example.org/", health=health)
    assert rows.source_state(row_of(t.sources, rows.source_row(state))) == state


def test_the_health_of_a_source_that_was_never_probed_takes_no_room() -> None:
    row = rows.source_row(SourceState("s", "https://example.org/"))
    assert row["health"] == "{}"


def test_an_event_of_a_source_is_kept() -> None:
    fields: dict[str, Value] = {"source.name": "s", "source.since": 10.0, "source.status": None}
    event = StoredEvent(
        3,
        Item("FAILURE AFTER 2 PROBES", fields, 20.0, "3"),
        20.0,
        20.0,
        exact=False,
        seed=False,
        kind=EventKind.FAILURE,
    )
    assert rows.source_event(row_of(t.source_events, rows.source_event_row("s", event))) == event
