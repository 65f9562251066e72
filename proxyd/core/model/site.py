"""What is asked of a site, and when it is told: its certificate, its domain, a word, and hours that do not count."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from proxyd.core.model.day_parts import QuietHours
from proxyd.core.model.expression import Duration, Unit

SPACING = Duration(Decimal(20), Unit.SECONDS)
"""The time between two probes of a site that sets no POLITENESS: a failure is confirmed so soon."""
CONNECTIONS = ("tcp", "tls")
"""The schemes of addresses that are only connected to: a database, a mail server."""
PERIOD = Duration(Decimal(40), Unit.SECONDS)
"""How often a site is probed unless its WATCH says WITHIN: with the confirmation, it is told within a minute."""


_CERTIFICATE = Duration(Decimal(14), Unit.DAYS)
_DOMAIN = Duration(Decimal(30), Unit.DAYS)


@dataclass(frozen=True, slots=True)
class SiteChecks:
    """The options of a source of class SITE; an expiry is told ``certificate`` or ``domain`` before it, or never."""

    certificate: Duration | None = _CERTIFICATE
    domain: Duration | None = _DOMAIN
    holding: str | None = None  # what the body must hold
    maintenance: QuietHours | None = None

    def maintenance_end_s(self, at_s: float) -> float | None:
        """Return when the hours end in which failures do not count, or ``None`` outside of them; unix seconds."""
        return None if self.maintenance is None else self.maintenance.end_s(at_s)
