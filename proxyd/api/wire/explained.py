"""Converters of explanations: when a source is probed and why, as values and in words."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isclose
from typing import Any

import numpy as np

from proxyd.api import wire
from proxyd.api.wire.base_models import time_or_none
from proxyd.api.wire.converters import DAYS, misfit, model_of, probe_to_come, share
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.profile import Declaration
from proxyd.core.model.schedule import Constraint, Reason
from proxyd.core.planning.policies.rule_demand import CountedAhead
from proxyd.core.rates.model_fit import ItemGaps
from proxyd.core.rules.answers.explanation import Explanation, KeptPromise, RulePolicy, chance_text, item_to_count
from proxyd.core.rules.known.state import ITEMS
from proxyd.core.rules.programs.stream_state import Spell

_EVEN = 1.05
_NOTHING = 1e-4  # smaller amounts are shown as 0
_LATE = "; by its rate several more should have come since"
_MANY = 5.0  # items that come only once in 150 times if none came
_LITTLE = 0.1  # a correction of a rate that is not worth a line
_DAY_S = 86400.0
_UNITS = (("day", _DAY_S), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0))
_PACES = (("second", 1.0), ("minute", 60.0), ("hour", 3600.0), ("day", _DAY_S), ("month", 30 * _DAY_S))


def explanation(found: Explanation, kept: Sequence[KeptPromise] = ()) -> wire.Explained:
    """Return when a source is probed and why, with a summary in words, and what its rules kept of their targets."""
    shown = [model_of(each, wire.KeptPromiseShown, kept=share(each.kept)) for each in kept]
    week = np.round(found.week, 4).tolist()
    return wire.Explained(summary=_summary(found, kept), week=week, kept=shown, **_state(found))


def source(declaration: Declaration, found: Explanation) -> wire.SourceListed:
    """Return a source for a list."""
    declared = declaration.sources[found.source_id]
    return wire.SourceListed(**_state(found), domain=declared.domain, **{"class": declared.page_class})


def _state(found: Explanation) -> dict[str, Any]:
    """Return the members that both models of a source share."""
    state = found.state
    return {
        **wire.members_of(state, wire.SourceShown),
        **wire.members_of(found, wire.SourceShown),
        "policies": {rule: _policy(policy) for rule, policy in sorted(found.policies.items())},
        "intervals": {
            rule: (iso_time(begin_s), time_or_none(end_s)) for rule, (begin_s, end_s) in sorted(found.intervals.items())
        },
        "counted": dict(sorted(found.counted.items())),
        "next_probe": probe_to_come(found.next_probe) if found.next_probe else None,
        "chance": None if found.chance is None else round(found.chance, 4),
        "price_item_hours": None if found.price_item_s is None else found.price_item_s / 3600.0,
        "off": None if found.misfit is None else misfit(found.misfit),
        "newest": time_or_none(state.newest_s),
        "last_probe": time_or_none(state.last_start_s),
        "silent": [model_of(spell, wire.SilentField, field=name) for name, spell in state.health.silent.items()],
        "items_lost_estimated": state.lost_items,
    }


def _warning(name: str, spell: Spell) -> str:
    """Return that a field has no value, or a source no items.

    >>> print(_warning("price", Spell(5, 0.0, 600.0)))
    warning: price has shown no value since 1970-01-01T00:00:00.000Z (5 probes)
    """
    shown = "it has shown no items" if name == ITEMS else f"{name} has shown no value"
    return f"warning: {shown} since {iso_time(spell.since_s)} ({spell.probes:,} probe{'s' * (spell.probes != 1)})"


def _policy(found: RulePolicy) -> wire.PolicyUsed:
    expected = None if found.expected is None else share(found.expected)
    return model_of(found, wire.PolicyUsed, policy=found.name, expected=expected)


def _summary(found: Explanation, kept: Sequence[KeptPromise]) -> list[str]:
    lines = [f"{found.source_id}  {found.url}"]
    lines += [_warning(name, spell) for name, spell in found.state.health.silent.items()]
    is_site = found.state.health.site is not None  # which has no items
    lines += [] if is_site else [_rate_line(found), *_recent_lines(found), *_newest_lines(found), *_lost_lines(found)]
    got = {each.rule: f"; {_kept(each)}" for each in kept}
    lines += [f"rule {rule}: {p.name} ({p.because}){got.get(rule, '')}" for rule, p in sorted(found.policies.items())]
    lines += [f"rule {rule} keeps screenshots" for rule in found.picturing]
    lines += [_last_line(found), f"next probe: {_coming(found)}"]
    lines += _constraint_lines(found)
    lines += [] if is_site else _week_lines(found)
    lines += [] if found.misfit is None else misfit(found.misfit).summary
    lines += _origin_lines(found)
    if found.blocked_by and found.earliest_s:
        lines.append(f"delayed by {found.blocked_by} until {iso_time(found.earliest_s)}")
    if found.unmet_intervals:
        lines.append(f"expected events that passed without a probe: {found.unmet_intervals}")
    if found.postponed:
        counts = ", ".join(f"{_count(f'{n:,}', 'time')} by {name}" for name, n in sorted(found.postponed.items()))
        lines.append(f"its next probe was put off so far: {counts}")
    return lines


def _rate_line(found: Explanation) -> str:
    guessed = "as declared, nothing learned yet" if found.is_declared else "guessed from the other sources"
    known = "estimated" if found.state.rate.as_of_s is not None else guessed
    pace, unit_s = _pace(found.rate_per_day)
    low, high = (_amount(each * unit_s / _DAY_S, 2) for each in found.rate_range_per_day)
    return f"rate: {pace} ({known}; 80 % sure: {low} to {high})"


def _pace(rate_per_day: float) -> tuple[str, float]:
    """Return a rate in words, and the time it counts items in, in seconds: the shortest in which there are two.

    >>> _pace(7.0), _pace(1e4)[0], _pace(0.1)[0], _pace(0.003)[0]
    (('7 items a day', 86400.0), '6.94 items a minute', '3 items a month', '1.09 items a year')
    """
    year = "year", 365 * _DAY_S
    unit, unit_s = next((each for each in _PACES if rate_per_day * each[1] >= 2 * _DAY_S), year)
    items = _count(_amount(rate_per_day * unit_s / _DAY_S, 3), "item")
    return f"{items} a{'n' * (unit == 'hour')} {unit}", unit_s


def _recent_lines(found: Explanation) -> list[str]:
    lines = ["items that came together with those of many other sources do not count in that rate"]
    lines, factor = lines if found.leaves_out_mass else [], found.recent_factor
    if factor is None or found.gaps is not None or abs(factor - 1.0) < _LITTLE:
        return lines
    because = "because of what came in the last hours, days and weeks"
    return [*lines, f"planned by {_amount(factor, 2)} times that rate, {because}"]


def _newest_lines(found: Explanation) -> list[str]:
    """Return when the newest item came, and that the next one is late if it is."""
    newest_s, seen_s = found.state.newest_s, found.state.last_success_s
    if newest_s is None or seen_s is None:
        return []
    expected = found.rate_per_day * (seen_s - newest_s) / _DAY_S
    return [f"newest item: {iso_time(newest_s)}{_LATE if expected > _MANY else ''}"]


def _lost_lines(found: Explanation) -> list[str]:
    """Return how many items were never seen, and how soon they slide off the feed."""
    state = found.state
    lost = round(state.lost_items)
    if not lost:
        return []
    said = f"about {_count(f'{lost:,}', 'item')} came and went unseen"
    if state.shown > 1 and found.rate_per_day > 0:
        passing = _length_text(state.shown * _DAY_S / found.rate_per_day)
        said += f": it shows {state.shown:,}, as many as come in {passing}, and must be asked more often than that"
    return [said]


def _last_line(found: Explanation) -> str:
    state = found.state
    if state.last_outcome is None:
        return "last probe: none yet"
    detail = f", {state.last_detail}" if state.last_detail else ""
    at = "no request was sent" if state.last_start_s is None else iso_time(state.last_start_s)
    return f"last probe: {at}, {state.last_outcome}{detail}"


def _coming(found: Explanation) -> str:
    """Return when the source is probed next and why, or that it is not."""
    if found.paused is not None:
        return f"none; it is paused {found.paused.told}, and `proxyd resume` has it probed again"
    if found.next_probe is None:
        return f"none planned for now ({found.blocked_by or 'nothing is due'})"
    others = " if no other source needs it more, for the budget has no room before" if _is_short(found) else ""
    return f"{iso_time(found.next_probe.start_s)}{others}, because {found.because}"


def _is_short(found: Explanation) -> bool:
    return found.blocked_by == Constraint.BUDGET


def _kept(kept: KeptPromise) -> str:
    """Return how much of a rule's promise was kept for a source.

    >>> _kept(KeptPromise(0.0, "r", intervals=40, promised=0.9, kept=0.95))
    '95 % kept of 40 items in the last 7 days'
    >>> _kept(KeptPromise(0.0, "r", intervals=40, promised=0.9, kept=0.5))
    '50 % kept of 40 items in the last 7 days, less than promised'
    """
    items = "1 item" if kept.intervals == 1 else f"{kept.intervals:,} items"
    short = ", less than promised" if kept.is_off else ""
    return f"{kept.kept * 100:.3g} % kept of {items} in the last 7 days{short}"


def _amount(value: float, digits: int) -> str:
    """Return a number in common notation.

    >>> _amount(1234.0, 2), _amount(99.6, 2), _amount(0.0123, 2), _amount(1e-9, 2)
    ('1,234', '100', '0.012', '0')
    """
    if 10**digits - 0.5 <= value < inf:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}" if value >= _NOTHING else "0"


def _count(amount: str, noun: str) -> str:
    return f"{amount} {noun}{'s' * (amount != '1')}"


def _line_of_count(rule: str, ahead: CountedAhead) -> str:
    expected = f"of which there is {chance_text(ahead.chance)} by {iso_time(ahead.by_s)}"
    return f"rule {rule} waits for {item_to_count(ahead)}, {expected}"


def _constraint_lines(found: Explanation) -> list[str]:
    """Return the intervals that rules expect, and constraints of the next probe other than the one that delays it."""
    lines = [
        f"rule {rule} expects an event between {iso_time(begin_s)} and {iso_time(end_s)}"
        for rule, (begin_s, end_s) in sorted(found.intervals.items())
    ]
    coming = found.next_probe and found.next_probe.probe
    named = coming.rule if coming and coming.reason is Reason.COUNTED else None
    lines += [_line_of_count(rule, ahead) for rule, ahead in sorted(found.counted.items()) if rule != named]
    delayed_s = found.earliest_s if found.blocked_by else None
    if found.host_free_s is not None and found.host_free_s != delayed_s:
        lines.append(f"its host's budget allows the next probe at {iso_time(found.host_free_s)}")
    if found.fresh_until_s is not None and found.fresh_until_s != delayed_s:
        lines.append(f"fresh until {iso_time(found.fresh_until_s)}, by the caching headers of its origin")
    return lines


def _week_lines(found: Explanation) -> list[str]:
    """Return the delay that a probe must save, and the busiest hour of the week."""
    if found.price_item_s is None:
        return []
    price = f"a probe is made when it saves its items {_length_text(found.price_item_s)} of waiting together"
    more = "lower probe_price"
    if found.has_targets:
        more = "set a shorter WITHIN or a higher target"
    if found.spends_all or _is_short(found):
        more = "raise budget"
    advice = f"for more probes, {more} or write SET POLICY UNIFORM"
    if found.is_host_bound:
        advice = "more than elsewhere, because host_spacing, host_budget or robots.txt limit the probes of its host"
    lines = [f"price: {price} ({advice})"]
    if found.gaps is not None:
        lines.append(f"planned by the age of its newest item: {_gap_text(found.gaps)}")
    if not found.week or found.gaps is not None:
        return lines
    busiest = max(found.week)
    if busiest <= _EVEN:
        return lines
    lines.append(f"week: busiest {_busiest_hour(found.week)}, {busiest:.1f} times its mean")
    if found.week_ahead_h:
        lines.append(f"its week is the one that all sources share, {_hours_later(-found.week_ahead_h)}")
    if found.turned is not None:
        by_h, at_s = found.turned
        what = f"come {_hours_later(by_h)} than before" if by_h else "come at other hours, which are learned again"
        lines.append(f"since {iso_time(at_s)} the items of all sources {what}")
    return lines


def _hours_later(hours: int) -> str:
    """Return how much later something is, or earlier.

    >>> _hours_later(1), _hours_later(-6)
    ('1 hour later', '6 hours earlier')
    """
    return f"{abs(hours)} hour{'s' * (abs(hours) != 1)} {'later' if hours > 0 else 'earlier'}"


def _gap_text(gaps: ItemGaps) -> str:
    """Return how far items are apart.

    >>> _gap_text(ItemGaps.of_times([day * 86400.0 + day % 2 * 3600.0 for day in range(30)]))
    'the next one comes about 24 hours later, give or take 2.5 hours'
    """
    mean, deviation = _length_text(gaps.mean_s), _length_text(gaps.deviation_s)
    return f"the next one comes about {mean} later, give or take {deviation}"


def _length_text(length_s: float) -> str:
    """Return a length of time with two digits, in the largest unit of which there are two.

    >>> _length_text(45.0), _length_text(5400.0), _length_text(8.77e7), _length_text(1.0)
    ('45 seconds', '90 minutes', '1,015 days', '1 second')
    """
    unit, unit_s = next((each for each in _UNITS if length_s >= 2 * each[1]), _UNITS[-1])
    return _count(_amount(length_s / unit_s, 2), unit)


def _busiest_hour(week: Sequence[float]) -> str:
    """Return the hour of the highest of 168 factors, with all of its days: weeks are often made of one or two days.

    >>> _busiest_hour([0.9, 2.0, *[0.9] * 166]), _busiest_hour([0.5, 2.0, *[0.9] * 22] * 7)
    ('on Monday at 1:00 UTC', 'every day at 1:00 UTC')
    >>> _busiest_hour([0.5] * 127 + [4.0] + [0.5] * 23 + [4.0] + [0.5] * 16)
    'on Saturday and Sunday at 7:00 UTC'
    """
    day, hour = divmod(max(range(len(week)), key=week.__getitem__), 24)
    days = [name for name, factor in zip(DAYS, week[hour::24], strict=True) if isclose(factor, week[24 * day + hour])]
    if len(days) == len(DAYS):
        return f"every day at {hour}:00 UTC"
    *first, last = days
    return f"on {', '.join(first)}{' and ' * bool(first)}{last} at {hour}:00 UTC"


def _origin_lines(found: Explanation) -> list[str]:
    """Return what proxyd learned about the source's origin: redirects, wrong 304s and hubs."""
    state, subscription = found.state, found.subscription
    lines = []
    if state.health.accepted is not None:
        accepted = f"{state.health.accepted.url} since {iso_time(state.health.accepted.at_s)}"
        lines.append(f"its move was accepted, read at: {accepted}; `proxyd moved` shows where to write the new address")
    if found.moved_url is not None:
        lines.append(f"moved permanently, probed at: {found.moved_url}")
    if state.distrust_until_s > (state.last_start_s or 0.0):
        lines.append(f"its 304 responses are ignored until {iso_time(state.distrust_until_s)}, because one was wrong")
    if subscription is not None:
        until = f" until {iso_time(subscription.lease_until_s)}" if subscription.lease_until_s else ""
        pushes = f"pushes so far: {subscription.pushes}"
        if subscription.told or subscription.misses:
            relied = ", so the source is probed " + ("less" if subscription.is_relied_on else "as if it had none")
            pushes += f", items left out: about {subscription.left_out:.0%}{relied}"
        lines.append(f"hub: {subscription.hub}, subscription {subscription.status.value}{until}, {pushes}")
    return lines
