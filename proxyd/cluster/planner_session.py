"""What a prober knows of a planner: its clock, and so how long a batch of it may be worked on."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from proxyd.cluster.messages import Answer

CLOCK_DRIFT = 2e-4  # by which two machines' clocks may run apart, in seconds a second
_BEATS = 4.0  # hellos in a hold, while a batch takes long
_LOOKS = 16.0  # hellos in a hold, while none is answered


@dataclass(slots=True)
class PlannerSession:
    """A planner whose batches a prober makes.

    An answer says what the planner's clock showed (``now_s``) at some time after the question. So the clock now shows
    at most ``now_s`` plus the time since the question, by a clock that also runs while the machine sleeps. The prober
    gives a batch up once that bound reaches its end: never later than the planner does, even if either is frozen or a
    message is late.

    Times are seconds of this machine's clock, except ``until_s`` and ``then_s``.

    Examples
    --------
    >>> session = PlannerSession()
    >>> session.take(Answer(term=7, now_s=5000.0, hold_s=6.0, echo_s=10.0), now_s=10.5)
    True
    >>> session.left_s(5006.0, now_s=11.0) < 5.0
    True
    >>> session.end(now_s=11.0)
    >>> session.left_s(5006.0, now_s=11.0)
    -inf
    """

    hold_s: float = 0.0
    heard_s: float = -inf  # when it last answered
    is_vague: bool = False  # the last answer came so late that the planner's clock may be far behind
    _ended_until_s: float = -inf
    _shown_s: float = inf  # what its clock showed at most
    _as_of_s: float = 0.0

    def take(self, answer: Answer, *, now_s: float) -> bool:
        """Take in an answer; return whether it can be believed. The first one must answer a question."""
        is_first = self._shown_s == inf
        if now_s < self._ended_until_s or (is_first and answer.echo_s is None):
            return False
        if answer.echo_s is not None and answer.echo_s > now_s:
            return False
        self.hold_s = answer.hold_s
        if answer.echo_s is not None:
            self.heard_s = now_s
            self.is_vague = now_s - answer.echo_s > answer.hold_s / _BEATS
            if is_first or self._at_most_s(now_s) > answer.now_s + now_s - answer.echo_s:
                self._shown_s, self._as_of_s = answer.now_s, answer.echo_s
        return True

    def end(self, now_s: float) -> None:
        """Note that the planner has ended: no batch is made, until no old message of it can allow one."""
        self._ended_until_s, self._shown_s = now_s + 2.0 * self.hold_s, inf

    def is_over(self, now_s: float) -> bool:
        """Whether the planner has ended, and may be forgotten."""
        return self._shown_s == inf and now_s >= self._ended_until_s

    @property
    def is_known(self) -> bool:
        """Whether the planner's clock is known, so that batches of it may be made."""
        return self._shown_s < inf

    def next_hello_s(self, last_s: float, held_since_s: float) -> float:
        """Return when to say hello again after ``last_s``, while a batch is worked on since ``held_since_s``."""
        if self.heard_s < last_s:
            return last_s + self.hold_s / _LOOKS
        return max(last_s, held_since_s) + self.hold_s / _BEATS

    def left_s(self, until_s: float, now_s: float) -> float:
        """Return for how long, at least, the planner's clock does not show ``until_s``; a hold at most."""
        return min(self.hold_s, until_s - self._at_most_s(now_s))

    def since_s(self, then_s: float, now_s: float) -> float:
        """Return how long ago, at most, the planner's clock showed ``then_s``."""
        return max(0.0, self._at_most_s(now_s) - then_s)

    def _at_most_s(self, now_s: float) -> float:
        """Return what the planner's clock shows at most."""
        return self._shown_s + (now_s - self._as_of_s) * (1.0 + CLOCK_DRIFT)
