"""Verbs about notifications and their deliveries."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING

from proxyd.cli.printed_answers import ask, first_row, print_answer, print_json, print_lines, print_list, print_told
from proxyd.core.texts.safe_text import visible
from proxyd.terminal.verbs import ASKING, URL, Argument, Verb, argument, duration, flag, limit, one_of, verb, whole

if TYPE_CHECKING:
    from proxyd.client import Client, StreamEvent
    from proxyd.client.types import DeadLetter, NotificationListed, TestResult, WebhookShown

TIMED_OUT = 124  # as `timeout` exits
_LISTED = [
    *(argument(f"--{name}", f"only of this {name}", metavar="NAME") for name in ("rule", "profile", "source")),
    argument("--since", "only those made since this time, such as 2026-01-31T12:00:00Z", metavar="TIME"),
    limit(20, most=100_000),
    flag("--follow", "print new ones as they arrive, until interrupted"),
    argument(
        "--after",
        "with --follow: start after the notification at this position",
        type=whole(0, 2**63 - 1),
        metavar="POSITION",
    ),
    URL,
    flag("--json", "print JSON; with --follow, a line for each"),
]


@verb(
    "notifications",
    "proxyd notifications --rule stable --since 2026-01-31T12:00:00Z",
    "proxyd notifications --follow --json",
    takes=_LISTED,
)
def notifications(options: argparse.Namespace) -> int:
    """List notifications, newest first, or follow them."""
    if options.follow:
        return _follow(options)
    o = options
    found = ask(
        o, lambda c: c.notifications(limit=o.limit, rule=o.rule, profile=o.profile, source=o.source, since=o.since)
    )
    is_part = any((o.rule, o.profile, o.source, o.since))
    head = ["created", "id", "rule", "source", "marks", "first row", "deliveries"]
    return print_list(options, found, head, _row, empty="no such notification" if is_part else "no notification yet")


def _row(item: NotificationListed) -> list[str]:
    ways = [f"{each['state']} ({each['attempts']}) {each['endpoint']}" for each in item["deliveries"]]
    late = ", ".join(mark for mark in ("late", "muted", "limited") if item[mark])
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
                    print_told(options, [_line(event)])

    ask(options, follow)
    return 0


@verb(
    "wait",
    "proxyd wait stable --timeout 10m",
    "proxyd wait stable --since 2026-01-31T12:00:00Z",
    takes=[
        argument("rule", "name of the rule"),
        argument("--timeout", "longest wait (default: for ever)", type=duration, metavar="10m"),
        argument(
            "--after",
            "also what came after the notification at this position",
            type=whole(0, 2**63 - 1),
            metavar="POSITION",
        ),
        argument("--since", "also what was told since this time, such as 2026-01-31T12:00:00Z", metavar="TIME"),
        *ASKING,
    ],
)
def wait(options: argparse.Namespace) -> int:
    """Wait until a rule fires, and print what it tells; after the timeout, exit with 124."""
    import asyncio

    async def wait_for_one(client: Client) -> StreamEvent | None:
        await client.rule(options.rule)  # names its like if there is none; the stream would wait for it
        try:
            async with (
                asyncio.timeout(options.timeout),
                aclosing(client.stream(last=options.after, rule=options.rule, since=options.since)) as events,
            ):
                async for event in events:
                    return event
        except TimeoutError:
            pass
        return None

    event = ask(options, wait_for_one)
    if event is None:
        print(visible(f"{options.rule} did not fire"), file=sys.stderr)  # scripts read what fired
        return TIMED_OUT
    if options.json:
        print(json.dumps({"position": event.position} | event.body))
    else:
        print_told(options, [_line(event)])
    return 0


def _line(event: StreamEvent) -> str:
    """Return one line about a notification."""
    data = event.body["data"]
    marks = "".join(f"  {mark}" for mark in ("late", "muted", "limited") if data.get(mark))
    return f"{event.body['timestamp']}  {data['id']}  {data['rule']}  {data['source']}{marks}  {first_row(event.body)}"


def _or_above(option: Argument) -> Argument:
    """Return an option that keeps its value from before `show` unless it is given again."""

    def add(parser: argparse.ArgumentParser) -> None:
        option(parser).default = argparse.SUPPRESS

    return add


@verb(
    "notifications show",
    "proxyd notifications show ntf_0123456789abcdef",
    takes=[argument("id", "id of the notification"), *map(_or_above, ASKING)],
)
def show(options: argparse.Namespace) -> int:
    """Explain a notification: what led to it and what became of it."""
    found = ask(options, lambda client: client.notification(options.id))
    return print_answer(options, found, found["summary"])


WEBHOOK = Verb("webhook", "list and test webhooks, and send again what was given up", ["proxyd webhook test stable"])


@verb("webhook list", "proxyd webhook list", takes=ASKING)
def webhooks(options: argparse.Namespace) -> int:
    """List the webhooks, and whether they answered their ping."""
    found = ask(options, lambda client: client.webhooks())
    head = ["endpoint", "form", "state", "since", "rejected rules", "detail"]
    return print_list(options, found, head, _webhook_row, empty="there is no webhook")


def _webhook_row(hook: WebhookShown) -> list[str]:
    refused = ", ".join(hook["refused"])
    return [hook["endpoint"], hook["form"], hook["state"], hook["since"], refused, hook["detail"] or ""]


@verb("webhook test", "proxyd webhook test stable", takes=[argument("rule", "name of the rule"), *ASKING])
def test(options: argparse.Namespace) -> int:
    """Send a test message to every endpoint of a rule."""
    results = ask(options, lambda client: client.test_deliveries(options.rule))
    if results or options.json:
        return _print_tests(options, results)
    print("the rule has no DELIVERY, so nothing is sent")
    return 1


def _print_tests(options: argparse.Namespace, results: list[TestResult]) -> int:
    if options.json:
        print_json(results)
    else:
        print_lines(f"{each['endpoint']}: {_outcome(each)}" for each in results)
    return 0 if results and all(result["error"] is None for result in results) else 1


def _outcome(tested: TestResult) -> str:
    return tested["error"] or f"accepted ({tested['answer']})"


RECEIVER = Verb("receiver", "list and test receivers that have names", ["proxyd receiver test team"])


@verb("receiver list", "proxyd receiver list", takes=ASKING)
def receivers(options: argparse.Namespace) -> int:
    """List the receivers that have names, without the addresses of chats."""
    from proxyd.core.language.hidden_addresses import hide_channels

    found = ask(options, lambda client: client.receivers())
    head, empty = ["name", "declared by", "text"], 'no receiver has a name; declare one with CREATE RECEIVER "team" AS'
    return print_list(
        options,
        found,
        head,
        lambda each: [each["name"], each["declared_by"], " ".join(hide_channels(each["text"]).split())],
        empty=empty,
    )


@verb("receiver test", "proxyd receiver test team", takes=[argument("name", "name of the receiver"), *ASKING])
def test_receiver(options: argparse.Namespace) -> int:
    """Send a test message to every address of a receiver, and print what each answers."""
    return _print_tests(options, ask(options, lambda client: client.test_receiver(options.name)))


@verb("webhook dead", "proxyd webhook dead", takes=[limit(50, most=100_000), *ASKING])
def dead(options: argparse.Namespace) -> int:
    """List the deliveries that were given up, newest first."""
    found = ask(options, lambda client: client.dead_letters(limit=options.limit))
    head = ["given up", "notification", "rule", "endpoint", "attempts", "last error"]
    notes = ["", "`proxyd webhook replay --dead` sends all of them again"]
    return print_list(options, found, head, _dead_row, empty="no delivery was given up", notes=notes)


def _dead_row(letter: DeadLetter) -> list[str]:
    attempts, error = str(letter["attempts"]), letter["last_error"] or "-"
    return [letter["done"] or "-", letter["notification"], letter["rule"], letter["endpoint"], attempts, error]


@verb(
    "webhook replay",
    "proxyd webhook replay ntf_0123456789abcdef",
    "proxyd webhook replay --dead",
    takes=[
        one_of(argument("id", "id of the notification", nargs="?"), flag("--dead", "every delivery that was given up")),
        *ASKING,
    ],
)
def replay(options: argparse.Namespace) -> int:
    """Send a notification again, or all that were given up."""
    answer = ask(options, lambda client: client.replay_dead() if options.dead else client.replay(options.id))
    return print_answer(options, answer, [f"deliveries that are sent again: {answer['deliveries']}"])
