"""Speed of what people look at: every page and list call of a daemon with many sources and a long history.

Run ``python benchmarks/interfaces.py`` (half an hour and 10 GB in the temporary folder: 100,000 sources, ten million
items, a million notifications); ``--quick`` for few, ``--json`` for machines. The daemon is ``proxyd serve`` on
SQLite, which probes an origin on loopback meanwhile. Every address is asked once, then measured again and again, each
time another part of it; first paint is Chromium's, where there is one. Nothing here is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, time
from typing import Any
from urllib.parse import urlencode

import aiohttp
import numpy as np
from aiohttp import web
from sqlalchemy import Table

from proxyd.core.model.field_values import iso_time
from proxyd.core.model.profile import Source
from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.rates.rate_blend import RateEvidence
from proxyd.core.rates.week_counts import WeekCounts, pack
from proxyd.core.rules.known.compiled import reading_of
from proxyd.core.rules.known.state import SourceState
from proxyd.core.rules.programs.stream_state import StreamState, Total
from proxyd.core.rules.stages.source_state import Calibration
from proxyd.store import rows
from proxyd.store.databases import tables as t
from proxyd.store.databases.tables import WORDS_IN_SQLITE

Line = dict[str, object]

WANTED_S, WANTED_PAINT_S = 0.3, 1.0
DAYS, DAY_S = 14, 86400.0
BUDGET = "30/s"
_COMMON = ("release", "kernel", "harbour", "council", "storm", "league", "notice", "update")
_PAINTED = """() => new Promise(told => new PerformanceObserver(
    list => list.getEntriesByName('first-contentful-paint').forEach(entry => told(entry.startTime))
).observe({type: 'paint', buffered: true}))"""
FEED = (
    b'<?xml version="1.0"?><rss version="2.0"><channel><title>f</title>'
    + b"".join(b"<item><guid>%d</guid><title>Item %d</title></item>" % (n, n) for n in range(10))
    + b"</channel></rss>"
)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much there is, and how often each address is asked."""

    domains: int = 100
    sources: int = 100_000
    items: int = 10_000_000
    notifications: int = 1_000_000
    asked: int = 20
    hosts: int = 1

    def source(self, number: int) -> str:
        """Return the name of a source."""
        return f"s{number % self.sources:06d}"

    def url(self, number: int, port: int) -> str:
        """Return the address of a source: one of 15,937,500 hosts, all of which are this machine."""
        host = number % self.hosts
        return f"http://127.{host // 62_500}.{host // 250 % 250}.{1 + host % 250}:{port}/{number}"

    def rule(self, number: int) -> str:
        """Return the name of a rule."""
        return f"r{number % (2 * self.domains):04d}"


QUICK = Scale(domains=2, sources=100, items=3000, notifications=1000, asked=3)


# -- what is declared and what happened


def texts(scale: Scale, port: int) -> Iterator[str]:
    """Yield the texts of each domain: its sources, and two rules on all of them."""
    for number in range(scale.domains):
        kind = f"FEED{number:04d}"
        yield (
            f'CREATE DOMAIN "d{number:04d}" AS CLASS::{kind}(channel.item.title:String, channel.item.guid:String);\n'
            f'CREATE PROFILE "p{number:04d}" AS (DOMAIN "d{number:04d}", LANGUAGE "SQL", USER "bench");\n'
        )
        lines = [
            f"CREATE SOURCE \"{scale.source(n)}\" OF {kind} AT '{scale.url(n, port)}' EXPECT 1 PER DAY;\n"
            for n in range(number, scale.sources, scale.domains)
        ]
        lines += [
            f'INSERT NOTIFICATION "{scale.rule(n)}" INTO "p{number:04d}" SET QUERY "SELECT title FROM {kind}"\n'
            f'SET TRIGGER "ON INSERT TO {kind}" START NOW END NEVER SET UTILITY STRICT;\n'
            for n in (number, number + scale.domains)
        ]
        yield from ("".join(lines[first : first + 400]) for first in range(0, len(lines), 400))


Rows = Iterable[tuple[Table, Iterable[dict[str, Any]]]]
"""What to write into some tables."""


def what_was_learned(scale: Scale, now_s: float, port: int) -> Rows:
    """Return what two weeks left behind of the sources: their states, weeks and streams."""
    return (
        (t.sources, _states(scale, now_s, port)),
        (t.weeks, _weeks(scale, now_s)),
        (t.accounts, _accounts(now_s)),
        (t.streams, _streams(scale)),
    )


def all_there_is(scale: Scale, now_s: float, port: int) -> Rows:
    """Return all that two weeks left behind: also items, probes, intervals, notifications and their deliveries."""
    many = scale.notifications
    return (
        *what_was_learned(scale, now_s, port),
        (t.items, (_item(scale, n, now_s) for n in range(scale.items))),
        (t.probes, (_probe(scale, n, now_s) for n in range(many))),
        (t.intervals, (_interval(scale, n, now_s) for n in range(many))),
        (t.notifications, (_notification(scale, n, now_s) for n in range(many))),
        (t.outbox, (_delivery(scale, n, now_s) for n in range(many))),
        (t.attempts, (_attempt(scale, n, now_s) for n in range(many))),
    )


def fill(database: Path, left: Rows) -> None:
    """Write what was left behind."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        drops = [f"DROP TRIGGER item_words_{each}" for each in ("insert", "delete", "update")]
        for statement in [*drops, "DROP TABLE item_words"]:  # an index is built faster over all rows at once
            connection.execute(statement)
        for table, found in left:
            _insert(connection, table, found)
        for statement in WORDS_IN_SQLITE:
            connection.execute(statement)
        connection.commit()


def _insert(connection: sqlite3.Connection, table: Table, found: Iterable[dict[str, Any]]) -> None:
    rows_left = iter(found)
    if (first := next(rows_left, None)) is None:
        return
    names, marks = ", ".join(first), ", ".join(f":{name}" for name in first)
    statement = f"INSERT INTO {table.name} ({names}) VALUES ({marks})"
    connection.execute(statement, first)
    connection.executemany(statement, rows_left)
    connection.commit()


def _at_s(scale: Scale, number: int, now_s: float) -> float:
    """Return when the so-manieth thing happened: evenly over the last two weeks."""
    return now_s - DAYS * DAY_S * (1.0 - (number + 1) / (scale.notifications + 1))


def _states(scale: Scale, now_s: float, port: int) -> Iterator[dict[str, Any]]:
    blank = RateEvidence()
    for number in range(scale.sources):
        events = 0.05 + number % 40
        rate = RateEvidence(
            tuple(events for _ in blank.events), tuple(DAYS * DAY_S for _ in blank.exposure_s), now_s - 3600.0
        )
        asked_s, url = now_s - 3600.0 - number % 9000, scale.url(number, port)
        record = SourceRecord(asked_s, (events + 1.0) / (DAYS * DAY_S), 1.0, 1.0 / DAY_S, (asked_s,))
        yield rows.source_row(
            SourceState(
                scale.source(number),
                url,
                reading=reading_of(Source("", "", "", url), None),
                first_contact_s=now_s - DAYS * DAY_S,
                last_start_s=asked_s,
                last_success_s=asked_s,
                last_outcome="timeout" if number % 50 == 0 else "not_modified",
                failures=int(number % 50 == 0),
                next_seq=1_000,
                rate=rate,
            ),
            record,
        )


def _weeks(scale: Scale, now_s: float) -> Iterator[dict[str, Any]]:
    counts = np.random.default_rng(1).poisson(1.0, (32, 168)).astype(np.float32)
    for number in range(scale.sources):
        week = WeekCounts(
            pack(counts[number % 32]), float(counts[number % 32].sum()), now_s - DAYS * DAY_S, now_s - 3600.0
        )
        yield rows.week_row(scale.source(number), week)


def _accounts(now_s: float) -> Iterator[dict[str, Any]]:
    account = {name: getattr(Calibration(), name) for name in rows.ACCOUNT_FIELDS} | {"probes": 3, "items": 1}
    for day in range(int(now_s // DAY_S) - DAYS, int(now_s // DAY_S) + 1):
        yield account | {"day": day, "part": 0}


def _streams(scale: Scale) -> Iterator[dict[str, Any]]:
    for number in range(scale.sources):
        for rule in (number % scale.domains, number % scale.domains + scale.domains):
            yield rows.stream_row(
                StreamState(scale.rule(rule), scale.source(number), (Total(1, 1.0, True, True),), captured=9, missed=1)
            )


def words(number: int) -> str:
    """Return the words of an item: common ones, rarer ones, and one that only it has."""
    drawn = number * 2654435761 % 2**32
    return f"item {_COMMON[drawn % 8]} {_COMMON[drawn // 8 % 8]} w{drawn % 1000} v{drawn % 100_000} u{number}"


def _item(scale: Scale, number: int, now_s: float) -> dict[str, Any]:
    at_s = _at_s(scale, number * scale.notifications // scale.items, now_s)
    title = words(number)
    return {
        "source_id": scale.source(number),
        "seq": number // scale.sources + 1,
        "item_id": str(number // scale.sources),
        "content_hash": "0" * 16,
        "fields": f'{{"channel.item.title": "{title}", "channel.item.link": "https://origin.example/{number}"}}',
        "words": title,
        "published_s": at_s,
        "event_s": at_s,
        "seen_s": at_s + 600.0,
        "present_s": now_s - 3600.0,
        "exact": True,
        "seed": False,
    }


def _probe(scale: Scale, number: int, now_s: float) -> dict[str, Any]:
    at_s = now_s - (now_s - _at_s(scale, number, now_s)) / 2.0  # of one week
    return {
        "source_id": scale.source(number),
        "started_s": at_s,
        "finished_s": at_s + 0.2,
        "reason": "detection",
        "rule": None,
        "outcome": "changed",
        "status": 200,
        "detail": "",
        "items": 1,
        "delay_s": 600.0,
    }


def _interval(scale: Scale, number: int, now_s: float) -> dict[str, Any]:
    at_s = _at_s(scale, number, now_s)
    return {
        "rule": scale.rule(number),
        "source_id": scale.source(number),
        "seq": number,
        "start_s": at_s,
        "deadline_s": at_s + 3600.0,
        "probed_s": at_s + 600.0,
        "captured": number % 10 > 0,
        "exact": True,
        "delay_s": 600.0,
        "utility": 1.0,
        "seen": True,
    }


def _notification(scale: Scale, number: int, now_s: float) -> dict[str, Any]:
    at_s = _at_s(scale, number, now_s)
    rule, source = scale.rule(number), scale.source(number)
    data = {
        "id": f"n{number}",
        "rule": rule,
        "profiles": [f"p{number % scale.domains:04d}"],
        "source": source,
        "url": f"http://origin.example/{number}",
        "event": {"kind": "insert", "time": iso_time(at_s), "seen": iso_time(at_s + 600.0)},
        "interval": {"start": iso_time(at_s), "end": None},
        "late": False,
        "items": [{"channel.item.title": f"Item {number}"}],
    }
    body = {"type": "proxyd.notification", "timestamp": iso_time(at_s), "data": data}
    return {
        "notification_id": f"n{number}",
        "rule": rule,
        "source_id": source,
        "event_s": at_s,
        "created_s": at_s + 600.0,
        "late": False,
        "body": json.dumps(body).encode(),
    }


def _delivery(scale: Scale, number: int, now_s: float) -> dict[str, Any]:
    at_s = _at_s(scale, number, now_s) + 601.0
    endpoint = f"https://receiver.example/{number % 50}"
    return {
        "notification_id": f"n{number}",
        "endpoint": endpoint,
        "secret_kind": "env",
        "secret_name": "SECRET_A",
        "lane": rows.lane(scale.rule(number), endpoint),
        "state": "dead" if number % 1000 == 0 else "delivered",
        "attempts": 1,
        "first_attempt_s": at_s,
        "next_s": at_s,
        "done_s": at_s,
    }


def _attempt(scale: Scale, number: int, now_s: float) -> dict[str, Any]:
    return {
        "position": number + 1,
        "attempted_s": _at_s(scale, number, now_s) + 601.0,
        "duration_s": 0.1,
        "result": "accepted",
        "detail": "200",
    }


# -- the daemon


@asynccontextmanager
async def origin(folder: Path, *, at: str = "127.0.0.1", asked: Callable[[], object] = int) -> AsyncIterator[int]:
    """Answer every address with the same feed while the context is open; yields the port, which its folder keeps.

    ``asked`` is called with each request.
    """
    known = folder / "origin.port"

    async def answer(request: web.BaseRequest) -> web.Response:
        asked()
        if request.headers.get("If-None-Match") == '"1"':
            return web.Response(status=304, headers={"ETag": '"1"'})
        return web.Response(body=FEED, headers={"ETag": '"1"'}, content_type="application/rss+xml")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, at, int(known.read_text()) if known.exists() else 0).start()
    known.write_text(str(runner.addresses[0][1]))
    yield int(runner.addresses[0][1])
    await runner.cleanup()


def proxyd(folder: Path, *arguments: str) -> list[str]:
    """Return the command of a verb with the settings in a folder."""
    return [sys.executable, "-m", "proxyd", "--config", str(folder / "proxyd.toml"), *arguments]


def set_up(
    folder: Path,
    scale: Scale,
    origin_port: int,
    *,
    budget: str = BUDGET,
    left: Callable[[Scale, float, int], Rows] = all_there_is,
) -> str:
    """Write settings, profiles and database where there are none; return where the daemon will listen.

    ``left`` is what happened before.
    """
    listen = f"127.0.0.1:{_free_port()}"
    settings = {
        "profiles": str(folder / "profiles"),
        "database": str(folder / "bench.db"),
        "listen": listen,
        "budget": budget,
        "host_spacing": "0s",
        "host_concurrency": 64,
        "allow_networks": "127.0.0.0/8",
        "api_rate": "",
        "log_level": "error",
    }
    (folder / "proxyd.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
    if not (folder / "profiles").exists():
        (folder / "profiles").mkdir()
        for number, text in enumerate(texts(scale, origin_port)):
            (folder / "profiles" / f"{number:05d}.profile").write_text(text)
        subprocess.run(proxyd(folder, "db", "migrate"), check=True, stdout=subprocess.DEVNULL)
        fill(folder / "bench.db", left(scale, time(), origin_port))
    return f"http://{listen}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run the daemon while the context is open; yields it and a token of every scope."""
    token = subprocess.run(
        proxyd(folder, "token", "create", "--name", f"bench {time()}", "--scope", "admin"),
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    with subprocess.Popen(proxyd(folder, "serve")) as process:
        try:
            yield process, token
        finally:
            process.terminate()


async def until_ready(session: aiohttp.ClientSession, base: str, daemon: subprocess.Popen[bytes]) -> None:
    """Wait until the daemon has its plan."""
    while daemon.poll() is None:
        try:
            async with session.get(f"{base}/readyz") as answer:
                if answer.status == 200:
                    return
        except aiohttp.ClientConnectionError:
            pass
        await asyncio.sleep(0.1)
    raise RuntimeError("the daemon ended")


# -- what is measured


def addresses(scale: Scale) -> dict[str, Sequence[str]]:
    """Return what is asked, by name: the first call warms up, each other one asks for another part."""
    numbers = [7 + 4973 * k for k in range(scale.asked + 1)]
    sources, rules = [scale.source(n) for n in numbers], [scale.rule(n) for n in numbers]
    notes = [f"n{n % scale.notifications}" for n in numbers]
    api = "/api/v1"
    same = ("plan", "advice", "report", "domains", "profiles", "rules", "sources", "notifications", "webhooks",
            "deliveries/dead", "tokens", "openapi.json", "plan?limit=500", "sources?limit=500", "sources?failing=true",
            "notifications?limit=500", "sources?q=s0001&sort=newest", "items?q=item", "items?q=release+-kernel",
            "items?q=%22item+release+kernel%22", "items?q=w1*+harbour")  # fmt: skip
    found: dict[str, Sequence[str]] = {f"{api}/{each}": [f"{api}/{each}"] * len(numbers) for each in same}
    for path, names in (
        ("sources/{}/probes", sources),
        ("sources/{}/items", sources),
        ("items?q=u{}", numbers),
        ("items?q=item&source={}", sources),
        ("explain/{}", sources),
        ("rules/{}", rules),
        ("rules/{}/intervals", rules),
        ("notifications/{}", notes),
        ("notifications?source={}", sources),
        ("notifications?rule={}", rules),
    ):
        found[f"{api}/{path}"] = [f"{api}/{path.format(name)}" for name in names]
    found["/metrics"] = ["/metrics"] * len(numbers)
    for page in (
        "/",
        "/search?q=release",
        "/sources?sort=items",
        "/state",
        "/sources",
        "/rules",
        "/notifications",
        "/profiles",
        "/budget",
        "/plan",
        "/tokens",
        "/docs",
    ):
        found[page] = [page] * len(numbers)
    for path, names in (
        ("/sources/{}", sources),
        ("/rules/{}", rules),
        ("/notifications/{}", notes),
        ("/notifications?source={}", sources),
        ("/notifications?rule={}", rules),
        ("/notifications?profile={}", [f"p{n % scale.domains:04d}" for n in numbers]),
        ("/profiles/{}", [f"p{n % scale.domains:04d}" for n in numbers]),
    ):
        found[path] = [path.format(name) for name in names]
    return found


async def deep(session: aiohttp.ClientSession, base: str, path: str, asked: int) -> list[str]:
    """Return the addresses of the following parts of a list, as its cursors lead there."""
    found = [f"{path}?limit=500"]
    for _ in range(asked):
        async with session.get(base + found[-1]) as answer:
            cursor = (await answer.json())["next_cursor"]
        if cursor is None:
            break
        found.append(f"{path}?{urlencode({'limit': 500, 'cursor': cursor})}")
    return found


async def measure(session: aiohttp.ClientSession, base: str, name: str, paths: Sequence[str]) -> Line:
    """Return how long an address takes after its first call: the percentiles of all others."""
    taken = [await timed(session, base + path) for path in paths]
    later = sorted(taken[1:]) or taken
    p95_s = later[min(len(later) - 1, int(0.95 * len(later)))]
    return {
        "what": name,
        "seconds": sum(taken),
        "first_ms": 1000.0 * taken[0],
        "p50_ms": 1000.0 * later[len(later) // 2],
        "p95_ms": 1000.0 * p95_s,
        "ratio": p95_s / WANTED_S,
    }


async def timed(session: aiohttp.ClientSession, address: str) -> float:
    """Return how long an address takes; raises where it is refused."""
    began = perf_counter()
    async with session.get(address, allow_redirects=False) as answer:
        await answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{address}: {answer.status} {(await answer.text())[:300]}")
    return perf_counter() - began


async def signed_in(base: str, token: str) -> aiohttp.ClientSession:
    """Return a session of the dashboard, which also carries the token for the API."""
    jar = aiohttp.CookieJar(unsafe=True)
    session = aiohttp.ClientSession(cookie_jar=jar, timeout=aiohttp.ClientTimeout(total=120.0))
    async with session.get(f"{base}/sign-in") as answer:
        mark = (await answer.text()).partition('name="mark" value="')[2].partition('"')[0]
    async with session.post(f"{base}/sign-in", data={"token": token, "mark": mark, "next": "/"}) as answer:
        if answer.status != 200:
            raise RuntimeError(f"not signed in: {answer.status}")
    session.headers["Authorization"] = f"Bearer {token}"
    return session


async def first_paint(base: str, session: aiohttp.ClientSession) -> list[Line]:
    """Return how long Chromium takes from asking for the dashboard until it first paints something of it."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        return []
    from playwright.async_api import async_playwright

    cookies = [{"name": each.key, "value": each.value, "url": base} for each in session.cookie_jar]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        context = await browser.new_context()
        await context.add_cookies(cookies)  # type: ignore[arg-type]
        taken = []
        for _ in range(5):
            page = await context.new_page()
            await page.goto(f"{base}/")
            taken.append(await page.evaluate(_PAINTED) / 1000.0)
            await page.close()
        await browser.close()
    later = sorted(taken[1:])
    return [
        {
            "what": "first paint of the dashboard",
            "seconds": sum(taken),
            "first_ms": 1000.0 * taken[0],
            "p50_ms": 1000.0 * later[len(later) // 2],
            "p95_ms": 1000.0 * later[-1],
            "ratio": later[-1] / WANTED_PAINT_S,
        }
    ]


async def lines(scale: Scale, folder: Path, only: str) -> list[Line]:
    """Return all figures; what a folder holds already is used again."""
    async with origin(folder) as port:
        base = await asyncio.to_thread(set_up, folder, scale, port)
        began = perf_counter()
        with serving(folder) as (daemon, token):
            async with aiohttp.ClientSession() as plain:
                await until_ready(plain, base, daemon)
            ready: Line = {"what": "start until ready", "seconds": perf_counter() - began}
            async with await signed_in(base, token) as session:
                wanted = addresses(scale)
                for path in ("/api/v1/sources", "/api/v1/notifications"):
                    wanted[f"{path}, page after page"] = await deep(session, base, path, scale.asked)
                measured = [await measure(session, base, *each) for each in wanted.items() if only in each[0]]
                size: Line = {"what": "database", "gigabytes": (folder / "bench.db").stat().st_size / 1e9}
                return [size, ready, *measured, *await first_paint(base, session)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sources, for a test that it still runs")
    parser.add_argument("--only", default="", metavar="TEXT", help="addresses that hold this text")
    parser.add_argument("--folder", type=Path, help="a new one, which is kept, or one of a run before")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="proxyd-bench-") as name:
        folder = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        measured = asyncio.run(lines(QUICK if options.quick else Scale(), folder, options.only))
    if options.json:
        print(json.dumps(measured))
        return
    for line in measured:
        shown = (f"{name} {each:.4g}" if isinstance(each, float) else f"{each}" for name, each in line.items())
        print(", ".join(shown))


if __name__ == "__main__":
    main()
