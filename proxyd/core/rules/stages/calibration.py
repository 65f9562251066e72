"""Calibration: compares what probes found with what the model had predicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, expm1

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.rates.model_fit import ModelFit, SourceModel
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.stages.context import Shape, SourceContext
from proxyd.core.rules.stages.events import Discovery
from proxyd.core.rules.state import IntervalRecord, StreamState


@dataclass(frozen=True, slots=True)
class Calibration:
    """Sums over some probes of known sources: what was found, and what was predicted for the same gaps.

    Parameters
    ----------
    items, predicted_items
        New items; for a document that is one item, whether it changed.
    timed_items, delay_item_s, predicted_timed_items, predicted_delay_item_s
        Items of sources that date their items, and the sum of their waiting times, in item-seconds.
    captured, missed, predicted_captured, predicted_missed
        Execution intervals of a single source.

    Examples
    --------
    >>> day = Calibration(2, items=3, predicted_items=2.5, timed_items=3, delay_item_s=90.0, captured=3, missed=1)
    >>> day.mean_delay_s, day.predicted_mean_delay_s, day.completeness
    (30.0, None, 0.75)
    """

    probes: int = 0
    items: int = 0
    predicted_items: float = 0.0
    timed_items: int = 0
    predicted_timed_items: float = 0.0
    delay_item_s: float = 0.0
    predicted_delay_item_s: float = 0.0
    captured: int = 0
    predicted_captured: float = 0.0
    missed: int = 0
    predicted_missed: float = 0.0

    @property
    def mean_delay_s(self) -> float | None:
        """Mean delay of the items found; ``None`` without any."""
        return _share(self.delay_item_s, self.timed_items)

    @property
    def predicted_mean_delay_s(self) -> float | None:
        """Mean delay of the items predicted."""
        return _share(self.predicted_delay_item_s, self.predicted_timed_items)

    @property
    def completeness(self) -> float | None:
        """Captured over all execution intervals found."""
        return _share(self.captured, self.captured + self.missed)

    @property
    def predicted_completeness(self) -> float | None:
        """Captured over all execution intervals predicted."""
        return _share(self.predicted_captured, self.predicted_captured + self.predicted_missed)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """How well a source's model predicted an outcome.

    Parameters
    ----------
    fit
        How well it has predicted recently.
    jumped_to_per_s
        The rate since it proved wrong, in items per second, if it did so just now; otherwise ``None``.
    calibration
        What was found compared with what was predicted. ``None`` at first contact, and for a source whose hub pushes,
        because a probe finds there only what the hub left out.
    """

    fit: ModelFit
    jumped_to_per_s: float | None = None
    calibration: Calibration | None = None


def calibrate(context: SourceContext, found: Discovery, intervals: Sequence[IntervalRecord]) -> Judgement:
    """Return how well the model of a source, before the outcome, predicted what was found."""
    before, model, outcome = context.state, context.model, found.outcome
    if model is None or before.last_success_s is None or before.first_contact_s is None or not outcome.kind.is_success:
        return Judgement(before.fit)
    fit, jumped_to_per_s = before.fit, None
    if found.window.evidence is not None:
        fit = model.judged(before.fit, found.window.evidence)
        if fit.rate_off_since_s is not None and before.fit.rate_off_since_s is None:
            jumped_to_per_s = model.rate_per_s * fit.found / max(fit.expected, 1e-9)
    if outcome.is_push or max(context.pushed_until_s, before.last_push_s or 0.0) > before.last_success_s:
        return Judgement(fit, jumped_to_per_s)
    gap = Gap(before.last_success_s, outcome.finished_s, context.shape is Shape.PAGE, before.newest_s is not None)
    expected = predicted(model.planned(before.fit), gap, context.own_rules, context.grid, declared_s=context.declared_s)
    return Judgement(fit, jumped_to_per_s, _with_findings(expected, found, gap, intervals))


def _with_findings(
    expected: Calibration, found: Discovery, gap: Gap, intervals: Sequence[IntervalRecord]
) -> Calibration:
    delays_s = found.delays_s if gap.is_timed else []
    captured = sum(record.captured for record in intervals)
    return replace(
        expected,
        probes=1,
        items=len(found.events),
        timed_items=len(delays_s),
        delay_item_s=sum(delay_s if delay_s > 0 else 0.0 for delay_s in delays_s),
        captured=captured,
        missed=len(intervals) - captured,
    )


@dataclass(frozen=True, slots=True)
class Gap:
    """The time that a probe covers: (``since_s``, ``until_s``] of a source, in unix seconds.

    ``is_page`` says that the source has one item, ``is_timed`` that its items carry their time.
    """

    since_s: float
    until_s: float
    is_page: bool = False
    is_timed: bool = True


def predicted(
    model: SourceModel,
    gap: Gap,
    rules: Iterable[tuple[RuleProgram, StreamState]],
    grid: ChrononGrid,
    *,
    declared_s: float = 0.0,
) -> Calibration:
    """Return what a probe at the end of a gap is expected to find.

    Several updates of a one-item source count as one, and items in one chronon share an execution interval. A rule that
    counts fires on its share of the items; a rule with a condition fires on its share so far.

    Examples
    --------
    >>> predicted(SourceModel(0.01), Gap(0.0, 100.0), [], ChrononGrid(10.0)).predicted_delay_item_s
    50.0
    """
    items, waits = model.expected(gap.since_s, gap.until_s)
    captured = missed = 0.0
    for program, stream in rules:
        if not program.is_joint and program.is_active(gap.until_s):
            start_s = program.starts_at(declared_s)
            own = gap if start_s <= gap.since_s else replace(gap, since_s=start_s)
            own_items = items if own is gap else model.expected(own.since_s, own.until_s)[0]
            found, lost = _expected_captures(program, stream, model, own, grid.length_s, own_items)
            captured, missed = captured + found, missed + lost
    return Calibration(
        predicted_items=-expm1(-items) if gap.is_page else items,
        predicted_timed_items=items if gap.is_timed else 0.0,
        predicted_delay_item_s=waits if gap.is_timed else 0.0,
        predicted_captured=captured,
        predicted_missed=missed,
    )


def _expected_captures(
    program: RuleProgram, stream: StreamState, model: SourceModel, gap: Gap, chronon_s: float, items: float
) -> tuple[float, float]:
    """Return the captured and the missed intervals that are expected of a rule among the ``items`` of a gap.

    Under *overwrite* the last update is captured. A window is counted in whole chronons, which adds half a chronon on
    average. Items without a time are assumed to lie in the middle of the gap, all in one chronon.
    """
    gap_s, share, any_item = gap.until_s - gap.since_s, _firing_share(program, stream), -expm1(-items)
    life_s = None if program.life_s is None else (ceil(program.life_s / chronon_s) + 0.5) * chronon_s
    if not gap.is_timed:
        in_time = life_s is None or gap_s / 2 <= life_s
        return (share * any_item, 0.0) if in_time else (0.0, share * any_item)
    opened = _chronons_hit(items, gap_s / chronon_s)
    if life_s is None:
        return share * any_item, share * max(0.0, opened - any_item)
    if life_s >= gap_s:
        return share * opened, 0.0
    captured = _chronons_hit(model.expected(gap.until_s - life_s, gap.until_s)[0], life_s / chronon_s)
    return share * captured, share * max(0.0, opened - captured)


def _chronons_hit(items: float, chronons: float) -> float:
    """Return in how many chronons at least one item is expected, if the items were spread evenly."""
    chronons = max(1.0, chronons)
    return -chronons * expm1(-items / chronons)


def _firing_share(program: RuleProgram, stream: StreamState) -> float:
    """Return the share of items on which a rule fires."""
    trigger = program.trigger
    passing = 1.0 if trigger.where is None else (stream.count + 1) / (stream.seen + 1)
    if trigger.condition is None or trigger.firing.every > 1:
        return passing / trigger.firing.every
    return min(1.0, (stream.captured + stream.missed + 1) / (stream.seen + 1))  # an edit may have begun ``seen`` again
