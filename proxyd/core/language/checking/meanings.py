"""What a rule means differently than in an earlier version of proxyd."""

from __future__ import annotations

from proxyd.core.model.profile import NotificationRule

MEANING = 2
"""The present meaning of the language. Under meaning 1 the rows of a notification were all events since the last."""


def what_changed(rule: NotificationRule, meaning: int) -> str | None:
    """Return what a rule that was accepted under an earlier meaning does differently now, or ``None``."""
    if meaning >= MEANING:
        return None
    if rule.trigger.where is not None:
        return "its messages hold only the items that match; before, they held all items since the last message"
    if rule.trigger.is_mixed:
        return "its messages hold only the item that it fires on; before, they held all items since the last message"
    query = rule.query
    if query.where is not None or query.having is not None or len(query.sources) > 1:
        return "it sends nothing where its query finds no row; SET EMPTY DELIVER sends such messages as before"
    return None
