"""Verbs about webhooks and other deliveries."""

from __future__ import annotations

import argparse

from proxyd.cli.asking import ask
from proxyd.cli.printing import print_json, print_lines
from proxyd.terminal.tables import print_table


def webhooks(options: argparse.Namespace) -> int:
    """List the webhooks, and whether they have answered their ping."""
    found = ask(options, lambda client: client.webhooks())
    if options.json:
        print_json(found)
        return 0
    head = ["endpoint", "form", "state", "since", "refused by 410 for", "detail"]
    rows = [
        [w["endpoint"], w["form"], w["state"], w["since"], ", ".join(w["refused"]), w["detail"] or ""] for w in found
    ]
    print_table(head, rows)
    return 0


def test(options: argparse.Namespace) -> int:
    """Send a test message to every endpoint of a rule; exit 1 if one was not accepted."""
    results = ask(options, lambda client: client.test_deliveries(options.rule))
    if options.json:
        print_json(results)
    elif results:
        print_lines(f"{result['endpoint']}: {result['error'] or 'accepted'}" for result in results)
    else:
        print("the rule has no DELIVERY, so nothing is sent")
    return 0 if results and all(result["error"] is None for result in results) else 1


def dead(options: argparse.Namespace) -> int:
    """List the dead deliveries."""
    found = ask(options, lambda client: client.dead_letters(limit=options.limit))
    if options.json:
        print_json(found)
    elif found:
        head = ["given up", "notification", "rule", "endpoint", "attempts", "last error"]
        rows = [
            [d["done"] or "-", d["notification"], d["rule"], d["endpoint"], str(d["attempts"]), d["last_error"] or "-"]
            for d in found
        ]
        print_table(head, rows, notes=["", "`proxyd webhook replay --dead` sends all of them again"])
    else:
        print("no delivery was given up")
    return 0


def replay(options: argparse.Namespace) -> int:
    """Send a notification again, or every dead delivery."""
    answer = ask(options, lambda client: client.replay_dead() if options.dead else client.replay(options.id))
    if options.json:
        print_json(answer)
    else:
        print(f"{answer['deliveries']} deliveries will be made again")
    return 0
