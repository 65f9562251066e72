"""Verbs that talk to the running daemon through its Unix socket."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from proxyd.cli.sockets import socket_of
from proxyd.client import Client, StreamEvent, UnreachableError
from proxyd.config import load
from proxyd.net import one_line

_SHOWN = 60


def plan(options: argparse.Namespace) -> int:
    """Print the coming probes."""
    probes = ask(options, lambda client: client.plan(limit=options.limit))
    if options.json:
        print(json.dumps(probes, indent=2))
        return 0
    rows = [[p["at"], p["source"], p["reason"], p["rule"] or "-", f"{p['rate_per_day']:.2f}"] for p in probes]
    table(["at", "source", "reason", "rule", "items/day"], rows)
    return 0


def sources(options: argparse.Namespace) -> int:
    """List the sources and how their last probe ended."""
    found = ask(options, lambda client: client.sources())
    if options.failing:
        found = [source for source in found if source["failures"]]
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    rows = []
    for source in found:
        planned = source["next_probe"]
        at, reason = (planned["at"], planned["reason"]) if planned else ("-", source["blocked_by"] or "-")
        last = f"{source['last_outcome'] or '-'} {source['last_detail'] if source['failures'] else ''}".strip()
        rows.append([source["source"], f"{source['rate_per_day']:.2f}", at, reason, str(source["failures"]), last])
    table(["source", "items/day", "next probe", "reason", "failures", "last outcome"], rows)
    return 0


def rules(options: argparse.Namespace) -> int:
    """List the rules and what became of their execution intervals."""
    found = _rules_of(ask(options, lambda client: client.profiles()))
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    rows = []
    for rule in found:
        shares = ["-" if rule[key] is None else f"{rule[key]:.3f}" for key in ("completeness", "utility")]
        rows.append([rule["rule"], ", ".join(rule["profiles"]), str(rule["captured"]), str(rule["missed"]), *shares])
    table(["rule", "profiles", "captured", "missed", "completeness", "utility"], rows)
    return 0


def _rules_of(profiles: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each rule once, by name, with the profiles that it is in."""
    rules: dict[str, dict[str, Any]] = {}
    for profile in profiles:
        for rule in profile["rules"]:
            achieved = {key: rule[key] for key in ("captured", "missed", "completeness", "utility")}
            one = rules.setdefault(rule["name"], {"rule": rule["name"], "profiles": [], **achieved})
            one["profiles"].append(profile["name"])
    return [rules[name] for name in sorted(rules)]


def explain(options: argparse.Namespace) -> int:
    """Say when a source is probed next, and why."""
    answer = ask(options, lambda client: client.explain(options.source))
    if options.json:
        print(json.dumps(answer, indent=2))
        return 0
    for line in answer["summary"]:
        print(line)
    return 0


def notifications(options: argparse.Namespace) -> int:
    """List notifications, newest first, or print them as they come."""
    if options.follow:
        return _follow(options)
    o = options
    found = ask(
        o,
        lambda c: c.notifications(limit=o.limit, rule=o.rule, profile=o.profile, source=o.source, since=o.since),
    )
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    rows = []
    for item in found:
        ways = [f"{d['state']} ({d['attempts']}) {d['endpoint']}" for d in item["deliveries"]]
        states = ", ".join(ways) or "not sent anywhere"
        late = "late" if item["late"] else ""
        rows.append([item["created"], item["id"], item["rule"], item["source"], late, _first(item["body"]), states])
    table(["created", "id", "rule", "source", "late", "first row", "deliveries"], rows)
    return 0


def _follow(options: argparse.Namespace) -> int:
    async def follow(client: Client) -> None:
        stream = client.stream(last=options.after, rule=options.rule, profile=options.profile, source=options.source)
        async with aclosing(stream) as events:
            async for event in events:
                print(_line(event, as_json=options.json), flush=True)

    ask(options, follow)
    return 0


def _line(event: StreamEvent, *, as_json: bool) -> str:
    """Return a notification in a line: JSON with its position, or what it is about."""
    if as_json:
        return json.dumps({"position": event.position} | event.body)
    data = event.body["data"]
    late = "  late" if data["late"] else ""
    return f"{event.body['timestamp']}  {data['id']}  {data['rule']}  {data['source']}{late}  {_first(event.body)}"


def _first(body: dict[str, Any]) -> str:
    """Return the first row of what a rule found in a few words, on one line."""
    values = [str(value) for row in body["data"].get("items", ())[:1] for value in row.values() if value is not None]
    return one_line(", ".join(values), _SHOWN)


def show_notification(options: argparse.Namespace) -> int:
    """Print all that led to a notification, and what became of it."""
    found = ask(options, lambda client: client.notification(options.id))
    print(json.dumps(found, indent=2) if options.json else "\n".join(found["summary"]))
    return 0


def reload(options: argparse.Namespace) -> int:
    """Check the profiles and swap them in."""
    ok = ask(options, lambda client: client.reload())
    print("reloaded" if ok else "the profiles have errors; nothing was changed (`proxyd check` names them)")
    return 0 if ok else 1


def create_token(options: argparse.Namespace) -> int:
    """Make a token and print it alone, through the daemon where one runs, else in the database it left."""
    try:
        token = ask(options, lambda c: c.create_token(options.name, options.scope, expires_s=options.expires))
    except UnreachableError:
        token = None
    if token is None:
        from proxyd import app

        settings = load(options.config)
        token = asyncio.run(app.create_token(settings, options.name, options.scope, expires_in_s=options.expires))
    print(token)
    return 0


def webhooks(options: argparse.Namespace) -> int:
    """List the webhooks, and whether they have shown that they are there."""
    found = ask(options, lambda client: client.webhooks())
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    head = ["endpoint", "form", "state", "since", "refused by 410 for", "detail"]
    table(head, [[*(each[n] for n in head[:4]), ", ".join(each["refused"]), each["detail"]] for each in found])
    return 0


def test_deliveries(options: argparse.Namespace) -> int:
    """Send a test message wherever a rule delivers; exit 1 if one was not accepted."""
    results = ask(options, lambda client: client.test_deliveries(options.rule))
    for result in results:
        print(f"{result['endpoint']}: {result['error'] or 'accepted'}")
    if not results:
        print("the rule delivers nothing anywhere: it has no DELIVERY")
    return 0 if results and all(result["error"] is None for result in results) else 1


def replay(options: argparse.Namespace) -> int:
    """Send a notification again, or all that were given up."""
    count = ask(options, lambda client: client.replay(None if options.dead else options.id))
    print(f"{count} deliveries will be made again")
    return 0


def ask(options: argparse.Namespace, question: Callable[[Client], Awaitable[Any]]) -> Any:
    """Return what the running daemon answers to a question."""
    settings = load(options.config)

    async def ask() -> Any:
        async with Client.over_socket(socket_of(settings)) as client:
            return await question(client)

    return asyncio.run(ask())


def table(head: list[str], rows: list[list[str]]) -> None:
    """Print rows under a head, as wide as they need to be."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
