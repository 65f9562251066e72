"""The verb that probes an address once: for writing a profile, and for diagnosing a source."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from proxyd.cli.printed_answers import client_of, print_answer, print_json, print_lines, settings_of
from proxyd.core.texts.safe_text import visible, visible_line
from proxyd.terminal.verbs import ASKING, argument, flag, verb

if TYPE_CHECKING:
    from proxyd.client.types import ProbeAsked
    from proxyd.core.model.item import Item
    from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
    from proxyd.probing.http.fetcher import Exchange, ProbeTrace

_SHOWN = 10
_LINE = 160
_SECRET_HEADERS = frozenset({"set-cookie"})


@verb(
    "probe",
    "proxyd probe https://github.com/python/cpython/releases.atom",
    "proxyd probe python --debug",
    "proxyd probe python --now",
    takes=[
        argument("target", "address of a feed, or name of a declared source (read as its class says)"),
        flag("--debug", "also show the head of every request and response"),
        flag("--now", "have the daemon probe it, or the sources of a rule or a profile, as soon as politeness allows"),
        *ASKING,
    ],
)
async def probe(options: argparse.Namespace) -> int:
    """Probe an address or a source once, without a daemon."""
    from proxyd.app.network import probe_once, request_of
    from proxyd.cli.local_profiles import api_texts
    from proxyd.probing.http.fetcher import ProbeTrace

    if options.now:
        async with client_of(options) as client:
            asked = await client.probe(options.target)
        return print_answer(options, asked, (_line_of_request(each) for each in asked))
    settings, trace = settings_of(options), ProbeTrace()
    request = request_of(settings, options.target, api_texts(settings))
    outcome = await probe_once(settings, request, trace)
    if options.json:
        print_json(_entry(request, outcome, trace, debug=options.debug))
    else:
        _print(request, outcome, trace, debug=options.debug)
    return 0 if outcome.kind.is_success else 1


def _line_of_request(asked: ProbeAsked) -> str:
    """Return when a probe that was asked for is made, and what it waits for."""
    if asked["under_way"]:
        return f"{asked['source']}: it is being probed"
    waits = f"; {asked['waits_for']} allows it no sooner" if asked["waits_for"] else ""
    return f"{asked['source']}: it is probed at {asked['at']}{waits}"


def _entry(request: ProbeRequest, outcome: ProbeOutcome, trace: ProbeTrace, *, debug: bool) -> dict[str, object]:
    entry: dict[str, object] = {
        "outcome": outcome.kind.value,
        "detail": outcome.detail,
        "status": outcome.status,
        "url": trace.exchanges[-1].url if trace.exchanges else request.url,
        "requests": outcome.requests,
        "seconds": round(outcome.finished_s - outcome.started_s, 3),
        "body_bytes": outcome.body_bytes,
        "etag": outcome.validators.etag,
        "last_modified": outcome.validators.last_modified,
        "retry_after_s": outcome.retry_after_s,
        "fresh_for_s": outcome.fresh_for_s,
        "period_s": outcome.period_s,
        "permanent_url": outcome.permanent_url,
        "hubs": [] if outcome.hub_links is None else list(outcome.hub_links.hubs),
        "topic": None if outcome.hub_links is None else outcome.hub_links.topic,
        "items": [_item(item) for item in outcome.items],
        "statement": watch_statement(outcome) if outcome.items and request.page_class is None else None,
    }
    if debug:
        entry["exchanges"] = [
            {
                "method": e.method,
                "url": e.url,
                "sent": list(e.sent.items()),
                "status": e.status,
                "received": _shown(e.received),
            }
            for e in trace.exchanges
        ]
    return entry


def _item(item: Item) -> dict[str, object]:
    return {
        "id": item.item_id,
        "published": _time(item.published_s),
        "title": item.fields.get("channel.item.title"),
        "link": item.fields.get("channel.item.link"),
        "fields": {path: value for path, value in item.fields.items() if not path.startswith("channel.")},
    }


def _print(request: ProbeRequest, outcome: ProbeOutcome, trace: ProbeTrace, *, debug: bool) -> None:
    from proxyd.core.model.outcome import OutcomeKind

    if debug:
        for exchange in trace.exchanges:
            _print_exchange(exchange)
    seconds = outcome.finished_s - outcome.started_s
    print_lines([f"{outcome.kind.value}: {outcome.detail}"])
    print(f"requests: {outcome.requests}, bytes: {outcome.body_bytes}, seconds: {seconds:.2f}")
    print_lines(f"{name}: {value}" for name, value in _notes(outcome))
    print_lines(f"  {_line(item)}" for item in outcome.items[:_SHOWN])
    if len(outcome.items) > _SHOWN:
        print(f"  and {len(outcome.items) - _SHOWN} more")
    if outcome.items and request.page_class is None:
        print(visible(watch_statement(outcome)))
    if outcome.kind is OutcomeKind.NOT_A_FEED and request.page_class is None:
        told = f"to follow its text: `{shlex.join(['proxyd', 'add', request.url])}`, or {_watch_of_page(request.url)}"
        print_lines([told, "a class whose fields have FROM reads values or rows of it (docs/language.md)"])


def _watch_of_page(url: str) -> str:
    from proxyd.core.language.watch_wishes import WatchWish, watch_text

    return watch_text(WatchWish(url, "PAGE"))


def _line(item: Item) -> str:
    """Return an item in one line: a feed item's time and title, or a page item's fields."""
    if "channel.item.title" in item.fields:
        return f"{_time(item.published_s) or 'no time':20}  {item.fields['channel.item.title'] or item.item_id}"
    return visible_line(", ".join(f"{path}={value}" for path, value in item.fields.items()), _LINE)


def _notes(outcome: ProbeOutcome) -> list[tuple[str, str]]:
    values = [
        ("ETag", outcome.validators.etag),
        ("Last-Modified", outcome.validators.last_modified),
        ("asks to wait", _seconds(outcome.retry_after_s)),
        ("fresh for", _seconds(outcome.fresh_for_s)),
        ("says it changes every", _seconds(outcome.period_s)),
        ("moved for good to", outcome.permanent_url),
        ("hubs", None if outcome.hub_links is None else ", ".join(outcome.hub_links.hubs)),
    ]
    return [(name, value) for name, value in values if value is not None]


def _print_exchange(exchange: Exchange) -> None:
    print_lines([f"> {exchange.method} {exchange.url}"])
    print_lines(f"> {name}: {value}" for name, value in exchange.sent.items())
    print(f"< {exchange.status or 'no response'}")
    print_lines(f"< {name}: {value}" for name, value in _shown(exchange.received))


def _shown(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return a response's headers without secrets; those of the request have none."""
    from proxyd.probing.http.fetcher import HIDDEN

    return [(name, HIDDEN if name.lower() in _SECRET_HEADERS else value) for name, value in headers]


def watch_statement(outcome: ProbeOutcome) -> str:
    """Return a statement that watches this feed."""
    from proxyd.core.language.syntax.quoting import quote_name, quote_text

    title = str(outcome.items[0].fields.get("channel.title") or urlsplit(outcome.source_id).hostname or "source")
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "source"
    url = outcome.permanent_url or outcome.source_id
    return f"WATCH {quote_text(url)} AS {quote_name(name)};"


def _time(time_s: float | None) -> str | None:
    try:
        return None if time_s is None else datetime.fromtimestamp(time_s, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return None


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:g} s"
