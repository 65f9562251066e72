"""A week in which the clocks change: what is sent when, with quiet hours, daily digests and sites that stay loud."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count, takewhile
from zoneinfo import ZoneInfo

from proxyd.core.rules.stages.observation import RuleResults
from proxyd.store.sql_store import SqlStore
from tests.contract.test_suspensions import at_night, notification, sent
from tests.fleets import rule

BERLIN = ZoneInfo("Europe/Berlin")
QUIET = " DELIVER TO LOG 'one' QUIET DURING '22:00-07:00, Sat,Sun' IN 'Europe/Berlin'"
BEGIN_S = datetime(2026, 3, 26, 12, tzinfo=UTC).timestamp()  # a Thursday; the clocks change on Sunday, the 29th
END_S = datetime(2026, 4, 1, 12, tzinfo=UTC).timestamp()


def is_quiet(at_s: float) -> bool:
    """Whether it is quiet by the clocks of Berlin: at night, and from Friday at 22:00 to Monday at 7:00."""
    local = datetime.fromtimestamp(at_s, BERLIN)
    return local.weekday() >= 5 or local.hour >= 22 or local.hour < 7


async def test_a_week_in_which_the_clocks_change(store: SqlStore) -> None:
    rules = (rule("r"), rule("daily", clauses="SET DIGEST DAILY AT '08:00' IN 'Europe/Berlin'"))
    declared = at_night(*rules, rule("loud", clauses="SET QUIET NONE"), defaults=QUIET)
    await store.declarations.accept([], declared.rules.values(), 1.0)
    arrived: dict[bytes, float] = {}
    for at_s in takewhile(lambda each: each < END_S, count(BEGIN_S, 1800.0)):
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
        for at_s in range(0, int(END_S - BEGIN_S), 1800)
    )
