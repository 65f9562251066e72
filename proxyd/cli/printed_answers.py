"""Asks a daemon, through the local Unix socket or over --url, and prints what it answers: as JSON or for people.

Verbs import this module whether they run or not, so its own imports are cheap.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from proxyd.core.errors import ConfigError
from proxyd.core.texts.safe_text import visible, visible_line
from proxyd.terminal.text_tables import print_table

if TYPE_CHECKING:
    from proxyd.client import Client
    from proxyd.config.settings import Settings

_T = TypeVar("_T")
_SHOWN = 60
_LINE = 2000


def ask(options: argparse.Namespace, question: Callable[[Client], Awaitable[_T]], *, timeout_s: float = 30.0) -> _T:
    """Return the daemon's answer to a question."""
    import asyncio

    async def ask() -> _T:
        async with client_of(options, timeout_s=timeout_s) as client:
            return await question(client)

    return asyncio.run(ask())


def client_of(options: argparse.Namespace, *, timeout_s: float = 30.0) -> Client:
    """Return a client for the daemon that the options name."""
    from proxyd.client import Client
    from proxyd.config.loading import TOKEN, api_token

    if options.url is None:
        return Client.over_socket(socket_of(settings_of(options)), timeout_s=timeout_s)
    token = api_token()
    if token is None:
        wanted = f"put what `proxyd token create` printed on the daemon's machine into {TOKEN}"
        raise ConfigError([f"--url needs a token: {wanted}"])
    return Client.over_http(options.url, token, timeout_s=timeout_s)


def socket_of(settings: Settings) -> str:
    """Return the address of the daemon's Unix socket; raises if its folder does not exist."""
    from proxyd.client.wire import unreachable
    from proxyd.config.loading import socket_address

    try:
        return socket_address(settings.socket_path)
    except OSError as error:
        raise unreachable(str(settings.socket_path.absolute()), error) from error


def dashboard_of(options: argparse.Namespace) -> str:
    """Return the address of the dashboard of the daemon that the options name."""
    address: str = options.url or settings_of(options).dashboard
    return address.rstrip("/")


def settings_of(options: argparse.Namespace, **changes: Any) -> Settings:
    """Return the settings in force, with those that the command line changes."""
    from proxyd.config.loading import load

    return load(options.config, **changes)


def print_answer(options: argparse.Namespace, answer: object, lines: Iterable[str]) -> int:
    """Print the lines that tell an answer, or with --json the answer as it is; return 0."""
    if options.json:
        print_json(answer)
    else:
        print_told(options, lines)
    return 0


def print_told(options: argparse.Namespace, lines: Iterable[str]) -> None:
    """Print what a daemon says, one line each, with its times as the clocks here show them."""
    print_lines(map(_local(options), lines))


def _local(options: argparse.Namespace) -> Callable[[str], str]:
    """Return what shows the times of a text in the setting ``time_zone``, or in the zone of this machine."""
    from proxyd.core.model.field_values import with_local_times

    return partial(with_local_times, zone=settings_of(options).zone)


IN_TIME = "in time: before the next item of its source came or, with WITHIN, in that time"


def print_list(
    options: argparse.Namespace,
    found: Sequence[_T],
    head: Sequence[str],
    row: Callable[[_T], Sequence[str]],
    *,
    empty: str,
    notes: Sequence[str] = (),
) -> int:
    """Print a list, as a table or with --json as it is; ``empty`` is said instead of a table without rows. Return 0."""
    if options.json:
        print_json(found)
    elif found:
        local = _local(options)
        print_table(head, [list(map(local, row(each))) for each in found], notes=notes)
    else:
        print(empty)
    return 0


def print_json(value: object) -> None:
    """Print a value as JSON with non-ASCII characters escaped."""
    print(json.dumps(value, indent=2))


def print_lines(lines: Iterable[str]) -> None:
    """Print texts, one per line."""
    for line in lines:
        print(visible_line(line, _LINE), flush=True)


def print_text(text: str) -> None:
    """Print a text unchanged, but on a terminal with invisible characters spelt out."""
    print(visible(text) if sys.stdout.isatty() else text, end="")


def first_row(body: Mapping[str, Any]) -> str:
    """Return what a notification says of its first row, in a few words."""
    if title := body["data"].get("message", {}).get("title"):
        return visible_line(title, _SHOWN)
    values = [str(value) for row in body["data"].get("items", ())[:1] for value in row.values() if value is not None]
    return visible_line(", ".join(value[: _SHOWN + 1] for value in values), _SHOWN)


def about(seconds: float) -> str:
    """Return a duration for people.

    >>> about(90.0), about(5400.0), about(0.5), about(172_800.0)
    ('1.5 min', '1.5 h', '0.5 s', '2 d')
    """
    for unit, length_s in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length_s:
            return f"{seconds / length_s:.3g} {unit}"
    return f"{seconds:.3g} s"


def amount(value: float) -> str:
    """Return a number of probes, with three digits or in full.

    >>> amount(0.0417), amount(14.81), amount(3600.0)
    ('0.0417', '14.8', '3,600')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def with_noun(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> with_noun(1, "rule"), with_noun(2, "rule")
    ('1 rule', '2 rules')
    """
    return f"{count} {noun}{'s' * (count != 1)}"
