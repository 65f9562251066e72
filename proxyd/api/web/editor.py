"""The list of profiles and their editor."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from aiohttp import web
from yarl import URL

from proxyd.api import wire
from proxyd.api.endpoint import read_query
from proxyd.api.listings import Listings
from proxyd.api.problems import EXPECTED, BadRequestError, answer_to
from proxyd.api.queries import Queries
from proxyd.api.rest.action_handlers import asker
from proxyd.api.rest.profile_handlers import cost_as_seen, etag_of
from proxyd.api.web.page_gate import SIGNED, read_form
from proxyd.api.web.page_texts import profile_page, warnings_of
from proxyd.api.web.rendering import Renderer
from proxyd.api.wire import converters as payloads
from proxyd.base.clock import zone_name
from proxyd.base.doers import current_doer
from proxyd.core.errors import ChangedError
from proxyd.core.language import CreateProfile, Located, StatementKind, find_named, format_statements
from proxyd.core.language.hidden_addresses import hide_channels, show_channels
from proxyd.core.model.day_parts import QuietHours
from proxyd.core.model.profile import found_name, owner_of
from proxyd.daemon.declared_texts import API_TEXT, DeclarationChanges, OnlyIf, sources_only_of

KINDS = {
    "rules": StatementKind.NOTIFICATION,
    "sources": StatementKind.SOURCE,
    "receivers": StatementKind.RECEIVER,
}
"""The kinds of statements that have a form of their own, by the list that leads to it."""
_NEW = """WATCH 'https://github.com/python/cpython/releases.atom' AS "stable" INTO "Watch"
  WHERE title NOT REGEXP '(a|b|rc)[0-9]+$';
"""


@dataclass(frozen=True, slots=True)
class _ProfileRow:
    """A line of a text, from 1, and its faults."""

    number: int
    text: str
    faults: tuple[wire.Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a text changes and costs, or its problem, with faults in its ``rows`` or ``elsewhere``."""

    changes: DeclarationChanges | None = None
    cost: wire.CostShown | None = None
    problem: wire.Problem | None = None
    rows: tuple[_ProfileRow, ...] = ()
    elsewhere: tuple[wire.Fault, ...] = ()

    @classmethod
    def of(cls, answer: web.Response, text: str) -> Self:
        """Return the verdict of a refusal."""
        assert isinstance(answer.body, bytes)
        problem = wire.Problem.model_validate_json(answer.body)
        faults = problem.errors or []
        elsewhere = tuple(each for each in faults if each.line is None or each.file != API_TEXT)
        return cls(problem=problem, rows=tuple(_excerpt(text, faults)), elsewhere=elsewhere)


class Editor:
    """Handlers that show, check, save and remove profiles."""

    def __init__(self, queries: Queries, listings: Listings, renderer: Renderer) -> None:
        self._profiles = queries.profiles
        self._listings = listings
        self._deliveries = queries.deliveries
        self._render = renderer.page

    async def profiles(self, request: web.Request) -> web.Response:
        """List the profiles."""
        found = await self._listings.profiles.list_profiles(read_query(request, wire.ListWindow))
        return self._render(request, "profiles.html", found=found)

    async def profile(self, request: web.Request) -> web.Response:
        """Show one profile in the editor, or read-only if a file declares it."""
        name = request.match_info["name"]
        text = await self._text_now(name)
        found = await self._listings.profiles.get_profile(name)  # raises if it is gone by now
        shown = {"name": name, "text": hide_channels(text), "tag": etag_of(text), "found": found}
        return self._editor(request, **shown, **await self._what_goes(name))

    async def new(self, request: web.Request) -> web.Response:
        """Show the editor with an example."""
        return self._editor(request, text=_NEW)

    async def check(self, request: web.Request) -> web.Response:
        """Show the errors of a text, or what it would change and cost; a script requests only that part of the page."""
        form = await _form(request)
        verdict = await self._verdict(form)
        if form["part"]:
            return self._render(request, "verdict.html", verdict=verdict)
        return await self._again(request, form, verdict=verdict)

    async def save(self, request: web.Request) -> web.StreamResponse:
        """Declare a text, if the profile has not changed since it was opened."""
        form = await _form(request)
        before = set(self._profiles.shown.profiles)
        try:
            verdict = await self._verdict(form, is_saved=True, by=asker(request))
        except ChangedError:
            changed = hide_channels(await self._text_now(form["name"]))
            return await self._again(request, form, status=412, changed=changed)
        if verdict.problem is not None:
            return await self._again(request, form, status=verdict.problem.status, verdict=verdict)
        warnings = () if verdict.changes is None else warnings_of(verdict.changes, with_lines=True)
        request[SIGNED].session.say("Saved.", *warnings)
        now = set(self._profiles.shown.profiles)
        shown = {form["name"]} & now or now - before
        raise web.HTTPSeeOther(URL(profile_page(shown.pop()) if len(shown) == 1 else "/profiles", encoded=True))

    async def drop(self, request: web.Request) -> web.StreamResponse:
        """Remove a profile and its rules in no other profile, if it has not changed since it was opened."""
        name = request.match_info["name"]
        form = await _form(request) | {"name": name}
        find_named("profile", name, self._profiles.ready().profiles)
        if not form["confirmed"]:
            raise BadRequestError("tick the box to confirm the removal")
        await self._profiles.drop_profile(
            name,
            only_if=lambda text: _is_as_opened(text, form),
            by=asker(request),
            with_sources=bool(form["sources"]),
        )
        request[SIGNED].session.say("Removed.")
        raise web.HTTPSeeOther("/profiles")

    async def set_quiet(self, request: web.Request) -> web.StreamResponse:
        """Give a profile the quiet hours of the form, or none."""
        name, form = request.match_info["name"], await read_form(request)
        known = self._profiles.ready()
        find_named("profile", name, known.profiles)
        written = self._profiles.texts.written_of(StatementKind.PROFILE, name)
        if written is not None and written.origin != API_TEXT:
            raise BadRequestError(f"{written.origin}, line {written.line} declares this profile; change it there")
        declared = written.statement if written is not None else None
        statement = declared if isinstance(declared, CreateProfile) else CreateProfile(name=Located(name))
        during, zone = form.get("during", "").strip(), form.get("zone", "").strip()
        quiet = Located(QuietHours(during, zone or None)) if during else None
        text = format_statements([replace(statement, quiet=quiet)])
        changes = await self._profiles.declare(text, instead_of=known, by=asker(request))
        said = f"Messages wait during {during}." if during else "There are no quiet hours now."
        request[SIGNED].session.say(said, *warnings_of(changes))
        raise web.HTTPSeeOther(URL(profile_page(name), encoded=True))

    async def _text_now(self, name: str, of: str = "") -> str:
        """Return the text of a profile or, with one of ``KINDS``, of a statement; nothing if it is not declared."""
        owners = current_doer().profiles
        if of in KINDS:
            name = found_name(name, self._profiles.texts.declared.get(KINDS[of], {}), owners)
            is_hidden = bool(owners) and owner_of(name) not in owners  # what is shared keeps its addresses from them
            written = None if is_hidden else self._profiles.texts.written_of(KINDS[of], name)
            return "" if written is None else written.text
        is_known = name in self._profiles.shown.profiles
        return await asyncio.to_thread(self._profiles.texts.text_of, name, owners) if is_known else ""

    async def _verdict(self, form: dict[str, str], *, is_saved: bool = False, by: str | None = None) -> Verdict:
        """Return what a text would change and cost, or changed if it ``is_saved``, or its errors.

        Raises ``ChangedError`` if the profile has changed since the saved form was rendered.
        """
        text = show_channels(form["text"], await self._text_now(form["name"], form["of"]))
        try:
            if not text.strip():
                raise BadRequestError("the text is empty; write at least one statement")
            if "://[hidden " in text:
                raise BadRequestError("write an address in place of each '[hidden]' that this profile did not have")
            if is_saved:
                return Verdict(changes=await self._profiles.declare(text, only_if=_precondition_of(form), by=by))
            changes, cost = await self._profiles.try_out(text)
        except ChangedError:
            raise
        except EXPECTED as error:
            return Verdict.of(answer_to(error), hide_channels(text))
        return Verdict(changes=changes, cost=payloads.cost(cost_as_seen(cost)))

    async def _what_goes(self, name: str) -> dict[str, Any]:
        """Return how many rules go with a profile, and how many sources, also of the API, nobody reads then."""
        declaration, texts = self._profiles.shown, self._profiles.texts

        def count() -> dict[str, Any]:
            unread = sources_only_of(name, declaration)
            return {
                "rules_gone": sum(set(each.profiles) == {name} for each in declaration.rules.values()),
                "unread": len(unread),
                "unread_own": sum(texts.is_of_api(StatementKind.SOURCE, each) for each in unread),
            }

        return await asyncio.to_thread(count)

    def _editor(self, request: web.Request, **facts: Any) -> web.Response:
        empty: dict[str, Any] = {"name": "", "text": "", "tag": "", "found": None, "verdict": None, "changed": None}
        empty |= {"rules_gone": 0, "unread": 0, "unread_own": 0}
        known = self._profiles.shown.profiles.get(facts.get("name", ""))
        empty["quiet"] = (known and known.quiet) or QuietHours("", zone_name(self._deliveries.zone))
        return self._render(request, "profile.html", **{**empty, **facts})

    async def _again(
        self, request: web.Request, form: dict[str, str], *, status: int = 200, **facts: Any
    ) -> web.Response:
        """Return the editor with the submitted text."""
        name = form["name"]
        is_known = name in self._profiles.shown.profiles
        found = await self._listings.profiles.get_profile(name) if is_known else None
        facts |= await self._what_goes(name) if is_known else {}
        kept = {each: form[each] for each in ("name", "text", "tag")}
        return self._editor(request, status=status, found=found, **kept, **facts)


def _precondition_of(form: dict[str, str]) -> OnlyIf | None:
    """Return the precondition for saving a form; a new profile has none."""
    return OnlyIf(lambda text: _is_as_opened(text, form), form["name"]) if form["name"] else None


def _is_as_opened(text: str, form: dict[str, str]) -> bool:
    return hmac.compare_digest(etag_of(text).encode(), form["tag"].encode())


async def _form(request: web.Request) -> dict[str, str]:
    """Return the fields of the editor's form; browsers end lines with CR and LF."""
    given = await read_form(request)
    fields = {each: given.get(each, "") for each in ("name", "of", "text", "tag", "part", "confirmed", "sources")}
    return fields | {"text": fields["text"].replace("\r\n", "\n")}


def _excerpt(text: str, faults: Sequence[wire.Fault], *, around: int = 1) -> list[_ProfileRow]:
    r"""Return the lines at fault with their faults, and the lines around them.

    >>> rows = _excerpt("a\nb\nc\nd", [wire.Fault(detail="no", file="api", line=1, column=1)])
    >>> [(row.number, row.text, len(row.faults)) for row in rows]
    [(1, 'a', 1), (2, 'b', 0)]
    """
    of_line: dict[int, list[wire.Fault]] = {}
    for fault in faults:
        if fault.line is not None and fault.file == API_TEXT:
            of_line.setdefault(fault.line, []).append(fault)
    near = {number for line in of_line for number in range(line - around, line + around + 1)}
    lines = text.split("\n")
    return [_ProfileRow(n, line, tuple(of_line.get(n, ()))) for n, line in enumerate(lines, start=1) if n in near]
