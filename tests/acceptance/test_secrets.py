"""No secret is ever written: not to the log, whatever fails, nor to metrics, errors of the API or the settings."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from aiohttp import web

from tests.acceptance.support import DOMAIN, PROFILE, World, eventually, world
from tests.servers import NatsServer, PostgresServer, free_port, nats_server

MARK = "s3cr3t"


def secret(place: str) -> str:
    """Return a value that is found again wherever it is written, whatever is cut from it."""
    return f"{MARK}-{place}-{MARK}"


SECRETS = {
    "SECRET_HOOK": secret("hook"),
    "SECRET_FEED": secret("feed"),
    "PROXYD_TOKEN": f"pxd_0_{secret('token')}",
}
RULE = """INSERT NOTIFICATION "{name}" INTO "watch"
SET QUERY "SELECT channel.item.guid FROM RSS" SET TRIGGER "ON INSERT TO RSS"
START NOW END NEVER SET UTILITY STRICT SET DELIVERY {delivery};
"""


class Echo:
    """An origin, a receiver, a hub, a proxy and a mail server that fail, and repeat what they were told."""

    def __init__(self, w: World) -> None:
        self.told: list[str] = []
        for name, page in {"open": self.open, "closed": self.refuse, "moved": self.move, "torn": self.tear}.items():
            w.origin.pages[name] = page
        for name in ("hub", "chat", f"hook/{secret('path')}"):
            w.origin.pages[name] = self.refuse
        w.origin.pages["torn-hook"] = self.tear
        w.origin.pages["away"] = self.move
        self._world = w

    def note(self, request: web.Request) -> str:
        told = f"{request.path_qs} {request.url} {dict(request.headers)}"
        self.told.append(told)
        return told

    async def open(self, request: web.Request) -> web.StreamResponse:
        """Answer with a feed that names a hub."""
        self.note(request)
        media_type, body = self._world.origin.feeds["news"].document()
        link = f'<{self._world.origin.url("hub")}?key={secret("hub")}>; rel="hub"'
        return web.Response(body=body, headers={"Content-Type": media_type, "Link": link})

    async def refuse(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=500, text=f"I was told {self.note(request)} and {await request.text()}")

    async def move(self, request: web.Request) -> web.StreamResponse:
        """Redirect to what is no address, and holds what was sent."""
        location = f"http://[{quote(self.note(request))}"
        return web.Response(status=302, headers={"Location": location})

    async def tear(self, request: web.Request) -> web.StreamResponse:
        self.note(request)
        assert request.transport is not None
        request.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n")
        request.transport.abort()
        return web.Response()


@asynccontextmanager
async def mail_server() -> AsyncIterator[int]:
    """Yield the port of a server that refuses every password and repeats it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        while line := await reader.readline():
            is_hello = line.upper().startswith((b"EHLO", b"HELO"))
            writer.write(b"250-here\r\n250 AUTH LOGIN PLAIN\r\n" if is_hello else b"535 not with " + line)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


def profiles(w: World, *, scheme: str = "http") -> str:
    """Return a declaration with a secret in every place that can hold one."""
    port, query = w.origin.port, f"?key={secret('query')}"
    options = {
        "open": f"HEADER 'X-Key' '{secret('header')}' AUTH BASIC 'me' SECRET ENV 'SECRET_FEED'",
        "closed": "AUTH BEARER SECRET FILE 'bearer' ROBOTS IGNORE",
        "moved": "AUTH BEARER SECRET ENV 'SECRET_FEED'",
        "torn": f"HEADER 'Cookie' '{secret('cookie')}' HEADER 'X-More' SECRET ENV 'SECRET_FEED'",
    }
    sources = [
        f"CREATE SOURCE \"{name}\" OF RSS AT '{scheme}://127.0.0.1:{port}/{name}{query}' {clauses};\n"
        for name, clauses in options.items()
    ]
    hook = f"WEBHOOK 'http://127.0.0.1:{port}/{{path}}?token={secret('hook-query')}'"
    deliveries = {
        "env": hook.format(path=f"hook/{secret('path')}") + " SECRET ENV 'SECRET_HOOK'",
        "file": hook.format(path="torn-hook") + " SECRET FILE 'hook'",
        "away": hook.format(path="away") + " SECRET FILE 'hook' FORM GITHUB",
        "chat": f"CHANNEL 'json://me:{secret('chat-user')}@127.0.0.1:{port}/chat?token={secret('chat')}'",
        "mail": "MAIL 'a@example.org'",
    }
    return DOMAIN + PROFILE + "".join(sources) + "".join(RULE.format(name=n, delivery=d) for n, d in deliveries.items())


def written(value: str) -> set[str]:
    """Return what a value may look like where it is written."""
    coded = {base64.b64encode(f"{before}{value}".encode()).decode().rstrip("=") for before in ("", "me:", "\0me\0")}
    return {value, quote(value), quote_plus(value)} | {each[:16] for each in coded}


def leaks(text: str, more: set[str]) -> list[str]:
    """Return the lines that hold a secret."""
    coded = {each for value in (secret("feed"), secret("bearer"), secret("smtp")) for each in written(value)}
    return [line for line in text.splitlines() if any(each in line for each in {MARK, *coded, *more})]


def callbacks(database: Path) -> set[str]:
    """Return the addresses at which hubs were told to call, and the secrets that they were given."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        rows = connection.execute("SELECT callback_id, secret FROM subscriptions").fetchall()
    connection.close()
    return {value for row in rows for value in row if value}


async def asked(w: World) -> str:
    """Return what the API answers to those who may not ask, or ask wrongly, and what everybody may see."""
    bad = secret("bad-token")
    texts = []
    for path in (f"/api/v1/profiles/watch/feed.atom?token={bad}", "/api/v1/sources/nobody", "/metrics", "/readyz"):
        status, _, body = await w.daemon.request("GET", path, token=f"pxd_1_{bad}")
        texts.append(f"{status} {body}")
    for token in (bad, SECRETS["PROXYD_TOKEN"]):
        status, _, body = await w.daemon.request("GET", "/api/v1/webhooks", token=token)
        texts.append(f"{status} {body}")
    made = (await w.daemon.cli("token", "create", "--name", "t", "--scope", "read")).out.strip()
    for path in ("/api/v1/nothing", "/api/v1/sources?limit=none", "/api/v1/notifications/ntf_0"):
        status, _, body = await w.daemon.request("GET", path, token=made)
        texts.append(f"{status} {body}")
    assert made.partition("_")[2] not in "".join(texts)
    status, _, body = await w.daemon.request("GET", "/api/v1/sources?failing=true", token=made)
    assert "moved" in str(body)
    return "\n".join(texts)


@pytest.mark.parametrize(
    ("log_format", "is_proxied"),
    [
        pytest.param("json", False, id="json"),
        pytest.param("console", False, id="console", marks=pytest.mark.long),
        pytest.param("json", True, id="proxy"),
    ],
)
async def test_no_secret_is_written_whatever_fails(
    log_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_proxied: bool
) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    for name in ("hook", "bearer"):
        (folder / name).write_text(secret(name), encoding="utf-8")
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    async with mail_server() as port, world(tmp_path, log_format=log_format, log_level="debug") as w:
        w.daemon.secrets |= {name: value for name, value in SECRETS.items() if name.startswith("SECRET_")}
        proxy = f"http://me:{secret('proxy')}@127.0.0.1:{w.origin.port if is_proxied else free_port()}"
        w.daemon.settings |= {
            "secrets": str(folder),
            "channel_schemes": "json",
            "public_url": "http://127.0.0.1:1",
            "smtp": f"127.0.0.1:{port}",
            "smtp_tls": "none",
            "smtp_user": "me",
            "smtp_password": secret("smtp"),
            "mail_from": "proxyd@example.org",
            "ping_webhooks": "true",
        } | ({"proxy": proxy} if is_proxied else {})
        feed, echo = w.origin.feed("news"), Echo(w)
        w.daemon.declare(profiles(w))
        await w.daemon.start()
        if not is_proxied:
            await w.daemon.knows("open")
            feed.add(1)
            await eventually(lambda: "mail server" in w.daemon.log and "hub refuses" in w.daemon.log, "failures")
        await eventually(
            lambda: all(f"{name}" in w.daemon.log for name in ("closed", "moved", "torn")), "failed probes"
        )
        await eventually(lambda: w.daemon.log.count("ping") >= 3, "failed pings", state=lambda: w.daemon.log)
        w.daemon.declare(profiles(w, scheme="htp").replace("FORM GITHUB", "FORM GIT"), "broken")
        await eventually(lambda: "nothing was changed" in w.daemon.log, "a refused declaration")
        config = await w.daemon.cli("config")
        shown = await asked(w) + config.out + config.err
        told = callbacks(w.daemon.database)
        assert is_proxied or len(told) >= 2
        w.daemon.fill_disk()
        feed.add(2000)
        await eventually(lambda: "the database is not written" in w.daemon.log, "the disk is full")
        await w.daemon.kill()
        assert is_proxied or secret("header") in "".join(echo.told)  # they were really sent
        assert leaks(w.daemon.log + shown, told) == []


async def test_a_start_that_is_refused_shows_a_journal_where_and_a_terminal_what(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        path = w.daemon.declare(profiles(w, scheme="htp"))
        await w.daemon.spawn()
        assert await w.daemon.ended() == 1
        assert f"{path}:4:32: [...] is not an http or https address" in w.daemon.log
        assert leaks(w.daemon.log, set()) == []
        checked = await w.daemon.cli("check", str(w.daemon.profiles))
        assert secret("query") in checked.out + checked.err


@pytest.fixture(scope="module")
def guarded(postgresql: PostgresServer) -> Iterator[NatsServer]:
    """A server of NATS that wants a password, as that of PostgreSQL does."""
    postgresql.guard(secret("database"))
    with nats_server(password=secret("nats")) as nats:
        yield nats


@pytest.mark.parametrize(
    ("database", "nats", "verdict"),
    [
        ("wrong", "nats", "password authentication failed"),
        ("database", "wrong", "authorization violation"),
        ("database", "nats", "running"),
    ],
    ids=["wrong-for-postgresql", "wrong-for-nats", "right"],
)
async def test_no_password_of_a_server_is_written_whether_it_is_right_or_wrong(
    database: str, nats: str, verdict: str, guarded: NatsServer, postgresql: PostgresServer, tmp_path: Path
) -> None:
    address = postgresql.create().replace("//proxyd@", f"//guarded:{secret(database)}@")
    servers = guarded.url.replace(secret("nats"), secret(nats))
    async with world(tmp_path, database=address, nats=servers, log_format="json", log_level="debug") as w:
        w.daemon.declare(DOMAIN)
        await w.daemon.spawn()
        await eventually(lambda: verdict in w.daemon.log.lower(), verdict, state=lambda: w.daemon.log)
        if database != "wrong":
            await eventually(lambda: '"running"' in w.daemon.log, "it plans", state=lambda: w.daemon.log)
        shown = []
        if verdict == "running":
            await w.daemon.started()
            shown = [str(await w.daemon.request("GET", path)) for path in ("/metrics", "/readyz")]
        config, migrated = await asyncio.gather(w.daemon.cli("config"), w.daemon.cli("db", "migrate"))
        assert config.out.count("[hidden]@127.0.0.1") == 2
        assert migrated.code == 1  # it tells of the password, or of the daemon that runs
        text = "\n".join([*shown, config.out, config.err, migrated.out, migrated.err, w.daemon.log])
    assert leaks(text, {each for name in (database, nats) for each in written(secret(name))}) == []
