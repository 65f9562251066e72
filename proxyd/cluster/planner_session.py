"""What a prober knows of the planner that leads: its term, its clock, and so how long a batch may be worked on."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from proxyd.cluster.messages import Answer

CLOCK_DRIFT = 2e-4  # by which two machines' clocks may run apart, in seconds a second
_FORGOTTEN_HOLDS = 5.0  # a planner that is silent for so many may be followed by one of an earlier term
_TERMS_AHEAD = 366 * 86400  # terms are unix seconds or a little more: one far in the future is not believed


@dataclass(slots=True)
class PlannerSession:
    """The planner whose batches a prober makes.

    An answer says what the planner's clock showed (``now_s``) at some time after the question. So the clock now shows
    at most ``now_s`` plus the time since the question, by a clock that also runs while the machine sleeps. The prober
    gives a batch up once that bound reaches its end: never later than the planner does, even if either is frozen or a
    message is late.

    Times are seconds of this machine's clock, except ``until_s``.

    Examples
    --------
    >>> session = PlannerSession()
    >>> session.take(Answer(term=7, now_s=5000.0, hold_s=6.0, echo_s=10.0), now_s=10.5, wall_s=1e9)
    True
    >>> session.left_s(5006.0, now_s=11.0) < 5.0
    True
    >>> session.take(Answer(term=6, now_s=70.0, hold_s=6.0, echo_s=11.0), now_s=11.0, wall_s=1e9)
    False
    """

    term: int = 0
    hold_s: float = 0.0
    heard_s: float = -inf
    _shown_s: float = -inf  # what its clock showed at most
    _as_of_s: float = 0.0

    def take(self, answer: Answer, *, now_s: float, wall_s: float) -> bool:
        """Take in an answer; return whether it is from a planner that may lead.

        That is not so for an earlier term, unless the planner of the later one is silent, nor for a term that is not
        plausible at unix time ``wall_s``. A planner's first word must be an answer, because its clock is unknown.
        """
        is_known = answer.term == self.term
        if answer.term < self.term and now_s <= self.heard_s + _FORGOTTEN_HOLDS * self.hold_s:
            return False
        if answer.term > wall_s + _TERMS_AHEAD or (answer.echo_s is not None and answer.echo_s > now_s):
            return False
        if not is_known and answer.echo_s is None:
            return False
        if not is_known:
            self._shown_s = inf
        self.term, self.hold_s, self.heard_s = answer.term, answer.hold_s, now_s
        if answer.echo_s is not None and self._at_most_s(now_s) > answer.now_s + now_s - answer.echo_s:
            self._shown_s, self._as_of_s = answer.now_s, answer.echo_s
        return True

    def left_s(self, until_s: float, now_s: float) -> float:
        """Return for how long, at least, the planner's clock does not show ``until_s``; a hold at most."""
        return min(self.hold_s, until_s - self._at_most_s(now_s))

    def since_s(self, then_s: float, now_s: float) -> float:
        """Return how long ago, at most, the planner's clock showed ``then_s``."""
        return max(0.0, self._at_most_s(now_s) - then_s)

    def _at_most_s(self, now_s: float) -> float:
        """Return what the planner's clock shows at most."""
        return self._shown_s + (now_s - self._as_of_s) * (1.0 + CLOCK_DRIFT)
