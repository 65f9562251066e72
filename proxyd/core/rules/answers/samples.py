"""What a rule would say of items that are there now."""

from __future__ import annotations

from collections.abc import Sequence

from proxyd.core.model.item import EventKind, Item, UpdateEvent
from proxyd.core.rules.programs.expression_compiler import Row
from proxyd.core.rules.programs.message_program import word_rows
from proxyd.core.rules.programs.meter import Meter
from proxyd.core.rules.programs.rule_program import RuleProgram


def sample(program: RuleProgram, items: Sequence[Item], source_id: str, now_s: float) -> list[str]:
    """Return the message of a rule for each item that its WHERE and its query let pass, as if all were new.

    Raises
    ------
    EvaluationError
        The rule's expressions exceed a limit.
    """
    meter = Meter()
    texts: list[str] = []
    for number, item in enumerate(items):
        time_s = now_s if item.published_s is None else item.published_s
        event = UpdateEvent(source_id, number, EventKind.INSERT, item, time_s, now_s, item.published_s is not None)
        if program.trigger.passes(event, meter):
            rows = program.query.run([[Row.of(event, meter=meter)]], meter)
            texts += word_rows(program.message, rows, meter, rule=program.rule.name, source=source_id).rows
    return texts
