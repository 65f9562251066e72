"""The command line: runs a verb and reports how it ended."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from proxyd import __version__
from proxyd.cli.daemon_arguments import add_daemon_verbs
from proxyd.cli.local_arguments import add_local_verbs
from proxyd.errors import ProxydError, UnreachableError
from proxyd.lab.verbs.lab_arguments import add_science_verbs
from proxyd.terminal.arguments import Parser

Run: TypeAlias = Callable[[argparse.Namespace], int]
FAILED, UNREACHABLE, INTERRUPTED = 1, 3, 130
"""Exit codes other than 0 and argparse's 2; ``docs/cli.md`` explains them."""
_EPILOG = """Settings come from proxyd.toml (or --config) and PROXYD_* variables; `proxyd config` prints them.
exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 no daemon answers, 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    options = make_parser().parse_args(arguments)
    if sys.stdout is None:
        return FAILED  # there is no stream to report the error on
    try:
        return _run(options)
    except ProxydError as error:
        _complain(str(error))
        return UNREACHABLE if isinstance(error, UnreachableError) else FAILED
    except BrokenPipeError:  # the reader of a pipe, such as head, has closed it
        sys.stdout = None  # otherwise Python fails again when it flushes the stream
        return 0
    except OSError as error:  # verbs name their own files; the rest concern the output
        print(f"proxyd: {error.filename or 'the output'}: {error.strerror or error}", file=sys.stderr)
        sys.stdout = None
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs."""
    parser: argparse.ArgumentParser = Parser(
        prog="proxyd",
        description="A monitoring proxy.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings file (default: proxyd.toml, if there)")
    parser.add_argument("--version", action="version", version=f"proxyd {__version__}")
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    add_local_verbs(verbs)
    add_daemon_verbs(verbs)
    add_science_verbs(verbs)
    return parser


def _run(options: argparse.Namespace) -> int:
    code = _load(options.run)(options)
    sys.stdout.flush()  # a closed pipe or a full disk shows here
    return code


def _complain(said: str) -> None:
    from proxyd.safe_text import visible

    print(f"proxyd: {visible(said)}", file=sys.stderr)


def _load(name: str) -> Run:
    """Return the function of a verb; its module is imported only now, so that each verb loads only what it needs."""
    module, _, function = name.rpartition(".")
    run: Run = getattr(import_module(f"proxyd.{module}"), function)
    return run
