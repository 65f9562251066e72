"""Helpers for the verbs' arguments; importing this module is cheap."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from proxyd.errors import suggest

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - it has no public name


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


def add_verb(verbs: Verbs, name: str, run: str | None, text: str, *examples: str) -> argparse.ArgumentParser:
    """Add a verb that runs a function of ``proxyd.cli``; its help ends with the examples."""
    shown = "\n".join(["example:" if len(examples) == 1 else "examples:", *(f"  {each}" for each in examples)])
    parser = verbs.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=shown,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def add_json(parser: argparse.ArgumentParser, text: str = "print JSON") -> None:
    """Add the option that prints JSON."""
    parser.add_argument("--json", action="store_true", help=text)


def add_asking(parser: argparse.ArgumentParser) -> None:
    """Add the options that ask a daemon elsewhere and print JSON."""
    add_url(parser)
    add_json(parser)


def add_url(parser: argparse.ArgumentParser) -> None:
    """Add the option that asks a daemon elsewhere."""
    text = "ask this daemon, with the token in PROXYD_TOKEN (default: the one here, through its socket)"
    parser.add_argument("--url", type=address, metavar="URL", help=text)


def duration(text: str) -> float:
    """Return the seconds of a text such as 30m."""
    from proxyd.config import parse_duration

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
