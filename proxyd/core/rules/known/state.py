"""What proxyd remembers of a source, and of a rule's stream on it, between probes and across restarts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf
from typing import Any, NamedTuple, TypeAlias

from proxyd.core.model.chronon import Chronon
from proxyd.core.model.delivery import Delivery
from proxyd.core.model.item import EventKind, Item, UpdateEvent, Value
from proxyd.core.model.outcome import NO_VALIDATORS, OutcomeKind, Validators
from proxyd.core.rates.model_fit import NO_FIT, ModelFit
from proxyd.core.rates.rate_blend import NO_EVIDENCE, RateEvidence
from proxyd.core.rules.programs.stream_state import Spell

_TOLD_AGAIN_S = 86400.0
PROPOSED_AFTER_S = 7 * 86400.0
"""Moves that were seen for so long are proposed to people."""


class AcceptedMove(NamedTuple):
    """A permanent move that was accepted at ``at_s``: the source is asked at ``url`` as if that were declared.

    It holds as long as the source is declared as it was then, with the reading ``instead_of``.
    """

    url: str
    instead_of: str
    at_s: float

    def as_of(self, now_s: float) -> AcceptedMove:
        """Return the move without times later than ``now_s``."""
        return self._replace(at_s=min(self.at_s, now_s))


class Term(NamedTuple):
    """When a certificate or a domain expires, and the expiry that was told last and when; unix seconds."""

    end_s: float
    told_end_s: float | None = None
    told_s: float | None = None

    def follow(self, end_s: float, ahead_s: float | None, now_s: float) -> Term:
        """Return the term after it was seen to end at ``end_s``; it is told once it is ``ahead_s`` away, if ever.

        Machines of one site may have several certificates, so another expiry is not told within a day.
        """
        is_near = ahead_s is not None and end_s - now_s <= ahead_s
        is_told = self.told_s is not None and (end_s == self.told_end_s or now_s - self.told_s < _TOLD_AGAIN_S)
        if is_near and not is_told:
            return Term(end_s, end_s, now_s)
        return self._replace(end_s=end_s)

    def is_told_since(self, before: Term | None) -> bool:
        """Whether its present end was told after ``before``."""
        return self.end_s == self.told_end_s and (before is None or before.told_end_s != self.told_end_s)


class SiteState(NamedTuple):
    """What else is known of a site: its last probe, and what expires."""

    seen_s: float  # the end of the last probe
    is_judged: bool = True  # whether that probe counts: not in maintenance, while proxyd is offline, or after a 429
    certificate: Term | None = None
    domain: Term | None = None
    # the answer of RDAP: which domain it is of, when it was asked, and why it says no expiry
    domain_name: str = ""
    asked_s: float = 0.0
    problem: str = ""

    @classmethod
    def of_values(cls, values: Sequence[Any]) -> SiteState:
        """Return the state of its values in JSON."""
        state = cls(*values)
        certificate, domain = (None if each is None else Term(*each) for each in (state.certificate, state.domain))
        return state._replace(certificate=certificate, domain=domain)


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """How a source fares, as far as its own probes show it; what happens while proxyd is offline changes nothing."""

    failing: Spell | None = None
    is_sure: bool = False  # whether these are the source's own: it answered, or other hosts did while it was silent
    # ``moved_url``, ``moved``: where its permanent redirects lead, and for how long they have led there
    moved_url: str | None = None
    moved: Spell | None = None
    # the fields without a value in its document, which is read well; ``ITEMS`` if it has no items at all
    silent: Mapping[str, Spell] = field(default_factory=dict)
    slow: Spell | None = None  # its answers take much longer than usual
    # ``usual_s``: the time that 19 of 20 of its ``answers`` took at most, as far as it is known
    usual_s: float = 0.0
    answers: int = 0
    # of the last probe
    status: int | None = None
    latency_s: float | None = None
    next_seq: int = 1  # of the events of the source itself
    accepted: AcceptedMove | None = None  # the move that was accepted, until the declaration names the new address
    site: SiteState | None = None  # of a site

    def as_of(self, now_s: float) -> SourceHealth:
        """Return the health without times later than ``now_s``, after the machine's clock was set back."""
        if (self.failing or self.moved or self.slow or self.accepted or self.site) is None and not self.silent:
            return self
        return replace(
            self,
            failing=self.failing and self.failing.as_of(now_s),
            moved=self.moved and self.moved.as_of(now_s),
            slow=self.slow and self.slow.as_of(now_s),
            silent={name: spell.as_of(now_s) for name, spell in self.silent.items()},
            accepted=self.accepted and self.accepted.as_of(now_s),
            site=self.site and self.site._replace(seen_s=min(self.site.seen_s, now_s)),
        )

    @property
    def slow_from_s(self) -> float:
        """The time from which on an answer is slow, in seconds; infinity as long as too few are known."""
        return max(_SLOW_S, _SLOW_TIMES * self.usual_s) if self.answers >= _KNOWN_ANSWERS else inf

    def with_answer(self, now_s: float, latency_s: float, **others: Any) -> SourceHealth:
        """Return the health after an answer that took ``latency_s`` and came at ``now_s``; ``others`` are more changes.

        ``usual_s`` follows the quantile by stochastic approximation of its logarithm: up by a step for each answer
        that took longer, down by a nineteenth of it for each other (Robbins and Monro, 1951).
        """
        is_slow = latency_s > self.slow_from_s
        step = _SLOW_STEP if is_slow else max(_STEP, 2.0 / (self.answers + 1))  # a slow hour does not become usual
        if not self.answers:
            usual_s = max(latency_s, _LEAST_S)
        elif latency_s > self.usual_s:
            usual_s = self.usual_s * exp(_SHARE * step)
            if self.answers < _KNOWN_ANSWERS:  # the first steps are long
                usual_s = min(latency_s, usual_s)
        else:
            usual_s = self.usual_s * exp((_SHARE - 1.0) * step)
        slow = Spell.continue_with(self.slow, now_s) if is_slow else None
        answers = min(self.answers + 1, _KNOWN_ANSWERS)
        return replace(self, slow=slow, usual_s=round(usual_s, 4), answers=answers, latency_s=latency_s, **others)

    def values(self) -> dict[str, Any]:
        """Return it in values of JSON, without what is as in a new source.

        >>> SourceHealth.of_values(SourceHealth(Spell(1, 2.0, 3.0)).values()).failing
        Spell(probes=1, since_s=2.0, last_s=3.0)
        """
        return {name: value for name in _NAMES if (value := getattr(self, name)) != getattr(UNKNOWN_HEALTH, name)}

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> SourceHealth:
        """Return the health that ``values`` returned."""
        spells = {name: Spell(*values[name]) for name in ("failing", "moved", "slow") if name in values}
        silent = {name: Spell(*spell) for name, spell in values.get("silent", {}).items()}
        accepted = {"accepted": AcceptedMove(*values["accepted"])} if "accepted" in values else {}
        site = {"site": SiteState.of_values(values["site"])} if "site" in values else {}
        return cls(**{**values, **spells, **accepted, **site, "silent": silent})


_SHARE, _STEP, _SLOW_STEP, _LEAST_S = 0.95, 0.1, 0.02, 0.001
_KNOWN_ANSWERS, _SLOW_TIMES, _SLOW_S = 20, 2.0, 1.0
ITEMS = "items"
"""Stands for all items of a document where the names of silent fields stand."""
UNKNOWN_HEALTH = SourceHealth()
_NAMES = tuple(SourceHealth.__dataclass_fields__)


StateChanges: TypeAlias = dict[str, Any]
"""New values of some of a state's fields: they are gathered, for a state has many and each copy costs."""

MAX_PENDING_CHARACTERS = 4_000_000


@dataclass(frozen=True, slots=True)
class SourceState:
    """What proxyd knows of a source."""

    source_id: str
    url: str
    validators: Validators = NO_VALIDATORS
    body_hash: str | None = None
    first_contact_s: float | None = None  # when its items were first seen; ``None`` before that
    # ``last_start_s``, ``last_success_s``: start of the last probe that sent a request, and of the last probe that
    # saw the source's state; unix seconds
    last_start_s: float | None = None
    last_success_s: float | None = None
    last_outcome: str | None = None
    last_detail: str = ""
    newest_s: float | None = None
    # ``next_seq``, ``unawaited``: number of its next event, and how many of those before it were updates of a feed
    # that no rule awaited
    next_seq: int = 1
    failures: int = 0
    not_before_s: float = 0.0
    # ``fresh_until_s``, ``period_s``: the origin says that nothing changes before the first (unix seconds); its
    # document says that it changes every ``period_s``
    fresh_until_s: float = 0.0
    period_s: float | None = None
    rate: RateEvidence = NO_EVIDENCE
    # ``shown``, ``slides``: number of items that its feed showed last, and whether old items were gone when new ones
    # came
    shown: int = 0
    slides: bool = False
    fit: ModelFit = NO_FIT  # how well its rate and its week predicted what probes found
    lost_items: float = 0.0  # estimated number of items that slid off the feed, or were overwritten, unseen
    # ``moved_url``, ``moved_times``: the target of its permanent redirects, and how many probes in a row they led
    # there
    moved_url: str | None = None
    moved_times: int = 0
    # ``full_s``, ``not_modified``: when its whole document was last sent (unix seconds), and the number of 304s since
    full_s: float | None = None
    not_modified: int = 0
    # ``doubts``, ``distrust_until_s``: whole documents in a row that showed what a 304 had denied, and the time until
    # which no 304 is believed
    doubts: int = 0
    distrust_until_s: float = 0.0
    # probes in a row that did not find the page (404, 410), or that found its list empty, which is to be confirmed
    missing: int = 0
    last_push_s: float | None = None  # by its hub
    reading: str = ""  # the id of the address and of how it is read; if it changes, all but the numbering starts again
    health: SourceHealth = UNKNOWN_HEALTH
    unawaited: int = 0
    arrivals: int = 0  # how many items came or changed since first contact

    def learns_until_s(self, first_day_s: float) -> float:
        """Return until when it counts as new (unix seconds); 0 if it does not, or was never seen."""
        if self.first_contact_s is None:
            return 0.0
        # Two arrivals tell its rate within a factor of two, in four of five cases. In its first hour somebody looks on:
        # one that was known at once, because it is busy, had fewer probes than quiet ones.
        is_known = self.arrivals >= _KNOWN_ARRIVALS
        return self.first_contact_s + (min(first_day_s, 3600.0) if is_known else first_day_s)

    @property
    def items_seen(self) -> int:
        """How many items it has shown, and how many updates that a rule awaited."""
        return self.next_seq - 1 - self.unawaited

    @property
    def watched_s(self) -> float | None:
        """The time until which its events are known, from probes and pushes; ``None`` before first contact."""
        if self.last_success_s is None:
            return None
        return max(self.last_success_s, self.last_push_s or self.last_success_s)

    def resume(self, now_s: float) -> SourceState:
        """Return the state with which a new process continues."""
        found = self.as_of(now_s)
        # settings, secrets or the browser may have changed
        return replace(found, failures=0, not_before_s=0.0) if self.last_outcome in _OURS else found

    def as_of(self, now_s: float) -> SourceState:
        """Return the state without times later than ``now_s``, after the machine's clock was set back.

        A waiting time is limited to two days ahead.

        >>> SourceState("s", "https://example.org/", last_start_s=60.0).as_of(50.0).last_start_s
        50.0
        """
        done = {name: getattr(self, name) for name in _DONE_S}
        late: StateChanges = {name: now_s for name, done_s in done.items() if done_s is not None and done_s > now_s}
        far: StateChanges = {
            name: now_s + _LONGEST_WAIT_S for name in _WAITS_S if getattr(self, name) > now_s + _LONGEST_WAIT_S
        }
        if self.rate.as_of_s is not None and self.rate.as_of_s > now_s:
            late["rate"] = replace(self.rate, as_of_s=now_s)
        if self.fit.as_of_s is not None and self.fit.as_of_s > now_s:
            late["fit"] = NO_FIT
        if (health := self.health.as_of(now_s)) != self.health:
            late["health"] = health
        return replace(self, **late, **far) if late or far else self


_KNOWN_ARRIVALS = 2
_LONGEST_WAIT_S = 2 * 86400.0
_OURS = frozenset(each.value for each in (OutcomeKind.BLOCKED, OutcomeKind.NO_SECRET, OutcomeKind.NO_BROWSER))
_WAITS_S = ("not_before_s", "fresh_until_s", "distrust_until_s")
_DONE_S = ("newest_s", "last_start_s", "last_success_s", "last_push_s", "full_s")


@dataclass(frozen=True, slots=True)
class IntervalRecord:
    """An actual execution interval and its fate."""

    rule: str
    source_id: str
    seq: int
    start: Chronon
    deadline: Chronon | None  # ``None`` if nothing has ended it yet
    probed: Chronon
    captured: bool
    exact: bool  # whether the event's time was the item's own; otherwise it is a bound from the probes around it
    delay_s: float
    utility: float = 0.0  # that was gained, at most 1
    seen: bool = True  # by a probe before it was given up


@dataclass(frozen=True, slots=True)
class Notification:
    """A firing ready to be sent; every receiver gets the same ``body``, byte for byte, each time it is sent."""

    notification_id: str
    rule: str
    source_id: str
    event_s: float
    created_s: float
    late: bool
    body: bytes
    deliveries: tuple[Delivery, ...]
    limited_by: str = ""  # the source or the value whose limit it counts toward, if not that of the rule
    picture: str | None = None  # the hash of that of its page, if the rule keeps one


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A stored event of a source: what happened to which item, and when."""

    seq: int
    item: Item  # the item after the event, or before it if it was removed
    event_s: float
    seen_s: float
    exact: bool
    seed: bool  # whether it is no news by itself: it was there at first contact, or is old
    kind: EventKind = EventKind.INSERT
    old: Item | None = None  # the item before an update

    def is_old(self, first_contact_s: float | None) -> bool:
        """Return whether it came after the first contact with its source, in unix seconds, and was no news."""
        return self.seed and first_contact_s is not None and self.seen_s > first_contact_s

    def event(self, source_id: str) -> UpdateEvent:
        """Return the event in the form that rules see."""
        return UpdateEvent(source_id, self.seq, self.kind, self.item, self.event_s, self.seen_s, self.exact, self.old)


LONGEST_S = 86400.0  # longest wait for a source whose life has no end, and for supplements


@dataclass(frozen=True, slots=True)
class Obtained:
    """The rows of a source at the probe that captured or missed an interval."""

    source_id: str
    seen_s: float
    captured: bool
    rows: tuple[Mapping[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class JointInterval:
    """An interval open on several sources."""

    interval_id: str  # also of its notification
    rule: str
    # events of the trigger's stream since the rule's previous firing; the last one opened the interval
    events: tuple[UpdateEvent, ...]
    # ``opened``, ``deadline``: chronons; there is no deadline if each source's next update ends the interval
    opened: Chronon
    opened_s: float
    deadline: Chronon | None
    # when it is taken to have ended for missing sources, in unix seconds; a partial notification is then sent
    ends_s: float
    wanted: tuple[str, ...]  # sources still to be obtained
    obtained: tuple[Obtained, ...] = ()
    # sources in the partial notification, ``None`` before it; later sources go into a supplement
    told: tuple[str, ...] | None = None

    @property
    def event(self) -> UpdateEvent:
        """The event that opened it."""
        return self.events[-1]

    @property
    def is_complete(self) -> bool:
        """Whether every source was obtained."""
        return not self.wanted

    def news(self) -> tuple[Obtained, ...]:
        """Return the sources that no notification has reported yet."""
        return tuple(each for each in self.obtained if each.source_id not in (self.told or ()))
