"""Verbs that show and change the running daemon's declaration."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from proxyd.cli.printed_answers import IN_TIME, amount, ask, print_answer, print_json, print_list, with_noun
from proxyd.core.errors import ConfigError
from proxyd.core.texts.safe_text import visible
from proxyd.terminal.verbs import ASKING, Verb, argument, duration, flag, one_of, verb

if TYPE_CHECKING:
    from proxyd.client.types import (
        ChangesMade,
        CostShown,
        MoveShown,
        ProfileListed,
        Rule,
        RuleFailing,
        SuspensionMade,
        SuspensionShown,
    )


@verb(
    "moved",
    "proxyd moved",
    "proxyd moved --accept news",
    takes=[argument("--accept", "read this source at its new address from now on", metavar="SOURCE"), *ASKING],
)
def list_moves(options: argparse.Namespace) -> int:
    """List the sources whose permanent redirects lead elsewhere, or accept the move of one."""
    if options.accept is not None:
        made = ask(options, lambda client: client.accept_move(options.accept))
        return print_answer(options, made, [made["said"]])
    found = ask(options, lambda client: client.moves())
    head = ["source", "state", "since", "probes", "declared", "new address", "declared in"]
    notes = ["`proxyd moved --accept SOURCE` reads a source at its new address"] if found else ()
    return print_list(options, found, head, _move_row, empty="no source has moved", notes=notes)


def _move_row(move: MoveShown) -> list[str]:
    place = f"{move['file']}:{move['line']}" if move["file"] is not None else "the API"
    return [move["source"], move["state"], move["since"], str(move["probes"]), move["declared"], move["url"], place]


_SOURCE = argument("source", "name of the source")
_MUTED = (
    argument("name", "name of the rule or profile", nargs="?"),
    one_of(
        flag("--rule", "it is a rule; needed only if a profile has the same name"),
        flag("--profile", "it is a profile; needed only if a rule has the same name"),
        flag("--all", "everything: all rules, also those that are declared later"),
        required=False,
    ),
)


@verb("pause", "proxyd pause python", takes=[_SOURCE, *ASKING])
def pause(options: argparse.Namespace) -> int:
    """Stop probing a source until it is resumed."""
    return _print(options, ask(options, lambda client: client.pause(options.source)))


@verb(
    "resume",
    "proxyd resume python",
    takes=[
        argument("name", "name of the source or rule"),
        one_of(
            flag("--source", "it is a source; needed only if a rule has the same name"),
            flag("--rule", "it is a rule; needed only if a source has the same name"),
            required=False,
        ),
        *ASKING,
    ],
)
def resume(options: argparse.Namespace) -> int:
    """Probe a paused source again, or evaluate a rule again that was suspended because it failed."""
    subject: Literal["source", "rule"] | None = "source" if options.source else "rule" if options.rule else None
    return _print(options, ask(options, lambda client: client.resume(options.name, subject=subject)))


@verb(
    "mute",
    "proxyd mute stable --until 07:00",
    "proxyd mute Watch --for 8h",
    "proxyd mute --all --until 07:00",
    takes=[
        *_MUTED,
        one_of(
            argument("--until", "until the next 07:00 in the daemon's time_zone, or an ISO 8601 time", metavar="TIME"),
            argument("--for", "for a while, such as 30m, 8h or 2d", type=duration, dest="for_s", metavar="TIME"),
            required=False,
        ),
        *ASKING,
    ],
)
def mute(options: argparse.Namespace) -> int:
    """Keep back the notifications of a rule, of every rule of a profile, or of all."""
    o, subject, name = options, _subject(options), options.name or "everything"
    return _print(o, ask(o, lambda client: client.mute(name, subject=subject, until=o.until, for_s=o.for_s)))


@verb(
    "unmute",
    "proxyd unmute stable",
    "proxyd unmute Watch --drop",
    takes=[*_MUTED, flag("--drop", "never send what was kept back"), *ASKING],
)
def unmute(options: argparse.Namespace) -> int:
    """Send what was kept back as digests, or drop it."""
    o, subject, name = options, _subject(options), options.name or "everything"
    return _print(o, ask(o, lambda client: client.unmute(name, subject=subject, drop=o.drop)))


def _subject(options: argparse.Namespace) -> Literal["rule", "profile", "all"] | None:
    if options.all == (options.name is not None):
        raise ConfigError(["name a rule or a profile, or take --all for everything"])
    if options.all:
        return "all"
    if options.rule:
        return "rule"
    return "profile" if options.profile else None


def _print(options: argparse.Namespace, made: SuspensionMade) -> int:
    return print_answer(options, made, [made["said"]])


def _until_of_mute(muted: SuspensionShown | None, name: str) -> str:
    """Return how long something is muted, and by which profile, for a table.

    >>> profile = {"subject": "profile", "name": "P", "since": "", "until": None, "by": "me"}
    >>> _until_of_mute(profile, "r"), _until_of_mute(profile, "P"), _until_of_mute(None, "r")
    ('until unmuted (profile P)', 'until unmuted', '')
    """
    if muted is None:
        return ""
    by = "" if muted["name"] == name else f" (profile {muted['name']})"
    by = " (everything)" if muted["subject"] == "all" else by
    return f"until {muted['until'] or 'unmuted'}{by}"


_NAME = argument("name", "name of the profile", metavar="NAME")


@verb("rules", "proxyd rules", takes=ASKING)
def rules(options: argparse.Namespace) -> int:
    """List the rules, with how much each saw in time."""
    found = ask(options, lambda client: client.rules())
    head = ["rule", "profiles", "sources", "receivers", "in time", "muted", "failing"]
    empty = "there is no rule; `proxyd add ADDRESS` makes one"
    return print_list(options, found, head, _rule_row, empty=empty, notes=[IN_TIME])


def _rule_row(rule: Rule) -> list[str]:
    return [
        rule["name"],
        ", ".join(sorted(rule["profiles"])),
        str(rule["source_count"]),
        str(rule["deliveries"]),
        _in_time(rule),
        _until_of_mute(rule["muted"], rule["name"]),
        _failing(rule["failing"]),
    ]


def _failing(found: RuleFailing | None) -> str:
    if found is None:
        return ""
    state = "suspended" if found["suspended"] else f"{found['failures']} in a row"
    return f"{state}: {found['reason']} (source {found['source']})"


def _in_time(one: Rule | ProfileListed) -> str:
    events = one["captured"] + one["missed"]
    return f"{one['captured']:,} of {events:,}" if events else "nothing yet"


PROFILE = Verb(
    "profile", "manage the daemon's profiles", ["proxyd profile list", "proxyd profile declare my.profile --dry-run"]
)


@verb("profile list", "proxyd profile list", takes=ASKING)
def profiles(options: argparse.Namespace) -> int:
    """List the profiles."""
    found = ask(options, lambda client: client.profiles())
    head = ["profile", "declared by", "rules", "in time", "muted"]
    return print_list(options, found, head, _profile_row, empty="there is no profile", notes=[IN_TIME])


def _profile_row(each: ProfileListed) -> list[str]:
    muted = _until_of_mute(each["muted"], each["name"])
    return [each["name"], each["origin"], str(len(each["rules"])), _in_time(each), muted]


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
    yield f"probes an hour: {amount(asked)} (before: {amount(before)}; the budget allows {amount(budget)})"
    for rule in cost["unmet"]:
        missed = sum(rule["unmet"].values())
        yield f"rule {rule['rule']}: {missed} of {with_noun(rule['intervals'], 'interval')} would not be met"
    for each in cost["targets"]:
        because = "" if each["limit"] is None else f", because of {each['limit']}"
        shares = f"{each['expected']:.0%} in time expected, {each['share']:.0%} asked"
        yield f"rule {each['rule']}: {shares}, with {amount(each['probes_per_hour'])} probes an hour{because}"


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
