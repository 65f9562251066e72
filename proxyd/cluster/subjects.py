"""The subjects of NATS between machines, and which role may say or hear what there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

OUTBOX = "proxyd.outbox"
"""The planner tells the notifier that there is something to deliver."""
CALL = "proxyd.call"
"""A planner asks all probers to say hello."""
HELLO = "proxyd.hello"
REPORT = "proxyd.report"
"""A prober reports to all planners; to the planner of a term, which follows after a point, the first time."""
TURN = f"{REPORT}.turn"
"""A prober asks the planner of a host for a turn there. The rights of existing NATS servers cover this subject."""
ABSENT = "proxyd.absent"
"""The server tells the planner that nobody received a batch, whose id follows after a point."""
_WORK = "proxyd.prober"


def report_to(term: int) -> str:
    """Return the subject of reports to the planner of a term.

    >>> report_to(7)
    'proxyd.report.7'
    """
    return f"{REPORT}.{term}"


def work_of(prober_id: str) -> str:
    """Return the subject of what the planner tells a prober; the kind of message follows after a point."""
    return f"{_WORK}.{prober_id}"


class Rights(NamedTuple):
    """The subjects at which a role may publish and which it may hear."""

    publish: Sequence[str]
    hear: Sequence[str]


RIGHTS: Mapping[str, Rights] = {
    "planner": Rights([CALL, OUTBOX, f"{_WORK}.>"], [HELLO, REPORT, f"{REPORT}.*", f"{ABSENT}.>"]),
    "prober": Rights([HELLO, REPORT, f"{REPORT}.*"], [CALL, f"{_WORK}.>"]),
    "notifier": Rights([], [OUTBOX]),
}


def rights_of(role: str) -> Rights:
    """Return the rights of a role of the setting ``role``.

    >>> rights_of("all").publish
    ['proxyd.call', 'proxyd.outbox', 'proxyd.prober.>', 'proxyd.hello', 'proxyd.report', 'proxyd.report.*']
    """
    if role != "all":
        return RIGHTS[role]
    return Rights(*([each for rights in RIGHTS.values() for each in rights[number]] for number in range(2)))
