"""Accepted moves: a source that has moved permanently is read at the new address as if that were declared."""

from __future__ import annotations

from dataclasses import replace

from proxyd.core.model.profile import Source
from proxyd.core.rules.compiled import Compiled
from proxyd.core.rules.estimates import Estimates
from proxyd.core.rules.source_health import AcceptedMove
from proxyd.core.rules.source_requests import reading_of
from proxyd.core.rules.state import SourceState

PROPOSED_AFTER_S = 7 * 86400.0
"""Moves that were seen for so long are proposed to people."""


def accepted_state(before: SourceState, source: Source, compiled: Compiled, now_s: float) -> SourceState | None:
    """Return the state of a source once its move is accepted, or ``None`` if it has not moved.

    It is that of the reading which the source will have when its declaration names the new address. So it goes on then.
    A move back to the declared address leaves nothing to be accepted.
    """
    url, declared = before.health.moved_url, compiled.declared_reading(source.source_id)
    if url is None or declared is None:
        return None
    reading = reading_of(replace(source, url=url), compiled.declaration.page_class(source))
    accepted = None if reading == declared else AcceptedMove(url, declared, now_s)
    health = replace(before.health, moved_url=None, moved=None, accepted=accepted)
    return replace(before, url=url, reading=reading, moved_url=None, moved_times=0, health=health)


def forget_moves(estimates: Estimates, compiled: Compiled) -> None:
    """Forget the accepted moves of sources that are declared in another way now."""
    for source_id, move in list(estimates.accepted.items()):
        if compiled.declared_reading(source_id) not in {None, move.instead_of}:
            state = estimates.states[source_id]
            estimates.keep(replace(state, health=replace(state.health, accepted=None)))
