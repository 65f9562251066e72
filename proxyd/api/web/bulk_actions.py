"""What is done at once to the sources or the watches that are chosen in a list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from aiohttp import web

from proxyd.api.problems import BadRequestError
from proxyd.api.queries import Queries
from proxyd.api.rest.action_handlers import asker
from proxyd.api.web.page_gate import SIGNED, read_chosen
from proxyd.api.web.page_texts import MUTE_S, mute_until_s, with_noun
from proxyd.core.errors import ConflictError, NotFoundError
from proxyd.core.language import (
    CreateSource,
    DropStatement,
    Statement,
    StatementKind,
    Watch,
    format_statements,
    in_profiles,
)
from proxyd.core.model.suspension import Subject
from proxyd.daemon.declared_texts import API_TEXT, WrittenStatement
from proxyd.daemon.suspensions import SuspensionChange

_MOST_CHOSEN = 500
_MOST_SAID = 20


@dataclass(slots=True)
class _Done:
    """How many were done, and those that were left alone, each with the reason."""

    count: int = 0
    left: list[str] = field(default_factory=list)

    def sentences(self, verb: str, noun: str) -> tuple[str, list[str]]:
        """Return what was done, and what was not."""
        more = [f"and {len(self.left) - _MOST_SAID} more"] if len(self.left) > _MOST_SAID else []
        said = [f"Left alone: {'; '.join([*self.left[:_MOST_SAID], *more])}."] if self.left else []
        return f"{verb} {with_noun(self.count, noun)}.", said


class BulkActions:
    """Handlers of the forms around the lists of sources and of watches; statements of files are left alone."""

    def __init__(self, queries: Queries) -> None:
        self._profiles = queries.profiles
        self._suspensions = queries.suspensions
        self._deliveries = queries.deliveries
        self._clock = queries.clock

    async def sources(self, request: web.Request) -> web.StreamResponse:
        """Pause, resume, remove or move the chosen sources, or put them into a further profile."""
        by, of_source = asker(request), Subject.SOURCE
        doing: dict[str, Callable[[str], Awaitable[SuspensionChange]]] = {
            "pause": lambda name: self._suspensions.pause(name, by),
            "resume": lambda name: self._suspensions.resume(name, subject=of_source),
        }
        return await self._act(request, StatementKind.SOURCE, doing)

    async def rules(self, request: web.Request) -> web.StreamResponse:
        """Mute, unmute, remove or move the chosen watches, or put them into a further profile."""
        by, of_rule = asker(request), Subject.RULE
        chosen = (await read_chosen(request))[1].get("for", next(iter(MUTE_S)))
        until_s = mute_until_s(chosen, self._clock.time_s(), self._deliveries.zone)
        doing: dict[str, Callable[[str], Awaitable[SuspensionChange]]] = {
            "mute": lambda name: self._suspensions.mute(name, by, subject=of_rule, until_s=until_s),
            "unmute": lambda name: self._suspensions.unmute(name, subject=of_rule, drop=False),
        }
        return await self._act(request, StatementKind.NOTIFICATION, doing)

    async def _act(
        self,
        request: web.Request,
        kind: StatementKind,
        doing: Mapping[str, Callable[[str], Awaitable[SuspensionChange]]],
    ) -> web.StreamResponse:
        names, form = await read_chosen(request)
        action = form.get("do", "")
        if not names or len(names) > _MOST_CHOSEN:
            raise BadRequestError(f"choose one or more of the list, at most {_MOST_CHOSEN} at once")
        names, foreign = self._changeable(names, kind)
        if action in doing:
            done = await _each(names, doing[action])
        elif action == "remove":
            done = await self._remove(names, kind, asker(request))
        elif action in {"into", "also"}:
            done = await self._put_into(form.get("into", "").strip(), names, kind, stays=action == "also")
        else:
            raise BadRequestError("choose one of the buttons of the form")
        done.left += foreign
        noun = "source" if kind is StatementKind.SOURCE else "watch"
        said, left = done.sentences(_VERBS[action], noun)
        request[SIGNED].session.say(said, *left)
        raise web.HTTPSeeOther(request.rel_url)

    def _changeable(self, names: Sequence[str], kind: StatementKind) -> tuple[list[str], list[str]]:
        """Return the full names of what whoever asks may change, and why the others are left alone."""
        subject = Subject.SOURCE if kind is StatementKind.SOURCE else Subject.RULE
        own, foreign = list[str](), list[str]()
        for name in names:
            try:
                own.append(self._profiles.full_name_of(name, subject, to_change=True))
            except (ConflictError, NotFoundError) as error:
                foreign.append(f"{name} ({error})")
        return own, foreign

    async def _remove(self, names: Sequence[str], kind: StatementKind, by: str) -> _Done:
        done = _Done()
        known, written = self._profiles.shown, self._written(names, kind, done)
        drops = [DropStatement(each.statement.kind, each.statement.name) for each in written]
        if drops:
            await self._profiles.declare(format_statements(drops), instead_of=known, by=by)
        done.count = len(drops)
        return done

    async def _put_into(self, profile: str, names: Sequence[str], kind: StatementKind, *, stays: bool) -> _Done:
        """Put each WATCH into a profile, where it ``stays`` also in those where it is."""
        if not profile:
            raise BadRequestError("write the name of a profile to put them into")
        done, known, moved = _Done(), self._profiles.shown, list[Statement]()
        for each in self._written(names, kind, done):
            if isinstance(each.statement, CreateSource) and not stays and self._is_folder(profile, each.statement):
                page_class = replace(each.statement.page_class, domain=profile)  # its class is what its folder is about
                moved.append(replace(each.statement, page_class=page_class))
            elif isinstance(each.statement, Watch):
                moved.append(in_profiles(each.statement, profile, stays=stays))
            else:
                done.left.append(f"{each.statement.name.value} (no WATCH declares it; change its text)")
        if moved:
            await self._profiles.declare(format_statements(moved), instead_of=known)
        done.count = len(moved)
        return done

    def _is_folder(self, profile: str, statement: CreateSource) -> bool:
        """Whether a profile has a domain of its name with the class of an imported source, as lists make them."""
        domain = self._profiles.shown.domains.get(profile)
        is_own = statement.page_class.domain in self._profiles.shown.profiles
        return is_own and domain is not None and statement.page_class.name in domain.classes

    def _written(self, names: Sequence[str], kind: StatementKind, done: _Done) -> list[WrittenStatement]:
        """Return the statements of the API that declare what was chosen, each once."""
        found: dict[tuple[StatementKind, str], WrittenStatement] = {}
        for name in names:
            written = self._profiles.texts.written_of(kind, name)
            if written is None:
                done.left.append(f"{name} (it is gone)")
            elif written.origin != API_TEXT:
                done.left.append(f"{name} ({written.origin}, line {written.line} declares it)")
            else:
                found[written.statement.kind, written.statement.name.value] = written
        return list(found.values())


_VERBS = {
    "pause": "Paused",
    "resume": "Resumed",
    "mute": "Muted",
    "unmute": "Unmuted",
    "remove": "Removed",
    "into": "Moved",
    "also": "Added to the profile:",
}


async def _each(names: Sequence[str], act: Callable[[str], Awaitable[SuspensionChange]]) -> _Done:
    """Do something to each, and go on with the others where one cannot be."""
    done = _Done()
    for name in names:
        try:
            done.count += (await act(name)).is_new
        except (ConflictError, NotFoundError) as error:
            done.left.append(f"{name} ({error})")
    return done
