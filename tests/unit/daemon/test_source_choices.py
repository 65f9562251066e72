"""The choice of sources for a list, beside a choice made one source after the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.profile import Source
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.state import SourceState
from proxyd.daemon.source_choices import SourceChoice, SourceChoices, SourceKind, _Named, natural_key
from tests.fakes import FakeClock
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

T0 = 1_000_000_000.0


async def lived(count: int = 40) -> Decider:
    """Return a decider some of whose sources have items, and some of which failed."""
    rng = np.random.default_rng(4)
    sources = [source(f"{'Ab'[n % 2]}{n}", host=f"h{n % 7}.example") for n in range(count)]
    found = decider(declaration(*sources, rule("r")), now_s=T0)
    drive = Drive(found)
    for n, name in enumerate(sorted(found.known.compiled.sources)):
        if n % 3 == 0:
            times_s = T0 - rng.integers(0, 90_000, 1 + n % 4)
            await drive.see(changed(name, [item(f"{name} {at}", float(at)) for at in times_s], T0 + n))
        elif n % 3 == 1:
            await drive.see(ProbeOutcome(name, OutcomeKind.TIMEOUT, T0 + n, T0 + n))
    return found


ORDERS: dict[str, Callable[[SourceState], float | None]] = {
    "items": lambda state: state.items_seen,
    "newest": lambda state: state.newest_s,
    "probed": lambda state: state.last_start_s,
}
KINDS: dict[SourceKind, Callable[[SourceState], bool]] = {
    SourceKind.FAILING: lambda state: state.failures > 0,
    SourceKind.NEW: lambda state: state.last_start_s is None,
    SourceKind.SILENT: lambda state: bool(state.health.silent),
}


def expected(found: Decider, choice: SourceChoice) -> list[str]:
    known, chosen = found.known, []
    for name, each in known.compiled.sources.items():
        state, text = known.state(each), choice.text.lower()
        if choice.among is not None and name not in choice.among:
            continue
        if text not in name.lower() and text not in each.url.lower():
            continue
        if not choice.kinds or any(KINDS[kind](state) for kind in choice.kinds):
            chosen.append(name)

    def place(name: str) -> float:
        value = ORDERS[choice.order](known.states[name]) if choice.order in ORDERS and name in known.states else None
        return inf if value is None else -value

    return sorted(sorted(chosen, key=natural_key), key=place)


names = st.text(st.sampled_from("aAbß- .0129ü"), max_size=12)


@given(names=st.lists(names, max_size=20))
def test_names_sort_by_the_values_of_their_numbers(names: list[str]) -> None:
    def by_pieces(name: str) -> tuple[list[str | int], str]:
        found = re.split("([0-9]+)", name.casefold())
        return [int(each) if place % 2 else each for place, each in enumerate(found)], name

    assert sorted(names, key=natural_key) == sorted(names, key=by_pieces)


async def test_one_name_may_be_another_with_a_number() -> None:
    found = decider(declaration(source("feed2"), source("feed10"), source("Feed"), rule("r")), now_s=T0)
    assert list(await SourceChoices(found.known, FakeClock(T0)).names()) == ["Feed", "feed2", "feed10"]


@pytest.mark.parametrize("order", ["name", "items", "newest", "probed"])
@pytest.mark.parametrize(
    ("text", "kinds", "some"),
    [
        ("", (), None),
        ("B1", (), None),
        ("H3.EXAMPLE", (), None),
        ("", (SourceKind.FAILING,), None),
        ("", (SourceKind.NEW, SourceKind.FAILING), None),
        ("a", (SourceKind.FAILING,), 20),
    ],
)
async def test_sources_are_chosen_and_ordered(
    order: str, text: str, kinds: tuple[SourceKind, ...], some: int | None
) -> None:
    found = await lived()
    among = None if some is None else frozenset(sorted(found.known.compiled.sources)[:some])
    choice = SourceChoice(text, frozenset(kinds), among, order)
    assert list(await SourceChoices(found.known, FakeClock(T0)).choose(choice)) == expected(found, choice)


async def test_a_declaration_that_comes_in_meanwhile_leaves_only_what_it_still_has() -> None:
    found = await lived()
    choices, failing = (
        SourceChoices(found.known, FakeClock(T0)),
        SourceChoice("", frozenset({SourceKind.FAILING}), None, "name"),
    )
    named = await choices._current()
    declared = declaration(source("A0"), source("b1"), rule("r"))
    found.declare(declared, {"r": T0}, T0)
    assert set(choices._chosen(failing, named.names, named.texts)) <= {"A0", "b1"}
    assert list(await choices.names()) == ["A0", "b1"]
    assert await choices.choose(SourceChoice("b1", frozenset(), None, "name")) == ["b1"]


async def test_an_order_is_kept_for_some_seconds() -> None:
    found = await lived()
    clock = FakeClock(T0)
    choices, newest = SourceChoices(found.known, clock), SourceChoice(order="newest")
    before = list(await choices.choose(newest))
    name = before[-1]
    await Drive(found).see(changed(name, [item("new", T0 + 900.0)], T0 + 1000.0))
    assert list(await choices.choose(newest)) == before
    await clock.advance(5.0)
    assert (await choices.choose(newest))[0] == name
    assert await choices.choose(SourceChoice("b", frozenset(), None, "newest")) == [
        each for each in await choices.choose(newest) if "b" in each.lower()
    ]


async def test_the_order_follows_a_declaration_by_what_it_changes() -> None:
    found = decider(declaration(source("a2"), source("B1"), source("a10"), rule("r")), now_s=T0)
    choices = SourceChoices(found.known, FakeClock(T0))
    assert list(await choices.names()) == ["a2", "a10", "B1"]
    declared = declaration(source("a10", host="other.example"), source("a3"), source("B1"), rule("r"))
    found.declare(declared, {"r": T0}, T0)
    assert list(await choices.names()) == ["a3", "a10", "B1"]
    assert await choices.choose(SourceChoice("other", frozenset(), None, "name")) == ["a10"]
    assert await choices.choose(SourceChoice("a2", frozenset(), None, "name")) == []


@given(st.lists(st.dictionaries(names, st.sampled_from(["one.example", "two.example"]), max_size=8), max_size=6))
def test_the_order_is_that_of_the_declaration_alone(declared: list[dict[str, str]]) -> None:
    following = _Named({}, (), {}, {})
    for hosts in declared:
        sources = {name: Source(name, "RSS", "D", f"https://{host}/{name}") for name, host in hosts.items()}
        before = following.sources
        sources |= {name: before[name] for name in sources if name in before and before[name] == sources[name]}
        following = following.following(sources)
        assert list(following.names) == sorted(sources, key=natural_key)
        made_at_once = _Named({}, (), {}, {}).following(sources)
        assert (following.keys, following.texts) == (made_at_once.keys, made_at_once.texts)
