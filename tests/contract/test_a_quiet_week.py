"""A week in which the clocks change: what is sent when, with quiet hours, daily digests and sites that stay loud."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import count, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest

from proxyd.core.language import SourceText, check
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.store.sql_store import SqlStore
from tests.contract.test_suspensions import at_night, notification, sent
from tests.fleets import Drive, decider, rule

BERLIN = ZoneInfo("Europe/Berlin")
QUIET = " DELIVER TO LOG 'one' QUIET DURING '22:00-07:00, Sat,Sun' IN 'Europe/Berlin'"
BEGIN_S = datetime(2026, 3, 26, 12, tzinfo=UTC).timestamp()  # a Thursday; the clocks change on Sunday, the 29th
END_S = datetime(2026, 4, 1, 12, tzinfo=UTC).timestamp()

_EACH = pytest.mark.parametrize(  # the clocks are ours: what is asked of a database is asked in test_suspensions
    "database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True
)


def is_quiet(at_s: float) -> bool:
    """Whether it is quiet by the clocks of Berlin: at night, and from Friday at 22:00 to Monday at 7:00."""
    local = datetime.fromtimestamp(at_s, BERLIN)
    return local.weekday() >= 5 or local.hour >= 22 or local.hour < 7


@_EACH
async def test_a_week_in_which_the_clocks_change(store: SqlStore) -> None:
    rules = (rule("r"), rule("daily", clauses="SET DIGEST DAILY AT '08:00' IN 'Europe/Berlin'"))
    declared = at_night(*rules, rule("loud", clauses="SET QUIET NONE"), defaults=QUIET)
    await store.declarations.accept([], declared.rules.values(), 1.0)
    arrived: dict[bytes, float] = {}
    for at_s in takewhile(lambda each: each < END_S, count(BEGIN_S, 3600.0)):
        named = f"{at_s - BEGIN_S:.0f}"
        made = (notification(f"{each} {named}", rule_name=each, created_s=at_s) for each in ("r", "daily", "loud"))
        await store.record_results(RuleResults(notifications=tuple(made)))
        for _, body in await sent(store, at_s):
            for each in body.split(b"+"):
                assert each not in arrived
                arrived[each] = at_s
    for name, at_s in arrived.items():
        kind, _, after_s = name.decode().partition(" ")
        created_s, local = BEGIN_S + float(after_s), datetime.fromtimestamp(at_s, BERLIN)
        if kind == "loud" or (kind == "r" and not is_quiet(created_s)):
            assert at_s == created_s, name
        elif kind == "r":
            assert (local.hour, local.minute, local.weekday() < 5) == (7, 0, True), name
        else:
            assert (local.hour, local.minute) in {(8, 0), (7, 0) if local.weekday() == 0 else (8, 0)}, name
            assert not is_quiet(at_s), name
    last_s = datetime(2026, 4, 1, 8, tzinfo=BERLIN).timestamp()
    assert len(arrived) == sum(
        (kind != "daily" or BEGIN_S + at_s < last_s)
        for kind in ("r", "daily", "loud")
        for at_s in range(0, int(END_S - BEGIN_S), 3600)
    )


WATCHED = """CREATE PROFILE "Sites" DELIVER TO LOG 'one' QUIET DURING '22:00-07:00, Sat,Sun' IN 'Europe/Berlin';
WATCH 'https://shop.example.org/' OF SITE MAINTENANCE DURING 'Sun 02:00-04:00, 23:00-23:30' IN 'Europe/Berlin'
  INTO "Sites" WITHIN 10 MINUTES;
INSERT NOTIFICATION "held" INTO "Sites" FROM SOURCES "shop.example.org"
  SET QUERY "SELECT trouble FROM SOURCE" SET TRIGGER "ON HEALTH TO SOURCE";"""
STEP_S = 600.0
SITE = "shop.example.org"


def trouble_at(local: datetime) -> str:
    """Return why the site fails at a time, or an empty text: on Sunday the clocks go from 2:00 to 3:00."""
    minute = local.hour * 60 + local.minute
    if (local.weekday() == 6 and 120 <= minute < 240) or 1380 <= minute < 1410:
        return "maintenance"
    return "outage" if local.weekday() == 0 and 240 <= minute < 300 else ""


@_EACH
async def test_maintenance_counts_and_tells_nothing_and_other_outages_wait_for_the_end_of_quiet_hours(
    store: SqlStore,
) -> None:
    declared = check([SourceText("t", WATCHED)]).declaration
    assert declared is not None
    await store.declarations.accept([], declared.rules.values(), 1.0)
    drive, arrived = Drive(decider(declared, now_s=BEGIN_S)), list[tuple[str, str]]()
    times_s = list(takewhile(lambda each: each < END_S, count(BEGIN_S, STEP_S)))
    troubles = [trouble_at(datetime.fromtimestamp(at_s, BERLIN)) for at_s in times_s]
    for at_s, trouble in zip(times_s, troubles, strict=True):
        kind, status = (OutcomeKind.HTTP_ERROR, 503) if trouble else (OutcomeKind.SAME_BODY, 200)
        outcome = ProbeOutcome(SITE, kind, at_s, at_s, status, detail=f"status {status}", is_answered=True)
        observation = await drive.see(outcome)
        if observation.rules.notifications or observation.site is not None:
            await store.record(observation)
        told = [
            title for _, body in await sent(store, at_s) for title in re.findall(r'"title":"([^"]*)', body.decode())
        ]
        arrived += [(f"{datetime.fromtimestamp(at_s, BERLIN):%a %H:%M}", title) for title in told]
    down, up = f"{SITE} is down since 2026-03-30 02:00 UTC: status 503", f"{SITE} is up again after 1 h"
    assert arrived == [("Mon 04:10", down), ("Mon 05:00", up), ("Mon 07:00", down), ("Mon 07:00", up)]
    pairs = [pair for pair in pairwise(troubles) if "maintenance" not in pair]
    days = (await store.sites.days([SITE], 0))[SITE].values()
    assert sum(each.down_s for each in days) == 3600.0
    assert sum(each.up_s + each.down_s for each in days) == STEP_S * len(pairs)
    assert troubles.count("maintenance") == 3 * 6 + 6  # six nights, and the one hour of the shortened Sunday
