"""Verbs that show and change the running daemon's declaration."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from proxyd.cli.printed_answers import ask, print_answer, print_json, print_list, with_noun
from proxyd.cli.suspension_verbs import until_of_mute
from proxyd.core.errors import ConfigError
from proxyd.core.texts.safe_text import visible
from proxyd.terminal.verbs import ASKING, Verb, argument, flag, verb

if TYPE_CHECKING:
    from proxyd.client.types import ChangesMade, CostShown, ProfileListed, Rule, RuleFailing

_NAME = argument("name", "name of the profile", metavar="NAME")


@verb("rules", "proxyd rules", takes=ASKING)
def rules(options: argparse.Namespace) -> int:
    """List the rules, what they captured and what they missed."""
    found = ask(options, lambda client: client.rules())
    head = ["rule", "profiles", "captured", "missed", "completeness", "utility", "muted", "failing"]
    return print_list(options, found, head, _rule_row)


def _rule_row(rule: Rule) -> list[str]:
    return [
        rule["name"],
        ", ".join(sorted(rule["profiles"])),
        *_capture_cells(rule),
        until_of_mute(rule["muted"], rule["name"]),
        _failing(rule["failing"]),
    ]


def _failing(found: RuleFailing | None) -> str:
    if found is None:
        return ""
    state = "suspended" if found["suspended"] else f"{found['failures']} in a row"
    return f"{state}: {found['reason']} (source {found['source']})"


def _capture_cells(one: Rule | ProfileListed) -> list[str]:
    shares = ["-" if share is None else f"{share:.3f}" for share in (one["completeness"], one["utility"])]
    return [str(one["captured"]), str(one["missed"]), *shares]


PROFILE = Verb(
    "profile", "manage the daemon's profiles", ["proxyd profile list", "proxyd profile declare my.profile --dry-run"]
)


@verb("profile list", "proxyd profile list", takes=ASKING)
def profiles(options: argparse.Namespace) -> int:
    """List the profiles."""
    found = ask(options, lambda client: client.profiles())
    head = ["profile", "declared by", "rules", "captured", "missed", "completeness", "utility", "muted"]
    return print_list(options, found, head, _profile_row)


def _profile_row(each: ProfileListed) -> list[str]:
    muted = until_of_mute(each["muted"], each["name"])
    return [each["name"], each["origin"], str(len(each["rules"])), *_capture_cells(each), muted]


@verb("profile show", "proxyd profile show Watch", takes=[_NAME, *ASKING])
def show(options: argparse.Namespace) -> int:
    """Print a profile as text."""
    profile, etag = ask(options, lambda client: client.profile(options.name))
    if options.json:
        print_json({**profile, "etag": etag})
    else:
        print(visible(profile["text"]), end="")
    return 0


@verb(
    "profile declare",
    "proxyd profile declare my.profile --dry-run",
    "proxyd profile declare my.profile",
    takes=[
        argument("file", "text in the rule language", type=Path, metavar="FILE"),
        flag("--dry-run", "change nothing; show what would change and what it would cost"),
        *ASKING,
    ],
)
def declare(options: argparse.Namespace) -> int:
    """Declare the profiles of a file through the API."""
    from proxyd.client import ApiError
    from proxyd.config.profile_files import read_text

    text = read_text(options.file, may_be_pipe=True).text
    try:
        changes = ask(options, lambda client: client.declare(text, dry_run=options.dry_run))
    except ApiError as error:
        if not error.problem.get("errors"):
            raise
        raise ConfigError([_of_file(str(error), options.file)]) from error
    return print_answer(options, changes, _change_lines(changes))


def _of_file(said: str, file: Path) -> str:
    r"""Return the daemon's message about a text with positions in its file; the daemon calls the text api.

    >>> _of_file("1 error\napi:2:1: expected FROM", Path("my.profile"))
    '1 error\nmy.profile:2:1: expected FROM'
    """
    return re.sub(r"(?m)^api(?=:\d+:\d+: )", lambda _: str(file), said)


@verb("profile drop", "proxyd profile drop Watch", takes=[_NAME, *ASKING])
def drop(options: argparse.Namespace) -> int:
    """Remove a profile that was declared through the API."""
    changes = ask(options, lambda client: client.drop_profile(options.name))
    return print_answer(options, changes, [f"profile {options.name} is gone", *_rule_lines(changes)])


def _change_lines(changes: ChangesMade) -> Iterator[str]:
    yield from _rule_lines(changes) or ["no rule changes"]
    yield from (f"warning: line {each.get('line')}: {each['detail']}" for each in changes.get("warnings", ()))
    if (cost := changes.get("cost")) is not None:
        yield from _cost_lines(cost)
    if changes.get("dry_run"):
        yield "nothing was changed; run it without --dry-run to declare it"


def _rule_lines(changes: ChangesMade) -> list[str]:
    lines = [("added", changes["added"]), ("removed", changes["removed"])]
    said = [f"{what}: {', '.join(names)}" for what, names in lines if names]
    return said + [f"rule {rule}: counters that start again: {', '.join(c)}" for rule, c in changes["counters"].items()]


def _cost_lines(cost: CostShown) -> Iterator[str]:
    asked, before, budget = cost["asked_per_hour"], cost["asked_per_hour_before"], cost["budget_per_hour"]
    yield f"sources: {cost['sources_added']} more, {cost['sources_removed']} fewer"
    yield f"probes an hour: {asked:.3g} (before: {before:.3g}; the budget allows {budget:.3g})"
    for rule in cost["unmet"]:
        missed = sum(rule["unmet"].values())
        yield f"rule {rule['rule']}: {missed} of {with_noun(rule['intervals'], 'interval')} would not be met"
    for each in cost["targets"]:
        because = "" if each["limit"] is None else f", because of {each['limit']}"
        shares = f"{each['expected']:.0%} in time expected, {each['share']:.0%} asked"
        yield f"rule {each['rule']}: {shares}, with {each['probes_per_hour']:.3g} probes an hour{because}"


@verb("reload", "proxyd reload", takes=ASKING)
def reload(options: argparse.Namespace) -> int:
    """Check the profiles and load them."""
    from proxyd.client import ApiError

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
