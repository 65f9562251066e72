"""Which feeds may be asked before the declaration is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from proxyd.core.model.outcome import Validators
from proxyd.core.planning.allocation.fleet_state import FleetState
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.source_record import SourceRecord
from proxyd.core.rates.week_shapes import WeekShapes
from proxyd.core.rules.early_feeds import EarlyFeeds, early_request, is_plain
from proxyd.core.rules.source_requests import probe_request
from proxyd.core.rules.state import AcceptedMove, SourceHealth, SourceState
from tests.fleets import decider, declaration, rule, source

NOW_S = 1_000_000_000.0
RECORD = SourceRecord(NOW_S - 9000.0, 1e-4, host_spacing_s=1.0)
PRICES = """CREATE DOMAIN "S" AS CLASS::PRICES(channel.item.title:Decimal);
CREATE SOURCE "p" OF PRICES AT 'https://p.example/';
"""


@pytest.mark.parametrize(
    ("options", "is_early"),
    [
        ("", True),
        ("HEADER 'Accept' 'a/b'", False),
        ("EXPECT 3 PER HOUR", True),
        ("POLITENESS 1 PROBES PER DAY", False),
        ("LOCALE 'de'", False),
        ("ROBOTS OBEY", False),
    ],
)
def test_a_feed_is_plain_if_only_its_address_is_declared(options: str, is_early: bool) -> None:
    found = declaration(source("a", options=options), rule("r"))
    assert is_plain(found.sources["a"], found.page_class(found.sources["a"])) == is_early


def test_pages_and_feeds_with_numbers_are_not_plain() -> None:
    page = """CREATE SOURCE "o" OF PAGE AT 'https://o.example/';"""
    found = declaration(page, PRICES, source("a"), rule("r"))
    plain = {name: is_plain(each, found.page_class(each)) for name, each in found.sources.items()}
    assert plain == {"o": False, "p": False, "a": True}


def week(names: str, last_seen_s: list[float], per_s: float = 1e-4) -> WeekPlan:
    count = len(last_seen_s)
    even = WeekShapes(np.ones((1, 168)), np.zeros(count, dtype=np.int64))
    rates, seen_s = np.full(count, per_s), np.array(last_seen_s)
    return WeekPlan.of(FleetState(tuple(names), rates, np.ones(count), seen_s, even, probes_per_s=count * 1e-4))


def early_names(
    *statements: str, names: str = "abcd", also_asked: Mapping[str, int] = MappingProxyType({})
) -> list[str]:
    """Return which feeds may be asked early, those due first before the others."""
    compiled = decider(declaration(*statements), now_s=NOW_S).known.compiled
    seen_s = [NOW_S - after_s for after_s in (1.0, 90_000.0, 50_000.0, 80_000.0)]
    return list(EarlyFeeds.of(week(names, seen_s[: len(names)]), compiled, str, NOW_S, also_asked=also_asked).names)


FEEDS = [source(name, host=f"{name}.example") for name in "abcd"]


def test_feeds_are_early_in_the_order_in_which_they_are_due() -> None:
    assert early_names(*FEEDS, rule("r")) == ["b", "d", "c", "a"]
    assert early_names(*FEEDS, rule("r"), names="abc") == ["b", "c", "a"]


def test_what_is_damaged_is_refused() -> None:
    with pytest.raises(ValueError, match="incorrect header"):
        EarlyFeeds.unpack(b"damaged")


def test_only_sources_that_are_alone_on_their_host_are_early() -> None:
    assert early_names(*FEEDS, source("e", host="d.example"), rule("r")) == ["b", "c", "a"]
    assert early_names(*FEEDS, rule("r"), also_asked={"c.example": 1}) == ["b", "d", "a"]


def test_feeds_of_rules_that_begin_or_end_are_not_early() -> None:
    ending = rule("ends", end='"1 day" + NOW', clauses='FROM SOURCES "b"')
    assert early_names(*FEEDS, rule("r"), ending) == ["d", "c", "a"]
    assert early_names(*FEEDS, rule("r", clauses='FROM SOURCES "a", "c"')) == ["c", "a"]


def test_those_that_have_become_due_since_the_last_probe_are_asked() -> None:
    made = EarlyFeeds(0.5, list("abcd"), np.array([1.0, 2.0, 3.0, 4.0]))
    found = EarlyFeeds.unpack(made.pack())
    assert found.made_s == 0.5
    assert found.due(2.0, 3.5) == ["c"]
    assert found.due(9.0, 3.5) == []
    assert found.due(-np.inf, 3.0) == ["a", "b", "c"]


def state(**fields: object) -> SourceState:
    """Return the state of a feed that was read as its declaration says."""
    declared = declaration(source("a", host="a.example"), rule("r"))
    request = probe_request(declared.sources["a"], declared)
    made = SourceState("a", request.url, Validators("etag"), "hash", reading=request.reading)
    return replace(made, **fields)  # type: ignore[arg-type]


def test_the_request_is_that_of_the_declaration() -> None:
    found = early_request(state(), RECORD, NOW_S, made_s=NOW_S - 9000.0, spacing_s=300.0)
    declared = declaration(source("a", host="a.example"), rule("r"))
    wanted = probe_request(declared.sources["a"], declared)
    assert found == replace(wanted, page_class=None, validators=Validators("etag"), body_hash="hash")


@pytest.mark.parametrize(
    "known",
    [
        state(reading="another"),
        state(url="https://other.example/"),
        state(moved_url="https://new.example/", moved_times=1),
        state(health=SourceHealth(accepted=AcceptedMove("https://new.example/", "before", NOW_S - 1.0))),
        state(last_push_s=NOW_S - 9000.0),
        state(not_before_s=NOW_S + 1.0),
        state(fresh_until_s=NOW_S + 1.0),
        state(last_start_s=NOW_S - 8999.0),
    ],
)
def test_what_was_read_otherwise_or_is_not_to_be_asked_yet_waits(known: SourceState) -> None:
    assert early_request(known, RECORD, NOW_S, made_s=NOW_S - 9000.0, spacing_s=300.0) is None


def test_spacing_holds() -> None:
    asked, limits = state(last_start_s=NOW_S - 600.0), {"made_s": NOW_S, "spacing_s": 300.0}
    assert early_request(asked, RECORD, NOW_S, **limits) is not None
    assert early_request(asked, replace(RECORD, host_spacing_s=601.0), NOW_S, **limits) is None
    assert early_request(asked, RECORD, NOW_S, **limits | {"spacing_s": 601.0}) is None


def test_what_the_planner_knows_nothing_of_waits() -> None:
    assert early_request(state(), None, NOW_S, made_s=NOW_S - 9000.0, spacing_s=300.0) is None
