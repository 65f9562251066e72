"""Converters from rows and values of the core to wire models."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from proxyd.api import wire
from proxyd.api.wire.base_models import time_or_none
from proxyd.core.language import rule_counting
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.profile import Domain, NotificationRule, Profile
from proxyd.core.model.suspension import Suspension
from proxyd.core.planning.allocation.targets import RuleOutlook
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rules.answers.advice import Advice, PlanCost
from proxyd.core.rules.answers.explanation import KeptPromise, falls_short
from proxyd.core.rules.answers.shown_events import ShownEvent
from proxyd.core.rules.known.estimates import Misfit
from proxyd.core.rules.known.failing_rules import FailingRule
from proxyd.core.rules.known.rule_counts import CaptureCounts
from proxyd.core.rules.stages.payload import screenshot_path
from proxyd.core.rules.stages.source_state import Calibration
from proxyd.core.texts.safe_text import is_web
from proxyd.daemon.moves import SourceMove
from proxyd.daemon.reports import Report
from proxyd.store.api_rows import Token
from proxyd.store.declared_rows import Removed
from proxyd.store.listed_rows import DecidedInterval, DeliveryStatus, StoredNotification

Shown = TypeVar("Shown", bound=wire.WireModel)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAY_S = 86400.0


def model_of(row: object, model: type[Shown], **own: Any) -> Shown:
    """Return a model of a row, with ``own`` members instead of those that the row has."""
    return model(**(wire.members_of(row, model) | own))


def probe_to_come(planned: PlannedProbe) -> wire.ComingProbe:
    """Return a coming probe."""
    probe = planned.probe
    return wire.ComingProbe(
        source=probe.source_id,
        at=iso_time(planned.start_s),
        reason=probe.reason.value,
        rule=probe.rule,
        rate_per_day=round(probe.rate_per_day, 6),
    )


def move(found: SourceMove) -> wire.MoveShown:
    """Return a permanent move of a source."""
    return model_of(
        found,
        wire.MoveShown,
        declared=found.declared_url,
        state="accepted" if found.is_accepted else "proposed" if found.is_proposed else "seen",
        file=found.place and found.place.file,
        line=found.place and found.place.line,
    )


def item_event(event: ShownEvent) -> wire.ItemEvent:
    """Return what happened to an item."""
    return model_of(
        event,
        wire.ItemEvent,
        id=event.item_id,
        link=event.link if event.link is not None and is_web(event.link) else None,
        came=iso_time(event.event_s) if event.is_exact else None,
        old=event.is_old,
        delay_s=round(event.seen_s - event.event_s, 3) if event.is_exact and not event.is_first else None,
    )


def removal(found: Removed) -> wire.RemovedShown:
    """Return what was removed."""
    return model_of(found, wire.RemovedShown, id=found.removed_id)


def interval(decided: DecidedInterval) -> wire.IntervalOfRule:
    """Return an execution interval and its result."""
    return model_of(
        decided,
        wire.IntervalOfRule,
        end=time_or_none(decided.deadline_s),
        fate="captured" if decided.captured else "late" if decided.seen else "missed",
        probed=iso_time(decided.probed_s) if decided.seen else None,
        delay_s=decided.delay_s if decided.seen else None,
    )


def advice(found: Advice, silent: list[str]) -> wire.AdviceShown:
    """Return the advice with rates an hour instead of a second, and the planners that gave none."""
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
        rules=wire.RuleOutlookShown.list_of(found.rules),
        pareto=[wire.ParetoPoint(captured=captured, delay_s=round(delay_s, 3)) for captured, delay_s in found.front],
        needed_per_hour=None if found.needed_per_s is None else round(found.needed_per_s * per_hour, 3),
        targets=[_target(rule, outlook) for rule, outlook in sorted(found.targets.items())],
        shares=[
            wire.ShareTradeShown(
                share=point.share,
                expected=share(point.expected),
                probes_per_hour=round(point.probes_per_s * per_hour, 3),
                delay_s=round(point.delay_s, 3),
            )
            for point in found.shares
        ],
        two_points_per_day=None if found.two_points_per_s is None else round(found.two_points_per_s * _DAY_S, 1),
        silent_planners=silent,
    )


def _target(rule: str, found: RuleOutlook) -> wire.TargetShown:
    """Return what a rule may expect, with rates an hour instead of a second."""
    return model_of(
        found,
        wire.TargetShown,
        rule=rule,
        expected=share(found.expected),
        reachable=share(found.reachable),
        probes_per_hour=round(found.made * 3600.0, 3),
        needed_per_hour=round(found.needed * 3600.0, 3),
    )


def share(value: float) -> float:
    """Return a share between 0 and 1, rounded."""
    return round(min(max(value, 0.0), 1.0), 4)


def cost(found: PlanCost) -> wire.CostShown:
    """Return the demand of a declaration with rates an hour instead of a second."""
    return wire.CostShown(
        budget_per_hour=round(found.budget_per_s * 3600.0, 3),
        asked_per_hour=round(found.after_per_s * 3600.0, 3),
        asked_per_hour_before=round(found.before_per_s * 3600.0, 3),
        sources_added=found.added,
        sources_removed=found.removed,
        unmet=wire.RuleOutlookShown.list_of(found.unmet),
        targets=[_target(rule, outlook) for rule, outlook in sorted(found.targets.items())],
    )


def report(found: Report) -> wire.ReportShown:
    """Return the results and predictions of each day, and the models that do not fit."""
    return wire.ReportShown(
        days=[_day(day, account) for day, account in found.days],
        off=[misfit(each) for each in found.off],
        promises=[_promise(each) for each in found.promises],
        promises_left_out=found.promises_left_out,
    )


def _promise(found: KeptPromise) -> wire.PromiseShown:
    return model_of(found, wire.PromiseShown, week=iso_time(found.week_s)[:10], kept=share(found.kept))


def _day(day: int, account: Calibration) -> wire.Day:
    events, kept, predicted = account.captured + account.missed, account.completeness, account.predicted_completeness
    off = kept is not None and predicted is not None and falls_short(kept, predicted, events)
    return model_of(account, wire.Day, day=iso_time(day * _DAY_S)[:10], off=off)


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


def profile(
    declared: Profile, origin: str, rules: list[wire.Rule], counts: CaptureCounts, muted: Suspension | None
) -> dict[str, Any]:
    """Return the members of a profile: its origin, its rules, their results, and whether it is muted."""
    members = wire.members_of(declared, wire.ProfileListed) | wire.members_of(counts, wire.Achieved)
    return members | {"origin": origin, "rules": rules, "muted": muted}


def _rule_failing(known: FailingRule | None) -> wire.RuleFailing | None:
    """Return how a rule fails, if it does."""
    return None if known is None else model_of(known, wire.RuleFailing, at=iso_time(known.failed_s))


def rule(
    declared: NotificationRule,
    sources: list[str],
    origin: str,
    counts: CaptureCounts,
    muted: Suspension | None,
    failing: FailingRule | None,
) -> wire.Rule:
    """Return a rule, some of its sources, its results, what mutes it and how it fails."""
    return model_of(
        declared,
        wire.Rule,
        origin=origin,
        sources=sources,
        source_count=len(declared.source_ids),
        policy=declared.policy.name.value,
        counting=rule_counting(declared),
        muted=muted,
        failing=_rule_failing(failing),
        deliveries=len(declared.deliveries),
        **wire.members_of(counts, wire.Achieved),
    )


def domain(declared: Domain) -> wire.DomainShown:
    """Return a domain and its classes."""
    return model_of(declared, wire.DomainShown, classes=list(declared.classes.values()))


def notification(stored: StoredNotification) -> wire.NotificationListed:
    """Return a notification with its deliveries."""
    return wire.NotificationListed(**notification_members(stored))


def notification_members(stored: StoredNotification) -> dict[str, Any]:
    """Return the members of a notification."""
    return wire.members_of(stored, wire.NotificationListed) | {
        "id": stored.notification_id,
        "screenshot": None if stored.picture is None else screenshot_path(stored.notification_id),
        "body": json.loads(stored.body),
        "deliveries": [_delivery(each) for each in stored.deliveries],
    }


def _delivery(known: DeliveryStatus) -> wire.DeliveryState:
    next_time = iso_time(known.next_s) if known.state in {"pending", "gathering"} else None
    return model_of(known, wire.DeliveryState, next=next_time)


def token(known: Token) -> wire.TokenShown:
    """Return a token without its secret."""
    return model_of(known, wire.TokenShown, id=known.token_id, limits=known.limits.set)
