"""While proxyd itself is offline no failures are told: each rule on them gets one notice when the outage is over."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from proxyd.core.language import SourceText, check
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.politeness.faults import Connectivity
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.stages.observation import Observation
from proxyd.notify.channels.message_forms import chat_text, payload, subject
from tests.fleets import Drive, changed, decider, item

T0 = 1_000_000_000.0
HOSTS = "abcd"
RULES = {
    "down": ("FAILURE TO SOURCE AFTER 2 PROBES", "SET DELIVERY LOG 'one'"),
    "long": ("FAILURE TO SOURCE AFTER 1 HOUR", "SET DELIVERY LOG 'two'"),
    "any": ("TROUBLE TO SOURCE", "SET DELIVERY LOG 'three'"),
    "again": ("FAILURE TO SOURCE", "SET DELIVERY LOG 'one' SET DELIVERY LOG 'three' SET DIGEST EVERY 1 HOUR"),
    "shown": ("FAILURE TO SOURCE", ""),
    "moved": ("MOVED TO SOURCE", "SET DELIVERY LOG 'four'"),
}


def made() -> Drive:
    sources = "".join(f"CREATE SOURCE \"{name}\" OF FEED AT 'https://{name}.example.org/';\n" for name in HOSTS)
    rules = "".join(
        f'INSERT NOTIFICATION "{name}" INTO "P" SET QUERY "SELECT name FROM SOURCE" '
        f'SET TRIGGER "ON {event}" {clauses};\n'
        for name, (event, clauses) in RULES.items()
    )
    checked = check([SourceText("t", f'CREATE PROFILE "P";\n{sources}{rules}')])
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    return Drive(decider(checked.declaration, now_s=T0))


def silent(source: str, at_s: float) -> ProbeOutcome:
    return ProbeOutcome(source, OutcomeKind.TIMEOUT, at_s, at_s + 30, requests=1)


def answered(source: str, at_s: float) -> ProbeOutcome:
    return changed(source, [item("one")], at_s)


async def well() -> Drive:
    drive = made()
    for name in HOSTS:
        await drive.see(answered(name, T0))
    return drive


def notices(*seen: Observation) -> list[str]:
    told = [each for observation in seen for each in observation.rules.notifications]
    return [each.rule for each in told if json.loads(each.body)["data"]["event"]["kind"] == "offline"]


async def outage(drive: Drive, *, minutes: float, hosts: str = "abc") -> Observation:
    for number, name in enumerate(hosts):
        assert not notices(await drive.see(silent(name, T0 + 600 + 60 * number)))
    return await drive.see(answered("d", T0 + 600 + 60 * minutes))


@pytest.mark.parametrize(("minutes", "told"), [(10, ["any", "down", "shown"]), (120, ["any", "down", "long", "shown"])])
async def test_each_receiver_of_failures_that_lasted_so_long_gets_one_notice(minutes: float, told: list[str]) -> None:
    drive = await well()
    assert notices(await outage(drive, minutes=minutes)) == told
    after = [await drive.see(answered(name, T0 + 9000)) for name in HOSTS]
    assert notices(*after) == []


async def test_the_notice_says_from_when_to_when_in_every_form() -> None:
    seen = await outage(await well(), minutes=10)
    body = next(each.body for each in seen.rules.notifications if each.rule == "down")
    said = "proxyd was offline from 2001-09-09 01:56 UTC to 2001-09-09 02:06 UTC; failures in that time are not told"
    assert subject("down", body) == said
    assert chat_text(body) == ("", said)
    assert json.loads(payload(body, 2))["data"]["items"] == [{"trouble": said}]
    ids = {each.notification_id for each in seen.rules.notifications}
    assert len(ids) == len(seen.rules.notifications)


async def test_two_silent_hosts_are_no_outage() -> None:
    assert notices(await outage(await well(), minutes=10, hosts="ab")) == []


@pytest.mark.parametrize(("seconds", "told"), [(59, []), (60, ["any", "down", "shown"])])
async def test_an_outage_is_told_if_it_lasted_a_minute(seconds: int, told: list[str]) -> None:
    drive = await well()
    for name in "abc":
        await drive.see(silent(name, T0 + 600))
    assert notices(await drive.see(answered("d", T0 + 600 + seconds))) == told


def failed(source: str, at_s: float, certificate: str = "") -> ProbeOutcome:
    kind = OutcomeKind.UNREACHABLE
    return ProbeOutcome(source, kind, at_s, at_s, is_answered=not certificate, certificate=certificate)


async def failures(drive: Drive, *outcomes: ProbeOutcome) -> list[str]:
    """Return the sources whose failures the rule "any other" told at once."""
    seen = [await drive.see(outcome) for outcome in outcomes]
    told = [each for observation in seen for each in observation.rules.notifications if each.rule == "shown"]
    return [f"{each.source_id}: {json.loads(each.body)['data']['event']['kind']}" for each in told]


@pytest.mark.parametrize("certificates", ["", "xyz"], ids=["cut answers", "certificates that differ"])
async def test_hosts_that_send_anything_are_told_at_once_and_are_no_outage(certificates: str) -> None:
    drive = await well()
    outcomes = [failed(name, T0 + 600, certificates[n : n + 1]) for n, name in enumerate("abc")]
    assert await failures(drive, *outcomes) == ["a: failure", "b: failure", "c: failure"]
    assert not drive.decider.outcomes.connection.is_down
    assert await failures(drive, answered("d", T0 + 900)) == []


async def test_a_certificate_that_all_hosts_show_is_that_of_a_captive_portal() -> None:
    drive = await well()
    portal = [failed(name, T0 + 600 + number, "x") for number, name in enumerate("abc")]
    assert await failures(drive, *portal) == ["a: failure"]  # it could still be its own
    assert drive.decider.outcomes.connection.is_down
    assert await failures(drive, failed("d", T0 + 700, "x"), failed("a", T0 + 710, "x")) == []
    assert await failures(drive, answered("d", T0 + 900)) == ["d: offline"]
    assert await failures(drive, failed("b", T0 + 910, "x")) == ["b: failure"]


def test_a_captive_portal_costs_a_large_fleet_no_more_for_each_host(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str] = []
    note = Connectivity._note_silence

    def count(connection: Connectivity, host: str, outcome: ProbeOutcome, since_s: float) -> None:
        noted.append(host)
        note(connection, host, outcome, since_s)

    monkeypatch.setattr(Connectivity, "_note_silence", count)
    connection = Connectivity()
    for number in range(200):
        connection.take_in(f"host{number}", replace(failed("s", T0, "x"), requests=1))
    assert connection.is_down
    assert noted == [f"host{number}" for number in (1, 0, *range(2, 200))]


async def test_dead_hosts_in_a_row_are_no_outage() -> None:
    drive = await well()
    for name in "abc":
        for at_s in (T0 + 100, T0 + 200):
            await drive.see(ProbeOutcome(name, OutcomeKind.HTTP_ERROR, at_s, at_s, 500, requests=1))
    assert notices(await outage(drive, minutes=10)) == []


async def test_an_outage_goes_on_over_a_restart() -> None:
    drive = await well()
    for name in "ab":
        await drive.see(silent(name, T0 + 600))
    again = Decider(drive.decider.settings, np.random.default_rng(1))
    again.restore(dict(drive.decider.known.states), drive.decider.known.streams.copy())
    declared = drive.decider.known.compiled.declaration
    again.declare(declared, dict.fromkeys(declared.rules, T0), T0 + 700)
    drive.decider = again
    assert not notices(*[await drive.see(silent(name, T0 + 1800)) for name in "abc"])
    ended = await drive.see(answered("d", T0 + 1860))
    assert notices(ended) == ["any", "down", "shown"]
    assert "offline from 2001-09-09 01:57 UTC to 2001-09-09 02:17 UTC" in ended.rules.notifications[0].body.decode()
