"""Verbs about sources, their probes and the plan."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from proxyd.cli.printed_answers import about, ask, print_answer, print_list
from proxyd.core.errors import NotFoundError
from proxyd.terminal.verbs import ASKING, URL, argument, flag, limit, one_of, require_extra, verb

if TYPE_CHECKING:
    from proxyd.client.client import Client
    from proxyd.client.types import ItemEvent, ItemFates, ItemFound, ProbeMade, SourceListed

_T = TypeVar("_T")
_MOST_NAMED = 10
_OF_NEW = ("first contact", "first day")  # the reasons of probes of a source whose rate is hardly known
_SOURCE_NAMED = "name or address of the source, or name of a rule with one source"
_SOURCE = argument("source", _SOURCE_NAMED)


@verb(
    "top",
    "proxyd top",
    "proxyd top --once",
    takes=[flag("--once", "print it once and exit (the default without a terminal)"), URL],
)
async def top(options: argparse.Namespace) -> int:
    """Show the daemon live: health, coming probes, failing sources and news; find a source and open it."""
    require_extra("rich", "terminal")
    from proxyd.cli.top import show_top

    await show_top(options)
    return 0


@verb("hosts", "proxyd hosts", "proxyd hosts --json", takes=[limit(1000, most=100_000), *ASKING])
def hosts(options: argparse.Namespace) -> int:
    """List the hosts: how they answer, and until when each wants no probe."""
    return print_list(
        options,
        ask(options, lambda client: client.hosts(limit=options.limit)),
        ["host", "requests", "answers", "throttled", "failed", "last", "spacing", "free", "wants none until"],
        lambda h: [
            h["host"],
            *(str(h[name]) for name in ("requests", "answers", "throttles", "failures")),
            h["last_outcome"] if h["last_status"] is None else f"{h['last_outcome']} ({h['last_status']})",
            about(h["spacing_s"]),
            h["free"] or "now",
            h["throttled_until"] or "-",
        ],
        empty="no host has been asked since the daemon started",
    )


@verb("sites", "proxyd sites", "proxyd sites --json", takes=[limit(1000, most=100_000), *ASKING])
def sites(options: argparse.Namespace) -> int:
    """List the sites: whether each is up, its uptime, and when its certificate and its domain expire."""
    from proxyd.core.rules.stages.site_uptime import uptime_text

    return print_list(
        options,
        ask(options, lambda client: client.sites(limit=options.limit)),
        ["site", "state", "since", "24 h", "7 days", "90 days", "answers in", "certificate", "domain"],
        lambda s: [
            s["name"] if s["title"] == s["name"] else f"{s['title']} ({s['name']})",
            f"in maintenance {s['detail']}" if s["state"] == "maintenance" else s["state"],
            s["since"] or "-",
            *(uptime_text(s["uptime"][name]) for name in ("day", "week", "quarter")),
            "-" if s["latency_s"] is None else about(s["latency_s"]),
            *((s["expires"][name] or "-")[:10] for name in ("certificate", "domain_expires")),
        ],
        empty="no site is watched; write WATCH 'https://example.org' OF SITE",
    )


@verb("plan", "proxyd plan --limit 10", takes=[limit(50, most=500), *ASKING])
def plan(options: argparse.Namespace) -> int:
    """Print the coming probes of the running daemon."""
    probes = ask(options, lambda client: client.plan(limit=options.limit))
    return print_list(
        options,
        probes,
        ["at", "source", "reason", "rule", "items/day"],
        lambda p: [
            p["at"],
            p["source"],
            p["reason"],
            p["rule"] or "-",
            _rate(p["rate_per_day"], is_learning=p["reason"] in _OF_NEW),
        ],
        empty="no probe is planned",
    )


@verb(
    "sources",
    "proxyd sources",
    "proxyd sources --failing --json",
    "proxyd sources --match kernel --sort newest",
    takes=[
        flag("--failing", "only sources whose last probe failed"),
        flag("--silent", "only sources that show no items, or a field without a value"),
        argument("--match", "only sources with this text in their name or address", metavar="TEXT", default=""),
        argument(
            "--sort",
            "by name, or the newest item, the last probe or the most items first",
            choices=["name", "newest", "probed", "items"],
            default="name",
        ),
        *ASKING,
    ],
)
def sources(options: argparse.Namespace) -> int:
    """List the sources and how their last probe ended."""
    found = ask(
        options,
        lambda client: client.sources(
            failing=options.failing, silent=options.silent, text=options.match, order=options.sort
        ),
    )
    head = ["source", "items/day", "next probe", "reason", "failures", "last outcome"]
    is_part = options.failing or options.silent or options.match
    empty = "no such source" if is_part else "nothing is watched; `proxyd add ADDRESS` watches a feed or a page"
    return print_list(options, found, head, _source_row, empty=empty)


def _source_row(source: SourceListed) -> list[str]:
    planned = source["next_probe"]
    at, reason = (planned["at"], planned["reason"]) if planned else ("-", source["blocked_by"] or "-")
    return [
        source["source"],
        shown_rate(source),
        at,
        reason,
        str(source["failures"]),
        last_outcome(source),
    ]


def shown_rate(source: SourceListed) -> str:
    """Return the items a day; of a new source nothing is known, and the figure would be that of the other sources."""
    return _rate(source["rate_per_day"], is_learning=source["learning"])


def _rate(per_day: float, *, is_learning: bool) -> str:
    return "learning" if is_learning else f"{per_day:.2f}"


def last_outcome(source: SourceListed, most: int = 2000) -> str:
    """Return how the last probe of a source ended, and what its document lacks."""
    last = f"{source['last_outcome'] or 'new'} {(source['last_detail'] or '')[:most] if source['failures'] else ''}"
    missing = ", ".join(each["field"] for each in source["silent"][:_MOST_NAMED])
    return f"{last.strip()}; no {missing}" if missing else last.strip()


def _ask_of_source(options: argparse.Namespace, question: Callable[[Client, str], Awaitable[_T]]) -> _T:
    """Return the daemon's answer about a source that is given by its name, its address, or a rule on it alone."""
    from proxyd.client import ApiError

    async def ask_of(client: Client) -> _T:
        try:
            return await question(client, options.source)
        except ApiError as unknown:
            named = await _sources_meant(client, options.source) if unknown.status == 404 else []
            if len(named) != 1:
                raise
            return await question(client, named[0])

    return ask(options, ask_of)


async def _sources_meant(client: Client, written: str) -> Sequence[str]:
    """Return the names of the sources at an address, or that of a rule with one source."""
    from proxyd.client import ApiError

    if "://" in written:
        return [each["source"] for each in await client.sources(text=written) if each["url"] == written]
    try:
        rule = await client.rule(written)
    except ApiError:
        return []
    return rule["sources"] if rule["source_count"] == 1 else []


@verb("probes", "proxyd probes python --limit 5", takes=[_SOURCE, limit(20, most=10_000), *ASKING])
def probes(options: argparse.Namespace) -> int:
    """List the recent probes of a source, with the reason and the outcome of each."""
    found = _ask_of_source(options, lambda client, source: client.probes(source, limit=options.limit))
    head = ["started", "took", "reason", "rule", "items", "mean delay", "outcome"]
    empty = "no probe in the last week; `proxyd explain` says why and when the next one is"
    return print_list(options, found, head, _probe_row, empty=empty)


def _probe_row(probe: ProbeMade) -> list[str]:
    delay = "-" if probe["delay_s"] is None else about(probe["delay_s"])
    came = f"{probe['outcome']} {probe['detail']}".strip()
    took = about(probe["duration_s"])
    return [probe["started"], took, probe["reason"], probe["rule"] or "-", str(probe["items"]), delay, came]


@verb(
    "items",
    "proxyd items python --limit 5",
    "proxyd items --unread",
    takes=[
        argument("source", f"{_SOURCE_NAMED}; without one the items of all sources are listed", nargs="?"),
        one_of(
            flag("--unread", "only unread items"),
            flag("--today", "only items that came today"),
            flag("--starred", "only starred items"),
            required=False,
        ),
        limit(20, most=10_000),
        *ASKING,
    ],
)
def items(options: argparse.Namespace) -> int:
    """List the newest items of a source, with what changed and what went away; or those of all sources."""
    views: tuple[Literal["unread", "today", "starred"], ...] = ("unread", "today", "starred")
    view = next((each for each in views if getattr(options, each)), None)

    async def find(client: Client, source: str | None) -> Sequence[ItemFound]:
        if source is not None:
            await client.items(source, limit=1)  # an unknown name is an error, not a source without items
        return await client.find_items(view=view or "all", source=source, limit=options.limit)

    if options.source is None or view is not None:
        listed = _ask_of_source(options, find) if options.source else ask(options, lambda client: find(client, None))
        return print_list(options, listed, ["seen", "source", "item", "link"], _found_row, empty="no such item")
    found = _ask_of_source(options, lambda client, source: client.items(source, limit=options.limit))
    empty = "no item yet; `proxyd explain` says when the next probe is"
    return print_list(options, found, ["seen", "published", "", "item", "link"], _item_row, empty=empty)


def _item_row(event: ItemEvent) -> list[str]:
    return [event["seen"], event["came"] or "-", *item_title(event), event["link"] or "-"]


def item_title(event: ItemEvent) -> tuple[str, str]:
    """Return what happened to an item, in a word, and its title with what changed of it."""
    news = "first" if event["first"] else "old" if event["old"] else "new"
    happened = {"insert": news, "update": "changed", "delete": "gone"}.get(event["kind"], event["kind"])
    changes = [_change(name, change) for name, change in event["changes"].items()]
    return happened, "; ".join([event["title"] or event["id"], *changes])


def _change(name: str, change: dict[str, Any]) -> str:
    if "to" not in change:
        return f"{name} changed"
    old, new = ("no value" if change[side] is None else change[side] for side in ("from", "to"))
    return f"{name}: {old} → {new}"


@verb(
    "search",
    "proxyd search kubernetes release",
    "proxyd search '\"long term\" -beta' --source kernel",
    takes=[
        argument("words", "words that an item must have", nargs="+"),
        argument("--source", "only items of this source", metavar="NAME"),
        limit(20, most=10_000),
        *ASKING,
    ],
)
def search(options: argparse.Namespace) -> int:
    """Search the items that sources have shown, those seen last first.

    All words must be there. "so and so" in quotes are words that follow each other, word* is the beginning of a word,
    and -word must not be there.
    """
    words = " ".join(options.words)
    found = ask(options, lambda client: client.find_items(words, source=options.source, limit=options.limit))
    return print_list(options, found, ["seen", "source", "item", "link"], _found_row, empty="no item has these words")


def _found_row(item: ItemFound) -> list[str]:
    title = (item["title"] or item["id"]) + (f": {item['text']}" if item["update"] and item["text"] else "")
    return [item["seen"], item["source"], f"{title} (gone)" if item["gone"] else title, item["link"] or "-"]


@verb(
    "explain",
    "proxyd explain python",
    "proxyd explain python --item 3.15",
    takes=[
        _SOURCE,
        argument("--item", "why each rule told of this item or did not: words of its title, or its id", metavar="TEXT"),
        *ASKING,
    ],
)
def explain(options: argparse.Namespace) -> int:
    """Explain when a source is probed next and why, or why you were told of an item or not."""
    if options.item is not None:
        told = _ask_of_source(options, lambda client, source: _explain_item(client, source, options.item))
        return print_answer(options, told, _lines_of_item(told))
    answer = _ask_of_source(options, lambda client, source: client.explain(source))
    return print_answer(options, answer, answer["summary"])


_MOST_LOOKED_AT = 500


async def _explain_item(client: Client, source: str, words: str) -> ItemFates:
    """Return what the rules made of the newest item that has some words in its title, or this id."""
    wanted = words.casefold()
    for each in await client.items(source, limit=_MOST_LOOKED_AT):
        if wanted in each["title"].casefold() or words == each["id"]:
            return await client.explain_item(source, each["position"])
    raise NotFoundError(f"none of the newest {_MOST_LOOKED_AT} items of {source} has {words!r} in its title")


def _lines_of_item(told: ItemFates) -> list[str]:
    item = told["item"]
    lines = [item["title"] or item["id"], f"seen {item['seen']}"]
    for each in told["rules"]:
        lines += [f"{each['rule']}: {each['fate']}", *(f"  {line}" for line in each["why"])]
    return lines if told["rules"] else [*lines, "no rule reads its source"]
