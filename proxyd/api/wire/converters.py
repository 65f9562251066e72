"""Converters from rows and values of the core to wire models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import inf
from typing import Any, TypeVar

from proxyd.api import wire
from proxyd.core.language import rule_counting
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.profile import Declaration, Domain, NotificationRule, PageClass, Profile
from proxyd.core.model.schedule import Reason
from proxyd.core.model.suspension import Suspension
from proxyd.core.planning.allocation.targets import RuleOutlook
from proxyd.core.planning.policies.rule_demand import CountedAhead
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rules.answers.advice import Advice, IntervalOutlook
from proxyd.core.rules.answers.explanation import Explanation
from proxyd.core.rules.answers.promises import KeptPromise
from proxyd.core.rules.answers.trial import PlanCost
from proxyd.core.rules.capture_counts import CaptureCounts
from proxyd.core.rules.estimates import Misfit
from proxyd.core.rules.failing import FailingRule
from proxyd.core.rules.stages.calibration import Calibration
from proxyd.queries import (
    DeadDelivery,
    DecidedInterval,
    DeliveryStatus,
    MadeProbe,
    Report,
    SeenItem,
    StoredNotification,
    Token,
    WebhookStatus,
)

Shown = TypeVar("Shown", bound=wire.WireModel)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_EVEN = 1.05
_DAY_S = 86400.0


def time_or_none(time_s: float | None) -> str | None:
    """Return a time in ISO 8601, or ``None`` for ``None`` and 0, which mean never."""
    return None if not time_s else iso_time(time_s)


def _model_of(row: object, model: type[Shown], **own: Any) -> Shown:
    """Return a model whose members are the attributes of the same name of a row, except for its ``own`` members."""
    return model(**own, **{name: getattr(row, name) for name in model.model_fields if name not in own})


def _rounded(value: float | None, digits: int = 6) -> float | None:
    return None if value is None else round(value, digits)


def planned_probe(planned: PlannedProbe) -> wire.ComingProbe:
    """Return a coming probe."""
    probe = planned.probe
    return wire.ComingProbe(
        source=probe.source_id,
        at=iso_time(planned.start_s),
        reason=probe.reason.value,
        rule=probe.rule,
        rate_per_day=round(probe.rate_per_day, 6),
    )


def suspension(known: Suspension) -> wire.SuspensionShown:
    """Return a suspension."""
    times = {"since": iso_time(known.since_s), "until": time_or_none(known.until_s)}
    return _model_of(known, wire.SuspensionShown, subject=known.subject.value, **times)


def suspension_or_none(known: Suspension | None) -> wire.SuspensionShown | None:
    """Return a suspension, if there is one."""
    return None if known is None else suspension(known)


def probe_made(made: MadeProbe) -> wire.ProbeMade:
    """Return a probe that was made."""
    duration_s, delay_s = round(made.finished_s - made.started_s, 3), _rounded(made.delay_s, 3)
    return _model_of(made, wire.ProbeMade, started=iso_time(made.started_s), duration_s=duration_s, delay_s=delay_s)


def item_seen(item: SeenItem) -> wire.ItemSeen:
    """Return when an item was published and seen."""
    return wire.ItemSeen(
        came=iso_time(item.came_s), seen=iso_time(item.seen_s), delay_s=round(item.seen_s - item.came_s, 3)
    )


def interval(decided: DecidedInterval) -> wire.IntervalOfRule:
    """Return an execution interval and its result."""
    return wire.IntervalOfRule(
        source=decided.source_id,
        start=iso_time(decided.start_s),
        end=time_or_none(decided.deadline_s),
        fate="captured" if decided.captured else "late" if decided.seen else "missed",
        probed=iso_time(decided.probed_s) if decided.seen else None,
        exact=decided.exact,
        delay_s=round(decided.delay_s, 3) if decided.seen else None,
        utility=round(decided.utility, 6),
    )


def advice(found: Advice) -> wire.AdviceShown:
    """Return the advice with rates an hour instead of a second."""
    per_hour = 3600.0
    return wire.AdviceShown(
        budget_per_hour=round(found.budget_per_s * per_hour, 3),
        planned_per_hour=None if found.planned_per_s is None else round(found.planned_per_s * per_hour, 3),
        trade=[
            wire.TradeShown(
                probes_per_hour=round(point.probes_per_s * per_hour, 3),
                delay_s=round(point.delay_s, 3),
                completeness=round(point.captured, 4),
                price_item_hours=round(point.price_item_s / per_hour, 6),
            )
            for point in found.trade
        ],
        intervals_over_s=found.over_s,
        rules=[_outlook(each) for each in found.rules],
        pareto=[wire.ParetoPoint(captured=captured, delay_s=round(delay_s, 3)) for captured, delay_s in found.front],
        needed_per_hour=None if found.needed_per_s is None else round(found.needed_per_s * per_hour, 3),
        targets=[_target(rule, outlook) for rule, outlook in sorted(found.targets.items())],
        shares=[
            wire.ShareTradeShown(
                share=point.share,
                expected=_share(point.expected),
                probes_per_hour=round(point.probes_per_s * per_hour, 3),
                delay_s=round(point.delay_s, 3),
            )
            for point in found.shares
        ],
    )


def _target(rule: str, found: RuleOutlook) -> wire.TargetShown:
    """Return what a rule may expect, with rates an hour instead of a second."""
    return wire.TargetShown(
        rule=rule,
        share=found.share,
        expected=_share(found.expected),
        reachable=_share(found.reachable),
        probes_per_hour=round(found.made * 3600.0, 3),
        needed_per_hour=round(found.needed * 3600.0, 3),
        limit=found.limit,
    )


def _share(value: float) -> float:
    return round(min(max(value, 0.0), 1.0), 4)


def cost(found: PlanCost) -> wire.CostShown:
    """Return the demand of a declaration with rates an hour instead of a second."""
    return wire.CostShown(
        budget_per_hour=round(found.budget_per_s * 3600.0, 3),
        asked_per_hour=round(found.after_per_s * 3600.0, 3),
        asked_per_hour_before=round(found.before_per_s * 3600.0, 3),
        sources_added=found.added,
        sources_removed=found.removed,
        unmet=[_outlook(each) for each in found.unmet],
    )


def _outlook(found: IntervalOutlook) -> wire.RuleOutlookShown:
    return _model_of(found, wire.RuleOutlookShown, unmet=dict(found.unmet))


def report(found: Report) -> wire.ReportShown:
    """Return the results and predictions of each day, and the models that do not fit."""
    return wire.ReportShown(
        days=[_day(day, account) for day, account in found.days],
        off=[misfit(each) for each in found.off],
        promises=[_promise(each) for each in found.promises],
    )


def _promise(found: KeptPromise) -> wire.PromiseShown:
    return _model_of(found, wire.PromiseShown, week=iso_time(found.week_s)[:10], kept=_share(found.kept))


def _day(day: int, account: Calibration) -> wire.Day:
    return _model_of(
        account,
        wire.Day,
        day=iso_time(day * _DAY_S)[:10],
        predicted_items=round(account.predicted_items, 3),
        mean_delay_s=_rounded(account.mean_delay_s),
        predicted_mean_delay_s=_rounded(account.predicted_mean_delay_s),
        completeness=_rounded(account.completeness),
        predicted_completeness=_rounded(account.predicted_completeness),
    )


def misfit(found: Misfit) -> wire.ModelOff:
    """Return how a source's model does not fit, with a summary in words."""
    fit = found.fit
    return wire.ModelOff(
        source=found.source_id,
        rate_off_since=time_or_none(fit.rate_off_since_s),
        found=round(fit.found, 3),
        expected=round(fit.expected, 3),
        week_off_since=time_or_none(fit.week_off_since_s),
        week_score=round(fit.score, 3),
        summary=_misfit_lines(found),
    )


def _misfit_lines(found: Misfit) -> list[str]:
    fit = found.fit
    lines = []
    if fit.week_off_since_s is not None:
        since = iso_time(fit.week_off_since_s)
        lines.append(f"its week did not fit (score {fit.score:.1f} against an even one): planned evenly since {since}")
    if fit.rate_off_since_s is not None:
        way = "more" if fit.found > fit.expected else "fewer"
        counts = f"{fit.found:.3g} items found, {fit.expected:.3g} expected; recent ones weigh most"
        since = iso_time(fit.rate_off_since_s)
        lines.append(f"its rate did not fit, {way} items than expected ({counts}): learned again since {since}")
    return lines


def explanation(found: Explanation, kept: Sequence[KeptPromise] = ()) -> wire.Explained:
    """Return when a source is probed and why, with a summary in words, and what its rules kept of their targets."""
    shown = [_model_of(each, wire.KeptPromiseShown, kept=_share(each.kept)) for each in kept]
    return wire.Explained(summary=_summary(found, kept), kept=shown, **_state(found))


def source(declaration: Declaration, found: Explanation) -> wire.SourceListed:
    """Return a source for a list."""
    declared = declaration.sources[found.source_id]
    return wire.SourceListed(**_state(found), domain=declared.domain, **{"class": declared.page_class})


def _state(found: Explanation) -> dict[str, Any]:
    """Return the members that both models of a source share."""
    state = found.state
    return {
        "source": found.source_id,
        "url": found.url,
        "paused": suspension_or_none(found.paused),
        "rate_per_day": round(found.rate_per_day, 6),
        "rate_range_per_day": tuple(round(rate, 6) for rate in found.rate_range_per_day),
        "policies": {
            rule: wire.PolicyUsed(policy=name, because=why) for rule, (name, why) in sorted(found.policies.items())
        },
        "intervals": {
            rule: (iso_time(begin_s), time_or_none(end_s)) for rule, (begin_s, end_s) in sorted(found.intervals.items())
        },
        "counted": {
            rule: wire.CountedItem(number=ahead.number, chance=ahead.chance, by=iso_time(ahead.by_s))
            for rule, ahead in sorted(found.counted.items())
        },
        "host_free": time_or_none(found.host_free_s),
        "fresh_until": time_or_none(found.fresh_until_s),
        "next_probe": planned_probe(found.next_probe) if found.next_probe else None,
        "chance": None if found.chance is None else round(found.chance, 4),
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
    }


def _summary(found: Explanation, kept: Sequence[KeptPromise]) -> list[str]:
    state = found.state
    known = "estimated" if state.rate.as_of_s is not None else "as declared, nothing learned yet"
    low, high = found.rate_range_per_day
    between = f"80 % sure: {_amount(low, 2)} to {_amount(high, 2)}"
    rate = f"{_amount(found.rate_per_day, 3)} items a day ({known}; {between})"
    lines = [f"{found.source_id}  {found.url}"]
    if found.paused is not None:
        lines.append(f"paused {found.paused.told}; `proxyd resume` has it probed again")
    lines.append(f"rate: {rate}")
    lines += [f"rule {rule}: {name} ({why})" for rule, (name, why) in sorted(found.policies.items())]
    lines += [_kept_line(each) for each in kept]
    if state.last_outcome is None:
        lines.append("last probe: none yet")
    else:
        detail = f", {state.last_detail}" if state.last_detail else ""
        at = "no request was sent" if state.last_start_s is None else iso_time(state.last_start_s)
        lines.append(f"last probe: {at}, {state.last_outcome}{detail}")
    if found.next_probe is None:
        lines.append(f"next probe: none planned for now ({found.blocked_by or 'nothing is due'})")
    else:
        probe = found.next_probe.probe
        rule = f" for rule {probe.rule}" if probe.rule else ""
        is_due = found.chance is not None and probe.reason is Reason.DETECTION
        chance = f"; a new item is there by then with {found.chance:.0%}" if is_due else ""
        lines.append(f"next probe: {iso_time(found.next_probe.start_s)}, because of {probe.reason.value}{rule}{chance}")
    lines += _constraint_lines(found)
    lines += _week_lines(found)
    lines += [] if found.misfit is None else _misfit_lines(found.misfit)
    lines += _origin_lines(found)
    if found.blocked_by and found.earliest_s:
        lines.append(f"delayed by {found.blocked_by} until {iso_time(found.earliest_s)}")
    if found.unmet_intervals:
        lines.append(f"expected events that passed without a probe: {found.unmet_intervals}")
    if found.postponed:
        counts = ", ".join(f"{name} ({count})" for name, count in sorted(found.postponed.items()))
        lines.append(f"times postponed so far: {counts}")
    return lines


def _kept_line(kept: KeptPromise) -> str:
    """Return what a rule was promised of the items of a source, and what it got.

    >>> _kept_line(KeptPromise(0.0, "r", intervals=40, promised=0.9, kept=0.95))
    'rule r: 90 % promised, 95 % kept (40 items of the last 7 days)'
    """
    items = "1 item" if kept.intervals == 1 else f"{kept.intervals:,} items"
    shares = f"{kept.promised * 100:.3g} % promised, {kept.kept * 100:.3g} % kept"
    return f"rule {kept.rule}: {shares} ({items} of the last 7 days)"


def _amount(value: float, digits: int) -> str:
    """Return a number in common notation: 1,234 and not 1.2e+03."""
    return f"{value:,.0f}" if 100 <= value < inf else f"{value:.{digits}g}"


def _counted_line(rule: str, ahead: CountedAhead) -> str:
    since = "" if ahead.is_first else " since its last notification"
    item = f"the {ordinal(ahead.number)} item{since}"
    return f"rule {rule} waits for {item}, which is expected with {ahead.chance:.0%} by {iso_time(ahead.by_s)}"


def ordinal(number: int) -> str:
    """Return a number as one counts.

    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']
    """
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _constraint_lines(found: Explanation) -> list[str]:
    """Return the intervals that rules expect, and the constraints of the next probe."""
    lines = [
        f"rule {rule} expects an event between {iso_time(begin_s)} and {iso_time(end_s)}"
        for rule, (begin_s, end_s) in sorted(found.intervals.items())
    ]
    lines += [_counted_line(rule, ahead) for rule, ahead in sorted(found.counted.items())]
    if found.host_free_s is not None:
        lines.append(f"its host's budget allows the next probe at {iso_time(found.host_free_s)}")
    if found.fresh_until_s is not None:
        lines.append(f"fresh until {iso_time(found.fresh_until_s)}, by the caching headers of its origin")
    return lines


def _week_lines(found: Explanation) -> list[str]:
    """Return the delay that a probe must save, and the busiest hour of the week."""
    if found.price_item_s is None:
        return []
    price = f"a probe for detection must save {found.price_item_s / 3600.0:.3g} item-hours of delay"
    more = "set a shorter WITHIN or a higher target" if found.has_targets else "lower probe_price"
    advice = f"for more probes, {more} or write SET POLICY UNIFORM"
    if found.is_host_bound:
        advice = "more than elsewhere, because host_spacing, host_budget or robots.txt limit the probes of its host"
    lines = [f"price: {price} ({advice})"]
    if not found.week:
        return lines
    busiest = max(range(len(found.week)), key=lambda hour: found.week[hour])
    if found.week[busiest] > _EVEN:
        day, hour = divmod(busiest, 24)
        lines.append(f"week: busiest on {DAYS[day]} at {hour}:00 UTC, {found.week[busiest]:.1f} times its mean")
    return lines


def _origin_lines(found: Explanation) -> list[str]:
    """Return what proxyd learned about the source's origin: redirects, wrong 304s and hubs."""
    state, subscription = found.state, found.subscription
    lines = []
    if found.moved_url is not None:
        lines.append(f"moved permanently, probed at: {found.moved_url}")
    if state.distrust_until_s > (state.last_start_s or 0.0):
        lines.append(f"its 304 responses are ignored until {iso_time(state.distrust_until_s)}, because one was wrong")
    if subscription is not None:
        until = f" until {iso_time(subscription.lease_until_s)}" if subscription.lease_until_s else ""
        pushes = f"pushes so far: {subscription.pushes}"
        lines.append(f"hub: {subscription.hub}, subscription {subscription.status.value}{until}, {pushes}")
    return lines


def profile(
    declared: Profile, origin: str, rules: list[wire.Rule], counts: CaptureCounts, muted: Suspension | None
) -> dict[str, Any]:
    """Return the members of a profile: its origin, its rules, their results, and whether it is muted."""
    return {
        "name": declared.name,
        "origin": origin,
        "domains": list(declared.domains),
        "users": list(declared.users),
        "rules": rules,
        "muted": suspension_or_none(muted),
        **_achieved(counts),
    }


def rule_failing(known: FailingRule | None) -> wire.RuleFailing | None:
    """Return how a rule fails, if it does."""
    if known is None:
        return None
    times = {"at": iso_time(known.failed_s), "suspended": time_or_none(known.suspended_s)}
    return _model_of(known, wire.RuleFailing, source=known.source_id, **times)


def rule(
    declared: NotificationRule,
    origin: str,
    counts: CaptureCounts,
    muted: Suspension | None,
    failing: FailingRule | None,
) -> wire.Rule:
    """Return a rule, its results, what mutes it and how it fails."""
    return _model_of(
        declared,
        wire.Rule,
        origin=origin,
        sources=list(declared.source_ids),
        policy=declared.policy.name.value,
        counting=rule_counting(declared),
        muted=suspension_or_none(muted),
        failing=rule_failing(failing),
        deliveries=len(declared.deliveries),
        **_achieved(counts),
    )


def _achieved(counts: CaptureCounts) -> dict[str, Any]:
    """Return the counts of execution intervals; shares are 0 to 1, or ``None`` without intervals."""
    return {
        "captured": counts.captured,
        "missed": counts.missed,
        "completeness": _rounded(counts.completeness),
        "utility": _rounded(counts.utility),
    }


def domain(declared: Domain) -> wire.DomainShown:
    """Return a domain and its classes."""
    return wire.DomainShown(name=declared.name, classes=[_page_class(each) for each in declared.classes.values()])


def _page_class(declared: PageClass) -> wire.PageClassShown:
    fields = [wire.DomainField(path=each.path, type=each.type.value) for each in declared.fields]
    return _model_of(declared, wire.PageClassShown, fields=fields)


def notification(stored: StoredNotification) -> wire.NotificationListed:
    """Return a notification with its deliveries."""
    return wire.NotificationListed(**notification_members(stored))


def notification_members(stored: StoredNotification) -> dict[str, Any]:
    """Return the members of a notification."""
    return {
        "id": stored.notification_id,
        "position": stored.position,
        "rule": stored.rule,
        "source": stored.source_id,
        "event": iso_time(stored.event_s),
        "created": iso_time(stored.created_s),
        "late": stored.late,
        "muted": stored.muted,
        "body": json.loads(stored.body),
        "deliveries": [_delivery(each) for each in stored.deliveries],
    }


def webhook(known: WebhookStatus) -> wire.WebhookShown:
    """Return a webhook and whether it has accepted a ping."""
    return _model_of(known, wire.WebhookShown, since=iso_time(known.since_s))


def dead_letter(dead: DeadDelivery) -> wire.DeadLetter:
    """Return a delivery that was given up."""
    return _model_of(dead, wire.DeadLetter, notification=dead.notification_id, done=time_or_none(dead.done_s))


def _delivery(known: DeliveryStatus) -> wire.DeliveryState:
    next_time = iso_time(known.next_s) if known.state in {"pending", "gathering"} else None
    return _model_of(known, wire.DeliveryState, next=next_time, done=time_or_none(known.done_s))


def token(known: Token) -> wire.TokenShown:
    """Return a token without its secret."""
    expires = None if known.expires_s is None else iso_time(known.expires_s)
    return _model_of(known, wire.TokenShown, id=known.token_id, created=iso_time(known.created_s), expires=expires)
