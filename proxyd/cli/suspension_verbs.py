"""Verbs that pause sources, mute rules and profiles, and follow a source to its new address."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Literal

from proxyd.cli.printed_answers import ask, print_answer, print_list
from proxyd.terminal.verbs import ASKING, argument, duration, flag, one_of, verb

if TYPE_CHECKING:
    from datetime import tzinfo

    from proxyd.client.types import MoveShown, SuspensionMade, SuspensionShown


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
    argument("name", "name of the rule or profile"),
    one_of(
        flag("--rule", "it is a rule; needed only if a profile has the same name"),
        flag("--profile", "it is a profile; needed only if a rule has the same name"),
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


def until(text: str, now_s: float | None = None, zone: tzinfo | None = None) -> str:
    """Return the ISO 8601 time that a text such as 07:00 means: the next one, in the zone of this machine.

    Other texts are ISO 8601, also in that zone if they name none.

    >>> from zoneinfo import ZoneInfo
    >>> until("07:00", 1774719000.0, ZoneInfo("Europe/Berlin"))  # half past six; the clocks change at night
    '2026-03-29T05:00:00+00:00'
    """
    from datetime import UTC, datetime, time, timedelta

    from proxyd.base.clock import SystemClock

    now = datetime.fromtimestamp(SystemClock().wall_s() if now_s is None else now_s, UTC).astimezone(zone)
    try:
        if len(text) <= 5:
            today = datetime.combine(now.date(), time.fromisoformat(text.zfill(5)))
            passed = today <= now.replace(tzinfo=None)
            meant = today + timedelta(days=1) if passed else today
        else:
            meant = datetime.fromisoformat(text)
        if meant.tzinfo is None:
            meant = meant.astimezone() if zone is None else meant.replace(tzinfo=zone)
        return meant.astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write it like 07:00 or 2026-01-31T07:00") from None


@verb(
    "mute",
    "proxyd mute stable --until 07:00",
    "proxyd mute Watch --for 8h",
    takes=[
        *_MUTED,
        one_of(
            argument("--until", "until the next 07:00 here, or an ISO 8601 time", type=until, metavar="TIME"),
            argument("--for", "for a while, such as 30m, 8h or 2d", type=duration, dest="for_s", metavar="TIME"),
            required=False,
        ),
        *ASKING,
    ],
)
def mute(options: argparse.Namespace) -> int:
    """Keep back the notifications of a rule, or of every rule of a profile."""
    o = options
    return _print(o, ask(o, lambda client: client.mute(o.name, subject=_subject(o), until=o.until, for_s=o.for_s)))


@verb(
    "unmute",
    "proxyd unmute stable",
    "proxyd unmute Watch --drop",
    takes=[*_MUTED, flag("--drop", "never send what was kept back"), *ASKING],
)
def unmute(options: argparse.Namespace) -> int:
    """Send what a muted rule or profile kept back as digests, or drop it."""
    o = options
    return _print(o, ask(o, lambda client: client.unmute(o.name, subject=_subject(o), drop=o.drop)))


def _subject(options: argparse.Namespace) -> Literal["rule", "profile"] | None:
    if options.rule:
        return "rule"
    return "profile" if options.profile else None


def _print(options: argparse.Namespace, made: SuspensionMade) -> int:
    return print_answer(options, made, [made["said"]])


def until_of_mute(muted: SuspensionShown | None, name: str) -> str:
    """Return how long something is muted, and by which profile, for a table.

    >>> profile = {"subject": "profile", "name": "P", "since": "", "until": None, "by": "me"}
    >>> until_of_mute(profile, "r"), until_of_mute(profile, "P"), until_of_mute(None, "r")
    ('until unmuted (profile P)', 'until unmuted', '')
    """
    if muted is None:
        return ""
    by = "" if muted["name"] == name else f" (profile {muted['name']})"
    return f"until {muted['until'] or 'unmuted'}{by}"
