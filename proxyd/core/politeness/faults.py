"""Whose fault a failure is: that of the source, of the prober that asked, or of our own connection."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome

_SILENT_HOSTS = 3  # a host of reference instead would be one more setting, and one more party that learns of us
_LEAST_OUTAGE_S = 60.0
_SILENT = frozenset({OutcomeKind.UNREACHABLE, OutcomeKind.TIMEOUT})
_NOT_ASKED = frozenset({OutcomeKind.BLOCKED, OutcomeKind.DISALLOWED, OutcomeKind.NO_SECRET, OutcomeKind.NO_BROWSER})


class Outage(NamedTuple):
    """A time in which no host answered, from the first request that was in vain to the next answer; unix seconds."""

    since_s: float
    until_s: float


@dataclass(slots=True)
class Connectivity:
    """The hosts that gave no answer since any host last answered.

    If several hosts in a row are silent and none answers, the fault is more likely ours than theirs. An outage is
    certain only if as many were not failing for reasons of their own: a large fleet has dead hosts, and now and then
    they come in a row.

    Whoever sent bytes of an answer is not silent, whatever was wrong with them. Neither is a host with a certificate
    that is not trusted, unless all hosts show the same one: then a captive portal answers for them.
    """

    _silent: set[str] = field(default_factory=set)
    _certificates: dict[str, dict[str, tuple[ProbeOutcome, float]]] = field(default_factory=dict)  # by who showed them
    _fallen: set[str] = field(default_factory=set)  # the silent hosts that do not fail for reasons of their own
    _since_s: float = inf
    _answered_s: float = -inf

    def take_in(self, host: str, outcome: ProbeOutcome, *, since_s: float = inf) -> Outage | None:
        """Note how a probe of ``host`` ended; return the outage that it ends, if that lasted a minute.

        ``since_s`` says since when the host fails for reasons that may be ours, and is ``-inf`` if they are its own.
        """
        if outcome.is_push or outcome.kind in _NOT_ASKED:
            return None
        shown = self._certificates.get(outcome.certificate, {})
        if self._is_silent(host, outcome):
            earlier = shown.items() if len(shown) == 1 else ()  # a contact until another host showed its certificate
            for name, (failure, failing_since_s) in ((host, (outcome, since_s)), *earlier):
                self._note_silence(name, failure, failing_since_s)
            shown.setdefault(host, (outcome, since_s))
            return None
        outage = Outage(self._since_s, outcome.finished_s) if len(self._fallen) >= _SILENT_HOSTS else None
        self._silent.clear()
        self._fallen.clear()
        self._certificates = {outcome.certificate: {host: (outcome, since_s)}} if outcome.certificate else {}
        self._since_s = inf
        self._answered_s = max(self._answered_s, outcome.finished_s)
        return outage if outage is not None and outage.until_s - outage.since_s >= _LEAST_OUTAGE_S else None

    def _is_silent(self, host: str, outcome: ProbeOutcome) -> bool:
        """Return whether nothing came from a host, or only a certificate that another host has shown as well."""
        if outcome.kind not in _SILENT or outcome.is_answered:
            return False
        return not outcome.certificate or not self._certificates.get(outcome.certificate, {}).keys() <= {host}

    def _note_silence(self, host: str, outcome: ProbeOutcome, since_s: float) -> None:
        if outcome.requests:
            self._silent.add(host)
            if since_s > -inf:
                self._fallen.add(host)
                self._since_s = min(self._since_s, since_s, outcome.started_s)

    @property
    def is_down(self) -> bool:
        """Whether no host answers."""
        return len(self._silent) >= _SILENT_HOSTS

    def excuses(self, host: str, outcome: ProbeOutcome) -> bool:
        """Return whether a failure is ours: no host answers, our queue was too long, or there is no browser."""
        if outcome.kind is OutcomeKind.NO_BROWSER:
            return True
        if not self._is_silent(host, outcome):
            return False
        return outcome.requests == 0 or len(self._silent | {host}) >= _SILENT_HOSTS

    def is_sure(self, host: str, outcome: ProbeOutcome, *, since_s: float, hosts: int) -> bool:
        """Return whether a failure of ``host`` that began at ``since_s`` is certainly the source's.

        It is if the host answered, or if another one did since then.
        """
        # Of fewer than three hosts, nothing can be said of our connection, and a failure counts as theirs.
        return not self._is_silent(host, outcome) or hosts < _SILENT_HOSTS or self._answered_s >= since_s


_HALF_LIFE_S = 3600.0
FEWEST = 5.0  # contradictions until a prober is put aside
_TIMES_OTHERS = 5.0  # how much more often than the others it must be contradicted
PROBATION = 20.0  # judged probes after which a prober that was aside is trusted again
REST_S, MOST_REST_S = 600.0, 6 * 3600.0
_OTHERS_PRIOR = (1.0, 20.0)  # contradictions and answers that the others are taken to have had anyway
_KEPT_S = 86400.0
_MOST_FAILURES = 100_000  # of hosts whose next answer is awaited
_ITS_OWN = frozenset(
    {
        OutcomeKind.TIMEOUT,
        OutcomeKind.UNREACHABLE,
        OutcomeKind.BLOCKED,
        OutcomeKind.NO_SECRET,
        OutcomeKind.NO_BROWSER,
        OutcomeKind.NOT_A_FEED,
        OutcomeKind.UNREADABLE,
    }
)


def may_be_its_own(kind: OutcomeKind) -> bool:
    """Return whether a failure may be that of the machine that made the probe."""
    return kind in _ITS_OWN


@dataclass(slots=True)
class _Tally:
    """The judged probes of a prober, and those in which others contradicted it; older ones count less."""

    judged: float = 0.0
    contradicted: float = 0.0
    as_of_s: float = 0.0
    until_s: float = -inf  # aside until then
    rests: int = 0  # for how many times in a row; on probation until it is 0
    why: str = ""

    def fade(self, now_s: float) -> None:
        """Let what was counted before count less."""
        share = 0.5 ** (max(0.0, now_s - self.as_of_s) / _HALF_LIFE_S)
        self.judged, self.contradicted, self.as_of_s = self.judged * share, self.contradicted * share, now_s

    def rest(self, now_s: float) -> None:
        """Put it aside, twice as long as the last time."""
        counts = f"{round(self.contradicted)} of its last {round(self.judged)} probes"
        self.why = f"{counts} failed where another prober had an answer"
        self.until_s = now_s + min(MOST_REST_S, REST_S * 2.0 ** min(self.rests, 32))
        self.rests += 1
        self.judged = self.contradicted = 0.0


@dataclass(slots=True)
class ProberTrust:
    """How often each prober failed at a host where the next other prober had an answer.

    A prober is put aside once that has happened to it five times, and five times as often as to the others. It has work
    again after ten minutes, and is put aside for twice as long if nothing has changed. Until twenty of its probes agree
    with those of others, its failures say nothing of sources.
    """

    _tallies: dict[str, _Tally] = field(default_factory=dict)
    _failures: OrderedDict[str, str] = field(default_factory=OrderedDict)  # hosts, and the prober that failed last

    def take_in(self, prober: str, host: str, kind: OutcomeKind, *, now_s: float) -> None:
        """Note how a probe ended that a prober made; what one does that is aside says nothing."""
        failed, is_failure = self._failures.pop(host, None), may_be_its_own(kind)
        if failed is not None and failed != prober:
            self._judge(failed, now_s, is_contradicted=not is_failure)
        if not is_failure:
            self._judge(prober, now_s, is_contradicted=False)
            return
        self._failures[host] = prober
        if len(self._failures) > _MOST_FAILURES:
            self._failures.popitem(last=False)

    def aside(self, now_s: float) -> Mapping[str, str]:
        """Return the probers that are to have no work now, and why."""
        return {name: each.why for name, each in sorted(self._tallies.items()) if now_s < each.until_s}

    def is_trusted(self, prober: str) -> bool:
        """Whether the failures of a prober count as those of sources: it is neither aside nor on probation."""
        return prober not in self._tallies or not self._tallies[prober].rests

    def _judge(self, prober: str, now_s: float, *, is_contradicted: bool) -> None:
        tally = self._tallies.get(prober)
        if tally is None:
            self._forget(now_s)
            tally = self._tallies[prober] = _Tally(as_of_s=now_s)
        if now_s < tally.until_s:
            return
        tally.fade(now_s)
        tally.judged += 1.0
        tally.contradicted += is_contradicted
        if tally.contradicted >= FEWEST and self._is_worse(prober, tally, now_s):
            tally.rest(now_s)
        elif tally.judged >= PROBATION:
            tally.rests = 0

    def _is_worse(self, prober: str, tally: _Tally, now_s: float) -> bool:
        """Whether a prober is contradicted far more often than those that are trusted."""
        contradicted, judged = _OTHERS_PRIOR
        for name, other in self._tallies.items():
            if name != prober and not other.rests:
                other.fade(now_s)
                contradicted, judged = contradicted + other.contradicted, judged + other.judged
        return tally.contradicted / tally.judged >= min(0.9, _TIMES_OTHERS * contradicted / judged)

    def _forget(self, now_s: float) -> None:
        """Forget probers that have not been heard of for long: each start of one has a name of its own."""
        gone = [name for name, each in self._tallies.items() if now_s > max(each.as_of_s, each.until_s) + _KEPT_S]
        for name in gone:
            del self._tallies[name]
