"""What a verb of the command line is: a function, its arguments and its help. Importing this module is cheap."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import wraps
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from proxyd.core.errors import ConfigError, extra_hint, suggest

_Run: TypeAlias = Callable[[argparse.Namespace], int | Coroutine[Any, Any, int]]
"""The function of a verb: from the options to the exit code."""
Argument: TypeAlias = Callable[[Any], Any]
"""What adds an argument to a parser, or to a group of arguments."""


class Verb(NamedTuple):
    """A verb, or a group of verbs if it has no function."""

    name: str  # what is typed after `proxyd`; a verb of a group has the group's name before its own
    text: str  # what it does, without a capital and a full stop
    examples: Sequence[str]
    run: _Run | None = None
    takes: Sequence[Argument] = ()
    members: str = "ACTION"  # what the usage of a group calls its verbs


def verb(name: str, *examples: str, takes: Sequence[Argument] = (), text: str = "") -> Callable[[_Run], Verb]:
    """Make a function a verb; its help is ``text``, by default the first line of the docstring."""

    def make(run: _Run) -> Verb:
        line = (run.__doc__ or "").partition("\n")[0].removesuffix(".")
        return Verb(name, text or line[:1].lower() + line[1:], examples, run, takes)

    return make


def until_hangup(run: Callable[[argparse.Namespace], Coroutine[Any, Any, int]]) -> _Run:
    """Let SIGTERM and the end of the terminal cancel a verb, so that it removes its temporary files.

    Other verbs just end: one that waits for a thread could not.
    """

    @wraps(run)
    async def cancel_at_signal(options: argparse.Namespace) -> int:
        import asyncio
        import signal

        loop, task, caught = asyncio.get_running_loop(), asyncio.current_task(), list[int]()

        def end(number: int) -> None:
            caught.append(number)
            if task is not None:
                task.cancel()

        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
                loop.add_signal_handler(number, end, number)
        try:
            return await run(options)
        except asyncio.CancelledError:
            if not caught:
                raise
            return 128 + caught[0]

    return cancel_at_signal


def require_extra(module: str, extra: str) -> None:
    """Raise ``ConfigError``, which names the extra, if a verb needs a module that is not installed."""
    if find_spec(module) is None:
        raise ConfigError([extra_hint(extra)])


def add_verbs(parser: argparse.ArgumentParser, verbs: Iterable[Verb]) -> None:
    """Add verbs to a parser, each group before its verbs."""
    groups = {"": parser.add_subparsers(title="verbs", required=True, metavar="VERB")}
    above: dict[str, tuple[Verb, argparse.ArgumentParser]] = {}
    for each in verbs:
        group, _, name = each.name.rpartition(" ")
        if group not in groups:
            its, parent = above[group]
            groups[group] = parent.add_subparsers(required=its.run is None, metavar=its.members)
        above[each.name] = (each, _add_verb(groups[group], name, each))


def _add_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, new: Verb
) -> argparse.ArgumentParser:
    examples = ["example:" if len(new.examples) == 1 else "examples:", *(f"  {each}" for each in new.examples)]
    parser = verbs.add_parser(
        name,
        help=new.text,
        description=new.text[0].upper() + new.text[1:] + ".",
        epilog="\n".join(examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for add in new.takes:
        add(parser)
    if new.run is not None:
        parser.set_defaults(run=new.run)
    return parser


def argument(name: str, text: str, **settings: Any) -> Argument:
    """Return an argument with its help, and with other settings of argparse."""
    return lambda parser: parser.add_argument(name, help=text, **settings)


def flag(name: str, text: str) -> Argument:
    """Return an option without a value."""
    return argument(name, text, action="store_true")


def limit(usual: int, *, most: int) -> Argument:
    """Return the option that says how many are listed."""
    return argument("--limit", f"how many (default {usual})", type=whole(1, most), default=usual)


def one_of(*choices: Argument, required: bool = True) -> Argument:
    """Return arguments of which one is given, and no more."""

    def add(parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group(required=required)
        for each in choices:
            each(group)

    return add


def preset(**values: object) -> Argument:
    """Return options that cannot be given, with their values."""
    return lambda parser: parser.set_defaults(**values)


class Parser(argparse.ArgumentParser):
    """Names the nearest verb, option or choice where one is misspelt, below the usage of the verb it was given to."""

    def parse_known_args(  # type: ignore[override]  # overloaded for other namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Return the parsed arguments; unknown ones are an error already here."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            hint = _hint(unknown[0].partition("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return options, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(each) for each in action.choices]
            hint = _hint(str(value), choices) or f"; choose from {', '.join(choices)}"
            raise argparse.ArgumentError(action, f"there is no {str(value)!r}{hint}")


def _hint(written: str, known: Iterable[str]) -> str:
    close = suggest(written, known)
    return f"; did you mean {close}?" if close else ""


def duration(text: str) -> float:
    """Return the seconds of a text such as 30m."""
    from proxyd.config.settings import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from ``least`` to ``most``."""

    def read(text: str) -> int:
        number = int(text) if text.strip().removeprefix("-").isdecimal() else least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return number

    return read


def probability(text: str) -> float:
    """Return a number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a probability from 0 to 1")
    return value


def percent(text: str) -> float:
    """Return a share, above 0 and below 1, that is written in percent.

    >>> percent("95"), percent("99.5 %")
    (0.95, 0.995)
    """
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share in percent, such as 95")
    return value


def address(text: str) -> str:
    """Return the URL of a daemon.

    >>> address("https://proxyd.example.org/")
    'https://proxyd.example.org'
    """
    try:
        parts = urlsplit(text)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or parts.username is not None or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError(
            "not an address such as http://127.0.0.1:8080; put the token into PROXYD_TOKEN"
        )
    return text.rstrip("/")


JSON = flag("--json", "print JSON")
URL = argument(
    "--url",
    "ask this daemon, with the token in PROXYD_TOKEN (default: the one here, through its socket)",
    type=address,
    metavar="URL",
)
ASKING = (URL, JSON)
"""The options of verbs that ask a daemon."""
SEED = whole(0, 2**63)
