"""The verb that prints shell completion scripts."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import shtab

from proxyd.cli.main import make_parser


def completion(options: argparse.Namespace) -> int:
    """Print a script that completes verbs, options and paths."""
    parser = make_parser()
    for each in parsers(parser):
        _complete_paths(each)
    print(shtab.complete(parser, shell=options.shell))
    return 0


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and, recursively, those of its verbs."""
    yield parser
    for action in parser._actions:  # noqa: SLF001 - argparse has no public access to its tree
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for each in action.choices.values():
                yield from parsers(each)


def _complete_paths(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:  # noqa: SLF001 - as above
        if action.type is Path:
            vars(action)["complete"] = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
