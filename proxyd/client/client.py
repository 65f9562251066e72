"""The clients of the REST API: one for programs with an event loop, and its blocking form for others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import aclosing
from functools import wraps
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, Concatenate, Generic, Literal, NamedTuple, ParamSpec, Self, TypeAlias, TypeVar

import aiohttp

from proxyd.client import types
from proxyd.client.wire import Answer, ApiError, EventReader, ListAnswer, Query, StreamEvent, Wire, key_header, part
from proxyd.core.errors import UnreachableError

P = ParamSpec("P")
T = TypeVar("T")
SourceOrder: TypeAlias = Literal["name", "newest", "probed", "items"]
_SILENCE_S = 60.0  # four heartbeats of a stream


class ProfileRead(NamedTuple):
    """A profile and the tag of its text, which ``drop_profile`` takes."""

    profile: types.ProfileShown
    etag: str


class Client:
    """Talks to one daemon; use it with ``async with``."""

    def __init__(self, base: str, session: aiohttp.ClientSession, where: str) -> None:
        self._wire = Wire(base, session, where)

    @classmethod
    def over_socket(cls, path: object, *, timeout_s: float = 30.0) -> Self:
        """Return a client of the daemon with this Unix socket; it needs no token."""
        session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(path)), timeout=aiohttp.ClientTimeout(total=timeout_s)
        )
        return cls("http://proxyd", session, str(Path(str(path)).absolute()))

    @classmethod
    def over_http(cls, base: str, token: str, *, timeout_s: float = 30.0) -> Self:
        """Return a client of the daemon at ``base``, for example ``http://127.0.0.1:8080``."""
        session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {token}"}, timeout=aiohttp.ClientTimeout(total=timeout_s)
        )
        return cls(base.rstrip("/"), session, base)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._wire.close()

    # -- health

    async def alive(self) -> types.Health:
        """Return that the daemon's event loop is alive."""
        return await self._wire.ask(types.Health, "GET", "/healthz")

    async def ready(self) -> types.Readiness:
        """Return whether the daemon is ready for traffic, and the result of each check."""
        try:
            return await self._wire.ask(types.Readiness, "GET", "/readyz")
        except ApiError as error:
            if not error.problem.keys() >= {"ready", "checks"}:
                raise
            return types.Readiness(ready=error.problem["ready"], checks=error.problem["checks"])

    async def metrics(self) -> str:
        """Return the metrics in Prometheus' text format."""
        return await self._wire.text("/metrics")

    # -- declarations

    async def profiles(self) -> list[types.ProfileListed]:
        """Return every profile."""
        return await self._wire.pages("/api/v1/profiles")

    async def profile(self, name: str) -> ProfileRead:
        """Return one profile with its text, and the text's tag."""
        answer = await self._wire.send("GET", f"/api/v1/profiles/{part(name)}")
        return ProfileRead(answer.json(), answer.headers["ETag"].strip('"'))

    async def declare(
        self,
        what: str | types.DeclarationWritten,
        *,
        dry_run: bool = False,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> types.ChangesMade:
        """Declare a text of the rule language, or the same as JSON; return what changed, or would change and cost.

        With ``if_match``, a tag, the text must declare one profile, which is replaced only if it has not changed since.
        """
        media, content = ("text/plain", what) if isinstance(what, str) else ("application/json", json.dumps(what))
        headers = {"Content-Type": f"{media}; charset=utf-8"} | _matching(if_match) | key_header(idempotency_key)
        query = {"dry_run": dry_run or None}
        answer = await self._wire.send("POST", "/api/v1/profiles", query, headers=headers, content=content.encode())
        changes: types.ChangesMade = answer.json()
        return changes

    async def receivers(self) -> list[types.ReceiverShown]:
        """Return the receivers that have names, with their texts."""
        return await self._wire.items("/api/v1/receivers")

    async def removed(self) -> list[types.RemovedShown]:
        """Return what was removed in the last day from what the API had declared, newest first."""
        return await self._wire.items("/api/v1/removed")

    async def restore(self, removed_id: str, *, idempotency_key: str | None = None) -> types.ChangesMade:
        """Declare again what was removed in the last day, by its id."""
        path, headers = f"/api/v1/removed/{part(removed_id)}/restore", key_header(idempotency_key)
        changes: types.ChangesMade = (await self._wire.send("POST", path, headers=headers)).json()
        return changes

    async def drop_profile(
        self, name: str, *, if_match: str | None = None, with_sources: bool = False
    ) -> types.ChangesMade:
        """Remove a profile declared through the API; with ``if_match``, a tag, only if it has not changed since.

        With its sources that no rule reads then, if wanted.
        """
        path = f"/api/v1/profiles/{part(name)}{'?sources=true' if with_sources else ''}"
        changes: types.ChangesMade = (await self._wire.send("DELETE", path, headers=_matching(if_match))).json()
        return changes

    async def import_feeds(
        self,
        listing: str,
        *,
        name: str | None = None,
        pages: bool = False,
        match: str | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> types.ImportMade:
        """Declare the feeds, or pages, of an OPML document, or of a list with an address on each line."""
        headers = {"Content-Type": "text/plain; charset=utf-8"} | key_header(idempotency_key)
        query = {"name": name, "pages": pages or None, "match": match, "dry_run": dry_run or None}
        answer = await self._wire.send("POST", "/api/v1/import", query, headers=headers, content=listing.encode())
        changes: types.ImportMade = answer.json()
        return changes

    async def export_feeds(self) -> str:
        """Return every source as OPML."""
        return await self._wire.text("/api/v1/export")

    async def rules(self) -> list[types.Rule]:
        """Return every rule."""
        return await self._wire.pages("/api/v1/rules")

    async def rule(self, name: str) -> types.Rule:
        """Return one rule."""
        return await self._wire.ask(types.Rule, "GET", f"/api/v1/rules/{part(name)}")

    async def intervals(self, rule: str, *, days: float = 7.0, limit: int = 500) -> list[types.IntervalOfRule]:
        """Return the execution intervals of a rule that were decided in the last days, newest first."""
        return await self._wire.items(f"/api/v1/rules/{part(rule)}/intervals", {"days": days, "limit": limit})

    async def domains(self) -> list[types.DomainShown]:
        """Return every domain with its page classes."""
        return await self._wire.pages("/api/v1/domains")

    async def reload(self, *, idempotency_key: str | None = None) -> types.Reloaded:
        """Check the profile files and load them; raises ``ApiError`` with status 422 if they have errors."""
        return await self._wire.ask(types.Reloaded, "POST", "/api/v1/reload", key=idempotency_key)

    # -- suspensions

    async def suspensions(self) -> list[types.SuspensionShown]:
        """Return the paused sources, and the muted rules and profiles."""
        return await self._wire.items("/api/v1/suspensions")

    async def pause(self, source: str, *, idempotency_key: str | None = None) -> types.SuspensionMade:
        """Pause a source: it is not probed until it is resumed."""
        return await self._suspend("pause", {"source": source}, idempotency_key)

    async def resume(
        self, name: str, *, subject: Literal["source", "rule"] | None = None, idempotency_key: str | None = None
    ) -> types.SuspensionMade:
        """Probe a paused source again, or evaluate a suspended rule again."""
        return await self._suspend("resume", {"name": name, "subject": subject}, idempotency_key)

    async def mute(
        self,
        name: str = "everything",
        *,
        subject: Literal["rule", "profile", "all"] | None = None,
        until: str | None = None,
        for_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> types.SuspensionMade:
        """Keep back the notifications of a rule, a profile or ``all``.

        It lasts until a time such as 07:00 or an ISO 8601 time, for a while, or until it is unmuted.
        """
        body = {"name": name, "subject": subject, "until": until, "for_s": for_s}
        return await self._suspend("mute", body, idempotency_key)

    async def unmute(
        self,
        name: str = "everything",
        *,
        subject: Literal["rule", "profile", "all"] | None = None,
        drop: bool = False,
        idempotency_key: str | None = None,
    ) -> types.SuspensionMade:
        """Send what was kept back, as one digest for each receiver, or drop it."""
        return await self._suspend("unmute", {"name": name, "subject": subject, "drop": drop}, idempotency_key)

    async def _suspend(self, command: str, body: Mapping[str, object], key: str | None) -> types.SuspensionMade:
        return await self._wire.ask(types.SuspensionMade, "POST", f"/api/v1/{command}", body=body, key=key)

    # -- moves

    async def moves(self) -> list[types.MoveShown]:
        """Return the permanent moves of sources."""
        return await self._wire.items("/api/v1/moves")

    async def probe(self, name: str, *, idempotency_key: str | None = None) -> list[types.ProbeAsked]:
        """Have a source, or the sources of a rule or a profile, probed as soon as politeness allows."""
        body = {"name": name}
        return (await self._wire.ask(ListAnswer, "POST", "/api/v1/probe", body=body, key=idempotency_key))["items"]

    async def accept_move(
        self, source: str, *, url: str | None = None, idempotency_key: str | None = None
    ) -> types.MoveMade:
        """Read a source where its permanent redirects lead, from now on; with ``url`` only at that address."""
        body = {"source": source, "url": url}
        return await self._wire.ask(types.MoveMade, "POST", "/api/v1/moves", body=body, key=idempotency_key)

    # -- sources and plan

    async def sources(
        self,
        *,
        failing: bool = False,
        silent: bool = False,
        text: str = "",
        order: SourceOrder = "name",
        limit: int | None = None,
    ) -> list[types.SourceListed]:
        """Return every source, or only the failing and the silent ones, with ``text`` in name or address.

        A source fails if its last probe did; it is silent if it shows no items, or a field without a value. They are
        in order of their names, or with the newest item, the last probe or the most items first; at most ``limit``.
        """
        wanted = {"failing": failing or None, "silent": silent or None, "q": text or None, "sort": order}
        return await self._wire.pages("/api/v1/sources", wanted, limit=limit)

    async def probes(self, source: str, *, limit: int | None = 50) -> list[types.ProbeMade]:
        """Return the last probes of a source, newest first; with ``limit=None`` all of the last week."""
        return await self._wire.pages(f"/api/v1/sources/{part(source)}/probes", limit=limit)

    async def items(self, source: str, *, limit: int | None = 50) -> list[types.ItemEvent]:
        """Return what happened to the items of a source, newest first; with ``limit=None`` all that is stored."""
        return await self._wire.pages(f"/api/v1/sources/{part(source)}/items", limit=limit)

    async def find_items(
        self,
        words: str | None = None,
        *,
        view: Literal["unread", "today", "all", "starred"] | None = None,
        profile: str | None = None,
        source: str | None = None,
        limit: int | None = 50,
    ) -> list[types.ItemFound]:
        """Return the stored items with all words, or those of a view, of all sources or of some, those seen last first.

        ``"so and so"`` are words that follow each other, ``word*`` is the beginning of a word, and ``-word`` must not
        be there. A search takes no view and no profile. With ``limit=None`` it returns all of them.
        """
        wanted: Query = {"q": words, "view": view, "profile": profile, "source": source}
        return await self._wire.pages("/api/v1/items", wanted, limit=limit)

    async def stored_items(self, *, source: str | None = None) -> AsyncGenerator[types.ItemFound]:
        """Yield all stored items, or those of a source, those seen last first, as they are read."""
        async for each in self._wire.entries("/api/v1/items", {"view": "all", "source": source}):
            yield each

    async def item(self, position: int) -> types.ItemShown:
        """Return an item with its content, without scripts, styles and forms."""
        return await self._wire.ask(types.ItemShown, "GET", f"/api/v1/items/{position}")

    async def mark_items(
        self,
        items: Sequence[int] | None = None,
        *,
        read: bool | None = None,
        starred: bool | None = None,
        up_to: int | None = None,
        profile: str | None = None,
        source: str | None = None,
    ) -> types.MarksMade:
        """Mark at most 500 items, by their positions, as read or unread, starred or not.

        Without ``items``, mark all items up to a position as read, or those of a profile's sources, or of one source.
        """
        body: dict[str, Any] = {"items": None if items is None else [*items], "read": read, "starred": starred}
        body |= {"up_to": up_to, "profile": profile, "source": source}
        return await self._wire.ask(types.MarksMade, "POST", "/api/v1/marks", body=body)

    async def explain(self, source: str) -> types.Explained:
        """Return when a source is probed next and why."""
        return await self._wire.ask(types.Explained, "GET", f"/api/v1/explain/{part(source)}")

    async def explain_item(self, source: str, position: int) -> types.ItemFates:
        """Return an item of a source, and why each rule told of it or did not."""
        return await self._wire.ask(types.ItemFates, "GET", f"/api/v1/sources/{part(source)}/items/{position}")

    async def plan(self, *, limit: int = 50) -> list[types.ComingProbe]:
        """Return the coming probes, in order."""
        return await self._wire.items("/api/v1/plan", {"limit": limit})

    async def hosts(self, *, limit: int | None = 50) -> list[types.HostShown]:
        """Return how the hosts answer and when they may be asked again, by name; with ``limit=None`` all of them."""
        return await self._wire.pages("/api/v1/hosts", limit=limit)

    async def sites(self, *, limit: int | None = 50) -> list[types.SiteShown]:
        """Return how the sites fare, by name, with their uptime; with ``limit=None`` all of them."""
        return await self._wire.pages("/api/v1/sites", limit=limit)

    async def site(self, name: str) -> types.SiteDetails:
        """Return how a site fares, with its outages and how long it took to answer."""
        return await self._wire.ask(types.SiteDetails, "GET", f"/api/v1/sites/{part(name)}")

    async def advice(self) -> types.AdviceShown:
        """Return what other budgets would achieve."""
        return await self._wire.ask(types.AdviceShown, "GET", "/api/v1/advice")

    async def report(self, *, days: int = 14) -> types.ReportShown:
        """Return the results and predictions of each day, and the sources whose models do not fit."""
        return await self._wire.ask(types.ReportShown, "GET", "/api/v1/report", {"days": days})

    # -- notifications

    async def notifications(
        self,
        *,
        limit: int | None = 50,
        rule: str | None = None,
        profile: str | None = None,
        source: str | None = None,
        since: str | None = None,
    ) -> list[types.NotificationListed]:
        """Return notifications, newest first; ``since`` is an ISO 8601 time."""
        query: Query = {"rule": rule, "profile": profile, "source": source, "since": since}
        return await self._wire.pages("/api/v1/notifications", query, limit=limit)

    async def notification(self, notification_id: str) -> types.NotificationTraced:
        """Return a notification, the probe that led to it, and its deliveries."""
        return await self._wire.ask(types.NotificationTraced, "GET", f"/api/v1/notifications/{part(notification_id)}")

    async def screenshot(self, notification_id: str) -> bytes:
        """Return the picture of a notification's page, a PNG or a JPEG."""
        return await self._wire.data(f"/api/v1/notifications/{part(notification_id)}/screenshot")

    async def atom(self, profile: str, *, rule: str | None = None) -> str:
        """Return the newest notifications of a profile, or of one of its rules, as an Atom feed."""
        return await self._wire.text(f"/api/v1/profiles/{part(profile)}/feed.atom", {"rule": rule})

    async def json_feed(self, profile: str, *, rule: str | None = None) -> str:
        """Return the newest notifications of a profile, or of one of its rules, as the text of a JSON Feed."""
        return await self._wire.text(f"/api/v1/profiles/{part(profile)}/feed.json", {"rule": rule})

    async def stream(
        self,
        *,
        last: int | None = None,
        rule: str | None = None,
        profile: str | None = None,
        source: str | None = None,
        since: str | None = None,
        retry_s: float = 3.0,
    ) -> AsyncGenerator[StreamEvent]:
        """Yield notifications as they are recorded: after the position ``last``, ``since`` a time, or from now on.

        After a lost connection it reconnects after ``retry_s``, or when the daemon says, and resumes where it was;
        ``UnreachableError`` is raised only if the first connection fails. Close the generator to end the stream.
        """
        query: Query = {"rule": rule, "profile": profile, "source": source, "since": since}
        reader = EventReader(last)
        has_answered = False
        while True:
            wait_s = retry_s
            try:
                async with aclosing(self._listen(reader, query)) as events:
                    async for event in events:
                        has_answered = True
                        if event is not None:
                            yield event
            except UnreachableError:
                if not has_answered:
                    raise
            except ApiError as error:
                if error.retry_after_s is None:
                    raise
                wait_s = max(retry_s, error.retry_after_s)
            await asyncio.sleep(wait_s)

    async def _listen(self, reader: EventReader, query: Query) -> AsyncGenerator[StreamEvent | None]:
        """Yield ``None`` and then the events of one connection; nothing if the daemon is busy."""
        headers = {} if reader.last is None else {"Last-Event-ID": str(reader.last)}
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_SILENCE_S, sock_read=_SILENCE_S)
        async with self._wire.open("GET", "/api/v1/stream", query, headers=headers, timeout=limits) as response:
            if 300 <= response.status < 500 or "Retry-After" in response.headers:
                raise (await Answer.read(response)).refusal()
            if response.status != 200:
                return
            reader.restart()
            yield None
            async for piece in response.content.iter_any():
                for event in reader.read(piece):
                    yield event

    # -- deliveries

    async def replay(self, notification_id: str, *, idempotency_key: str | None = None) -> types.Replayed:
        """Send a notification again; return the number of its deliveries."""
        path = f"/api/v1/notifications/{part(notification_id)}/replay"
        return await self._wire.ask(types.Replayed, "POST", path, key=idempotency_key)

    async def replay_dead(self, *, idempotency_key: str | None = None) -> types.Replayed:
        """Send every delivery again that was given up; return their number."""
        return await self._wire.ask(types.Replayed, "POST", "/api/v1/deliveries/replay", key=idempotency_key)

    async def dead_letters(self, *, limit: int | None = None) -> list[types.DeadLetter]:
        """Return the deliveries that were given up, newest first."""
        return await self._wire.pages("/api/v1/deliveries/dead", limit=limit)

    async def test_deliveries(self, rule: str, *, idempotency_key: str | None = None) -> list[types.TestResult]:
        """Send a test message to every receiver of a rule."""
        path, body = "/api/v1/deliveries/test", {"rule": rule}
        return (await self._wire.ask(ListAnswer, "POST", path, body=body, key=idempotency_key))["items"]

    async def test_receiver(self, name: str, *, idempotency_key: str | None = None) -> list[types.TestResult]:
        """Send a test message to every address of a receiver that has a name."""
        path = f"/api/v1/receivers/{part(name)}/test"
        return (await self._wire.ask(ListAnswer, "POST", path, key=idempotency_key))["items"]

    async def webhooks(self) -> list[types.WebhookShown]:
        """Return every webhook and whether it has accepted a ping."""
        return await self._wire.items("/api/v1/webhooks")

    # -- tokens

    async def audit(self, *, limit: int | None = None) -> list[types.DeedShown]:
        """Return who declared, removed, muted and replayed what, and made and revoked tokens, newest first."""
        return await self._wire.pages("/api/v1/audit", limit=limit)

    async def tokens(self) -> list[types.TokenShown]:
        """Return every token, without its secret."""
        return await self._wire.items("/api/v1/tokens")

    async def create_token(
        self,
        name: str,
        scope: str,
        *,
        expires_s: float | None = None,
        profiles: Sequence[str] = (),
        person: str | None = None,
        limits: Mapping[str, int | None] | None = None,
    ) -> types.TokenMade:
        """Create a token, of some profiles or of all, perhaps a person's; only this response contains its text."""
        wanted: dict[str, Any] = {
            "name": name,
            "scope": scope,
            "expires_in_s": expires_s,
            "profiles": [*profiles],
            "person": person,
        }
        wanted |= {} if limits is None else {"limits": dict(limits)}
        return await self._wire.ask(types.TokenMade, "POST", "/api/v1/tokens", body=wanted)

    async def drop_token(self, name: str) -> types.Dropped:
        """Revoke a token."""
        return await self._wire.ask(types.Dropped, "DELETE", f"/api/v1/tokens/{part(name)}")

    # -- people

    async def people(self) -> list[types.PersonShown]:
        """Return who may sign in to the dashboard."""
        return await self._wire.items("/api/v1/people")

    async def invite_person(
        self,
        name: str,
        scope: str,
        *,
        profiles: Sequence[str] = (),
        mail: str | None = None,
        limits: Mapping[str, int | None] | None = None,
    ) -> types.PersonInvited:
        """Add a person, or give one another scope and password; only this response, and a mail, contain the link."""
        wanted: dict[str, Any] = {"name": name, "scope": scope, "profiles": [*profiles], "mail": mail}
        wanted |= {} if limits is None else {"limits": dict(limits)}
        return await self._wire.ask(types.PersonInvited, "POST", "/api/v1/people", body=wanted)

    async def limit_person(self, name: str, limits: Mapping[str, int | None]) -> types.LimitsShown:
        """Say how much may belong to a person's profiles: ``sources``, ``rules``, ``receivers``, ``probes`` an hour."""
        return await self._wire.ask(types.LimitsShown, "POST", f"/api/v1/people/{part(name)}/limits", body=dict(limits))

    async def drop_person(self, name: str) -> types.Dropped:
        """Remove a person."""
        return await self._wire.ask(types.Dropped, "DELETE", f"/api/v1/people/{part(name)}")


def _matching(tag: str | None) -> dict[str, str]:
    return {} if tag is None else {"If-Match": f'"{tag}"'}


# ---- for programs without an event loop, or within a foreign one


def _blocking(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    """Return a method of ``Client`` as one that blocks."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.run(method(self._client, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[Client, P], AsyncGenerator[T]],
) -> Callable[Concatenate[SyncClient, P], Generator[T]]:
    """Return a generator method of ``Client`` as one that blocks until each value."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Generator[T]:
        following = _Following(method(self._client, *args, **kwargs))
        try:
            while (value := self._thread.run(following.next())) is not None:
                yield value
        finally:
            if not self._thread.is_closed:
                self._thread.run(following.close())

    return call


class SyncClient:
    """Talks to one daemon as ``Client`` does, with blocking methods; use it with ``with``.

    Requests run on an event loop in a separate thread, so it also works where a loop already runs, as in a notebook.
    """

    def __init__(self, make: Callable[[], Client]) -> None:
        self._thread = _LoopThread()
        self._client = self._thread.run(_made(make))

    @classmethod
    def over_socket(cls, path: object, *, timeout_s: float = 30.0) -> Self:
        """Return a client of the daemon with this Unix socket; it needs no token."""
        return cls(lambda: Client.over_socket(path, timeout_s=timeout_s))

    @classmethod
    def over_http(cls, base: str, token: str, *, timeout_s: float = 30.0) -> Self:
        """Return a client of the daemon at ``base``, for example ``http://127.0.0.1:8080``."""
        return cls(lambda: Client.over_http(base, token, timeout_s=timeout_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connections, open streams and the thread."""
        if not self._thread.is_closed:
            self._thread.run(self._client.__aexit__(None, None, None))
            self._thread.close()

    alive = _blocking(Client.alive)
    ready = _blocking(Client.ready)
    metrics = _blocking(Client.metrics)
    profiles = _blocking(Client.profiles)
    profile = _blocking(Client.profile)
    declare = _blocking(Client.declare)
    receivers = _blocking(Client.receivers)
    removed = _blocking(Client.removed)
    restore = _blocking(Client.restore)
    drop_profile = _blocking(Client.drop_profile)
    import_feeds = _blocking(Client.import_feeds)
    export_feeds = _blocking(Client.export_feeds)
    rules = _blocking(Client.rules)
    rule = _blocking(Client.rule)
    intervals = _blocking(Client.intervals)
    domains = _blocking(Client.domains)
    reload = _blocking(Client.reload)
    suspensions = _blocking(Client.suspensions)
    moves = _blocking(Client.moves)
    accept_move = _blocking(Client.accept_move)
    probe = _blocking(Client.probe)
    pause = _blocking(Client.pause)
    resume = _blocking(Client.resume)
    mute = _blocking(Client.mute)
    unmute = _blocking(Client.unmute)
    sources = _blocking(Client.sources)
    probes = _blocking(Client.probes)
    items = _blocking(Client.items)
    find_items = _blocking(Client.find_items)
    item = _blocking(Client.item)
    mark_items = _blocking(Client.mark_items)
    explain = _blocking(Client.explain)
    explain_item = _blocking(Client.explain_item)
    plan = _blocking(Client.plan)
    hosts = _blocking(Client.hosts)
    sites = _blocking(Client.sites)
    site = _blocking(Client.site)
    advice = _blocking(Client.advice)
    report = _blocking(Client.report)
    notifications = _blocking(Client.notifications)
    notification = _blocking(Client.notification)
    screenshot = _blocking(Client.screenshot)
    atom = _blocking(Client.atom)
    json_feed = _blocking(Client.json_feed)
    replay = _blocking(Client.replay)
    replay_dead = _blocking(Client.replay_dead)
    dead_letters = _blocking(Client.dead_letters)
    test_deliveries = _blocking(Client.test_deliveries)
    test_receiver = _blocking(Client.test_receiver)
    webhooks = _blocking(Client.webhooks)
    audit = _blocking(Client.audit)
    tokens = _blocking(Client.tokens)
    create_token = _blocking(Client.create_token)
    drop_token = _blocking(Client.drop_token)
    people = _blocking(Client.people)
    invite_person = _blocking(Client.invite_person)
    limit_person = _blocking(Client.limit_person)
    drop_person = _blocking(Client.drop_person)
    stored_items = _iterating(Client.stored_items)
    stream = _iterating(Client.stream)


class _Following(Generic[T]):
    """A stream on the loop that can be closed while it waits, because an interrupt may come at any time."""

    def __init__(self, events: AsyncGenerator[T]) -> None:
        self._events = events
        self._waiting: asyncio.Task[T | None] | None = None

    async def next(self) -> T | None:
        """Return the next event, ``None`` at the end."""
        self._waiting = asyncio.create_task(self._next(), name="next event")
        return await self._waiting

    async def close(self) -> None:
        """End the connection and the task that waits for it."""
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait([self._waiting])
        await self._events.aclose()

    async def _next(self) -> T | None:
        return await anext(self._events, None)


class _LoopThread:
    """An event loop in a thread, which ends with the program at the latest."""

    def __init__(self) -> None:
        self._has_started = Event()
        self._thread = Thread(target=lambda: asyncio.run(self._work()), name="proxyd client", daemon=True)
        self._thread.start()
        self._has_started.wait()

    @property
    def is_closed(self) -> bool:
        """Whether the loop has ended."""
        return self._closing.is_set()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what ``work`` returns, or raise what it raises; an interrupt ends it."""
        if self.is_closed:
            work.close()
            raise RuntimeError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """End the loop and wait for its thread."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    async def _work(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        self._has_started.set()
        await self._closing.wait()


async def _made(make: Callable[[], Client]) -> Client:
    return make()
