"""A permanent move that was accepted: its source goes on at the new address, also when its declaration follows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proxyd.cluster.division import UNDIVIDED, Division
from proxyd.cluster.shared_fleet import Sharing
from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.core.model.profile import Declaration
from proxyd.core.model.suspension import Subject, Suspension
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.state import AcceptedMove, SourceHealth
from proxyd.core.rules.known.subscriptions import Subscription
from proxyd.core.rules.programs.stream_state import Spell
from proxyd.core.rules.stages.observation import Observation
from proxyd.store.databases.shards import SHARDS
from tests.fleets import Drive, Meanwhile, changed, decider, item

T0 = 1_000_000_000.0
OLD, NEW, NEWER = "https://old.example/feed", "https://new.example/feed", "https://newer.example/feed"
SECRETS = "HEADER 'X-Key' 'k'"


def declared(url: str = OLD, options: str = "") -> Declaration:
    text = f"""CREATE SOURCE "s" OF FEED AT '{url}' {options};
CREATE PROFILE "P";
INSERT NOTIFICATION "new" INTO "P" SET QUERY "SELECT title FROM FEED" SET TRIGGER "ON INSERT TO FEED";
INSERT NOTIFICATION "moved" INTO "P" SET QUERY "SELECT moved FROM SOURCE" SET TRIGGER "ON MOVED TO SOURCE";
"""
    checked = check([SourceText("t", text)], CheckSettings())
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    return checked.declaration


def redirected(at_s: float, *titles: str, to: str | None = NEW) -> ProbeOutcome:
    return replace(changed("s", [item(each) for each in titles], at_s), permanent_url=to)


def request_of(found: Decider) -> ProbeRequest:
    request = found.request("s", T0)
    assert request is not None
    return request


def declare(found: Decider, wanted: Declaration, now_s: float) -> None:
    found.declare(wanted, dict.fromkeys(wanted.rules, T0), now_s)


def restarted(found: Decider, wanted: Declaration) -> Decider:
    """Return the decider of a new process, with what the store remembers."""
    again = Decider(found.settings, np.random.default_rng(1))
    again.restore(dict(found.known.states), found.known.streams.copy())
    declare(again, wanted, T0)
    return again


def told(observation: Observation) -> list[str]:
    return [each.rule for each in observation.rules.notifications]


async def moved(options: str = "", *, accept: bool = True) -> Drive:
    """Return a source that has led to another address once, with two items, and was accepted there."""
    drive = Drive(decider(declared(options=options), now_s=T0))
    assert told(await drive.see(redirected(T0, "b", "a"))) == ["moved"]
    if accept:
        assert drive.decider.accept_move("s", T0 + 10) is not None
    return drive


def test_a_source_that_has_not_moved_cannot_be_accepted_elsewhere() -> None:
    assert decider(declared(), now_s=T0).accept_move("s", T0) is None


@pytest.mark.parametrize("options", ["", SECRETS])
async def test_the_accepted_address_is_asked_as_if_it_were_declared(options: str) -> None:
    drive = await moved(options)
    request = request_of(drive.decider)
    assert (request.url, request.moved_url, request.host) == (NEW, None, "new.example")
    assert request.headers == request_of(decider(declared(options=options), now_s=T0)).headers
    assert drive.decider.planner.sources["s"].host == "new.example"


async def test_another_planner_that_follows_goes_on_at_the_new_address() -> None:
    drive = await moved()
    other = decider(declared(), now_s=T0)
    other.known.owned = Division(frozenset())
    Sharing(other).follow([drive.decider.known.states["s"]], (), {}, T0 + 20)
    Sharing(other).follow_moves()
    assert other.known.compiled.sources["s"].url == NEW
    Sharing(other).take_over(Division(frozenset(range(SHARDS))), ["s"], {}, (), ())
    for _ in other.placement.place_in_parts(lambda: T0 + 20):
        pass
    assert request_of(other).url == NEW
    assert other.planner.sources["s"].host == "new.example"
    assert other.known.state(other.known.compiled.sources["s"]).first_contact_s == T0


async def test_the_hub_of_a_moved_source_is_looked_after_by_its_planner() -> None:
    drive = await moved()
    ours, theirs = (Division(frozenset({UNDIVIDED.shard_of(url)})) for url in (OLD, NEW))
    kept = Subscription("s", NEW, "https://hub.example/", NEW)
    drive.decider.hubs.keep(kept)
    Sharing(drive.decider).release(ours, [])
    assert drive.decider.hubs.subscriptions() == {"s": kept}
    Sharing(drive.decider).release(theirs, ["s"])
    assert not drive.decider.hubs.subscriptions()
    Sharing(drive.decider).take_over(ours, ["s"], {}, [kept], ())
    assert drive.decider.hubs.subscriptions() == {"s": kept}


async def test_the_source_goes_on_at_the_new_address_and_its_move_is_not_told_again() -> None:
    drive = await moved()
    seen = await drive.see(redirected(T0 + 60, "c", "b", "a", to=None))
    assert told(seen) == ["new"]
    assert not seen.found.starts_afresh
    assert seen.state.health.moved is None
    assert seen.state.first_contact_s == T0


@pytest.mark.parametrize("kind", [OutcomeKind.HTTP_ERROR, OutcomeKind.UNREACHABLE, OutcomeKind.GONE])
async def test_nothing_falls_back_to_the_old_address(kind: OutcomeKind) -> None:
    drive = await moved()
    for number in range(5):
        await drive.see(ProbeOutcome("s", kind, T0 + 60 * number, T0 + 60 * number, requests=1))
    assert request_of(drive.decider).url == NEW


async def test_a_further_move_is_one_from_the_new_address() -> None:
    drive = await moved()
    seen = await drive.see(redirected(T0 + 60, "b", "a", to=NEWER))
    assert told(seen) == ["moved"]
    assert seen.state.health.moved_url == NEWER
    accepted = drive.decider.accept_move("s", T0 + 70)
    assert accepted is not None
    assert accepted.health.accepted == AcceptedMove(NEWER, request_of(decider(declared(), now_s=T0)).reading, T0 + 70)
    assert request_of(drive.decider).url == NEWER


async def test_a_move_back_to_the_declared_address_leaves_nothing_accepted() -> None:
    drive = await moved()
    await drive.see(redirected(T0 + 60, "b", "a", to=OLD))
    accepted = drive.decider.accept_move("s", T0 + 70)
    assert accepted is not None
    assert accepted.health.accepted is None
    assert request_of(drive.decider).url == OLD
    assert told(await drive.see(redirected(T0 + 120, "c", "b", "a", to=None))) == ["new"]


async def test_a_source_goes_on_when_its_declaration_follows_and_the_move_is_forgotten() -> None:
    drive = await moved()
    declare(drive.decider, declared(NEW), T0 + 100)
    assert not drive.decider.known.estimates.accepted
    seen = await drive.see(redirected(T0 + 120, "c", "b", "a", to=None))
    assert told(seen) == ["new"]
    assert (seen.state.first_contact_s, seen.state.health.accepted) == (T0, None)
    declare(drive.decider, declared(OLD), T0 + 200)
    assert request_of(drive.decider).url == OLD
    assert told(await drive.see(redirected(T0 + 220, "d", to=None))) == []


async def test_another_declaration_is_another_document() -> None:
    drive = await moved()
    declare(drive.decider, declared(NEWER), T0 + 100)
    assert request_of(drive.decider).url == NEWER
    assert told(await drive.see(redirected(T0 + 120, "c", "b", "a", to=None))) == []
    assert not drive.decider.known.estimates.accepted


async def test_an_edit_of_something_else_keeps_the_move() -> None:
    drive = await moved()
    declare(drive.decider, declared(options="FRESHNESS IGNORE"), T0 + 100)
    assert request_of(drive.decider).url == NEW
    assert told(await drive.see(redirected(T0 + 120, "c", "b", "a", to=None))) == ["new"]


@pytest.mark.parametrize("url", [OLD, NEW])
async def test_a_restart_keeps_the_move_whether_the_declaration_followed_or_not(url: str) -> None:
    drive = await moved()
    drive.decider = restarted(drive.decider, declared(url))
    assert request_of(drive.decider).url == NEW
    assert bool(drive.decider.known.estimates.accepted) == (url == OLD)
    assert told(await drive.see(redirected(T0 + 60, "c", "b", "a", to=None))) == ["new"]


async def test_a_probe_that_was_under_way_does_not_undo_the_move() -> None:
    drive = await moved(accept=False)
    reading, outcome = request_of(drive.decider).reading, redirected(T0 + 20, "b", "a")
    moving = Meanwhile(lambda: drive.decider.accept_move("s", T0 + 10))
    assert await drive.decider.outcomes.observe(outcome, evaluation=moving, reading=reading) is None
    assert not moving.is_waiting
    assert request_of(drive.decider).url == NEW


async def test_a_paused_source_stays_paused() -> None:
    drive = await moved(accept=False)
    drive.decider.pause({"s": Suspension(Subject.SOURCE, "s", T0, "me")}, T0)
    drive.decider.accept_move("s", T0 + 10)
    assert "s" not in drive.decider.planner.sources
    drive.decider.pause({}, T0 + 20)
    assert drive.decider.planner.sources["s"].host == "new.example"


def test_the_state_of_a_move_is_stored_and_has_no_later_times() -> None:
    health = SourceHealth(accepted=AcceptedMove(NEW, "reading", T0), silent={"a": Spell(1, T0, T0)})
    assert SourceHealth.of_values(health.values()) == health
    assert health.as_of(T0 - 60).accepted == AcceptedMove(NEW, "reading", T0 - 60)
