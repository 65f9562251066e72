"""Handlers and endpoints of profiles, rules, domains and sources."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from aiohttp import ETag, web

from proxyd.api import wire
from proxyd.api.auth import BEARER
from proxyd.api.bounds import Within
from proxyd.api.endpoint import Endpoint, json_of, json_response, listing, model_of_body, read_bytes, read_query
from proxyd.api.listings import Listings
from proxyd.api.problems import BadRequestError, fault_of_text, problem
from proxyd.api.queries import Queries
from proxyd.api.rest.action_handlers import asker
from proxyd.api.rest.json_profiles import Members, declaration_of, read_declaration
from proxyd.api.wire import converters as payloads
from proxyd.base.doers import current_doer
from proxyd.core.errors import BusyError, ChangedError, ListingError, ProfileError, RuleError
from proxyd.core.language import (
    MAX_SENT_BYTES,
    Parsed,
    Statement,
    default_owner,
    format_statements,
    merge_listing,
    opml_of,
    profiles_in_words,
    read_listing,
    watch_listing,
)
from proxyd.core.language.hidden_addresses import hide_channels, hide_channels_in_json
from proxyd.core.model.profile import Declaration, owner_of
from proxyd.core.rules.answers.advice import PlanCost
from proxyd.daemon.declared_texts import DeclarationChanges, OnlyIf, origin

_TEXTS = ("text/plain", "application/octet-stream")
_LISTINGS = (*_TEXTS, "text/x-opml", "text/xml", "application/xml")
_NOTHING = "nothing is declared; send at least one statement"
_MOST_DECLARED = 2 * MAX_SENT_BYTES  # of a body: JSON adds keys and escapes
_MOST_FAULTS, _MOST_REMOVED = 20, 100
_MOST_WAITING = 4
_MOST_MERGED = 5  # times, with a declaration that changes meanwhile
MOST_LISTED = 8 * 1024 * 1024  # bytes of a list of feeds


class ProfileHandlers:
    """Handlers that show, change and export the running declaration."""

    def __init__(self, queries: Queries, listings: Listings) -> None:
        self._queries = queries
        self._profiles = queries.profiles
        self._listings = listings.profiles
        self._choices = queries.choices
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def get_profile(self, request: web.Request) -> web.Response:
        """Show one profile, with its text.

        The `ETag` depends only on the text. Send it as `If-Match` to replace or remove the profile only if it has not
        changed since. A token of scope `read` is not shown the addresses of chats: whoever has one can write there.
        """
        name = request.match_info["name"]
        token = request.get(BEARER)  # none over the Unix socket
        is_hidden = token is not None and token.scope == "read"
        text, declared = await asyncio.to_thread(self._written, name, is_hidden=is_hidden)
        listed = await self._listings.get_profile(name)  # raises if it is gone by now
        answer = json_response(wire.ProfileShown(text=text, declared=declared, **dict(listed)))
        answer.etag = etag_of(text)
        return answer

    def _written(self, name: str, *, is_hidden: bool) -> tuple[str, wire.DeclarationWritten]:
        texts, owners = self._profiles.texts, current_doer().profiles  # once: another declaration may come meanwhile
        text, declared = texts.text_of(name, owners), declaration_of(texts.statements_of(name, owners))
        if not is_hidden and not owners:
            return text, declared
        shown = hide_channels_in_json(declared.model_dump_json(by_alias=True))
        return hide_channels(text) if is_hidden else text, wire.DeclarationWritten.model_validate_json(shown)

    async def declare(self, request: web.Request) -> wire.ChangesMade | web.Response:
        """Declare a text of the rule language, or the same structure as JSON.

        Statements replace those of the same name that were declared through the API; DROP removes them. With `If-Match`
        the text must declare exactly one profile, which is replaced only if it has not changed since its `ETag` was
        read.
        """
        asked = read_query(request, wire.DryRun)
        if request.content_type in _TEXTS:
            text = await _text_of(request)
            if not text.strip():
                raise BadRequestError(_NOTHING)
            return await self._declare(text, request, dry_run=asked.dry_run)
        if request.content_type != "application/json":
            return problem(415, "Unsupported media type", "send text/plain in the rule language, or application/json")
        body = await read_bytes(request)
        async with self._in_turn():
            members, parsed = await asyncio.to_thread(_declaration_of, body)
        try:
            return await self._declare(parsed, request, members.fault, dry_run=asked.dry_run)
        except ProfileError as error:
            raise members.faults(error) from error

    async def _declare(
        self,
        text: str | Parsed,
        request: web.Request,
        fault: Callable[[RuleError], wire.Fault] = fault_of_text,
        *,
        dry_run: bool,
    ) -> wire.ChangesMade | web.Response:
        only_if = _only_if(request)
        if dry_run:
            changes, cost = await self._profiles.try_out(text, only_if=only_if)
            return json_response(_made(changes, payloads.cost(cost_as_seen(cost)), fault))
        return _made(await self._profiles.declare(text, only_if=only_if, by=asker(request)), fault=fault)

    async def import_feeds(self, request: web.Request) -> wire.ImportMade | web.Response:
        """Declare the feeds of an OPML document, or of a list with an address on each line.

        Each folder becomes a domain and a profile with a rule that fires on every new item or change of a page; feeds
        in no folder go to `name`. Addresses that are declared already are left alone, so an import may be repeated. A
        token of some profiles adds a WATCH of each address to its profile of the folder's name, or else to `name`, or
        its first.
        """
        asked = read_query(request, wire.Listing)
        if request.content_type not in _LISTINGS:
            return problem(415, "Unsupported media type", "send OPML as text/x-opml, or addresses as text/plain")
        made = await self.import_list(await read_bytes(request), asked)
        return json_response(made) if asked.dry_run else made

    async def import_list(self, body: bytes, asked: wire.Listing, to: Sequence[str] = ()) -> wire.ImportMade:
        """Declare the feeds of a list and tell the mail addresses and chats ``to``, or only check it."""
        for _ in range(_MOST_MERGED):
            self._profiles.ready()  # raises while the daemon starts
            known = await self._profiles.prepare()
            async with self._in_turn():
                texts, counts = await asyncio.to_thread(_merge_listing, body, asked, known, current_doer().profiles, to)
            if asked.dry_run:
                changes, cost = await self._profiles.try_out(*texts)
                return wire.ImportMade(**dict(_made(changes, payloads.cost(cost_as_seen(cost)))), **counts)
            with suppress(ChangedError):  # another list may have taken the same names
                changes = await self._profiles.declare(*texts, instead_of=known)
                return wire.ImportMade(**dict(_made(changes)), **counts)
        raise BusyError("the declaration changes all the time; try again in a few seconds")

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        """Read large bodies one after the other, so that they leave threads and memory to others."""
        if self._waiting >= _MOST_WAITING:
            raise BusyError("other declarations are being read; try again in a few seconds")
        self._waiting += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting -= 1

    async def export_feeds(self, request: web.Request) -> web.Response:
        """Return every source as OPML."""
        self._profiles.ready()  # raises while the daemon starts
        names, declared = await self._choices.names(), self._profiles.shown

        def write() -> bytes:
            return opml_of(declared, names).encode()

        return web.Response(body=await asyncio.to_thread(write), content_type="text/x-opml", charset="utf-8")

    async def drop_profile(self, request: web.Request) -> wire.ChangesMade:
        """Remove a profile that was declared through the API, and its rules that are in no other profile.

        With `sources` also those of its sources that the API has declared and no rule reads then. With `If-Match` it
        is removed only if it has not changed since its `ETag` was read.
        """
        self._profiles.ready()  # raises while the daemon starts
        only_if = _only_if(request)
        takes = None if only_if is None else only_if.takes
        asked = read_query(request, wire.ProfileDropped)
        changes = await self._profiles.drop_profile(
            request.match_info["name"], only_if=takes, by=asker(request), with_sources=asked.sources
        )
        return _made(changes)

    async def list_removed(self) -> wire.Items[wire.RemovedShown]:
        """List what was removed in the last day from what the API had declared, newest first.

        The texts may hold tokens of chats, so it takes a token of scope write.
        """
        found = await self._profiles.removals(limit=_MOST_REMOVED)
        return wire.Items[wire.RemovedShown](items=[payloads.removal(each) for each in found])

    async def list_receivers(self) -> wire.Items[wire.ReceiverShown]:
        """List the receivers with their texts, by name; these may hold tokens, so it takes a token of scope write."""
        declared = self._profiles.receivers
        return wire.Items[wire.ReceiverShown](items=await asyncio.to_thread(_receivers_shown, declared))

    async def restore(self, request: web.Request) -> wire.ChangesMade:
        """Declare again what was removed in the last day."""
        _, changes = await self._profiles.restore(request.match_info["id"])
        return _made(changes)

    async def reload(self, request: web.Request) -> wire.Reloaded | web.Response:
        """Check the profile files and load them."""
        errors = await reload_profiles(self._queries)
        return refusal_of_reload(errors) if errors else wire.Reloaded()


def cost_as_seen(cost: PlanCost) -> PlanCost:
    """Return a cost as whoever asks may see it: without what the sources and rules of others ask for."""
    owners = current_doer().profiles
    return cost.of_rules(lambda rule: owner_of(rule) in owners) if owners else cost


def _receivers_shown(declared: Mapping[str, tuple[str, Statement]]) -> list[wire.ReceiverShown]:
    return [
        wire.ReceiverShown(name=name, declared_by=origin(file), text=format_statements([statement]))
        for name, (file, statement) in sorted(declared.items())
    ]


def profile_endpoints(queries: Queries, listings: Listings) -> Sequence[Endpoint]:
    """Return the endpoints of profiles, rules, domains and sources."""
    handlers, declared, planned = ProfileHandlers(queries, listings), listings.profiles, listings.plans
    return (
        listing("/api/v1/profiles", declared.list_profiles, wire.Page[wire.ProfileListed], wire.ListWindow,
                within=Within.PART),
        Endpoint("POST", "/api/v1/profiles", "write", handlers.declare, wire.ChangesMade, wire.DryRun,
                 wire.DeclarationWritten, _TEXTS, status=201, also=(200,), raises=(404, 409, 412, 413, 415, 422, 503),
                 is_keyed=True, is_conditional=True, most_bytes=_MOST_DECLARED, within=Within.PART),
        Endpoint("GET", "/api/v1/profiles/{name}", "read", handlers.get_profile, wire.ProfileShown, raises=(404, 503),
                 is_tagged=True, within=Within.PROFILE),
        Endpoint("DELETE", "/api/v1/profiles/{name}", "write", handlers.drop_profile, wire.ChangesMade,
                 wire.ProfileDropped, raises=(400, 404, 409, 412, 422, 503), is_conditional=True,
                 within=Within.PROFILE),
        listing("/api/v1/receivers", handlers.list_receivers, wire.Items[wire.ReceiverShown], scope="write",
                within=Within.PART),
        listing("/api/v1/removed", handlers.list_removed, wire.Items[wire.RemovedShown], scope="write",
                within=Within.PART),
        Endpoint("POST", "/api/v1/removed/{id}/restore", "write", handlers.restore, wire.ChangesMade,
                 raises=(404, 409, 422, 503), is_keyed=True, within=Within.PART),
        Endpoint("POST", "/api/v1/import", "write", handlers.import_feeds, wire.ImportMade, wire.Listing,
                 texts=_LISTINGS, status=201, also=(200,), raises=(409, 413, 415, 422, 503), is_keyed=True,
                 most_bytes=MOST_LISTED, within=Within.PART),
        Endpoint("GET", "/api/v1/export", "read", handlers.export_feeds, "text/x-opml", raises=(503,),
                 within=Within.PART),
        listing("/api/v1/rules", declared.list_rules, wire.Page[wire.Rule], wire.ListWindow, within=Within.PART),
        listing("/api/v1/rules/{name}", declared.get_rule, wire.Rule, raises=(404, 503), within=Within.RULE),
        listing("/api/v1/rules/{name}/intervals", planned.list_intervals, wire.Items[wire.IntervalOfRule],
                wire.DaysOfIntervals, raises=(404, 503), within=Within.RULE),
        listing("/api/v1/domains", declared.list_domains, wire.Page[wire.DomainShown], wire.ListWindow,
                within=Within.PART),
        listing("/api/v1/sources", declared.list_sources, wire.Page[wire.SourceListed], wire.SourcesWindow,
                raises=(404,), within=Within.PART),
        listing("/api/v1/sources/{name}/probes", planned.list_probes, wire.Page[wire.ProbeMade], wire.ListWindow,
                raises=(404,), within=Within.SOURCE),
        listing("/api/v1/sources/{name}/items", planned.list_items, wire.Page[wire.ItemEvent], wire.ListWindow,
                raises=(404,), within=Within.SOURCE),
        listing("/api/v1/sources/{name}/items/{position}", planned.get_fates, wire.ItemFates, raises=(404,),
                within=Within.SOURCE),
        listing("/api/v1/explain/{name}", declared.explain, wire.Explained, raises=(404,), within=Within.SOURCE),
        Endpoint("POST", "/api/v1/reload", "write", handlers.reload, wire.Reloaded, raises=(409, 422), is_keyed=True),
    )  # fmt: skip


async def reload_profiles(queries: Queries) -> Sequence[str]:
    """Check the profile files and load them; return their errors, with which they are not loaded."""
    errors = await queries.profiles.reload()
    detail, now_s = f"refused, errors: {len(errors)}" if errors else "", queries.clock.time_s()
    await queries.audit.note("reload", "the profiles folder", detail, now_s=now_s)
    return errors


def refusal_of_reload(errors: Sequence[str]) -> web.Response:
    """Return the refusal of a reload whose files have errors."""
    said = f"{errors[0]}; nothing was changed (`proxyd check` and the log list every error)"
    return problem(422, "The profiles have errors", said)


def _without_owned(declared: Declaration) -> Declaration:
    """Return a declaration without the sources that belong to profiles: a list has its own beside these."""
    return replace(declared, sources={name: each for name, each in declared.sources.items() if owner_of(name) is None})


def _merge_listing(
    body: bytes, asked: wire.Listing, seen: Declaration, owners: Sequence[str], to: Sequence[str]
) -> tuple[list[str], dict[str, Any]]:
    """Return the texts that a list adds, and how many of its sources are new, already there, and unreadable."""
    listed = read_listing(body, "the list", pages=asked.pages)
    if owners:
        into = asked.name if "name" in asked.model_fields_set else default_owner(owners)
        if into not in owners:
            raise ListingError(f"you write only {profiles_in_words(owners)}, not {into!r}")
        merged = watch_listing(listed, seen, owners, into, pages=asked.pages, match=asked.match, to=to)
    else:
        shared = _without_owned(seen)
        merged = merge_listing(listed, shared, asked.name, pages=asked.pages, match=asked.match, to=to)
    counts = {"sources_added": merged.new, "sources_known": merged.known, "unreadable": len(listed.unreadable)}
    return merged.texts(), counts | {"faults": list(listed.unreadable[:_MOST_FAULTS])}


def _declaration_of(body: bytes) -> tuple[Members, Parsed]:
    """Return the members and statements of a declaration in JSON."""
    declared = model_of_body(json_of(body), wire.DeclarationWritten)
    if declared == wire.DeclarationWritten():
        raise BadRequestError(_NOTHING)
    members = Members(declared)
    return members, read_declaration(declared, members)


async def _text_of(request: web.Request) -> str:
    try:
        return (await read_bytes(request)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequestError("the text is not UTF-8") from error


def etag_of(text: str) -> str:
    """Return the tag of a profile's text.

    >>> etag_of("a") == etag_of("a") != etag_of("b")
    True
    """
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _made(
    changes: DeclarationChanges,
    cost: wire.CostShown | None = None,
    fault: Callable[[RuleError], wire.Fault] = fault_of_text,
) -> wire.ChangesMade:
    return wire.ChangesMade(
        added=list(changes.added),
        removed=list(changes.removed),
        restarted=list(changes.restarted),
        counters={name: list(counters) for name, counters in changes.restarted.items()},
        dry_run=cost is not None,
        cost=cost,
        warnings=[fault(each) for each in changes.warnings],
    )


def _only_if(request: web.Request) -> OnlyIf | None:
    """Return the precondition of ``If-Match`` on the text of a profile."""
    tags = request.if_match
    return None if tags is None else OnlyIf(lambda text: bool(text) and _matches(tags, text))


def _matches(tags: Sequence[ETag], text: str) -> bool:
    tag = etag_of(text)
    return any(not each.is_weak and each.value in {tag, "*"} for each in tags)
