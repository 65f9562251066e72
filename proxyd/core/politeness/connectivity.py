"""Detects that our own connection is down; then no source is to blame."""

from __future__ import annotations

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
