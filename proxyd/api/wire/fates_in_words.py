"""What the rules made of an item, in words."""

from __future__ import annotations

from typing import Literal

from proxyd.api import wire
from proxyd.core.model.field_values import iso_time
from proxyd.daemon.past_queries import ToldOf
from proxyd.store.listed_rows import DeliveryStatus

_STATES_AHEAD = {
    "pending": "waits for {endpoint}, which is tried again at {next}",
    "gathering": "waits for the digest to {endpoint} at {next}",
    "released": "waits for the end of the quiet hours, at {next}, for {endpoint}",
    "gathered": "is in the digest to {endpoint}",
    "held": "waits for {endpoint}, after an earlier one that failed",
    "stopped": "waits: {endpoint} wants no more; send a test message to start it again",
}
_STATES_BEHIND = {
    "delivered": "{endpoint} accepted it at {done}",
    "muted": "was not sent to {endpoint}, because the rule was muted",
    "limited": "was not sent to {endpoint}, because of the rule's LIMIT",
    "dropped": "was dropped for {endpoint}",
    "dead": "was given up for {endpoint}: {error}",
}


def item_fate(told: ToldOf) -> wire.ToldOfItem:
    """Return what a rule made of an item, in words.

    A notification that is not sent at once says why; of one that was counted, the notification is the next of its rule.
    """
    fate, stored = told.fate, told.notification
    why = list(fate.why)
    if stored is None:
        why += [f"the rule fails: {told.failure}"] if told.failure else []
        why += [] if why else ["it has no notification: the rule's query gave no row, or was declared later"]
        state: Literal["waiting", "left out"] = "waiting" if fate.is_counted and not told.failure else "left out"
        return wire.ToldOfItem(rule=fate.rule, fate=state, why=why, notification=None)
    why += [f"the rule told at {iso_time(stored.created_s)}"] if fate.is_counted else []
    why += ["the rule was muted"] if stored.muted else []
    why += ["the rule's LIMIT was reached"] if stored.limited else []
    why += [_said_of(each) for each in stored.deliveries]
    why += [] if stored.deliveries or stored.muted or stored.limited else ["shown here only: the rule tells nobody"]
    states = {each.state for each in stored.deliveries}
    found: Literal["told", "waiting", "kept"] = (
        "told" if "delivered" in states else "waiting" if states & _STATES_AHEAD.keys() else "kept"
    )
    return wire.ToldOfItem(rule=fate.rule, fate=found, why=why, notification=stored.notification_id)


def _said_of(known: DeliveryStatus) -> str:
    """Return in words how a delivery stands."""
    words = (_STATES_AHEAD | _STATES_BEHIND).get(known.state, f"{known.state}: {{endpoint}}")
    done = "an unknown time" if known.done_s is None else iso_time(known.done_s)
    return words.format(endpoint=known.endpoint, next=iso_time(known.next_s), done=done, error=known.last_error)
