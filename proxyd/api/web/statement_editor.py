"""The form that changes, copies and removes what one statement declares, and what was removed in the last day."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from yarl import URL

from proxyd.api.listings import Listings
from proxyd.api.problems import EXPECTED, BadRequestError, answer_to
from proxyd.api.queries import Queries
from proxyd.api.rest.action_handlers import asker
from proxyd.api.rest.profile_handlers import etag_of
from proxyd.api.web.editor import KINDS, Verdict
from proxyd.api.web.page_gate import SIGNED, read_form
from proxyd.api.web.page_texts import part, warnings_of
from proxyd.api.web.rendering import Renderer
from proxyd.api.wire import converters as payloads
from proxyd.base.doers import current_doer
from proxyd.core.errors import ChangedError
from proxyd.core.language import DropStatement, Parsed, StatementKind, format_statements, no_such, parse
from proxyd.core.language.hidden_addresses import hide_channels, show_channels
from proxyd.core.model.profile import Declaration, found_name, full_name, owner_of
from proxyd.daemon.declared_texts import API_TEXT, WrittenStatement

_MOST_LISTED, _MOST_SHOWN = 100, 10_000


class StatementEditor:
    """Handlers of the form for one statement; what it removed can be had back for a day."""

    def __init__(self, queries: Queries, listings: Listings, renderer: Renderer) -> None:
        self._profiles = queries.profiles
        self._render = renderer.page

    async def form(self, request: web.Request) -> web.Response:
        """Show the statement that declares a rule, a source or a receiver."""
        written = self._written(request)
        return self._page(request, written, text=hide_channels(written.text), tag=etag_of(written.text))

    async def save(self, request: web.Request) -> web.StreamResponse:
        """Declare the text of the form in place of the statement, or beside it if it is a copy."""
        written, form = self._written(request), await _form(request)
        owners, name = current_doer().profiles, written.statement.name.value
        is_own = not owners or owner_of(name) in owners  # what is shared hides its addresses from them
        sent = parse(text := show_channels(form["text"], written.text if is_own else ""))
        texts: list[str | Parsed] = [sent]
        if not form["copy"] and not any(_is_same(each, written) for each in sent.statements):
            texts.append(_drop_of(written))  # it has another name now
        try:
            if not sent.statements and not sent.errors:
                raise BadRequestError("the text is empty; to remove it, use the button below")
            if "://[hidden " in text:
                raise BadRequestError("write an address in place of each '[hidden]' that was not there before")
            known = self._declaration_as_opened(request, form)
            if form["copy"] and any(_is_same(each, written) for each in sent.statements):
                raise BadRequestError('a copy needs a name of its own, such as AS "another"')
            changes = await self._profiles.declare(*texts, instead_of=known)
        except EXPECTED as error:
            verdict = Verdict.of(answer_to(error), hide_channels(text))
            status = verdict.problem.status if verdict.problem else 400
            return self._page(request, written, status=status, text=form["text"], tag=form["tag"], verdict=verdict)
        request[SIGNED].session.say("Saved.", *warnings_of(changes, with_lines=True))
        raise web.HTTPSeeOther(self._page_after(request, sent, is_copy=bool(form["copy"])))

    def _page_after(self, request: web.Request, sent: Parsed, *, is_copy: bool) -> URL:
        """Return the page of what was changed, or of what a text declares under another name."""
        of, name, declared = _list_of(request), request.match_info["name"], self._profiles.shown
        is_there = name in (declared.rules if of == "rules" else declared.sources)  # a WATCH declares both
        if of == "receivers":
            return URL("/receivers")
        return URL(f"/{of}/{part(name)}", encoded=True) if is_there and not is_copy else _page_of(of, sent)

    async def remove(self, request: web.Request) -> web.StreamResponse:
        """Remove the statement, and keep it for a day."""
        written, form = self._written(request), await _form(request)
        known = self._declaration_as_opened(request, form)
        await self._profiles.declare(_drop_of(written), instead_of=known, by=asker(request))
        request[SIGNED].session.say(f"Removed {written.statement.name.value}.")
        raise web.HTTPSeeOther(URL("/removed"))

    async def restore(self, request: web.Request) -> web.StreamResponse:
        """Declare again what was removed."""
        removed, changes = await self._profiles.restore(request.match_info["id"])
        request[SIGNED].session.say(f"{removed.name} is back.", *warnings_of(changes))
        raise web.HTTPSeeOther(URL("/rules"))

    async def list_removed(self, request: web.Request) -> web.Response:
        """Show what was removed in the last day, newest first."""
        found = [payloads.removal(each) for each in await self._profiles.removals(limit=_MOST_LISTED)]
        texts = {each.id: hide_channels(each.text)[:_MOST_SHOWN] for each in found}
        return self._render(request, "removed.html", removed=found, texts=texts)

    def _written(self, request: web.Request) -> WrittenStatement:
        kind, name, owners = KINDS[_list_of(request)], request.match_info["name"], current_doer().profiles
        if kind is StatementKind.RECEIVER:
            receivers = self._profiles.receivers
            name = found_name(name, receivers, owners)
            if name not in receivers:
                raise no_such("receiver", name, () if owners else receivers)
        written = self._profiles.texts.written_of(kind, name)
        if written is None:
            is_rule, known = kind is StatementKind.NOTIFICATION, self._profiles.shown
            raise no_such("rule" if is_rule else "source", name, known.rules if is_rule else known.sources)
        return written

    def _declaration_as_opened(self, request: web.Request, form: dict[str, str]) -> Declaration:
        """Return the declaration that runs; raises ``ChangedError`` if the statement is not as it was opened."""
        if etag_of(self._written(request).text) != form["tag"]:
            raise ChangedError("somebody has changed it since you opened it; open it again")
        return self._profiles.shown

    def _page(
        self, request: web.Request, written: WrittenStatement, *, status: int = 200, **facts: Any
    ) -> web.Response:
        statement, of = written.statement, _list_of(request)
        return self._render(
            request,
            "statement.html",
            status=status,
            name=request.match_info["name"],
            back=f"/{of}/{part(request.match_info['name'])}",
            of=of,
            above="/receivers" if of == "receivers" else f"/{of}/{part(request.match_info['name'])}",
            written=written,
            is_own=written.origin == API_TEXT,
            also=statement.name.value if KINDS[of] is not statement.kind else None,
            **{"verdict": None, **facts},
        )


def _list_of(request: web.Request) -> str:
    """Return the list in whose pages a form is: ``rules``, ``sources`` or ``receivers``."""
    return request.path.split("/")[1]


def _is_same(statement: Any, written: WrittenStatement) -> bool:
    """Whether a statement declares what another one did."""
    old = written.statement
    names = {statement.name.value, *(full_name(each, statement.name.value) for each in current_doer().profiles)}
    return statement.kind is old.kind and old.name.value in names


def _drop_of(written: WrittenStatement) -> str:
    """Return the statement that removes another one."""
    statement = written.statement
    return format_statements([DropStatement(statement.kind, statement.name)])


def _page_of(of: str, sent: Parsed) -> URL:
    """Return the page of what a text declares, or the list if that is not one."""
    names = [each.name.value for each in sent.statements if each.kind is KINDS[of]]
    return URL(f"/{of}/{part(names[0])}" if len(names) == 1 else f"/{of}", encoded=True)


async def _form(request: web.Request) -> dict[str, str]:
    given = await read_form(request)
    fields = {each: given.get(each, "") for each in ("text", "tag", "copy")}
    return fields | {"text": fields["text"].replace("\r\n", "\n")}
