"""Speed of what people look at: every page and list call of a daemon with many sources and a long history.

Run ``python benchmarks/interfaces.py`` (half an hour and 10 GB in the temporary folder: 100,000 feeds, 300 watched
pages and 200 sites in 20 profiles, ten million items, a million notifications); ``--items 1000000`` for fewer,
``--quick`` for few of all, ``--json`` for machines. The daemon is ``proxyd serve`` on SQLite, which probes an origin on
loopback meanwhile, so its processor time for an answer has some of that too. Every address is asked once, then measured
again and again, each time another part of it; first paint is Chromium's, where there is one. ``/healthz`` is asked all
the time. The exit code is 1 if anything takes longer than it may, but not with ``--quick``.
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
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, time
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
import numpy as np
from aiohttp import web
from sqlalchemy import Table

from proxyd.core.language.checking.classes import BUILT_IN
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.profile import PAGE_TEXT, SITE_CLASS, Source
from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.rates.rate_blend import RateEvidence
from proxyd.core.rates.week_counts import WeekCounts, pack
from proxyd.core.rules.known.compiled import reading_of
from proxyd.core.rules.known.state import UNKNOWN_HEALTH, SiteState, SourceHealth, SourceState
from proxyd.core.rules.programs.stream_state import StreamState, Total
from proxyd.core.rules.stages.source_state import Calibration
from proxyd.store import rows
from proxyd.store.api_rows import ME
from proxyd.store.databases import tables as t
from proxyd.store.databases.tables import WORDS_IN_SQLITE

Line = dict[str, object]

WANTED_S, WANTED_PAINT_S, WANTED_SILENCE_S = 0.3, 1.0, 0.1
DAYS, SITE_DAYS, DAY_S = 14, 90, 86400.0
BUDGET = "5/s"
_COMMON = ("release", "kernel", "harbour", "council", "storm", "league", "notice", "update")
_PAINTED = """() => new Promise(told => new PerformanceObserver(
    list => list.getEntriesByName('first-contentful-paint').forEach(entry => told(entry.startTime))
).observe({type: 'paint', buffered: true}))"""
FEED = (
    b'<?xml version="1.0"?><rss version="2.0"><channel><title>f</title>'
    + b"".join(b"<item><guid>%d</guid><title>Item %d</title></item>" % (n, n) for n in range(10))
    + b"</channel></rss>"
)
PAGE = b"<!doctype html><title>t</title><p>Today nothing is to be seen here."


@dataclass(frozen=True, slots=True)
class Scale:
    """How much there is, and how often each address is asked."""

    domains: int = 100
    sources: int = 100_000
    items: int = 10_000_000
    notifications: int = 1_000_000
    asked: int = 20
    hosts: int = 1
    # watched pages and sites in all, the changes of each page, and the probes of each site in the last week
    pages: int = 0
    sites: int = 0
    changes: int = 50
    site_probes: int = 15_120

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

    def page(self, number: int, port: int) -> str:
        """Return the name of the source of a watched page."""
        return f"127.0.0.1:{port}/page/{number % self.pages}"

    def site(self, number: int, port: int) -> str:
        """Return the name of the source of a site."""
        return f"127.0.0.1:{port}/site/{number % self.sites}"


FULL = Scale(domains=20, pages=300, sites=200)
QUICK = Scale(domains=2, sources=100, items=3000, notifications=1000, asked=3, pages=4, sites=4, site_probes=100)


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
        lines += [
            f'WATCH \'http://{scale.page(n, port)}\' OF PAGE AS "page{n:04d}" INTO "p{number:04d}";\n'
            for n in range(number, scale.pages, scale.domains)
        ]
        lines += [
            f'WATCH \'http://{scale.site(n, port)}\' OF SITE AS "site{n:04d}" INTO "p{number:04d}";\n'
            for n in range(number, scale.sites, scale.domains)
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
    days, incidents = _site_days(scale, now_s, port), _incidents(scale, now_s, port)
    return (
        *what_was_learned(scale, now_s, port),
        (t.sources, _other_states(scale, now_s, port)),
        (t.items, (_first_text(scale.page(n, port), now_s) for n in range(scale.pages))),
        (t.changes, (_change(scale, n, now_s, port) for n in range(scale.pages * scale.changes))),
        (t.items, (_item(scale, n, now_s) for n in range(scale.items))),
        (t.marks, _marks(scale, now_s)),
        (t.read_up_to, ({"person": ME, "source_id": "", "position": scale.pages + scale.items // 2} for _ in "1")),
        (t.site_days, days),
        (t.incidents, incidents),
        (t.probes, (_probe_of_site(scale, n, now_s, port) for n in range(scale.sites * scale.site_probes))),
        (t.probes, (_probe(scale, n, now_s) for n in range(many))),
        (t.intervals, (_interval(scale, n, now_s) for n in range(many))),
        (t.notifications, (_notification(scale, n, now_s) for n in range(many))),
        (t.outbox, (_delivery(scale, n, now_s) for n in range(many))),
        (t.attempts, (_attempt(scale, n, now_s) for n in range(many))),
    )


def fill(database: Path, left: Rows) -> None:
    """Write what was left behind; indices are built faster over all rows at once."""
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript("PRAGMA synchronous=OFF; PRAGMA cache_size=-1000000")
        indices = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql > ''").fetchall()
        drops = [f"DROP TRIGGER item_words_{each}" for each in ("insert", "delete", "update")]
        for statement in [*drops, "DROP TABLE item_words", *(f"DROP INDEX {name}" for name, _ in indices)]:
            connection.execute(statement)
        for table, found in left:
            _insert(connection, table, found)
        for statement in [*(made for _, made in indices), *WORDS_IN_SQLITE]:
            connection.execute(statement)
            connection.commit()


def _insert(connection: sqlite3.Connection, table: Table, found: Iterable[dict[str, Any]]) -> None:
    rows_left = iter(found)
    if (first := next(rows_left, None)) is None:
        return
    statement = f"INSERT INTO {table.name} ({', '.join(first)}) VALUES ({', '.join('?' * len(first))})"
    connection.execute(statement, (*first.values(),))
    connection.executemany(statement, (tuple(each.values()) for each in rows_left))
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


def _other_states(scale: Scale, now_s: float, port: int) -> Iterator[dict[str, Any]]:
    """Yield the states of watched pages and of sites, which were asked a minute ago."""
    asked_s, healthy = now_s - 60.0, SourceHealth(site=SiteState(now_s - 60.0))
    pages = ((scale.page(n, port), BUILT_IN.classes["PAGE"], UNKNOWN_HEALTH) for n in range(scale.pages))
    for name, read_as, health in (*pages, *((scale.site(n, port), SITE_CLASS, healthy) for n in range(scale.sites))):
        url = f"http://{name}"
        reading = reading_of(Source(name, "", "", url), read_as)
        asked = {"last_start_s": asked_s, "last_success_s": asked_s, "last_outcome": "not_modified"}
        known = {"first_contact_s": now_s - DAYS * DAY_S, "next_seq": 1_000, "health": health}
        yield rows.source_row(SourceState(name, url, reading=reading, **asked, **known))  # type: ignore[arg-type]


def _text(number: int) -> str:
    """Return the text of a page, of 12 kB, after so many changes."""
    blocks = [words(7919 * block + (number if block % 50 == number % 50 else 0)) * 2 for block in range(150)]
    return "\n\n".join(blocks)


def _first_text(name: str, now_s: float) -> dict[str, Any]:
    at_s = now_s - DAYS * DAY_S
    return {
        "source_id": name,
        "seq": 1,
        "item_id": "",
        "content_hash": "0" * 16,
        "fields": json.dumps({PAGE_TEXT: _text(0)}),
        "words": words(0),
        "event_s": at_s,
        "seen_s": at_s,
        "present_s": now_s - 60.0,
        "exact": False,
        "seed": True,
    }


def _change(scale: Scale, number: int, now_s: float, port: int) -> dict[str, Any]:
    change = number // scale.pages + 1
    at_s = now_s - DAYS * DAY_S * (1.0 - change / (scale.changes + 1))
    return {
        "source_id": scale.page(number, port),
        "seq": change + 1,
        "kind": "update",
        "item_id": "",
        "content_hash": "0" * 16,
        "fields": json.dumps({PAGE_TEXT: _text(change)}),
        "old_fields": json.dumps({PAGE_TEXT: _text(change - 1)}),
        "event_s": at_s,
        "seen_s": at_s,
        "exact": False,
    }


def _marks(scale: Scale, now_s: float) -> Iterator[dict[str, Any]]:
    """Yield what somebody marked: every third of her 9,000 newest items as read, and 500 of all items with a star."""
    last = scale.pages + scale.items
    read = set(range(last, max(scale.pages, last - 9000), -3))
    starred = set(range(scale.pages + 1, last, max(1, scale.items // 500)))
    for position in sorted(read | starred):
        yield {
            "position": position,
            "person": ME,
            "source_id": scale.source(position - scale.pages - 1),
            "is_read": True if position in read else None,
            "starred_s": now_s - 60.0 if position in starred else None,
        }


def _site_days(scale: Scale, now_s: float, port: int) -> Iterator[dict[str, Any]]:
    today = int(now_s // DAY_S)
    for number in range(scale.sites * SITE_DAYS):
        day = number // scale.sites
        down_s = 300.0 if number % 45 == 0 else 0.0
        yield {
            "source_id": scale.site(number, port),
            "day": today - day,
            "up_s": (DAY_S if day else now_s % DAY_S) - down_s,
            "down_s": down_s,
            "probes": 2160,
            "failures": 8 if down_s else 0,
            "answers_s": 2160 * 0.2,
        }


def _incidents(scale: Scale, now_s: float, port: int) -> Iterator[dict[str, Any]]:
    for number in range(scale.sites * 40):
        at_s = now_s - SITE_DAYS * DAY_S * (number + 1) / (scale.sites * 40 + 1)
        name = scale.site(number, port)
        yield {"source_id": name, "began_s": at_s, "ended_s": at_s + 300.0, "reason": "it answered with status 503"}


def _probe_of_site(scale: Scale, number: int, now_s: float, port: int) -> dict[str, Any]:
    at_s = now_s - 7.0 * DAY_S * (1.0 - number / (scale.sites * scale.site_probes + 1))
    probe = _probe(scale, 0, now_s) | {"source_id": scale.site(number, port), "outcome": "not_modified", "items": 0}
    return probe | {"started_s": at_s, "finished_s": at_s + 0.05 + number % 97 / 400.0}


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
        if request.path.startswith(("/page/", "/site/")):
            return web.Response(body=PAGE, headers={"ETag": '"1"'}, content_type="text/html")
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
    if scale.sites:
        settings["status_pages"] = "public: " + " | ".join(scale.site(n, origin_port) for n in range(50))
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


async def until_planned(session: aiohttp.ClientSession, base: str) -> None:
    """Wait until there is a plan of the week, which is made in a thread of the daemon if there are many sources."""
    while True:
        async with session.get(f"{base}/metrics") as answer:
            found = {
                name: value for name, _, value in (each.partition(" ") for each in (await answer.text()).split("\n"))
            }
        if float(found.get("proxyd_plan_duration_seconds", 0.0)) > 0.0:
            return
        await asyncio.sleep(1.0)


# -- what is measured


def addresses(scale: Scale, port: int) -> dict[str, Sequence[str]]:
    """Return what is asked, by name: the first call warms up, each other one asks for another part."""
    numbers = [7 + 4973 * k for k in range(scale.asked + 1)]
    api, found = "/api/v1", dict[str, Sequence[str]]()
    for path in _SAME:
        found[path] = [path] * len(numbers)
    for kind, paths, names in (
        ("feed", _OF_SOURCES, [scale.source(n) for n in numbers]),
        ("rule", _OF_RULES, [scale.rule(n) for n in numbers]),
        ("page", _OF_PAGES, [quote(scale.page(n, port), safe="") for n in numbers]),
        ("site", _OF_SITES, [quote(scale.site(n, port), safe="") for n in numbers]),
        ("profile", _OF_PROFILES, [f"p{n % scale.domains:04d}" for n in numbers]),
        ("n", ("/notifications/{}", f"{api}/notifications/{{}}"), [f"n{n % scale.notifications}" for n in numbers]),
        ("word", (f"{api}/items?q=u{{}}",), [str(n) for n in numbers]),
        ("item", _OF_ITEMS, [str(scale.pages + 1 + n * 991 % scale.items) for n in numbers]),
    ):
        for path in paths:
            found[path.replace("{}", f"{{{kind}}}")] = [path.replace("{}", name) for name in names]
    return found


_SAME = (
    *("/", "/read", "/read?view=today", "/read?view=all", "/read?view=starred", "/rules", "/add", "/removed"),
    *("/sites", "/status/public", "/settings", "/profiles", "/profiles/new", "/tokens", "/more", "/sources"),
    *("/sources?sort=items", "/sources?q=s0001", "/sources?failing=true", "/sources?silent=true", "/sources?new=true"),
    *("/sources?paused=true", "/sources?muted=true", "/search", "/search?q=release", "/search?q=%22item+release%22"),
    *("/notifications", "/state", "/state?days=14", "/plan", "/hosts", "/budget", "/docs"),
    *(f"/api/v1/items?view={view}&limit=500" for view in ("unread", "today", "all", "starred")),
    *(f"/api/v1/items?q={words}" for words in ("item", "release+-kernel", "%22item+release+kernel%22", "w1*+harbour")),
    *(
        f"/api/v1/{each}"
        for each in (
            *("plan", "plan?limit=500", "hosts", "advice", "report", "domains", "profiles", "rules", "rules?limit=500"),
            *("sites", "sites?limit=500", "sources", "sources?limit=500", "sources?failing=true", "sources?new=true"),
            *("sources?q=s0001&sort=newest", "notifications", "notifications?limit=500", "webhooks", "tokens"),
            *("deliveries/dead", "suspensions", "moves", "removed", "openapi.json"),
        )
    ),
    *("/metrics", "/readyz"),
)
_OF_SOURCES = (
    *("/sources/{}", "/sources/{}?days=1", "/sources/{}/why", "/sources/{}/change", "/sources/{}/items/1"),
    *("/read?source={}", "/read?view=all&source={}", "/notifications?source={}", "/search?q=item&source={}"),
    *("/api/v1/sources/{}/probes", "/api/v1/sources/{}/items", "/api/v1/sources/{}/items?limit=500"),
    *("/api/v1/sources/{}/items/1", "/api/v1/explain/{}", "/api/v1/items?source={}", "/api/v1/items?q=item&source={}"),
    "/api/v1/notifications?source={}",
)
_OF_RULES = (
    *("/rules/{}", "/rules/{}?days=14", "/rules/{}/change", "/notifications?rule={}", "/api/v1/rules/{}"),
    *("/api/v1/rules/{}/intervals", "/api/v1/notifications?rule={}"),
)
_OF_PAGES = (
    *("/sources/{}", "/sources/{}/history", "/sources/{}/history?from=3&to=45", "/sources/{}/items/20"),
    "/api/v1/sources/{}/items?limit=50",
)
_OF_SITES = ("/sites/{}", "/sources/{}", "/api/v1/sites/{}", "/api/v1/sources/{}/probes?limit=500")
_OF_PROFILES = (
    *("/profiles/{}", "/read?profile={}", "/read?view=today&profile={}", "/read?view=starred&profile={}"),
    *("/sources?profile={}", "/notifications?profile={}", "/api/v1/profiles/{}", "/api/v1/items?profile={}"),
    *("/api/v1/notifications?profile={}", "/api/v1/sources?profile={}&sort=newest"),
)
_OF_ITEMS = ("/read/{}", "/read/{}?view=all", "/api/v1/items/{}")


async def deep(session: aiohttp.ClientSession, base: str, page: str, path: str, asked: int) -> dict[str, Sequence[str]]:
    """Return the addresses of the following parts of a list and of its page, as the cursors of the list lead there."""
    found, shown = [f"{path}limit=500"], [page]
    for _ in range(asked):
        async with session.get(base + found[-1]) as answer:
            cursor = (await answer.json())["next_cursor"]
        if cursor is None:
            break
        found.append(path + urlencode({"limit": 500, "cursor": cursor}))
        shown.append(page + urlencode({"cursor": cursor}))
    return {f"{path}, page after page": found, f"{page}, page after page": shown}


async def measure(session: aiohttp.ClientSession, base: str, name: str, paths: Sequence[str], pid: int) -> Line:
    """Return how long an address takes after its first call: the percentiles of all others."""
    used_s = _used_s(pid, "*")
    taken = [await timed(session, base + path) for path in paths]
    return _line(name, taken, WANTED_S) | {"processor_ms": 1000.0 * (_used_s(pid, "*") - used_s) / len(paths)}


def _line(name: str, taken_s: Sequence[float], wanted_s: float) -> Line:
    later = sorted(taken_s[1:]) or taken_s
    p50_s, p95_s = later[len(later) // 2], later[min(len(later) - 1, int(0.95 * len(later)))]
    times = {"first_ms": 1000.0 * taken_s[0], "p50_ms": 1000.0 * p50_s, "p95_ms": 1000.0 * p95_s}
    return {"what": name, "seconds": sum(taken_s), **times, "ratio": p95_s / wanted_s}


async def timed(session: aiohttp.ClientSession, address: str) -> float:
    """Return how long an address takes; raises where it is refused."""
    began = perf_counter()
    async with session.get(address, allow_redirects=False) as answer:
        await answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{address}: {answer.status} {(await answer.text())[:300]}")
    return perf_counter() - began


@asynccontextmanager
async def watched(base: str, daemon: subprocess.Popen[bytes]) -> AsyncIterator[list[Line]]:
    """Ask ``/healthz`` while the context is open; the list then tells for how long it was silent at most.

    What counts is the processor time of the loop's thread in a request: other programs may be on the processors too.
    """
    found, silent = list[Line](), [(0.0, 0.0)]

    async def ask() -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                used_s, began = _used_s(daemon.pid, daemon.pid), perf_counter()
                await timed(session, f"{base}/healthz")
                silent.append((_used_s(daemon.pid, daemon.pid) - used_s, perf_counter() - began))
                await asyncio.sleep(0.02)

    asking = asyncio.create_task(ask())
    try:
        yield found
    finally:
        asking.cancel()
    used_s, passed_s = max(silent)[0], max(each[1] for each in silent)
    times = {"seconds": passed_s, "processor_ms": 1000.0 * used_s, "ratio": used_s / WANTED_SILENCE_S}
    found.append({"what": "/healthz silent", **times})


def _used_s(pid: int, thread: int | str) -> float:
    """Return the processor time that a thread of a process has used, or ``*``: all that run."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob(f"{thread}/schedstat")) / 1e9


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
    return [_line("first paint of the dashboard", taken, WANTED_PAINT_S)]


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
                await until_planned(session, base)
                wanted = addresses(scale, port)
                for page, path in _LISTS:
                    wanted |= await deep(session, base, page, f"/api/v1{path}", scale.asked)
                async with watched(base, daemon) as silent:
                    chosen = [each for each in wanted.items() if only in each[0]]
                    measured = [await measure(session, base, *each, daemon.pid) for each in chosen]
                size: Line = {"what": "database", "gigabytes": (folder / "bench.db").stat().st_size / 1e9}
                return [size, ready, *measured, *silent, *await first_paint(base, session)]


_LISTS = (
    *(("/sources?", "/sources?"), ("/notifications?", "/notifications?"), ("/search?q=release&", "/items?q=release&")),
    *(("/read?view=all&", "/items?view=all&"), ("/read?view=starred&", "/items?view=starred&")),
    *(("/read?", "/items?view=unread&"), ("/read?profile=p0000&", "/items?view=unread&profile=p0000&")),
)
"""Pages that are lists, and the lists of the API."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sources, for a test that it still runs")
    parser.add_argument("--items", type=int, default=FULL.items, help="how many items there are (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="addresses that hold this text")
    parser.add_argument("--folder", type=Path, help="a new one, which is kept, or one of a run before")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="proxyd-bench-") as name:
        folder = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        scale = QUICK if options.quick else replace(FULL, items=options.items)
        measured = asyncio.run(lines(scale, folder, options.only))
    if options.json:
        print(json.dumps(measured))
    else:
        for line in measured:
            shown = (f"{name} {each:.4g}" if isinstance(each, float) else f"{each}" for name, each in line.items())
            print(", ".join(shown))
    sys.exit(not options.quick and any(float(str(line.get("ratio", 0.0))) > 1.0 for line in measured))


if __name__ == "__main__":
    main()
