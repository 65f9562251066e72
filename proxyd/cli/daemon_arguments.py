"""Arguments of the verbs that ask a running daemon."""

from __future__ import annotations

import argparse
from pathlib import Path

from proxyd.terminal.arguments import Verbs, add_asking, add_json, add_url, add_verb, duration, whole

_MOST = 500


def add_daemon_verbs(verbs: Verbs) -> None:
    """Add the verbs."""
    _add_source_verbs(verbs)
    _add_plan_verbs(verbs)
    _add_notification_verbs(verbs)
    _add_declared_verbs(verbs)
    _add_token_verbs(verbs)
    _add_webhook_verbs(verbs)


def _add_source_verbs(verbs: Verbs) -> None:
    sources = add_verb(
        verbs, "sources", "cli.sources.sources", "list the sources and how their last probe ended",
        "proxyd sources", "proxyd sources --failing --json",
    )  # fmt: skip
    sources.add_argument("--failing", action="store_true", help="only sources whose last probe failed")
    add_asking(sources)
    text = "list the recent probes of a source, with the reason and the outcome of each"
    probes = add_verb(verbs, "probes", "cli.sources.probes", text, "proxyd probes python --limit 5")
    probes.add_argument("source", help="name of the source")
    probes.add_argument("--limit", type=whole(1, 10_000), default=20, help="how many (default 20)")
    add_asking(probes)
    text = "explain when a source is probed next, and why"
    explain = add_verb(verbs, "explain", "cli.sources.explain", text, "proxyd explain python")
    explain.add_argument("source", help="name of the source")
    add_asking(explain)


def _add_plan_verbs(verbs: Verbs) -> None:
    top = add_verb(
        verbs, "top", "cli.top.top", "show the daemon live: health, coming probes, failing sources",
        "proxyd top", "proxyd top --once",
    )  # fmt: skip
    top.add_argument("--once", action="store_true", help="print it once and exit (the default without a terminal)")
    add_url(top)
    text = "print the coming probes of the running daemon"
    plan = add_verb(verbs, "plan", "cli.sources.plan", text, "proxyd plan --limit 10")
    plan.add_argument("--limit", type=whole(1, _MOST), default=50, help="how many (default 50)")
    add_asking(plan)
    text = "show what other budgets would achieve, and which rules miss intervals"
    add_asking(add_verb(verbs, "advise", "cli.advice.advise", text, "proxyd advise"))
    text = "compare delay and completeness with what was predicted, by day"
    report = add_verb(verbs, "report", "cli.advice.report", text, "proxyd report --days 7")
    report.add_argument("--days", type=whole(1, 3660), default=14, metavar="N", help="the last N days (default 14)")
    add_asking(report)


def _add_notification_verbs(verbs: Verbs) -> None:
    listing = add_verb(
        verbs, "notifications", "cli.notifications.notifications", "list notifications, newest first, or follow them",
        "proxyd notifications --rule stable --since 2026-01-31T12:00:00Z", "proxyd notifications --follow --json",
    )  # fmt: skip
    for name in ("rule", "profile", "source"):
        listing.add_argument(f"--{name}", metavar="NAME", help=f"only of this {name}")
    listing.add_argument(
        "--since", metavar="TIME", help="only those made since this time, such as 2026-01-31T12:00:00Z"
    )
    listing.add_argument("--limit", type=whole(1, 100_000), default=20, help="how many (default 20)")
    listing.add_argument("--follow", action="store_true", help="print new ones as they arrive, until interrupted")
    listing.add_argument(
        "--after", type=int, metavar="POSITION", help="with --follow: start after the notification at this position"
    )
    add_url(listing)
    add_json(listing, "print JSON; with --follow, a line for each")
    actions = listing.add_subparsers(metavar="ACTION")
    show = add_verb(
        actions, "show", "cli.notifications.show", "explain a notification: what led to it and what became of it",
        "proxyd notifications show ntf_0123456789abcdef",
    )  # fmt: skip
    show.add_argument("id", help="id of the notification")
    add_asking(show)
    for action in show._actions:  # noqa: SLF001 - options before `show` apply unless given again
        if action.dest in {"url", "json"}:
            action.default = argparse.SUPPRESS


def _add_declared_verbs(verbs: Verbs) -> None:
    text = "list the rules, what they captured and what they missed"
    add_asking(add_verb(verbs, "rules", "cli.profile_verbs.rules", text, "proxyd rules"))
    text = "check the profiles and load them"
    add_asking(add_verb(verbs, "reload", "cli.profile_verbs.reload", text, "proxyd reload"))
    group = add_verb(
        verbs, "profile", None, "profiles of the running daemon",
        "proxyd profile list", "proxyd profile declare my.profile --dry-run",
    )  # fmt: skip
    actions = group.add_subparsers(required=True, metavar="ACTION")
    add_asking(add_verb(actions, "list", "cli.profile_verbs.profiles", "list the profiles", "proxyd profile list"))
    text = "print a profile as text"
    show = add_verb(actions, "show", "cli.profile_verbs.show", text, "proxyd profile show Watch")
    show.add_argument("name", metavar="NAME", help="name of the profile")
    add_asking(show)
    declare = add_verb(
        actions, "declare", "cli.profile_verbs.declare", "declare the profiles of a file through the API",
        "proxyd profile declare my.profile --dry-run", "proxyd profile declare my.profile",
    )  # fmt: skip
    declare.add_argument("file", type=Path, metavar="FILE", help="text in the rule language")
    declare.add_argument(
        "--dry-run", action="store_true", help="change nothing; show what would change and what it would cost"
    )
    add_asking(declare)
    text = "remove a profile that was declared through the API"
    drop = add_verb(actions, "drop", "cli.profile_verbs.drop", text, "proxyd profile drop Watch")
    drop.add_argument("name", metavar="NAME", help="name of the profile")
    add_asking(drop)


def _add_token_verbs(verbs: Verbs) -> None:
    group = add_verb(verbs, "token", None, "tokens of the API", "proxyd token create --name me --scope write")
    actions = group.add_subparsers(required=True, metavar="ACTION")
    create = add_verb(
        actions, "create", "cli.tokens.create", "create a token and print it, once",
        "proxyd token create --name reader --scope read --expires 90d",
    )  # fmt: skip
    create.add_argument("--name", required=True, help="what the token is for; must be unique")
    create.add_argument(
        "--scope", required=True, choices=("read", "write", "admin"), help="admin includes write, write includes read"
    )
    create.add_argument("--expires", type=duration, metavar="90d", help="lifetime (default: none)")
    add_asking(create)
    text = "list the tokens, without their secrets"
    add_asking(add_verb(actions, "list", "cli.tokens.tokens", text, "proxyd token list"))
    text = "revoke a token"
    drop = add_verb(actions, "drop", "cli.tokens.drop", text, "proxyd token drop reader")
    drop.add_argument("name", metavar="NAME", help="name of the token")
    add_asking(drop)


def _add_webhook_verbs(verbs: Verbs) -> None:
    group = add_verb(verbs, "webhook", None, "webhooks and other ways to deliver", "proxyd webhook test stable")
    actions = group.add_subparsers(required=True, metavar="ACTION")
    text = "list the webhooks, and whether they answered their ping"
    add_asking(add_verb(actions, "list", "cli.deliveries.webhooks", text, "proxyd webhook list"))
    text = "send a test message to every endpoint of a rule"
    test = add_verb(actions, "test", "cli.deliveries.test", text, "proxyd webhook test stable")
    test.add_argument("rule", help="name of the rule")
    add_asking(test)
    text = "list the deliveries that were given up, newest first"
    dead = add_verb(actions, "dead", "cli.deliveries.dead", text, "proxyd webhook dead")
    dead.add_argument("--limit", type=whole(1, 100_000), default=50, help="how many (default 50)")
    add_asking(dead)
    replay = add_verb(
        actions, "replay", "cli.deliveries.replay", "send a notification again, or all that were given up",
        "proxyd webhook replay ntf_0123456789abcdef", "proxyd webhook replay --dead",
    )  # fmt: skip
    which = replay.add_mutually_exclusive_group(required=True)
    which.add_argument("id", nargs="?", help="id of the notification")
    which.add_argument("--dead", action="store_true", help="every delivery that was given up")
    add_asking(replay)
