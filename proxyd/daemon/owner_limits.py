"""How much belongs to the profiles of somebody who has limits, and whether a declaration takes more."""

from __future__ import annotations

from collections.abc import Collection
from math import ceil

from proxyd.base.doers import OwnerLimits
from proxyd.core.errors import ConflictError
from proxyd.core.language import StatementKind
from proxyd.core.model.profile import Declaration, NotificationRule, owner_of
from proxyd.daemon.declared_texts import DeclaredTexts

_HOUR_S = 3600.0
_CALLED = {"probes": "probes an hour"}


def refuse_more(limits: OwnerLimits, used: dict[str, int], wanted: dict[str, int]) -> None:
    """Raise ``ConflictError`` if more is wanted than limits allow; who has more than that already may keep it.

    >>> refuse_more(OwnerLimits(sources=2), {"sources": 3}, {"sources": 3})
    >>> refuse_more(OwnerLimits(sources=2), {"sources": 2}, {"sources": 4})
    Traceback (most recent call last):
    proxyd.core.errors.ConflictError: your limit is 2 sources: you have 2, and with this you would have 4
    """
    for name, most in limits.set.items():
        if wanted[name] > max(most, used[name]):
            what = _CALLED.get(name, name)
            has = f"you have {used[name]:,}, and with this you would have {wanted[name]:,}"
            raise ConflictError(f"your limit is {most:,} {what}: {has}")


def usage_of(
    profiles: Collection[str], declared: Declaration, texts: DeclaredTexts, *, chronon_s: float
) -> dict[str, int]:
    """Return how much belongs to some profiles, by the name of its limit; takes long if there is much."""
    rules = [rule for name, rule in declared.rules.items() if owner_of(name) in profiles]
    receivers = texts.declared.get(StatementKind.RECEIVER, {})
    often: dict[str, float] = {}
    for rule in rules:
        per_hour = _HOUR_S / _period_s(rule, chronon_s)
        for source in rule.source_ids:
            often[source] = max(often.get(source, 0.0), per_hour)
    return {
        "sources": sum(owner_of(name) in profiles for name in declared.sources),
        "rules": len(rules),
        "receivers": sum(owner_of(name) in profiles for name in receivers),
        "probes": ceil(sum(often.values())),
    }


def _period_s(rule: NotificationRule, chronon_s: float) -> float:
    """Return how long a rule lets a source wait for a probe: EVERY, WITHIN or its policy say it, or it is an hour."""
    window = None if rule.life is None else rule.life.window
    said = (each for each in (rule.longest_gap, window, rule.policy.period) if each is not None)
    return min((max(each.in_seconds(chronon_s=chronon_s), chronon_s) for each in said), default=_HOUR_S)
