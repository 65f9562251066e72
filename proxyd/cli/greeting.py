"""What `proxyd serve` says on a terminal once it runs: what is watched, when the first probe comes, where to look."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from proxyd.cli.answers import counted
from proxyd.core.planning.queue.probe_slots import PlannedProbe


def greeting(*, sources: int, rules: int, coming: PlannedProbe | None, dashboard: str) -> Iterator[str]:
    """Yield the lines of the greeting; ``dashboard`` is its address.

    >>> next(greeting(sources=0, rules=0, coming=None, dashboard="http://127.0.0.1:8080/"))
    'proxyd runs, and watches nothing yet: `proxyd add ADDRESS` in another terminal watches a feed or a page'
    """
    if sources:
        yield f"proxyd runs, and watches {counted(sources, 'source')} for {counted(rules, 'rule')}"
    else:
        yield "proxyd runs, and watches nothing yet: `proxyd add ADDRESS` in another terminal watches a feed or a page"
    if coming is not None:
        at = datetime.fromtimestamp(coming.start_s).astimezone()
        yield f"the first probe is that of {coming.probe.source_id}, at {at:%H:%M:%S}; `proxyd top` shows them live"
    yield f"dashboard: {dashboard} (sign in with what `proxyd token create --name me --scope write` prints)"
    yield "Ctrl-C ends it"
