"""What `proxyd top` shows: from what the daemon said to something that rich draws. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from proxyd.cli.printing import about, first_row
from proxyd.client.types import ComingProbe, NotificationListed, Readiness, SourceListed
from proxyd.metrics import SHARES, Samples
from proxyd.net import visible_line

_CELL = 120


@dataclass(frozen=True, slots=True)
class Seen:
    """What the daemon said; ``trouble`` is why it says nothing any more."""

    where: str
    ready: Readiness
    samples: Samples
    plan: Sequence[ComingProbe]
    failing: Sequence[SourceListed]
    news: Sequence[NotificationListed]
    trouble: str | None = None


def frame(seen: Seen, *, most: int = 10) -> RenderableType:
    """Return all of it, at most ``most`` rows of each list."""
    return Group(
        _head(seen),
        *(Text(line) for line in health_lines(seen.samples)),
        *_listed("coming probes", ["at", "source", "reason", "rule"], [_coming(each) for each in seen.plan[:most]]),
        *_listed(
            "failing sources",
            ["source", "failures", "last outcome", "next probe"],
            [_failing(each) for each in seen.failing[:most]],
        ),
        *_listed("newest notifications", ["created", "rule", "source", "what"], [_new(n) for n in seen.news[:most]]),
    )


def _head(seen: Seen) -> Text:
    failed = [name for name, holds in seen.ready["checks"].items() if not holds]
    state = "ready" if seen.ready["ready"] else f"not ready: {', '.join(failed)}"
    head = Text.assemble(("proxyd ", "bold"), visible_line(seen.where), "  ")
    head.append(visible_line(state), style="green" if seen.ready["ready"] else "bold red")
    if seen.trouble is not None:
        head.append(f"  {visible_line(seen.trouble)}", style="bold red")
    return head


def health_lines(samples: Samples) -> list[str]:
    """Return how the daemon does, in a few lines."""
    value = samples.values.get
    completeness, utility, used = (
        _share(value(f"proxyd_{name}_ratio")) for name in ("completeness", "utility", "budget_used")
    )
    waiting, held, dead = (_count(value(f"proxyd_outbox_{name}")) for name in ("pending", "held", "dead"))
    sources, rules = _count(value("proxyd_sources")), _count(value("proxyd_rules"))
    return [
        f"completeness {completeness}   utility {utility}   budget used {used}",
        f"published to seen       {_delays(samples, 'proxyd_item_delay_seconds')}",
        f"published to delivered  {_delivered(samples)}",
        f"sources {sources}   rules {rules}   outbox: {waiting} waiting, {held} held, {dead} given up",
    ]


def _share(value: float | None) -> str:
    return "-" if value is None or not isfinite(value) else f"{value:.1%}"


def _count(value: float | None) -> str:
    return "-" if value is None or not isfinite(value) else f"{value:,.0f}"


def _delivered(samples: Samples) -> str:
    if samples.is_delivered_elsewhere:
        return "the notifier counts them: see /metrics of its machine"
    return _delays(samples, "proxyd_notification_delay_seconds")


def _delays(samples: Samples, name: str) -> str:
    delays = samples.delays(name)
    if not delays.count:
        return "nothing yet"
    pairs = zip(SHARES, delays.percentiles, strict=True)
    said = "   ".join(f"{share:.0%} {'-' if delay_s is None else about(delay_s)}" for share, delay_s in pairs)
    return f"{said}   of {delays.count:,}"


def _listed(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[RenderableType]:
    """Return a list under its title, each row on one line."""
    found = list(rows)
    if not found:
        return [Text(f"\nno {title}", style="dim")]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in head:
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    for row in found:
        table.add_row(*(Text(visible_line(cell, _CELL)) for cell in row))
    return [Text(f"\n{title}", style="bold"), table]


def _coming(probe: ComingProbe) -> list[str]:
    return [probe["at"], probe["source"], probe["reason"], probe["rule"] or "-"]


def _failing(source: SourceListed) -> list[str]:
    planned = source["next_probe"]
    last = f"{source['last_outcome'] or '-'} {(source['last_detail'] or '')[:_CELL]}".strip()
    return [source["source"], str(source["failures"]), last, planned["at"] if planned else source["blocked_by"] or "-"]


def _new(notification: NotificationListed) -> list[str]:
    return [
        notification["created"],
        notification["rule"],
        notification["source"],
        first_row(notification["body"]),
    ]
