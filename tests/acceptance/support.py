"""An origin, a receiver and the daemon, each over real sockets; no sleeping, only waiting for something."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import math
import os
import re
import resource
import signal
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from proxyd.config.loading import socket_address
from tests.databases import migrated_file
from tests.prefork import Forked, can_fork, fork
from tests.servers import free_port

PATIENCE_S = 60.0
SECRET = "whsec_" + base64.b64encode(b"the acceptance tests' own secret").decode()
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def eventually(
    condition: Callable[[], object] | Callable[[], Awaitable[object]],
    what: str,
    *,
    timeout_s: float = PATIENCE_S,
    state: Callable[[], object] | None = None,
) -> Any:
    """Return the first truthy value of ``condition``; fail and say what was waited for, and what there was."""
    until_s = time.monotonic() + timeout_s
    while True:
        value = condition()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return value
        if time.monotonic() > until_s:
            raise AssertionError(f"not within {timeout_s:g} s: {what}; there is: {state() if state else value!r}")
        await asyncio.sleep(0.02)


# -- the origin


@dataclass(frozen=True, slots=True)
class Entry:
    guid: str
    time_s: float

    @property
    def title(self) -> str:
        return f"Nr. {self.guid} <ö & co>"


@dataclass(slots=True)
class Feed:
    """A feed that gains items; its document shows all of them, the newest first.

    RSS 2.0 cuts times to whole seconds. No two items get the same time: their order can be told from their times.
    """

    name: str
    form: str = "rss2"
    entries: list[Entry] = field(default_factory=list)

    def add(self, count: int = 1, *, age_s: float = 0.0) -> list[str]:
        """Publish ``count`` items, dated ``age_s`` ago, and return their guids, oldest first."""
        added = []
        for _ in range(count):
            digits = 0 if self.form == "rss2" else 3
            now_s = math.floor((time.time() - age_s) * 10**digits) / 10**digits
            last_s = self.entries[-1].time_s if self.entries else 0.0
            time_s = max(now_s, round(last_s + 10**-digits, digits))
            entry = Entry(f"{self.name}-{len(self.entries) + 1:04d}", time_s)
            self.entries.append(entry)
            added.append(entry.guid)
        return added

    @property
    def guids(self) -> list[str]:
        return [entry.guid for entry in self.entries]

    def document(self) -> tuple[str, bytes]:
        """Return the media type and the body."""
        render = {"rss2": _rss2, "rss1": _rss1, "atom": _atom}[self.form]
        media_type = {"rss2": "application/rss+xml", "rss1": "application/rdf+xml", "atom": "application/atom+xml"}
        return media_type[self.form], render(self.name, self.entries[::-1]).encode()


def _rss2(name: str, entries: Sequence[Entry]) -> str:
    items = "".join(
        f"<item><title>{escape(e.title)}</title><link>http://origin.test/{e.guid}</link>"
        f'<guid isPermaLink="false">{e.guid}</guid>'
        f"<pubDate>{format_datetime(datetime.fromtimestamp(e.time_s, UTC))}</pubDate></item>"
        for e in entries
    )
    head = f"<title>{name}</title><link>http://origin.test/</link><description>d</description>"
    return f'<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"><channel>{head}{items}</channel></rss>'


def _rss1(name: str, entries: Sequence[Entry]) -> str:
    links = "".join(f'<rdf:li rdf:resource="{e.guid}"/>' for e in entries)
    items = "".join(
        f'<item rdf:about="{e.guid}"><title>{escape(e.title)}</title><link>http://origin.test/{e.guid}</link>'
        f"<dc:date>{_iso(e.time_s)}</dc:date></item>"
        for e in entries
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns="http://purl.org/rss/1.0/">'
        f'<channel rdf:about="http://origin.test/{name}"><title>{name}</title><link>http://origin.test/</link>'
        f"<description>d</description><items><rdf:Seq>{links}</rdf:Seq></items></channel>{items}</rdf:RDF>"
    )


def _atom(name: str, entries: Sequence[Entry]) -> str:
    items = "".join(
        f"<entry><id>{e.guid}</id><title>{escape(e.title)}</title><updated>{_iso(e.time_s)}</updated>"
        f'<link href="http://origin.test/{e.guid}"/></entry>'
        for e in entries
    )
    updated = _iso(entries[0].time_s if entries else 0.0)
    return (
        '<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom">'
        f"<id>urn:{name}</id><title>{name}</title><updated>{updated}</updated>{items}</feed>"
    )


def _iso(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat().replace("+00:00", "Z")


class Origin:
    """Serves feeds, with ETag and 304, and pages that a handler makes; counts who asked for what."""

    def __init__(self) -> None:
        self.feeds: dict[str, Feed] = {}
        self.pages: dict[str, Handler] = {}
        self.asked: dict[str, int] = defaultdict(int)
        self.port = 0
        self.closing = asyncio.Event()

    def feed(self, name: str, form: str = "rss2") -> Feed:
        self.feeds[name] = Feed(name, form)
        return self.feeds[name]

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        name = request.path.removeprefix("/")
        self.asked[name] += 1
        if name in self.pages:
            return await self.pages[name](request)
        if name not in self.feeds:
            return web.Response(status=404)
        media_type, body = self.feeds[name].document()
        etag = '"' + hashlib.sha256(body).hexdigest()[:16] + '"'
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers={"ETag": etag})
        return web.Response(body=body, headers={"Content-Type": media_type, "ETag": etag})

    async def was_asked(self, *names: str, times: int = 1) -> None:
        """Wait until each of these pages was asked for ``times`` more times."""
        wanted = {name: self.asked[name] + times for name in names}
        await eventually(
            lambda: all(self.asked[name] >= count for name, count in wanted.items()),
            f"{wanted} requests",
            state=lambda: dict(self.asked),
        )


# -- the receiver


@dataclass(frozen=True, slots=True)
class Arrival:
    """A well signed request; ``accepted`` says whether it was answered with 2xx."""

    webhook_id: str
    body: bytes
    accepted: bool

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)["data"]
        return found

    @property
    def guids(self) -> list[str]:
        return [str(item["channel.item.guid"]) for item in self.data.get("items", []) if "channel.item.guid" in item]


class Receiver:
    """Verifies every request with the library receivers use, and behaves as its script says.

    A script names, for each request in turn: ``ok``, a status such as ``503``, ``drop`` (takes the request, then cuts
    the connection), ``garbage`` (answers what is no HTTP), ``stall`` (never answers), ``hold`` (answers once
    ``release`` is set). At its end all is accepted, except what holds one of the items in ``refused``. Pings are
    noted in ``pings`` and answered by ``ping_answers``, at its end with 204.
    """

    def __init__(self) -> None:
        self.arrivals: dict[str, list[Arrival]] = defaultdict(list)
        self.scripts: dict[str, deque[str]] = defaultdict(deque)
        self.forged: list[str] = []
        self.pings: list[str] = []
        self.ping_answers: deque[int] = deque()
        self.refused: set[str] = set()
        self.release = asyncio.Event()
        self.port = 0
        self.closing = asyncio.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path, body = request.path.removeprefix("/"), await request.read()
        try:
            Webhook(SECRET).verify(body, dict(request.headers))
        except WebhookVerificationError as error:
            self.forged.append(f"{path}: {error}")
            return web.Response(status=400)
        if json.loads(body).get("type") == "proxyd.ping":
            self.pings.append(path)
            return web.Response(status=self.ping_answers.popleft() if self.ping_answers else 204)
        does = self.scripts[path].popleft() if self.scripts[path] else "ok"
        arrival = Arrival(request.headers["webhook-id"], body, does in {"ok", "hold"})
        if self.refused.intersection(arrival.guids):
            does, arrival = "503", replace(arrival, accepted=False)
        self.arrivals[path].append(arrival)
        if does == "drop" and request.transport is not None:
            request.transport.abort()
        elif does == "garbage" and request.transport is not None:
            request.transport.write(b"\x00\xffnot a protocol\r\n\r\n")
            request.transport.abort()
        elif does == "stall":
            await self.closing.wait()
        elif does == "hold":
            await self.release.wait()
        return web.Response(status=int(does) if does.isdigit() else 204)

    def accepted(self, path: str) -> list[Arrival]:
        """Return what was accepted, in order of arrival, each id once."""
        found: dict[str, Arrival] = {}
        for arrival in self.arrivals[path]:
            if arrival.accepted:
                found.setdefault(arrival.webhook_id, arrival)
        return list(found.values())

    def guids(self, path: str) -> list[str]:
        """Return the items of ``accepted``, in order."""
        return [guid for arrival in self.accepted(path) for guid in arrival.guids]

    async def received(self, path: str, count: int, *, timeout_s: float = PATIENCE_S) -> list[str]:
        """Wait for ``count`` items and return them."""
        await eventually(
            lambda: len(self.guids(path)) >= count,
            f"{count} items at {path}",
            timeout_s=timeout_s,
            state=lambda: self.guids(path),
        )
        return self.guids(path)

    def check(self) -> None:
        """Fail where a signature was wrong, an id had two bodies, or a header and its body disagreed."""
        assert self.forged == []
        bodies: dict[str, bytes] = {}
        for arrival in [a for arrivals in self.arrivals.values() for a in arrivals]:
            assert bodies.setdefault(arrival.webhook_id, arrival.body) == arrival.body
            assert arrival.webhook_id == arrival.data.get("id", arrival.webhook_id)


@asynccontextmanager
async def listening(what: Origin | Receiver) -> AsyncIterator[None]:
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", what.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.5, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        what.port = runner.addresses[0][1]
        yield
    finally:
        what.closing.set()
        if isinstance(what, Receiver):
            what.release.set()
        await runner.cleanup()


# -- the daemon


@dataclass(frozen=True, slots=True)
class Done:
    """A verb that ran to its end."""

    code: int
    out: str
    err: str


class Daemon:
    """``proxyd serve`` in a process group of its own, which nothing outlives."""

    def __init__(
        self, folder: Path, *, prefix: Sequence[str] = (), address: str = "127.0.0.1", **settings: str
    ) -> None:
        self.folder = folder
        self.prefix = prefix
        self.address = address
        self.profiles = folder / "profiles"
        self.database = folder / "data" / "proxyd.db"
        self.port = free_port()
        self.settings = {
            "profiles": str(self.profiles),
            "database": str(self.database),
            "listen": f"{address}:{self.port}",
            "chronon": "200ms",
            "allow_networks": "127.0.0.0/8",
            "host_spacing": "0s",
            "host_concurrency": "16",
            "source_spacing": "200ms",
            "budget": "100/s",
            "probe_price": "1e-9",
            "parser_processes": "1",
            **settings,
        }
        self.secrets = {"SECRET_HOOK": SECRET}
        self.program: tuple[str, ...] = ("-m", "proxyd", "serve")
        self.code = ""  # the folder of another version, which runs instead of this one
        self._process: asyncio.subprocess.Process | Forked | None = None
        self._log = folder / "stderr.log"
        self._socket: str | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self.profiles.mkdir(exist_ok=True)
        self._session = aiohttp.ClientSession()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()
        if self._session is not None:
            await self._session.close()
        if error is not None:
            error.add_note(f"--- stderr of the daemon\n{self.log[-8000:]}")

    @property
    def log(self) -> str:
        """All that the daemon wrote to standard error."""
        return self._log.read_text() if self._log.exists() else ""

    def forget_log(self) -> None:
        self._log.write_text("")

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone by itself."""
        assert self._process is not None
        return self._process.returncode is not None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def base(self) -> str:
        return f"http://{self.address}:{self.port}"

    def write_settings(self) -> None:
        """Move the settings from the environment to a file where the daemon looks for one."""
        lines = [f'{name} = "{value}"\n' for name, value in self.settings.items()]
        (self.folder / "proxyd.toml").write_text("".join(lines), encoding="utf-8")
        self.settings = {}

    def declare(self, text: str, name: str = "watch") -> Path:
        """Write a file of the profiles directory, whole at once."""
        path = self.profiles / f"{name}.profile"
        new = path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
        return path

    async def spawn(self, *, before_exec: Callable[[], None] | None = None) -> None:
        """Start the process and return without waiting for it."""
        assert self._process is None
        with self._log.open("ab") as log:
            environment = self._environment()
            if not self.prefix and before_exec is None and not self.code and can_fork(environment):
                self._process = await fork(self.program, env=environment, cwd=self.folder, stdout=log, stderr=log)
                return
            self._process = await asyncio.create_subprocess_exec(
                *(*self.prefix, sys.executable, *self.program),
                env=environment,
                cwd=self.folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=before_exec,
            )

    async def start(self) -> None:
        """Start the process and wait until it is ready."""
        await self.spawn()
        await self.started()

    async def started(self) -> None:
        """Wait until it is ready."""
        await eventually(self._is_ready_or_dead, "the daemon is ready", state=lambda: self.log[-4000:])
        assert self._process is not None
        assert self._process.returncode is None, self.log

    async def kill(self) -> None:
        """Kill -9 the daemon and everything it started."""
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    async def kill_alone(self) -> None:
        """Kill -9 the daemon itself, as the out-of-memory killer does; its children must see it and go."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()
        self._process = None

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def ended(self, *, timeout_s: float = PATIENCE_S) -> int:
        """Wait until the process has ended and return its exit code."""
        assert self._process is not None
        process = self._process
        try:
            code = await asyncio.wait_for(process.wait(), timeout_s)
        except TimeoutError as error:
            raise AssertionError(f"the daemon did not end within {timeout_s:g} s:\n{self.log[-4000:]}") from error
        self._process = None
        return code

    async def stop(self) -> None:
        """Stop it with SIGTERM; it must drain and exit with 0."""
        self.signal(signal.SIGTERM)
        assert await self.ended() == 0, self.log

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def fill_disk(self, free_bytes: int | None = None) -> None:
        """Let the daemon's files grow no further than ``free_bytes`` beyond the longest of its database.

        Without ``free_bytes`` only the first pages can be written, so that the log cannot be written back.
        """
        longest = max(path.stat().st_size for path in self.database.parent.glob("proxyd.db*"))
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        most = 65_536 if free_bytes is None else longest + free_bytes
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (most, hard))

    def free_disk(self) -> None:
        """Let the daemon's files grow again."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (hard, hard))

    # -- asking it

    async def cli(self, *arguments: str, **variables: str) -> Done:
        """Run a verb with the daemon's own settings."""
        command, environment = ("-m", "proxyd", *arguments), self._environment() | variables
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = (
                await fork(command, env=environment, cwd=self.folder, stdout=out, stderr=err)
                if can_fork(environment)
                else await asyncio.create_subprocess_exec(
                    *(sys.executable, *command),
                    env=environment,
                    cwd=self.folder,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                )
            )
            try:
                code = await asyncio.wait_for(process.wait(), PATIENCE_S)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            out.seek(0)
            err.seek(0)
            return Done(code, out.read().decode(), err.read().decode())

    async def request(
        self, method: str, path: str, *, token: str | None = None, **request: Any
    ) -> tuple[int, Mapping[str, str], Any]:
        """Return status, headers and body (decoded, where it is JSON) of a request to the REST API."""
        assert self._session is not None
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= request.pop("headers", {})
        async with self._session.request(method, self.base + path, headers=headers, **request) as response:
            is_picture = response.content_type.startswith("image/")
            body: Any = await (response.read() if is_picture else response.text())
            if "json" in response.content_type:
                body = json.loads(body)
            return response.status, response.headers, body

    async def post_profile(self, text: str, token: str | None = None, *, query: str = "") -> tuple[int, Any]:
        """Send a text of the rule language and return the status and the answer."""
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        status, _, answer = await self.request(
            "POST", f"/api/v1/profiles{query}", token=token, data=text.encode(), headers=headers
        )
        return status, answer

    async def metrics(self) -> dict[str, float]:
        """Return every sample of /metrics by its name with labels."""
        status, _, text = await self.request("GET", "/metrics")
        assert status == 200
        samples = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in samples}

    async def metric(self, name: str) -> float:
        return (await self.metrics()).get(name, 0.0)

    async def metric_reaches(self, name: str, least: float) -> None:
        async def reached() -> bool:
            return await self.metric(name) >= least

        await eventually(reached, f"{name} >= {least:g}", state=lambda: self.log[-2000:])

    async def sources(self) -> dict[str, dict[str, Any]]:
        """Return what the daemon says of every source, by name, asked over its Unix socket."""
        if self._socket is None:
            self._socket = socket_address(self.database.with_suffix(".sock"))
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(self._socket)) as session,
            session.get("http://proxyd/api/v1/sources?limit=500") as response,
        ):
            return {item["source"]: item for item in (await response.json())["items"]}

    async def knows(self, *sources: str) -> None:
        """Wait until the daemon has seen each source once: from then on what is new there is news."""

        async def known() -> bool:
            found = await self.sources()
            return all(found[source]["first_contact"] for source in sources)

        await eventually(known, f"first contact with {sources}", state=lambda: self.log[-2000:])

    async def _is_ready_or_dead(self) -> bool:
        assert self._process is not None
        if self._process.returncode is not None:
            return True
        try:
            status, _, _ = await self.request("GET", "/readyz")
        except aiohttp.ClientConnectionError:
            return False
        return status == 200

    def _environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not re.match(r"PROXYD_|SECRET_", name)}
        own = {f"PROXYD_{k.upper()}": v for k, v in self.settings.items()} | self.secrets
        return inherited | own | ({"PYTHONPATH": self.code} if self.code else {})


@dataclass(frozen=True, slots=True)
class World:
    """All three, ready to go: the origin and the receiver listen, the daemon has not started."""

    origin: Origin
    receiver: Receiver
    daemon: Daemon

    def text(self, sources: Sequence[str], rules: Mapping[str, int], *, extra: str = "") -> str:
        """Return a declaration: rules by name with the X of their ``COUNT(*) % X = 0``, delivered to their own path."""
        declared = "".join(f"CREATE SOURCE \"{s}\" OF RSS AT '{self.origin.url(s)}';\n" for s in sources)
        notifications = "".join(rule_text(name, every, self.receiver.url(name)) for name, every in rules.items())
        return f"{DOMAIN}{declared}{PROFILE}{notifications}{extra}"


DOMAIN = """CREATE DOMAIN "Feeds" AS
CLASS::RSS(channel.item.title:String, channel.item.guid:String, channel.item.pubDate:Timestamp);
"""
PROFILE = 'CREATE PROFILE "watch" AS (DOMAIN "Feeds", LANGUAGE "SQL", USER "u");\n'


def rule_text(name: str, every: int, url: str, *, profile: str = "watch") -> str:
    """Return a rule that fires on every ``every``-th item of a source."""
    return f"""INSERT NOTIFICATION "{name}" INTO "{profile}"
SET QUERY "SELECT channel.item.guid, channel.item.title FROM RSS"
SET TRIGGER "ON INSERT TO RSS WHEN COUNT(*) % {every} = 0"
START NOW END NEVER SET UTILITY STRICT
SET DELIVERY WEBHOOK '{url}' SECRET ENV 'SECRET_HOOK';
"""


@asynccontextmanager
async def world(folder: Path, **settings: str) -> AsyncIterator[World]:
    """Yield an origin, a receiver and a daemon that is yet to be started, with the tables that it would make first."""
    origin, receiver = Origin(), Receiver()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(listening(origin))
        await stack.enter_async_context(listening(receiver))
        daemon = await stack.enter_async_context(Daemon(folder, **settings))
        if "database" not in settings:
            daemon.database.parent.mkdir(mode=0o700, exist_ok=True)
            migrated_file(daemon.database)
        yield World(origin, receiver, daemon)


def integrity(database: Path) -> str:
    """Return what SQLite finds wrong with a database that nobody holds, or ``ok``."""
    connection = sqlite3.connect(database)
    try:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        connection.close()
