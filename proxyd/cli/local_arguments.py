"""Arguments of the verbs that need no daemon, and of those that run one."""

from __future__ import annotations

from pathlib import Path

from proxyd.terminal.arguments import Verbs, add_json, add_url, add_verb, duration

_PATHS = "files, or directories of *.profile files"


def add_local_verbs(verbs: Verbs) -> None:
    """Add the verbs."""
    _add_service_verbs(verbs)
    _add_profile_verbs(verbs)
    probe = add_verb(
        verbs, "probe", "cli.probe.probe", "probe an address or a source once, without a daemon",
        "proxyd probe https://github.com/python/cpython/releases.atom", "proxyd probe python --debug",
    )  # fmt: skip
    probe.add_argument("target", help="address of a feed, or name of a source in the profiles (read as its class says)")
    probe.add_argument("--debug", action="store_true", help="also show the head of every request and response")
    add_json(probe)
    completion = add_verb(
        verbs, "completion", "cli.completion.completion", "print a shell script that completes verbs and options",
        "proxyd completion bash", "proxyd completion zsh",
    )  # fmt: skip
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="your shell")


def _add_service_verbs(verbs: Verbs) -> None:
    run = add_verb(
        verbs, "serve", "cli.service.serve", "run the daemon until SIGTERM",
        "proxyd serve", "proxyd --config /etc/proxyd.toml serve", "proxyd serve --role prober",
    )  # fmt: skip
    text = "role of this machine in a cluster (default: the setting role)"
    run.add_argument("--role", choices=("all", "planner", "prober", "notifier"), help=text)
    text = "run proxyd offline against generated feeds and show what was measured"
    demo = add_verb(verbs, "demo", "cli.demo.demo", text, "proxyd demo --for 60s")
    demo.add_argument("--for", dest="duration_s", type=duration, default=60.0, metavar="60s", help="how long")
    demo.add_argument("--seed", type=int, default=1, help="seed of the feeds' rates and items")
    add_json(demo)
    text = "exit with 0 if the daemon is ready (for containers)"
    health = add_verb(verbs, "healthcheck", "cli.status.healthcheck", text, "proxyd healthcheck --timeout 2s")
    health.add_argument("--timeout", type=duration, default=5.0, metavar="5s", help="longest wait")
    add_url(health)
    add_json(health)
    database = add_verb(verbs, "db", None, "look after the database", "proxyd db migrate")
    actions = database.add_subparsers(required=True, metavar="ACTION")
    add_verb(
        actions,
        "migrate",
        "cli.database_verbs.migrate",
        "upgrade the database to the newest schema",
        "proxyd db migrate",
    )
    text = "copy the database into an empty one, while no daemon runs"
    copy = add_verb(
        actions, "copy", "cli.database_verbs.copy", text, "proxyd db copy postgresql+asyncpg://proxyd@db.example/proxyd"
    )
    copy.add_argument(
        "target",
        metavar="DATABASE",
        help="path of a file, or address of a PostgreSQL database (password in PGPASSWORD or PGPASSFILE)",
    )
    add_json(copy)
    text = "free the disk space of deleted rows, while no daemon runs"
    add_verb(actions, "vacuum", "cli.database_verbs.tidy", text, "proxyd db vacuum")
    text = "write a copy of the database, also while the daemon runs"
    backup = add_verb(verbs, "backup", "cli.database_verbs.write_backup", text, "proxyd backup /var/backups/proxyd.db")
    backup.add_argument("file", type=Path, metavar="FILE", help="file to write; must not exist yet")
    add_json(backup)
    text = "replace the database by a backup, while no daemon runs"
    restore = add_verb(verbs, "restore", "cli.database_verbs.put_back", text, "proxyd restore /var/backups/proxyd.db")
    restore.add_argument("file", type=Path, metavar="FILE", help="file written by `proxyd backup`")
    restore.add_argument("--replace", action="store_true", help="delete what the PostgreSQL database holds now")
    add_json(restore)
    text = "print the settings in force"
    add_json(add_verb(verbs, "config", "cli.status.config", text, "proxyd config", "proxyd config --json"))
    add_json(add_verb(verbs, "version", "cli.status.version", "print the version", "proxyd version"))


_CHECK_EXAMPLES = ("proxyd check profiles", "proxyd check a.profile --json")


def _add_profile_verbs(verbs: Verbs) -> None:
    text = "check profiles and print every error (then exit with 1)"
    check = add_verb(
        verbs, "check", "cli.local_profiles.check", text, "proxyd check profiles", "proxyd check a.profile --json"
    )
    check.add_argument("paths", nargs="+", type=Path, metavar="PATH", help=_PATHS)
    add_json(check)
    text = "print profiles in the canonical layout"
    fmt = add_verb(verbs, "fmt", "cli.local_profiles.fmt", text, "proxyd fmt --write profiles")
    fmt.add_argument("paths", nargs="+", type=Path, metavar="PATH", help=_PATHS)
    fmt.add_argument("--write", action="store_true", help="rewrite the files instead of printing")
    bring = add_verb(
        verbs, "import", "cli.exchange.import_feeds", "make a profile of an OPML file or a list of addresses",
        "proxyd import feeds.opml --out profiles/feeds.profile",
    )  # fmt: skip
    bring.add_argument("file", type=Path, metavar="FILE", help="OPML, or text with an address on each line")
    bring.add_argument("--name", default="Imported", help="name of the domain and profile (default Imported)")
    bring.add_argument("--pages", action="store_true", help="the addresses are web pages, not feeds: notify of changes")
    bring.add_argument("--out", type=Path, metavar="FILE.profile", help="write to this file instead of printing")
    add_verb(verbs, "export", "cli.exchange.export", "print the sources of the profiles as OPML", "proxyd export")
