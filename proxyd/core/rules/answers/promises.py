"""What rules promise, in words: the target of AUTO, and what SUP and FBSUP see of what AUTO would see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from math import inf, sqrt

from proxyd.core.model.chronon import Target
from proxyd.core.model.profile import PolicyName
from proxyd.core.planning.allocation.targets import RuleOutlook
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.known.rule_demands import is_counted, target_of
from proxyd.core.rules.programs.rule_program import RuleProgram

_UNITS = ((604800.0, "week"), (86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))
_TENTH = 0.1
_PLANNED = frozenset({PolicyName.SUP, PolicyName.FBSUP})


@dataclass(frozen=True, slots=True)
class RuleWeek:
    """What became of a rule's intervals in a week from Monday (UTC).

    Examples
    --------
    >>> RuleWeek(0.0, "r", intervals=10, captured=9, in_time=8, utility=9.0).captured
    9
    """

    week_s: float  # when the week began, in unix seconds
    rule: str
    intervals: int
    # ``captured``, ``in_time``: intervals probed before they ended, and those probed within the time of the default
    # target
    captured: int
    in_time: int
    utility: float  # utility gained, at most 1 for each interval


@dataclass(frozen=True, slots=True)
class KeptPromise:
    """The share of its items' worth that a rule was promised, and the one that it got, in a week from Monday (UTC).

    >>> KeptPromise(0.0, "r", intervals=10, promised=0.9, kept=0.95).kept > 0.9
    True
    """

    week_s: float
    rule: str
    intervals: int
    promised: float
    kept: float

    @property
    def is_off(self) -> bool:
        """Whether it fell short by more than chance."""
        return falls_short(self.kept, self.promised, self.intervals)


def falls_short(share: float, expected: float, count: int) -> bool:
    """Return whether a share of ``count`` events lies below the expected one by more than a tenth and than chance.

    Chance is two standard deviations of independent events.

    >>> falls_short(0.488, 0.911, 40), falls_short(0.5, 0.9, 2), falls_short(0.85, 0.9, 1000)
    (True, False, False)
    """
    return share < expected - max(_TENTH, 2.0 * sqrt(expected * (1.0 - expected) / max(1, count)))


def promise(target: Target) -> str:
    """Return a target in words.

    >>> promise(Target(0.95, ((600.0, 1.0),))), promise(Target(0.9, ((inf, 1.0),)))
    ('95 % within 10 minutes', '90 % before the next item')
    """
    share = f"{target.share * 100:.3g} %"
    return f"{share} of their worth" if len(target.parts) > 1 else f"{share} {within(target)}"


def within(target: Target) -> str:
    """Return the time in which an item is to be seen, in words; that of the first part if its worth falls in steps.

    >>> within(Target(0.95, ((600.0, 1.0),))), within(Target(0.9, ((inf, 1.0),)))
    ('within 10 minutes', 'before the next item')
    """
    after_s = target.parts[0][0]
    return "before the next item" if after_s == inf else f"within {_time(after_s)}"


def policy_in_words(
    program: RuleProgram, settings: PlannerSettings, outlook: RuleOutlook | None, rate_per_s: float
) -> tuple[str, str]:
    """Return the name of a rule's policy and the reason for it, with what may be expected of it.

    Parameters
    ----------
    outlook
        That of the plan of the week, if it has one.
    rate_per_s
        The rate of the source that is explained.
    """
    named = program.rule.policy.name
    if named in _PLANNED:
        return named.value, f"the rule sets it{_comparison_text(program, rate_per_s)}"
    period = program.rule.policy.period
    if period is not None and period.unit.seconds:  # not a period in chronons
        every = _time(float(period.amount) * period.unit.seconds).removeprefix("1 ")
        return named.value, f"a probe every {every}, as the rule says"
    if named is not PolicyName.AUTO:
        return named.value, "the rule sets it"
    why = "a probe is made when it is worth its price"
    if settings.has_targets:
        why = f"it promises {promise(target_of(program, settings))}, with as few probes as that takes"
    elif settings.spend:
        why = "probes are made where the budget helps most"
    if is_counted(program):
        why += f"; every {program.trigger.firing.every} items count as one"
    if program.rule.importance:
        why += "; a probe is worth more in the hours of the rule's importance"
    return named.value, f"{why}{_expectation_text(outlook)}"


def _promise_kept(program: RuleProgram, settings: PlannerSettings, week: RuleWeek) -> KeptPromise | None:
    """Return what a rule kept of its promise in a week, or ``None`` if its policy promises nothing."""
    if not program.rule.policy.leaves_times or not week.intervals:
        return None
    in_time = week.in_time if program.rule.life is None else week.captured
    got = in_time if program.decay_s is None else week.utility
    share = target_of(program, settings).share
    return KeptPromise(week.week_s, week.rule, week.intervals, share, got / week.intervals)


def promises_kept(
    programs: Mapping[str, RuleProgram], settings: PlannerSettings, weeks: Iterable[RuleWeek]
) -> list[KeptPromise]:
    """Return what declared rules kept of their promises, without those that promise nothing."""
    kept = (_promise_kept(programs[week.rule], settings, week) for week in weeks if week.rule in programs)
    return [each for each in kept if each is not None]


def fallen_shortest(promises: Iterable[KeptPromise], most: int) -> list[KeptPromise]:
    """Return the promises that fell shortest, at most ``most``, by week and rule.

    >>> kept, broken = KeptPromise(0.0, "a", 9, 0.9, 0.95), KeptPromise(7.0, "b", 9, 0.9, 0.5)
    >>> [each.rule for each in fallen_shortest([kept, broken], 1)], len(fallen_shortest([broken, kept], 2))
    (['b'], 2)
    """
    worst = nsmallest(most, promises, key=lambda each: each.kept - each.promised)
    return sorted(worst, key=lambda each: (each.week_s, each.rule))


def _expectation_text(outlook: RuleOutlook | None) -> str:
    if outlook is None:
        return ""
    because = "" if outlook.limit is None else f", because of {outlook.limit}"
    return f"; {outlook.expected * 100:.3g} % expected{because}"


def _comparison_text(program: RuleProgram, rate_per_s: float) -> str:
    """Return what a rule with planned intervals sees in time, and what AUTO would see with as many probes.

    SUP probes once where the mean says that the n-th item is. The n-th item of a Poisson process is rarely there.
    """
    from scipy.special import gammainc, pdtr

    every, life_s = program.trigger.firing.every, program.life_s
    if not rate_per_s > 0:
        return ""
    gap_s = every / rate_per_s
    if life_s is None:
        seen = float(pdtr(every, every + 1) - pdtr(every - 1, every + 1))  # exactly so many items of a Poisson process
        even = float(gammainc(1, 1.0)) if every == 1 else 0.0
    else:
        seen = float(gammainc(every, every + rate_per_s * life_s) - gammainc(every, every))
        even = min(1.0, life_s / gap_s)
    return (
        f"; it sees about {seen:.0%} in time, and AUTO at least {even:.0%} with as many probes" if even > seen else ""
    )


def _time(seconds: float) -> str:
    unit_s, name = next(each for each in _UNITS if seconds % each[0] == 0 or each[0] == 1.0)
    amount = seconds / unit_s
    return f"{amount:g} {name}" + ("" if amount == 1 else "s")
