"""The plan of many rules: its work grows with the different things that they ask for, not with their number."""

from __future__ import annotations

from proxyd.core.planning.chunks import Steps
from tests.fleets import Drive, changed, decider, declaration, item

T0 = 1_000_000_000.0


async def test_rules_that_ask_for_the_same_share_timetables_however_many_they_are() -> None:
    watches = [
        f"WATCH 'https://s{n}.example/feed' AS \"s{n}\"{' WITHIN 10 MINUTES FOR 95 %' if n % 3 == 0 else ''};\n"
        for n in range(30)
    ]
    found = decider(declaration(*watches), now_s=T0)
    drive = Drive(found)
    for n, name in enumerate(found.known.compiled.sources):
        await drive.see(changed(name, [item(f"{name} {k}", T0 - 3600.0 * k) for k in range(1 + n % 5)], T0 + n))
    steps = Steps(found.snapshot(T0 + 3600.0))
    for _ in steps:
        pass
    state = steps.made.state()
    assert state is not None
    assert state.losses is not None
    kinds, of_source = state.losses
    assert len(kinds) == 2
    for number, name in enumerate(state.source_ids):
        assert kinds[of_source[number]] == found.planner.sources[name].demands.losses
