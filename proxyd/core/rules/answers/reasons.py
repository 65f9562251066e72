"""Why the next probe of a source comes when it does, in users' words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from proxyd.core.model.schedule import Reason
from proxyd.core.model.target import Target
from proxyd.core.planning.policies.rule_demand import CountedAhead
from proxyd.core.rules.answers.promises import within


@dataclass(frozen=True, slots=True)
class ProbeCase:
    """What speaks for the next probe of a source.

    Parameters
    ----------
    rule
        The first rule that it serves; empty if it serves none.
    chance
        The probability that a new item, which the rule of the target counts, is there by then; ``None`` before the
        first contact.
    target
        The narrowest target of the source's rules that leave the times to the plan, if they have targets.
    counted
        The item that the rule waits for, if it goes by a count.
    """

    reason: Reason
    rule: str
    chance: float | None = None
    target: Target | None = None
    counted: CountedAhead | None = None

    def __str__(self) -> str:
        return _WORDS[self.reason](self)


def ordinal(number: int) -> str:
    """Return a number as one counts.

    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']
    """
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def counted_item(ahead: CountedAhead) -> str:
    """Return which item a rule that counts waits for.

    >>> counted_item(CountedAhead(3, False, 0.5, 0.0))
    'the 3rd item since its last notification'
    """
    return f"the {ordinal(ahead.number)} item{'' if ahead.is_first else ' since its last notification'}"


def _worth(case: ProbeCase) -> str:
    """Return until when what is expected must be seen, or that it is worth a probe.

    >>> str(ProbeCase(Reason.DETECTION, "r", 0.3, Target(0.9, ((600.0, 1.0),))))
    'there is a 30 % chance of an item by then, which must be seen within 10 minutes'
    """
    if case.target is None:
        return "which is worth the price of a probe"
    if len(case.target.parts) > 1:
        return "which loses worth while it waits"
    return f"which must be seen {within(case.target)}"


def _item(case: ProbeCase) -> str:
    if case.chance is None:
        return "its items are not known yet"
    return f"there is {chance_text(case.chance)} of an item by then, {_worth(case)}"


def chance_text(chance: float) -> str:
    """Return a chance with its article.

    >>> chance_text(0.3), chance_text(0.8), chance_text(0.11), chance_text(0.0001)
    ('a 30 % chance', 'an 80 % chance', 'an 11 % chance', 'less than a 1 % chance')
    """
    if chance < 0.005:
        return "less than a 1 % chance"
    percent = f"{chance * 100:.0f}"
    return f"{'an' if percent in {'8', '11', '18'} or percent.startswith('8') else 'a'} {percent} % chance"


def _counted(case: ProbeCase) -> str:
    if case.counted is None:
        return f"rule {case.rule} counts its items, {_worth(case)}"
    return f"there is {chance_text(case.counted.chance)} of {counted_item(case.counted)} by then, {_worth(case)}"


_WORDS: Mapping[Reason, Callable[[ProbeCase], str]] = MappingProxyType(
    {
        Reason.FIRST_CONTACT: lambda _: "it has never been probed",
        Reason.ASKED: lambda _: "somebody asked for a probe now",
        Reason.CONFIRMATION: lambda _: "the last probe found nothing, which another one must confirm",
        Reason.INTERVAL: lambda case: f"rule {case.rule} expects an event by then",
        Reason.FEEDBACK: lambda case: f"rule {case.rule} still waits for items that the last probe did not find",
        Reason.FIXED: lambda case: f"rule {case.rule} has it probed at fixed intervals",
        Reason.DOE: lambda case: f"rule {case.rule} gives it a number of probes, and this is the next one's best time",
        Reason.OVERFLOW: lambda _: "its feed shows only so many items, and some may slide off it unseen after that",
        Reason.DETECTION: _item,
        Reason.COUNTED: _counted,
        Reason.SIBLING: lambda _: "sources that often change together with it have changed",
        Reason.GOLDEN: lambda case: f"rule {case.rule} spreads its probes evenly, and this is the next one",
        Reason.MEMORYLESS: lambda case: f"rule {case.rule} has it probed at random, as often as its items call for",
        Reason.ADAPTIVE: lambda case: (
            f"rule {case.rule} has it probed at random, as often as its events so far call for"
        ),
        Reason.SPEND: lambda _: "some of the budget is left, and it helps most here",
        Reason.LEARNING: lambda _: "it is new, and asked often on its first day until two items have come",
        Reason.RETRY: lambda _: "the last probe failed",
        Reason.SAFETY: lambda _: "its hub pushes its items, and a probe now and then finds what the hub left out",
    }
)
