"""The dashboard: its routes, the updates of open pages, and the reference of the API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import web

from proxyd.api.bounds import Within
from proxyd.api.endpoint import pattern
from proxyd.api.listings import Listings
from proxyd.api.passwords import MailedLinks
from proxyd.api.peers import NO_PEERS, Peers
from proxyd.api.queries import Queries
from proxyd.api.rest.live_streams import Streams
from proxyd.api.rest.profile_handlers import MOST_LISTED, ProfileHandlers
from proxyd.api.web.add_pages import AddPages
from proxyd.api.web.bulk_actions import BulkActions
from proxyd.api.web.editor import Editor
from proxyd.api.web.entrance import Entrance
from proxyd.api.web.histories import Histories
from proxyd.api.web.news import News
from proxyd.api.web.page_gate import POLICY_OF_ARTICLES, SIGNED, HeaderSignIn, PageGate, WebRoute
from proxyd.api.web.pages import Actions, WebPages
from proxyd.api.web.people_pages import PeoplePages, TokenPages
from proxyd.api.web.reader import ReaderPages
from proxyd.api.web.receiver_pages import ReceiverPages
from proxyd.api.web.rendering import Renderer, static_files
from proxyd.api.web.sessions import Sessions
from proxyd.api.web.single_sign_on import BACK_PATH, OidcSettings
from proxyd.api.web.site_pages import SitePages
from proxyd.api.web.statement_editor import StatementEditor
from proxyd.api.web.subjects import Subjects


class Dashboard:
    """Server-rendered pages of a daemon; ``described`` returns the API's OpenAPI document.

    Pages of sources that another planner plans come from the ``peers``.
    """

    def __init__(
        self,
        queries: Queries,
        listings: Listings,
        streams: Streams,
        described: Callable[[], Awaitable[dict[str, Any]]],
        peers: Peers = NO_PEERS,
        header: HeaderSignIn | None = None,
        elsewhere: OidcSettings | None = None,
    ) -> None:
        self._listings = listings
        self._queries = queries
        self._streams = streams
        self._described = described
        self._peers = peers
        self._header = header
        self._elsewhere = elsewhere
        self._files = static_files()
        self._renderer = Renderer(queries, self._files)
        self._sessions = Sessions(queries)
        self._links = MailedLinks(queries)

    def mount(self, app: web.Application) -> None:
        """Add every route to an application."""
        gate = PageGate(self._queries, self._sessions, self._renderer.problem, self._peers, self._header)
        app.middlewares.append(gate.show_not_found)
        app.on_shutdown.append(self._links.end)
        for route in self.routes():
            app.router.add_route(route.method, pattern(route.path), gate.guard(route))

    def routes(self) -> Sequence[WebRoute]:
        """Return every route with the scope that it requires."""
        parts = self._queries, self._listings, self._renderer
        news, pages, subjects, editor = News(*parts), WebPages(*parts), Subjects(*parts), Editor(*parts)
        statements, reader, sites = StatementEditor(*parts), ReaderPages(*parts), SitePages(*parts)
        adding = AddPages(self._queries, ProfileHandlers(self._queries, self._listings), self._renderer)
        histories = Histories(*parts)
        tokens = TokenPages(self._queries, self._renderer)
        entrance = Entrance(self._queries, self._renderer, self._sessions, self._links, self._elsewhere)
        people = PeoplePages(self._queries, self._renderer)
        receivers = ReceiverPages(self._queries, self._renderer)
        actions, bulk = Actions(self._queries), BulkActions(self._queries)
        of_source = partial(WebRoute, is_of_source=True, within=Within.SOURCE)
        return (
            WebRoute("GET", "/static/{file}", None, self.static),
            WebRoute("GET", "/sign-in", None, entrance.form),
            WebRoute("POST", "/sign-in", None, entrance.sign_in),
            WebRoute("POST", "/sign-out", "read", entrance.sign_out, within=Within.PART),
            WebRoute("POST", "/sign-in/link", None, entrance.ask_for_link),
            WebRoute("GET", "/sign-in/link/{secret}", None, entrance.show_link),
            WebRoute("POST", "/sign-in/link/{secret}", None, entrance.use_link),
            WebRoute("GET", "/sign-in/elsewhere", None, entrance.go_elsewhere),
            WebRoute("GET", BACK_PATH, None, entrance.come_back),
            WebRoute("GET", "/welcome/{secret}", None, entrance.welcome),
            WebRoute("POST", "/welcome/{secret}", None, entrance.choose_password),
            WebRoute("GET", "/account", "read", entrance.account, within=Within.PART),
            WebRoute("POST", "/account/password", "read", entrance.change_password, within=Within.PART),
            WebRoute("POST", "/account/sessions/end", "read", entrance.end_others, within=Within.PART),
            WebRoute("POST", "/account/tokens", "read", entrance.make_token, within=Within.PART),
            WebRoute("POST", "/account/tokens/{name}/drop", "read", entrance.drop_token, within=Within.PART),
            WebRoute("GET", "/people", "admin", people.people),
            WebRoute("POST", "/people", "admin", people.invite),
            WebRoute("POST", "/people/{name}/drop", "admin", people.drop),
            WebRoute("GET", "/", "read", news.news),
            WebRoute("GET", "/search", "read", news.search, within=Within.PART),
            WebRoute("GET", "/read", "read", reader.items, within=Within.PART),
            WebRoute("POST", "/read/marks", "read", reader.mark_many, within=Within.PART),
            WebRoute("GET", "/read/{position}", "read", reader.article, within=Within.PART, policy=POLICY_OF_ARTICLES),
            WebRoute("POST", "/read/{position}/mark", "read", reader.mark, within=Within.PART),
            WebRoute("POST", "/read/{position}/fetch", "read", reader.fetch, within=Within.PART),
            WebRoute("GET", "/state", "read", pages.state),
            WebRoute("GET", "/more", "read", pages.more),
            WebRoute("GET", "/settings", "read", pages.settings),
            WebRoute("GET", "/receivers", "write", receivers.receivers, within=Within.PART),
            WebRoute("POST", "/receivers", "write", receivers.add, within=Within.PART),
            WebRoute("POST", "/receivers/{name}/test", "write", receivers.test, within=Within.PART),
            WebRoute("GET", "/receivers/{name}/change", "write", statements.form, within=Within.PART),
            WebRoute("POST", "/receivers/{name}/change", "write", statements.save, within=Within.PART),
            WebRoute("POST", "/receivers/{name}/remove", "write", statements.remove, within=Within.PART),
            WebRoute("POST", "/settings/mute", "write", actions.mute),
            WebRoute("POST", "/settings/unmute", "write", actions.unmute),
            WebRoute("GET", "/sources", "read", pages.sources, within=Within.PART),
            WebRoute("POST", "/sources", "write", bulk.sources, within=Within.PART),
            WebRoute("POST", "/rules", "write", bulk.rules, within=Within.PART),
            WebRoute("GET", "/add", "write", adding.form, within=Within.PART),
            WebRoute("POST", "/add", "write", adding.add, within=Within.PART),
            WebRoute("POST", "/add/list", "write", adding.add_list, most_bytes=MOST_LISTED, within=Within.PART),
            of_source("GET", "/sources/{name}", "read", subjects.source),
            WebRoute(
                "GET",
                "/sources/{name}/items/{position}",
                "read",
                subjects.item,
                is_of_source=True,
                within=Within.SOURCE,
            ),
            WebRoute(
                "GET", "/sources/{name}/history", "read", histories.history, is_of_source=True, within=Within.SOURCE
            ),
            of_source("GET", "/sources/{name}/why", "read", subjects.why),
            WebRoute("GET", "/rules/{name}/change", "write", statements.form, within=Within.RULE),
            WebRoute("GET", "/sources/{name}/change", "write", statements.form, within=Within.SOURCE),
            WebRoute("POST", "/rules/{name}/change", "write", statements.save, within=Within.RULE),
            WebRoute("POST", "/sources/{name}/change", "write", statements.save, within=Within.SOURCE),
            WebRoute("POST", "/rules/{name}/remove", "write", statements.remove, within=Within.RULE),
            WebRoute("POST", "/sources/{name}/remove", "write", statements.remove, within=Within.SOURCE),
            WebRoute("GET", "/removed", "write", statements.list_removed, within=Within.PART),
            WebRoute("POST", "/removed/{id}/restore", "write", statements.restore, within=Within.PART),
            WebRoute("GET", "/rules", "read", pages.rules, within=Within.PART),
            WebRoute("GET", "/rules/{name}", "read", subjects.rule, within=Within.RULE),
            WebRoute("POST", "/rules/{name}/test", "write", subjects.test, within=Within.RULE),
            WebRoute("POST", "/sources/{name}/pause", "write", actions.pause, within=Within.SOURCE),
            of_source("POST", "/sources/{name}/probe", "write", actions.probe),
            WebRoute(
                "POST", "/sources/{name}/move", "write", actions.accept_move, is_of_source=True, within=Within.SOURCE
            ),
            WebRoute("POST", "/rules/{name}/resume", "write", actions.resume, within=Within.RULE),
            WebRoute("POST", "/sources/{name}/resume", "write", actions.resume, within=Within.SOURCE),
            WebRoute("POST", "/rules/{name}/mute", "write", actions.mute, within=Within.RULE),
            WebRoute("POST", "/rules/{name}/unmute", "write", actions.unmute, within=Within.RULE),
            WebRoute("POST", "/profiles/{name}/mute", "write", actions.mute, within=Within.PROFILE),
            WebRoute("POST", "/profiles/{name}/unmute", "write", actions.unmute, within=Within.PROFILE),
            WebRoute("GET", "/notifications", "read", pages.notifications, within=Within.PART),
            WebRoute("GET", "/notifications/{id}", "read", pages.notification, within=Within.NOTIFICATION),
            WebRoute("GET", "/notifications/{id}/screenshot", "read", pages.screenshot, within=Within.NOTIFICATION),
            WebRoute("POST", "/notifications/{id}/replay", "write", actions.replay, within=Within.NOTIFICATION),
            WebRoute("POST", "/replay-dead", "write", actions.replay_dead),
            WebRoute("GET", "/sites", "read", sites.sites, within=Within.PART),
            WebRoute("POST", "/sites", "write", sites.add, within=Within.PART),
            WebRoute("GET", "/sites/{name}", "read", sites.site, within=Within.SOURCE),
            WebRoute("GET", "/status/{name}", None, sites.status),
            WebRoute("GET", "/plan", "read", pages.plan),
            WebRoute("GET", "/hosts", "read", pages.hosts),
            WebRoute("POST", "/reload", "write", actions.reload),
            WebRoute("GET", "/budget", "read", pages.budget),
            WebRoute("GET", "/profiles", "read", editor.profiles, within=Within.PART),
            WebRoute("POST", "/profiles", "write", editor.save, within=Within.PART),
            WebRoute("POST", "/profiles/check", "write", editor.check, within=Within.PART),
            WebRoute("GET", "/profiles/new", "write", editor.new, within=Within.PART),
            WebRoute("GET", "/profiles/{name}", "read", editor.profile, within=Within.PROFILE),
            WebRoute(
                "GET", "/profiles/{name}/", "read", editor.profile, within=Within.PROFILE
            ),  # a profile may be called "new"
            WebRoute("POST", "/profiles/{name}/drop", "write", editor.drop, within=Within.PROFILE),
            WebRoute("POST", "/profiles/{name}/quiet", "write", editor.set_quiet, within=Within.PROFILE),
            WebRoute("GET", "/audit", "write", pages.audit),
            WebRoute("GET", "/tokens", "admin", tokens.tokens),
            WebRoute("POST", "/tokens", "admin", tokens.make),
            WebRoute("POST", "/tokens/{name}/drop", "admin", tokens.drop),
            WebRoute("GET", "/docs", "read", self.docs),
            WebRoute("GET", "/live", "read", self.live, within=Within.PART),
        )

    async def static(self, request: web.Request) -> web.Response:
        """Return a static file."""
        file = self._files.get(request.match_info["file"])
        if file is None:
            raise web.HTTPNotFound(text="there is no such file")
        headers = {"Cache-Control": "public, max-age=86400"}
        answer = web.Response(body=file.body, content_type=file.media_type, charset="utf-8", headers=headers)
        answer.enable_compression()  # it holds nothing that a request chose
        return answer

    async def docs(self, request: web.Request) -> web.Response:
        """Show the reference of the REST API."""
        page = self._renderer.page(request, "docs.html", sections=sections(await self._described()))
        page.enable_compression()  # it is long, and holds nothing that a request chose
        return page

    async def live(self, request: web.Request) -> web.StreamResponse:
        """Send notifications to an open page as they are recorded, until its session ends."""
        task = asyncio.current_task()
        assert task is not None
        streams = request[SIGNED].session.streams
        streams.add(task)
        try:
            return await self._streams.follow(request)
        finally:
            streams.discard(task)


_GROUPS = (
    ("Profiles and rules", ("/api/v1/profiles", "/api/v1/rules", "/api/v1/domains", "/api/v1/reload")),
    (
        "Sources and plan",
        ("/api/v1/sources", "/api/v1/sites", "/api/v1/explain", "/api/v1/plan", "/api/v1/advice", "/api/v1/report"),
    ),
    ("Notifications and deliveries", ("/api/v1/notifications", "/api/v1/stream", "/api/v1/deliveries", "/api/v1/webh")),
    ("Tokens", ("/api/v1/tokens",)),
    ("The daemon", ("/",)),
)


@dataclass(frozen=True, slots=True)
class _SchemaField:
    """A parameter or a member: its name, its type, whether it is required, and its meaning."""

    name: str
    type: str
    required: bool
    said: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class _Operation:
    """A route."""

    method: str
    path: str
    scope: str
    summary: str
    description: str
    fields: tuple[_SchemaField, ...]
    body: tuple[str, str] | None
    answers: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class _Schema:
    """A model of a request or a response."""

    name: str
    said: str
    fields: tuple[_SchemaField, ...]


@dataclass(frozen=True, slots=True)
class _Sections:
    """The whole reference."""

    groups: tuple[tuple[str, tuple[_Operation, ...]], ...]
    schemas: tuple[_Schema, ...]


def sections(document: Mapping[str, Any]) -> _Sections:
    """Return an OpenAPI document as sections of a page."""
    grouped: dict[str, list[_Operation]] = {name: [] for name, _ in _GROUPS}
    for path, operations in document["paths"].items():
        group = next(name for name, starts in _GROUPS if any(path.startswith(start) for start in starts))
        grouped[group] += [_operation(method, path, each) for method, each in operations.items()]
    schemas = [_schema(name, each) for name, each in sorted(document["components"]["schemas"].items())]
    return _Sections(tuple((name, tuple(found)) for name, found in grouped.items()), tuple(schemas))


def _operation(method: str, path: str, found: Mapping[str, Any]) -> _Operation:
    fields = [
        _SchemaField(each["name"], _type_of(each["schema"]), each.get("required", False), each.get("description", ""),
              each["in"])
        for each in found["parameters"]
    ]  # fmt: skip
    content = found.get("requestBody", {}).get("content", {})
    answers = [
        (status, each["description"], " or ".join(_type_of(its["schema"]) for its in each["content"].values()))
        for status, each in found["responses"].items()
    ]
    return _Operation(
        method.upper(),
        path,
        found.get("x-scope", "none"),
        found["summary"],
        found.get("description", ""),
        tuple(fields),
        (" or ".join(content), _type_of(next(iter(content.values()))["schema"])) if content else None,
        tuple(answers),
    )


def _schema(name: str, found: Mapping[str, Any]) -> _Schema:
    required: Sequence[str] = found.get("required", ())
    fields = [
        _SchemaField(member, _type_of(each), member in required, each.get("description", ""))
        for member, each in found.get("properties", {}).items()
    ]
    return _Schema(name, found.get("description", ""), tuple(fields))


def _type_of(schema: Mapping[str, Any]) -> str:
    """Return a JSON schema in a word or two.

    >>> _type_of({"type": "array", "items": {"$ref": "#/components/schemas/Day"}})
    'list of Day'
    >>> _type_of({"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]})
    'number ≥ 0 or null'
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type_of(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " or ".join(repr(each) for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type_of(schema.get('items', {}))}"
    bounds = [f"{sign} {schema[key]:g}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in schema]
    return " ".join([str(schema.get("type", "any")), *bounds, *_format_of(schema)])


def _format_of(schema: Mapping[str, Any]) -> list[str]:
    return [f"({schema['format']})"] if "format" in schema else []
