"""Sources that have moved permanently: which they are, and how a move is accepted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from proxyd.base.ports import Clock
from proxyd.core.errors import ConflictError
from proxyd.core.language import find_source, lines_of
from proxyd.core.model.profile import Declaration
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.compiled import Compiled
from proxyd.core.rules.known.state import PROPOSED_AFTER_S
from proxyd.daemon.declarations import Declarations
from proxyd.daemon.declared_texts import API_TEXT, origin
from proxyd.daemon.observer import Observer
from proxyd.store.sql_store import SqlStore


@dataclass(frozen=True, slots=True)
class _MovePlace:
    """The file and the line that declare a source."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class SourceMove:
    """A permanent move of a source."""

    source_id: str
    # The declared address, and the new one
    declared_url: str
    url: str
    # When a probe was first led there, in unix seconds, and how many were; or when the move was accepted, and 0
    since_s: float
    probes: int
    place: _MovePlace | None  # where the source is declared; `None` if that was over the API
    is_proposed: bool = False  # whether it was seen for a week or longer, so that people should know
    is_accepted: bool = False  # whether it was accepted, and the declaration does not name the new address yet


@dataclass(frozen=True, slots=True)
class _MoveAccepted:
    """What was done, in words, and the accepted move; ``None`` if it led back to the declared address."""

    said: str
    move: SourceMove | None


class Moves:
    """The moves of sources. An accepted one is part of the source's state, not of the declaration."""

    def __init__(
        self, declarations: Declarations, decider: Decider, observer: Observer, store: SqlStore, clock: Clock
    ) -> None:
        self._declarations = declarations
        self._known = decider.known
        self._decider = decider
        self._observer = observer
        self._store = store
        self._clock = clock

    async def all(self) -> list[SourceMove]:
        """Return every move, by source; an accepted one stays until the declaration names the new address."""
        estimates = self._known.estimates
        names = estimates.moved | estimates.accepted.keys()
        return await asyncio.to_thread(lambda: self._of_all(sorted(names)))

    async def proposals(self, sources: Iterable[str] | None = None) -> dict[str, str]:
        """Return the new address of each source that moved a week ago or earlier, or of some of these."""
        moved = self._known.estimates.moved
        names = moved.copy() if sources is None else moved.intersection(sources)
        return await asyncio.to_thread(lambda: self._proposal_of(sorted(names)))

    def of(self, source: str) -> list[SourceMove]:
        """Return the moves of a source: an accepted one, then the one that its redirects show now."""
        return self._of_all([source])

    def places(self, sources: Iterable[str]) -> dict[str, _MovePlace]:
        """Return the file and line that declare each source, without those that were declared over the API."""
        found = (self._declarations.texts.address_of(source) for source in sources)
        written = [each for each in found if each is not None and origin(each.text.file) != API_TEXT]
        lines = lines_of(written)
        return {each.source_id: _MovePlace(each.text.file, lines[each.source_id]) for each in written}

    async def accept(self, source: str, *, to: str | None = None) -> _MoveAccepted:
        """Read a source where its permanent redirects lead, from now on and over restarts."""
        # Its headers and secrets go there too, so with `to` it is read nowhere else than where somebody looked
        self._declarations.ready()
        async with self._declarations.suspensions.turn, self._observer.turn(source):
            find_source(source, self._declaration)
            leads_to = next((each.url for each in self.of(source) if not each.is_accepted), None)
            if to is not None and leads_to not in {None, to}:
                raise ConflictError(f"source {source} leads to {leads_to} now, not to {to}: look at it again")
            state = self._decider.accept_move(source, self._clock.time_s())
            if state is None:
                raise ConflictError(f"source {source} has not moved: no permanent redirect leads elsewhere")
            await self._store.accept_move(state, self._clock.time_s())
        return _MoveAccepted(self._said(source, state.url), next(iter(self.of(source)), None))

    # -- how

    @property
    def _declaration(self) -> Declaration:
        return self._known.compiled.declaration

    def _of_all(self, sources: Sequence[str]) -> list[SourceMove]:
        # once, because another declaration may come while this runs in a thread
        compiled, places = self._known.compiled, self.places(sources)
        return [move for name in sources for move in self._moves(compiled, name, places.get(name))]

    def _proposal_of(self, sources: Sequence[str]) -> dict[str, str]:
        compiled = self._known.compiled
        moves = (move for name in sources for move in self._moves(compiled, name))
        return {move.source_id: move.url for move in moves if move.is_proposed}

    def _moves(self, compiled: Compiled, source: str, place: _MovePlace | None = None) -> Iterator[SourceMove]:
        if source not in compiled.sources:
            return
        declared = compiled.declaration.sources[source].url
        health = self._known.estimates.state(compiled.sources[source], compiled.reading(source)).health
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
        written, place = self._declarations.texts.address_of(source), self.places([source]).get(source)
        if written is None or written.url.value == url:
            return said
        where = f"in {place.file}, line {place.line}" if place else "where you declare it, and send that again"
        return f"{said}; to keep that without proxyd's memory, {written.remedy(url)} {where}"
