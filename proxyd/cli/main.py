"""The command line: its verbs, and what reports how one of them ended."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from proxyd.cli import (
    add,
    administration,
    advice_verbs,
    first_files,
    local_profiles,
    notifications,
    probe,
    profile_verbs,
    service,
    sources,
)
from proxyd.core.errors import ProxydError, UnreachableError
from proxyd.core.texts.safe_text import visible
from proxyd.lab.verbs import reproduce, simulate, solve
from proxyd.terminal.verbs import Parser, add_verbs, argument, require_extra, verb

FAILED, WRONG_USAGE, UNREACHABLE, INTERRUPTED = 1, 2, 3, 130
"""Exit codes other than 0 and argparse's 2; ``docs/cli.md`` explains them."""
_EPILOG = """Settings come from proxyd.toml (or --config) and PROXYD_* variables; `proxyd config` prints them.
exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 no daemon answers, 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    parser = make_parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help(sys.stderr)
        parser.exit(WRONG_USAGE)
    options = parser.parse_args(arguments)
    if sys.stdout is None:
        return FAILED  # there is no stream to report the error on
    try:
        return _run(options)
    except ProxydError as error:
        print(f"proxyd: {visible(str(error))}", file=sys.stderr)
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


def _run(options: argparse.Namespace) -> int:
    ended = options.run(options)
    if not isinstance(ended, int):
        import asyncio  # a third of the time that the help takes

        ended = asyncio.run(ended)
    sys.stdout.flush()  # a closed pipe or a full disk shows here
    return int(ended)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs."""
    parser: argparse.ArgumentParser = Parser(
        prog="proxyd",
        description="proxyd watches feeds and web pages, and notifies you when something happens there.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings file (default: proxyd.toml, if there)")
    text = "show program's version number and exit"
    parser.add_argument("--version", action=_ShowVersion, nargs=0, default=argparse.SUPPRESS, help=text)
    add_verbs(parser, _VERBS)
    return parser


class _ShowVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        parser._print_message(f"proxyd {version('proxyd')}\n", sys.stdout)  # noqa: SLF001 - as argparse's own action does
        parser.exit()


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and, recursively, those of its verbs."""
    yield parser
    for action in parser._actions:  # noqa: SLF001 - argparse has no public access to its tree
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for each in action.choices.values():
                yield from parsers(each)


@verb(
    "completion",
    "proxyd completion bash",
    "proxyd completion zsh",
    takes=[argument("shell", "your shell", choices=("bash", "zsh", "tcsh"))],
)
def completion(options: argparse.Namespace) -> int:
    """Print a shell script that completes verbs and options."""
    require_extra("shtab", "terminal")
    import shtab

    parser = make_parser()
    for each in parsers(parser):
        for action in each._actions:  # noqa: SLF001 - argparse has no public access to them
            if action.type is Path:
                vars(action)["complete"] = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
    print(shtab.complete(parser, shell=options.shell))
    return 0


_VERBS = (
    first_files.init, service.serve, service.demo, service.healthcheck,
    administration.DATABASE, administration.migrate, administration.bring_back, administration.copy,
    administration.vacuum,
    administration.backup, administration.restore,
    administration.CLUSTER, administration.init,
    service.mcp, service.config, service.version,
    local_profiles.check, local_profiles.fmt, local_profiles.import_feeds, local_profiles.export,
    add.add, add.remove, probe.probe, completion,
    sources.sources, sources.probes, sources.items, sources.search, sources.explain, sources.top, sources.plan,
    sources.hosts,
    sources.sites,
    advice_verbs.advise, advice_verbs.report,
    notifications.notifications, notifications.show, notifications.wait,
    profile_verbs.rules, profile_verbs.reload,
    profile_verbs.list_moves, profile_verbs.pause, profile_verbs.resume,
    profile_verbs.mute, profile_verbs.unmute,
    profile_verbs.PROFILE, profile_verbs.profiles, profile_verbs.show, profile_verbs.declare, profile_verbs.drop,
    administration.audit,
    administration.TOKEN, administration.create_token, administration.tokens, administration.drop_token,
    administration.PERSON, administration.invite_person, administration.people,
    administration.limit_person, administration.drop_person,
    notifications.RECEIVER, notifications.receivers, notifications.test_receiver,
    notifications.WEBHOOK, notifications.webhooks, notifications.test, notifications.dead, notifications.replay,
    solve.SOLVE, *solve.PROBLEMS, simulate.simulate, reproduce.reproduce,
)  # fmt: skip
"""Every verb, in the order in which the help lists them."""
