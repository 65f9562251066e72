"""The notice that proxyd itself was offline: one for each receiver of failures, because none are told meanwhile."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from proxyd.core.model.delivery import Delivery
from proxyd.core.model.field_values import iso_time, minute_of
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import Source
from proxyd.core.politeness import Outage
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.stages.payload import body_of
from proxyd.core.rules.state import Notification

_UNTOLD = frozenset({EventKind.FAILURE, EventKind.TROUBLE})


def outage_notices(programs: Iterable[RuleProgram], outage: Outage, source: Source) -> Iterator[Notification]:
    """Yield the notifications of rules that tell of failures, about an outage that an answer of ``source`` ended.

    A receiver of several rules gets one notification, in a digest only if none of its rules sends at once. A rule whose
    AFTER is a time longer than the outage makes none, because it would not have told of such a failure.
    """
    told: set[Delivery] = set()
    for program in sorted(programs, key=lambda each: (each.rule.digest is not None, each.rule.name)):
        deliveries = tuple(each for each in program.rule.deliveries if each not in told)
        if _tells(program, outage) and len(deliveries) >= min(1, len(program.rule.deliveries)):
            told.update(deliveries)
            yield _notice(program, outage, source, deliveries)


def _tells(program: RuleProgram, outage: Outage) -> bool:
    """Whether a rule would have told of a failure that lasted as long as an outage."""
    is_waiting = program.rule.trigger.kind in _UNTOLD and program.is_active(outage.until_s)
    return is_waiting and program.awaited.lasting.length_s <= outage.until_s - outage.since_s


def _notice(program: RuleProgram, outage: Outage, source: Source, deliveries: tuple[Delivery, ...]) -> Notification:
    """Return the notification of one rule; its id is the same each time that it is computed."""
    name = program.rule.name
    identity = f"{name}\0{program.accepted_s!r}\0offline\0{outage.since_s!r}"
    notification_id = "ntf_" + hashlib.sha256(identity.encode()).hexdigest()[:32]
    data = {"id": notification_id, "rule": name, "profiles": list(program.rule.profiles), **_data(outage, source)}
    return Notification(
        notification_id=notification_id,
        rule=name,
        source_id=source.source_id,
        event_s=outage.since_s,
        created_s=outage.until_s,
        late=False,
        body=body_of(data, outage.until_s),
        deliveries=deliveries,
    )


def _data(outage: Outage, source: Source) -> dict[str, Any]:
    """Return what a notice says of an outage, the same for each rule."""
    since, until = minute_of(outage.since_s), minute_of(outage.until_s)
    said = f"proxyd was offline from {since} to {until}; failures in that time are not told"
    return {
        "source": source.source_id,
        "url": source.url,
        "event": {"kind": "offline", "time": iso_time(outage.since_s), "seen": iso_time(outage.until_s)},
        "interval": {"start": iso_time(outage.since_s), "end": iso_time(outage.until_s)},
        "late": False,
        "items": [{"source.trouble": said}],
        "message": {"title": said, "rows": [said], "is_set": True},
    }
