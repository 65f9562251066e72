"""What goes over the wire, from values of the core."""

from __future__ import annotations

import json
from typing import Any

from proxyd.model.profile import Declaration, NotificationRule, Profile
from proxyd.ports import Control, Report
from proxyd.rules import Account, Advice, Explanation, Fates, Misfit, iso_time
from proxyd.scheduling import PlannedProbe

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_EVEN = 1.05
_DAY_S = 86400.0


def time_or_none(time_s: float | None) -> str | None:
    """Return an ISO 8601 time; ``None`` for what never was."""
    return None if not time_s else iso_time(time_s)


def planned_probe(planned: PlannedProbe) -> dict[str, Any]:
    """Return a coming probe."""
    probe = planned.probe
    return {
        "source": probe.source_id,
        "at": iso_time(planned.start_s),
        "reason": probe.reason.value,
        "rule": probe.rule,
        "rate_per_day": round(probe.rate_per_day, 6),
    }


def advice(found: Advice) -> dict[str, Any]:
    """Return what other budgets would buy, an hour instead of a second."""
    per_hour = 3600.0
    return {
        "budget_per_hour": round(found.budget_per_s * per_hour, 3),
        "planned_per_hour": None if found.planned_per_s is None else round(found.planned_per_s * per_hour, 3),
        "trade": [
            {
                "probes_per_hour": round(point.probes_per_s * per_hour, 3),
                "delay_s": round(point.delay_s, 3),
                "completeness": round(point.captured, 4),
                "price_item_hours": round(point.price_item_s / per_hour, 6),
            }
            for point in found.trade
        ],
        "intervals_over_s": found.over_s,
        "rules": [{"rule": r.rule, "intervals": r.intervals, "unmet": dict(r.unmet)} for r in found.rules],
        "pareto": [{"captured": captured, "delay_s": round(delay_s, 3)} for captured, delay_s in found.front],
        "needed_per_hour": None if found.needed_per_s is None else round(found.needed_per_s * per_hour, 3),
    }


def report(found: Report) -> dict[str, Any]:
    """Return what was found beside what was predicted, and what is off with whom."""
    return {
        "days": [{"day": iso_time(day * _DAY_S)[:10], **_account(account)} for day, account in found.days],
        "off": [misfit(each) for each in found.off],
    }


def _account(account: Account) -> dict[str, Any]:
    return {
        "probes": account.probes,
        "items": account.items,
        "predicted_items": round(account.predicted_items, 3),
        "mean_delay_s": _share(account.mean_delay_s),
        "predicted_mean_delay_s": _share(account.predicted_mean_delay_s),
        "captured": account.captured,
        "missed": account.missed,
        "completeness": _share(account.completeness),
        "predicted_completeness": _share(account.predicted_completeness),
    }


def misfit(found: Misfit) -> dict[str, Any]:
    """Return what is off with a source's model, and what is done about it, with a summary in words."""
    fit = found.fit
    return {
        "source": found.source_id,
        "rate_off_since": time_or_none(fit.rate_off_since_s),
        "found": round(fit.found, 3),
        "expected": round(fit.expected, 3),
        "week_off_since": time_or_none(fit.week_off_since_s),
        "week_score": round(fit.score, 3),
        "summary": _misfit_lines(found),
    }


def _misfit_lines(found: Misfit) -> list[str]:
    fit = found.fit
    lines = []
    if fit.week_off_since_s is not None:
        since = iso_time(fit.week_off_since_s)
        lines.append(f"its week was off (score {fit.score:.1f} against an even one): planned evenly since {since}")
    if fit.rate_off_since_s is not None:
        way = "more" if fit.found > fit.expected else "fewer"
        counts = f"{fit.found:.3g} items found, {fit.expected:.3g} expected, recent ones weighing most"
        since = iso_time(fit.rate_off_since_s)
        lines.append(f"its rate was off, {way} than expected ({counts}): learned anew since {since}")
    return lines


def explanation(found: Explanation) -> dict[str, Any]:
    """Return why a source is probed when it is, with a summary in words."""
    state = found.state
    return {
        "source": found.source_id,
        "url": found.url,
        "rate_per_day": round(found.rate_per_day, 6),
        "rate_range_per_day": [round(rate, 6) for rate in found.rate_range_per_day],
        "policies": {rule: {"policy": name, "because": why} for rule, (name, why) in sorted(found.policies.items())},
        "intervals": {rule: [iso_time(s) for s in ends] for rule, ends in sorted(found.intervals.items())},
        "host_free": time_or_none(found.host_free_s),
        "fresh_until": time_or_none(found.fresh_until_s),
        "next_probe": planned_probe(found.next_probe) if found.next_probe else None,
        "blocked_by": found.blocked_by,
        "earliest": time_or_none(found.earliest_s),
        "rules": list(found.rules),
        "postponed": dict(found.postponed),
        "unmet_intervals": found.unmet_intervals,
        "price_item_hours": None if found.price_item_s is None else round(found.price_item_s / 3600.0, 6),
        "week": [round(factor, 4) for factor in found.week],
        "off": None if found.misfit is None else misfit(found.misfit),
        "first_contact": time_or_none(state.first_contact_s),
        "last_probe": time_or_none(state.last_start_s),
        "last_outcome": state.last_outcome,
        "last_detail": state.last_detail,
        "failures": state.failures,
        "items_seen": state.next_seq - 1,
        "items_lost_estimated": round(state.lost_items, 3),
        "summary": _summary(found),
    }


def _summary(found: Explanation) -> list[str]:
    state = found.state
    known = "estimated" if state.rate.as_of_s is not None else "expected, nothing learned yet"
    low, high = found.rate_range_per_day
    rate = f"{found.rate_per_day:.3g} items a day ({known}; four to one between {low:.2g} and {high:.2g})"
    lines = [f"{found.source_id}  {found.url}", f"rate: {rate}"]
    lines += [f"rule {rule}: {name} ({why})" for rule, (name, why) in sorted(found.policies.items())]
    if state.last_start_s is None:
        lines.append("last probe: none yet")
    else:
        detail = f", {state.last_detail}" if state.last_detail else ""
        lines.append(f"last probe: {iso_time(state.last_start_s)}, {state.last_outcome}{detail}")
    if found.next_probe is None:
        lines.append(f"next probe: none planned in this epoch ({found.blocked_by or 'nothing is due'})")
    else:
        probe = found.next_probe.probe
        rule = f" for rule {probe.rule}" if probe.rule else ""
        lines.append(f"next probe: {iso_time(found.next_probe.start_s)}, because of {probe.reason.value}{rule}")
    lines += _constraint_lines(found)
    lines += _week_lines(found)
    lines += [] if found.misfit is None else _misfit_lines(found.misfit)
    lines += _origin_lines(found)
    if found.blocked_by and found.earliest_s:
        lines.append(f"held back by {found.blocked_by} until {iso_time(found.earliest_s)}")
    if found.unmet_intervals:
        lines.append(f"planned intervals that ended without a probe: {found.unmet_intervals}")
    if found.postponed:
        counts = ", ".join(f"{name} {count} times" for name, count in sorted(found.postponed.items()))
        lines.append(f"postponed so far by: {counts}")
    return lines


def _constraint_lines(found: Explanation) -> list[str]:
    """Return the intervals that rules expect, and what a probe must keep to."""
    lines = [
        f"rule {rule} expects an interval from {iso_time(begin_s)} to {iso_time(end_s)}"
        for rule, (begin_s, end_s) in sorted(found.intervals.items())
    ]
    if found.host_free_s is not None:
        lines.append(f"its host's budget lets a probe start at {iso_time(found.host_free_s)}")
    if found.fresh_until_s is not None:
        lines.append(f"fresh until {iso_time(found.fresh_until_s)}, as its origin says")
    return lines


def _week_lines(found: Explanation) -> list[str]:
    """Return what a probe must save, and when in the week the source is busy."""
    if found.price_item_s is None:
        return []
    price = f"a probe for detection must save {found.price_item_s / 3600.0:.3g} item-hours of delay"
    lines = [f"price: {price} (a lower probe_price, or POLICY UNIFORM, asks more often)"]
    if not found.week:
        return lines
    busiest = max(range(len(found.week)), key=lambda hour: found.week[hour])
    if found.week[busiest] > _EVEN:
        day, hour = divmod(busiest, 24)
        lines.append(f"week: busiest on {_DAYS[day]} at {hour}:00 UTC, {found.week[busiest]:.1f} times its mean")
    return lines


def _origin_lines(found: Explanation) -> list[str]:
    """Return what was learned of the source's origin."""
    state, subscription = found.state, found.subscription
    lines = []
    if found.moved_url is not None:
        lines.append(f"moved for good, asked at: {found.moved_url}")
    if state.distrust_until_s > (state.last_start_s or 0.0):
        lines.append(f"its 304s are not believed until {iso_time(state.distrust_until_s)}: one was untrue")
    if subscription is not None:
        until = f" until {iso_time(subscription.lease_until_s)}" if subscription.lease_until_s else ""
        pushes = f"{subscription.pushes} pushes so far"
        lines.append(f"hub: {subscription.hub}, subscription {subscription.status.value}{until}, {pushes}")
    return lines


def source(declaration: Declaration, found: Explanation) -> dict[str, Any]:
    """Return a source for a list: what ``explanation`` says, without the summary."""
    payload = explanation(found)
    del payload["summary"]
    declared = declaration.sources[found.source_id]
    return payload | {"class": declared.page_class, "domain": declared.domain}


def profile(declared: Profile, declaration: Declaration, control: Control) -> dict[str, Any]:
    """Return a profile, who declared it, its rules, and what they achieved."""
    rules = [r for r in declaration.rules.values() if declared.name in r.profiles]
    fates = [control.fates(r.name) for r in rules]
    return {
        "name": declared.name,
        "origin": control.origin(declared.file),
        "domains": list(declared.domains),
        "users": list(declared.users),
        "rules": [_rule(r, its) for r, its in zip(rules, fates, strict=True)],
        **_fates(sum(fates, Fates())),
    }


def _rule(rule: NotificationRule, fates: Fates) -> dict[str, Any]:
    return {
        "name": rule.name,
        "sources": list(rule.source_ids),
        "policy": rule.policy.name.value,
        "fingerprint": rule.fingerprint,
        "deliveries": len(rule.deliveries),
        **_fates(fates),
    }


def _fates(fates: Fates) -> dict[str, Any]:
    """Return what became of execution intervals; shares are 0 to 1, ``None`` where there was no interval."""
    return {
        "captured": fates.captured,
        "missed": fates.missed,
        "completeness": _share(fates.completeness),
        "utility": _share(fates.utility),
    }


def _share(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def notification(row: dict[str, Any]) -> dict[str, Any]:
    """Return a notification with its deliveries."""
    return {
        "id": row["notification_id"],
        "position": row["position"],
        "rule": row["rule"],
        "source": row["source_id"],
        "event": iso_time(row["event_s"]),
        "created": iso_time(row["created_s"]),
        "late": row["late"],
        "body": json.loads(row["body"]),
        "deliveries": [_delivery(d) for d in row["deliveries"]],
    }


def webhook(row: dict[str, Any]) -> dict[str, Any]:
    """Return a webhook and whether it has shown that it is there."""
    return row | {"since": iso_time(row.pop("since_s"))}


def _delivery(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "endpoint": row["endpoint"],
        "state": row["state"],
        "attempts": row["attempts"],
        "next": iso_time(row["next_s"]) if row["state"] in {"pending", "gathering"} else None,
        "done": time_or_none(row["done_s"]),
        "last_error": row["last_error"],
    }
