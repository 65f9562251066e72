"""Sources that have moved permanently: which they are, and how a move is accepted."""

from __future__ import annotations

from collections.abc import Iterator

from proxyd.core.language import no_such_source
from proxyd.core.model.profile import Declaration
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.moves import PROPOSED_AFTER_S
from proxyd.daemon.declarations import Declarations
from proxyd.daemon.probe_loop import ProbeLoop
from proxyd.errors import BusyError, ConflictError
from proxyd.ports import Clock
from proxyd.queries import MoveAccepted, MovePlace, SourceMove
from proxyd.store import SqlStore


class Moves:
    """The moves of sources. An accepted one is part of the source's state, not of the declaration."""

    def __init__(
        self, declarations: Declarations, decider: Decider, probes: ProbeLoop, store: SqlStore, clock: Clock
    ) -> None:
        self._declarations = declarations
        self._known = decider.known
        self._decider = decider
        self._probes = probes
        self._store = store
        self._clock = clock

    def all(self) -> list[SourceMove]:
        """Return every move, by source; an accepted one stays until the declaration names the new address."""
        estimates = self._known.estimates
        return [move for name in sorted(estimates.moved | estimates.accepted.keys()) for move in self.of(name)]

    def of(self, source: str) -> list[SourceMove]:
        """Return the moves of a source: an accepted one, then the one that its redirects show now."""
        return list(self._of(source)) if source in self._known.compiled.sources else []

    def place(self, source: str) -> MovePlace | None:
        """Return the file and line that declare a source; ``None`` if it was declared over the API, or is not."""
        written = self._declarations.address_of(source)
        if written is None or self._declarations.origin(written.text.file) != written.text.file:
            return None
        return MovePlace(written.text.file, written.line)

    async def accept(self, source: str, *, to: str | None = None) -> MoveAccepted:
        """Read a source where its permanent redirects lead, from now on and over restarts.

        Its headers and secrets go there too, so with ``to`` it is read nowhere else than where somebody looked.
        """
        if not self._declarations.has_started:
            raise BusyError("the daemon is starting; try again in a few seconds")
        async with self._declarations.suspensions.turn, self._probes.turn(source):
            if source not in self._declaration.sources:
                raise no_such_source(source, self._declaration)
            leads_to = next((each.url for each in self.of(source) if not each.is_accepted), None)
            if to is not None and leads_to not in {None, to}:
                raise ConflictError(f"source {source} leads to {leads_to} now, not to {to}: look at it again")
            state = self._decider.accept_move(source, self._clock.time_s())
            if state is None:
                raise ConflictError(f"source {source} has not moved: no permanent redirect leads elsewhere")
            await self._store.move([state])
        return MoveAccepted(self._said(source, state.url), next(iter(self.of(source)), None))

    # -- how

    @property
    def _declaration(self) -> Declaration:
        return self._known.compiled.declaration

    def _of(self, source: str) -> Iterator[SourceMove]:
        compiled = self._known.compiled
        health, declared = self._known.state(compiled.sources[source]).health, self._declaration.sources[source].url
        place = self.place(source)
        if health.accepted is not None:
            yield SourceMove(source, declared, health.accepted.url, health.accepted.at_s, 0, place, is_accepted=True)
        if health.moved is not None and health.moved_url is not None:
            lasted_s = health.moved.last_s - health.moved.since_s
            yield SourceMove(
                source,
                declared,
                health.moved_url,
                health.moved.since_s,
                health.moved.probes,
                place,
                is_proposed=lasted_s >= PROPOSED_AFTER_S,
            )

    def _said(self, source: str, url: str) -> str:
        """Return what was done, and what to write so that it lasts without the database."""
        said = f"source {source} is read at {url} from now on"
        written, place = self._declarations.address_of(source), self.place(source)
        if written is None or written.url.value == url:
            return said
        where = f"in {place.file}, line {place.line}" if place else "where you declare it, and send that again"
        return f"{said}; to keep that without proxyd's memory, {written.remedy(url)} {where}"
