"""What functions cost: no entry of the table takes longer than the steps that it counts, whatever a source sends."""

from __future__ import annotations

import sys

import pytest

from proxyd.core.model.chronon import all_zones
from proxyd.core.model.item import EventKind, Item, UpdateEvent, Value
from proxyd.core.rules.programs.function_values import FUNCTIONS
from proxyd.core.rules.programs.meter import Limits, Meter
from tests.fleets import decider, declaration, rule, source

ODD_ZONES = [
    "Nowhere/City",
    "europe/berlin",
    "../../../etc/passwd",
    "/etc/localtime",
    "a/" * 450,
    "\0",
    "",
    "UTC\n",
    "é" * 9,
]


@pytest.mark.parametrize("zone", ODD_ZONES)
def test_a_zone_that_a_source_makes_up_is_null(zone: str) -> None:
    assert FUNCTIONS["YEAR"](1e9, zone) is None


def test_zones_are_found_by_their_names() -> None:
    assert FUNCTIONS["HOUR"](1_772_366_400.0, "Asia/Tokyo") == 21
    assert FUNCTIONS["HOUR"](1_772_366_400.0) == FUNCTIONS["HOUR"](1_772_366_400.0, None) == 12


def test_a_zone_of_a_source_reads_no_file_and_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = rule("r", where="YEAR(pubDate, title) > 2000")
    trigger = decider(declaration(source("s"), text), now_s=0.0).known.compiled.programs["r"].trigger
    monkeypatch.setattr("builtins.open", None)
    modules = set(sys.modules)
    assert [trigger.passes(event(zone)) for zone in (*ODD_ZONES, "Europe/Berlin")] == [False] * 9 + [True]
    assert set(sys.modules) == modules
    assert len(all_zones()) > 400


def event(title: str) -> UpdateEvent:
    fields: dict[str, Value] = {"channel.item.title": title, "channel.item.pubdate": 1e9}
    return UpdateEvent("s", 1, EventKind.INSERT, Item("i", fields, None, "h"), 0.0, 0.0, exact=False)


@pytest.mark.parametrize(
    ("expression", "least"),
    [("LOWER(title)", 2048), ("UPPER(title)", 3072), ("REPLACE(title, 'a', 'b')", 5120), ("HOUR(pubDate)", 16)],
)
def test_a_function_counts_what_it_costs(expression: str, least: int) -> None:
    text = rule("r", where=f"{expression} IS NOT NULL")
    trigger = decider(declaration(source("s"), text), now_s=0.0).known.compiled.programs["r"].trigger
    meter = Meter(Limits(1e9, 1e9))
    assert trigger.passes(event("a" * 65_536), meter)
    assert least <= meter.steps < least + 1_100  # a text is also counted where it is read


@pytest.mark.parametrize("arguments", [("ab", 1e308, 1e308), ("ab", -1e308), ("ab", 2, 1e308)])
def test_odd_places_of_a_substring_are_bounded(arguments: tuple[Value, ...]) -> None:
    assert FUNCTIONS["SUBSTR"](*arguments) in {"", "ab", "b"}


def test_odd_digits_are_null() -> None:
    assert FUNCTIONS["ROUND"](1.5, 1e308) is None
    assert FUNCTIONS["YEAR"](1e308) is FUNCTIONS["YEAR"](-1e308, "Asia/Tokyo") is None
