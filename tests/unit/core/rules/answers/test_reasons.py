"""Every reason of a probe has words, and they say what is known of it."""

from __future__ import annotations

from math import inf

import pytest

from proxyd.api.wire import explained
from proxyd.core.model.chronon import Budget, Target
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.policies.rule_demand import CountedAhead
from proxyd.core.rules.answers.explanation import Explainer, ProbeCase
from proxyd.core.rules.known.subscriptions import Subscription
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

DAY_S, T0 = 86400.0, 11_000 * 86400.0
QUICK = Target(0.95, ((600.0, 1.0),))
NO_LIFE = Target(0.9, ((inf, 1.0),))
FALLING = Target(0.9, ((300.0, 0.5), (600.0, 0.5)))
THIRD, LATER = CountedAhead(3, True, 0.3, 0.0), CountedAhead(3, False, 0.3, 0.0)
ITEM, COUNTED = Reason.DETECTION, Reason.COUNTED


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_has_words_with_and_without_details(reason: Reason) -> None:
    known, bare = ProbeCase(reason, "r", 0.3, QUICK, THIRD), ProbeCase(reason, "r")
    assert str(known)
    assert str(bare)
    assert "None" not in f"{known} {bare}"


@pytest.mark.parametrize(
    ("case", "what", "worth"),
    [
        (ProbeCase(ITEM, "r", 0.3, QUICK), "an item", "must be seen within 10 minutes"),
        (ProbeCase(ITEM, "r", 0.3, NO_LIFE), "an item", "must be seen before the next item"),
        (ProbeCase(ITEM, "r", 0.3, FALLING), "an item", "loses worth while it waits"),
        (ProbeCase(ITEM, "r", 0.3), "an item", "is worth the price of a probe"),
        (ProbeCase(COUNTED, "r", 0.9, QUICK, THIRD), "the 3rd item", "must be seen within 10 minutes"),
        (ProbeCase(COUNTED, "r", 0.9, counted=LATER), "the 3rd item since its last notification", "is worth"),
    ],
)
def test_the_words_say_how_likely_an_item_is_and_how_soon_it_must_be_seen(
    case: ProbeCase, what: str, worth: str
) -> None:
    assert str(case).startswith(f"there is a 30 % chance of {what} by then, which {worth}")


@pytest.mark.parametrize(
    ("misses", "words"),
    [(0, "items left out: about 5%, so the source is probed less"), (9, "about 50%, so the source is probed as if")],
    ids=["it tells all", "it forgets half"],
)
def test_an_explanation_says_whether_a_hub_saves_probes(misses: int, words: str) -> None:
    found = decider(declaration(source("s"), rule("r")), now_s=0.0)
    url = found.known.compiled.sources["s"].url
    found.hubs.keep(Subscription("s", url, "https://hub.example/", url, told=9, misses=misses))
    told = Explainer.of(found).explain("s", 0)
    assert told is not None
    assert words in explained.explanation(told).summary[-1]


async def test_where_others_wait_for_the_budget_too_the_next_probe_is_not_promised() -> None:
    names = ("a", "b", "c")
    found = decider(declaration(*map(source, names), rule("r")), now_s=0.0, chronon_s=10.0, budget=Budget(1.0 / DAY_S))
    for chronon in range(3):
        assert found.choose(chronon).probes == []
    for name in names:
        told = Explainer.of(found).explain(name, 3)
        assert told is not None
        (line,) = (each for each in explained.explanation(told).summary if each.startswith("next probe: "))
        assert "if no other source needs it more, for the budget has no room before, because" in line


@pytest.mark.parametrize(("years", "is_late"), [(0.1, False), (10.0, True)])
async def test_an_explanation_says_when_the_newest_item_came_and_whether_more_should_have(
    years: float, *, is_late: bool
) -> None:
    found = decider(declaration(source("s"), rule("r")), now_s=T0)
    newest_s = T0 - years * 365 * DAY_S
    items = [item(str(n), newest_s - n * 30 * DAY_S) for n in range(12)]
    await Drive(found).see(changed("s", items, T0))
    told = Explainer.of(found).explain("s", found.settings.grid.chronon_at(T0))
    assert told is not None
    (line,) = (each for each in explained.explanation(told).summary if each.startswith("newest item: "))
    assert line == f"newest item: {iso_time(newest_s)}" + is_late * "; by its rate several more should have come since"


async def test_an_explanation_says_that_items_slide_off_unseen_and_in_what_time() -> None:
    found = decider(declaration(source("s"), rule("r")), now_s=T0)
    drive = Drive(found)
    for at_s in (T0, T0 + 6000.0):
        await drive.see(changed("s", [item(f"{at_s - 60 * n}", at_s - 60.0 * n) for n in range(30)], at_s))
    told = Explainer.of(found).explain("s", found.settings.grid.chronon_at(T0 + 6000.0))
    assert told is not None
    (line,) = (each for each in explained.explanation(told).summary if "unseen" in each)
    assert line.startswith("about 70 items came and went unseen: it shows 30, as many as come in ")
