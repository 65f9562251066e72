"""Verbs about notifications."""

from __future__ import annotations

import argparse
import json
from contextlib import aclosing

from proxyd.cli.asking import ask
from proxyd.cli.printing import first_row, print_json, print_lines
from proxyd.client import Client, StreamEvent
from proxyd.client.types import NotificationListed
from proxyd.terminal.tables import print_table


def notifications(options: argparse.Namespace) -> int:
    """List notifications, newest first, or print them as they arrive."""
    if options.follow:
        return _follow(options)
    o = options
    found = ask(
        o,
        lambda c: c.notifications(limit=o.limit, rule=o.rule, profile=o.profile, source=o.source, since=o.since),
    )
    if options.json:
        print_json(found)
        return 0
    head = ["created", "id", "rule", "source", "late", "first row", "deliveries"]
    print_table(head, [_row(notification) for notification in found])
    return 0


def _row(item: NotificationListed) -> list[str]:
    ways = [f"{each['state']} ({each['attempts']}) {each['endpoint']}" for each in item["deliveries"]]
    late = "late" if item["late"] else ""
    states = ", ".join(ways) or "not sent anywhere"
    return [item["created"], item["id"], item["rule"], item["source"], late, first_row(item["body"]), states]


def _follow(options: argparse.Namespace) -> int:
    async def follow(client: Client) -> None:
        stream = client.stream(last=options.after, rule=options.rule, profile=options.profile, source=options.source)
        async with aclosing(stream) as events:
            async for event in events:
                if options.json:
                    print(json.dumps({"position": event.position} | event.body), flush=True)
                else:
                    print_lines([_line(event)])

    ask(options, follow)
    return 0


def _line(event: StreamEvent) -> str:
    """Return one line about a notification."""
    data = event.body["data"]
    late = "  late" if data["late"] else ""
    return f"{event.body['timestamp']}  {data['id']}  {data['rule']}  {data['source']}{late}  {first_row(event.body)}"


def show(options: argparse.Namespace) -> int:
    """Print everything that led to a notification, and its deliveries."""
    found = ask(options, lambda client: client.notification(options.id))
    if options.json:
        print_json(found)
    else:
        print_lines(found["summary"])
    return 0
