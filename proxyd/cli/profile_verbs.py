"""Verbs that show and change the running daemon's declaration."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from proxyd.cli.asking import ask
from proxyd.cli.printing import counted, print_json, print_lines
from proxyd.client import ApiError
from proxyd.client.types import ChangesMade, CostShown, ProfileListed, Rule
from proxyd.config.profile_files import read_text
from proxyd.errors import ConfigError
from proxyd.net import visible
from proxyd.terminal.tables import print_table


def rules(options: argparse.Namespace) -> int:
    """List the rules and how their execution intervals ended."""
    found = ask(options, lambda client: client.rules())
    if options.json:
        print_json(found)
        return 0
    head = ["rule", "profiles", "captured", "missed", "completeness", "utility"]
    print_table(head, [[rule["name"], ", ".join(sorted(rule["profiles"])), *_achieved(rule)] for rule in found])
    return 0


def _achieved(one: Rule | ProfileListed) -> list[str]:
    shares = ["-" if share is None else f"{share:.3f}" for share in (one["completeness"], one["utility"])]
    return [str(one["captured"]), str(one["missed"]), *shares]


def profiles(options: argparse.Namespace) -> int:
    """List the profiles."""
    found = ask(options, lambda client: client.profiles())
    if options.json:
        print_json(found)
        return 0
    head = ["profile", "declared by", "rules", "captured", "missed", "completeness", "utility"]
    print_table(head, [[each["name"], each["origin"], str(len(each["rules"])), *_achieved(each)] for each in found])
    return 0


def show(options: argparse.Namespace) -> int:
    """Print a profile in canonical layout."""
    profile, etag = ask(options, lambda client: client.profile(options.name))
    if options.json:
        print_json({**profile, "etag": etag})
    else:
        print(visible(profile["text"]), end="")
    return 0


def declare(options: argparse.Namespace) -> int:
    """Declare the contents of a file, or print what that would change and cost."""
    text = read_text(options.file).text
    try:
        changes = ask(options, lambda client: client.declare(text, dry_run=options.dry_run))
    except ApiError as error:
        if not error.problem.get("errors"):
            raise
        raise ConfigError([_of_file(str(error), options.file)]) from error
    if options.json:
        print_json(changes)
    else:
        print_lines(_change_lines(changes))
    return 0


def _of_file(said: str, file: Path) -> str:
    r"""Return the daemon's message about a text with positions in its file; the daemon calls the text api.

    >>> _of_file("1 error\napi:2:1: expected FROM", Path("my.profile"))
    '1 error\nmy.profile:2:1: expected FROM'
    """
    return re.sub(r"(?m)^api(?=:\d+:\d+: )", lambda _: str(file), said)


def drop(options: argparse.Namespace) -> int:
    """Remove a profile that was declared over the API."""
    changes = ask(options, lambda client: client.drop_profile(options.name))
    if options.json:
        print_json(changes)
    else:
        print_lines([f"profile {options.name} is gone", *_rule_lines(changes)])
    return 0


def _change_lines(changes: ChangesMade) -> Iterator[str]:
    yield from _rule_lines(changes) or ["no rule changes"]
    if (cost := changes.get("cost")) is not None:
        yield from _cost_lines(cost)
    if changes.get("dry_run"):
        yield "nothing was changed; run it without --dry-run to declare it"


def _rule_lines(changes: ChangesMade) -> list[str]:
    lines = [("added", changes["added"]), ("removed", changes["removed"]), ("restarted", changes["restarted"])]
    return [f"{what}: {', '.join(names)}" for what, names in lines if names]


def _cost_lines(cost: CostShown) -> Iterator[str]:
    asked, before, budget = cost["asked_per_hour"], cost["asked_per_hour_before"], cost["budget_per_hour"]
    yield f"sources: {cost['sources_added']} more, {cost['sources_removed']} fewer"
    yield f"probes an hour at the present price: {asked:.3g} (before: {before:.3g}; the budget allows {budget:.3g})"
    for rule in cost["unmet"]:
        missed = sum(rule["unmet"].values())
        yield f"rule {rule['rule']}: {missed} of {counted(rule['intervals'], 'interval')} would not be met"


def reload(options: argparse.Namespace) -> int:
    """Check the daemon's files and swap them in."""
    try:
        ask(options, lambda client: client.reload())
    except ApiError as error:
        if error.status != 422:
            raise
        is_done, said = False, f"the profiles have errors: {error}"
    else:
        is_done, said = True, "reloaded"
    if options.json:
        print_json({"reloaded": is_done})
    else:
        print(visible(said))
    return 0 if is_done else 1
