"""Verbs about sources and their probes."""

from __future__ import annotations

import argparse

from proxyd.cli.asking import ask
from proxyd.cli.printing import about, print_json, print_lines
from proxyd.client.types import ProbeMade, SourceListed
from proxyd.terminal.tables import print_table


def plan(options: argparse.Namespace) -> int:
    """Print the planned probes."""
    probes = ask(options, lambda client: client.plan(limit=options.limit))
    if options.json:
        print_json(probes)
        return 0
    rows = [[p["at"], p["source"], p["reason"], p["rule"] or "-", f"{p['rate_per_day']:.2f}"] for p in probes]
    print_table(["at", "source", "reason", "rule", "items/day"], rows)
    return 0


def sources(options: argparse.Namespace) -> int:
    """List the sources and the results of their last probes."""
    found = ask(options, lambda client: client.sources(failing=options.failing))
    if options.json:
        print_json(found)
        return 0
    head = ["source", "items/day", "next probe", "reason", "failures", "last outcome"]
    print_table(head, [_source_row(source) for source in found])
    return 0


def _source_row(source: SourceListed) -> list[str]:
    planned = source["next_probe"]
    at, reason = (planned["at"], planned["reason"]) if planned else ("-", source["blocked_by"] or "-")
    last = f"{source['last_outcome'] or '-'} {source['last_detail'] or '' if source['failures'] else ''}".strip()
    return [source["source"], f"{source['rate_per_day']:.2f}", at, reason, str(source["failures"]), last]


def probes(options: argparse.Namespace) -> int:
    """List the last probes of a source."""
    found = ask(options, lambda client: client.probes(options.source, limit=options.limit))
    if options.json:
        print_json(found)
    elif found:
        head = ["started", "took", "reason", "rule", "items", "mean delay", "outcome"]
        print_table(head, [_probe_row(probe) for probe in found])
    else:
        print("no probe in the last week; `proxyd explain` says why and when the next one is")
    return 0


def _probe_row(probe: ProbeMade) -> list[str]:
    delay = "-" if probe["delay_s"] is None else about(probe["delay_s"])
    came = f"{probe['outcome']} {probe['detail']}".strip()
    took = about(probe["duration_s"])
    return [probe["started"], took, probe["reason"], probe["rule"] or "-", str(probe["items"]), delay, came]


def explain(options: argparse.Namespace) -> int:
    """Print when a source is probed next, and why."""
    answer = ask(options, lambda client: client.explain(options.source))
    if options.json:
        print_json(answer)
    else:
        print_lines(answer["summary"])
    return 0
