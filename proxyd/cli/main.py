"""The verbs and their arguments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from proxyd import __version__
from proxyd.cli.science.arguments import add_science_verbs
from proxyd.errors import ProxydError

Run: TypeAlias = Callable[[argparse.Namespace], int]
if TYPE_CHECKING:
    Verbs: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - it has no public name

_EPILOG = "Settings come from proxyd.toml (or --config) and PROXYD_* variables; `proxyd config` prints them."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    options = _parser().parse_args(arguments)
    if sys.stdout is None:
        return 1  # there is nowhere to write to, and nobody to tell
    try:
        return _run(options)
    except ProxydError as error:
        print(f"proxyd: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of a pipe, such as head, had enough
        sys.stdout = None  # or Python fails once more to flush it
        return 0
    except OSError as error:  # a verb names its own files; what is left is the output
        print(f"proxyd: {error.filename or 'the output'}: {error.strerror or error}", file=sys.stderr)
        sys.stdout = None
        return 1
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    code = _load(options.run)(options)
    sys.stdout.flush()  # here, where a closed pipe or a full disk is met
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="proxyd", description="A monitoring proxy.", epilog=_EPILOG)
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings file (default: proxyd.toml, if there)")
    parser.add_argument("--version", action="version", version=f"proxyd {__version__}")
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    _add_service_verbs(verbs)
    _add_profile_verbs(verbs)
    _add_remote_verbs(verbs)
    add_science_verbs(verbs, _duration)
    return parser


def _add_service_verbs(verbs: Verbs) -> None:
    _verb(verbs, "serve", "service.serve", "run the daemon until SIGTERM")
    demo = _verb(verbs, "demo", "demo.demo", "run everything offline for a while and show what was measured")
    demo.add_argument("--for", dest="duration_s", type=_duration, default=60.0, metavar="60s", help="how long")
    demo.add_argument("--seed", type=int, default=1, help="of the feeds' rates and items")
    demo.add_argument("--json", action="store_true", help="print JSON")
    health = _verb(verbs, "healthcheck", "status.healthcheck", "exit 0 if the daemon is ready, for containers")
    health.add_argument("--timeout", type=_duration, default=5.0, metavar="5s", help="longest wait")
    database = _verb(verbs, "db", None, "look after the database")
    actions = database.add_subparsers(required=True, metavar="ACTION")
    _verb(actions, "migrate", "service.migrate", "bring the database to the newest schema")
    config = _verb(verbs, "config", "status.config", "print the settings in force")
    config.add_argument("--json", action="store_true", help="print JSON")
    _verb(verbs, "version", "status.version", "print the version")


def _add_profile_verbs(verbs: Verbs) -> None:
    check = _verb(verbs, "check", "profiles.check", "check profiles; exit 1 and name every error")
    check.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files, or directories of *.profile files")
    fmt = _verb(verbs, "fmt", "profiles.fmt", "print profiles in the canonical layout")
    fmt.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files, or directories of *.profile files")
    bring = _verb(verbs, "import", "exchange.import_feeds", "make a profile of an OPML file or a list of addresses")
    bring.add_argument("file", type=Path, metavar="FILE", help="OPML, or text with an address on each line")
    bring.add_argument("--name", default="Imported", help="of its domain and profile (default Imported)")
    bring.add_argument("--out", type=Path, metavar="FILE.profile", help="write this file instead of printing")
    _verb(verbs, "export", "exchange.export", "print the sources of the profiles as OPML")
    fmt.add_argument("--write", action="store_true", help="rewrite the files instead of printing")


def _add_remote_verbs(verbs: Verbs) -> None:
    sources = _verb(verbs, "sources", "remote.sources", "list the sources and how their last probe ended")
    sources.add_argument("--failing", action="store_true", help="only those whose last probe failed")
    sources.add_argument("--json", action="store_true", help="print JSON")
    rules = _verb(verbs, "rules", "remote.rules", "list the rules, what they captured and what they missed")
    rules.add_argument("--json", action="store_true", help="print JSON")
    plan = _verb(verbs, "plan", "remote.plan", "print the coming probes of the running daemon")
    plan.add_argument("--limit", type=int, default=50, help="how many (default 50)")
    plan.add_argument("--json", action="store_true", help="print JSON")
    advise = _verb(verbs, "advise", "advice.advise", "say what other budgets would buy, and which rules are not met")
    advise.add_argument("--json", action="store_true", help="print JSON")
    report = _verb(verbs, "report", "report.report", "compare delay and completeness with what was predicted, by day")
    report.add_argument("--days", type=int, default=14, metavar="N", help="the last N days, UTC (default 14)")
    report.add_argument("--json", action="store_true", help="print JSON")
    explain = _verb(verbs, "explain", "remote.explain", "say when a source is probed next, and why")
    explain.add_argument("source", help="name of the source")
    explain.add_argument("--json", action="store_true", help="print JSON")
    _add_notification_verbs(verbs)
    probe = _verb(verbs, "probe", "probe.probe", "probe an address or a source once, without a daemon")
    probe.add_argument("target", help="address of a feed, or the name of a source in the profiles: read as its class")
    probe.add_argument("--debug", action="store_true", help="show every request and response head as well")
    probe.add_argument("--json", action="store_true", help="print JSON")
    _verb(verbs, "reload", "remote.reload", "check the profiles and swap them in")
    token = _verb(verbs, "token", None, "tokens of the API").add_subparsers(required=True, metavar="ACTION")
    create = _verb(token, "create", "remote.create_token", "make a token and print it, once")
    create.add_argument("--name", required=True, help="what it is for; unique")
    create.add_argument("--scope", required=True, choices=("read", "write", "admin"))
    create.add_argument("--expires", type=_duration, metavar="90d", help="lifetime (default: none)")
    webhook = _verb(verbs, "webhook", None, "webhooks").add_subparsers(required=True, metavar="ACTION")
    listing = _verb(webhook, "list", "remote.webhooks", "list the webhooks, and whether they answered their ping")
    listing.add_argument("--json", action="store_true", help="print JSON")
    test = _verb(webhook, "test", "remote.test_deliveries", "send a test message wherever a rule delivers")
    test.add_argument("rule", help="name of the rule")
    replay = _verb(webhook, "replay", "remote.replay", "send a notification again, or all that were given up")
    which = replay.add_mutually_exclusive_group(required=True)
    which.add_argument("id", nargs="?", help="id of the notification")
    which.add_argument("--dead", action="store_true", help="every delivery that was given up")


def _add_notification_verbs(verbs: Verbs) -> None:
    listing = _verb(verbs, "notifications", "remote.notifications", "list notifications, newest first, or follow them")
    for name in ("rule", "profile", "source"):
        listing.add_argument(f"--{name}", metavar="NAME", help=f"of this {name} only")
    listing.add_argument("--since", metavar="TIME", help="made since this time, such as 2026-01-31T12:00:00Z")
    listing.add_argument("--limit", type=int, default=20, help="how many (default 20)")
    listing.add_argument("--follow", action="store_true", help="print new ones as they come, until interrupted")
    listing.add_argument("--after", type=int, metavar="POSITION", help="with --follow: first what came after this one")
    listing.add_argument("--json", action="store_true", help="print JSON; with --follow, a line for each")
    actions = listing.add_subparsers(metavar="ACTION")
    show = _verb(actions, "show", "remote.show_notification", "say what led to a notification and what became of it")
    show.add_argument("id", help="id of the notification")
    show.add_argument("--json", action="store_true", help="print JSON")


def _verb(verbs: Verbs, name: str, run: str | None, text: str) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def _load(name: str) -> Run:
    """Return the function of a verb, importing its module now: each verb loads what it needs and no more."""
    module, _, function = name.rpartition(".")
    run: Run = getattr(import_module(f"proxyd.cli.{module}"), function)
    return run


def _duration(text: str) -> float:
    from proxyd.config import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
