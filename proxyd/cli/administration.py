"""Verbs of the administrator: the database, with or without a running daemon, and the tokens of the API."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from proxyd.cli.printed_answers import ask, dashboard_of, print_answer, print_list, settings_of
from proxyd.core.errors import ConfigError, NotFoundError, ProxydError, SilentError, StoreInUseError, UnreachableError
from proxyd.core.texts.safe_text import visible
from proxyd.terminal.verbs import ASKING, JSON, Verb, argument, duration, flag, limit, until_hangup, verb

if TYPE_CHECKING:
    from proxyd.client.types import TokenMade
    from proxyd.cluster.nats_users import Server
    from proxyd.config.settings import Settings


_STARTING_S, _PAUSE_S = 30.0, 0.25  # a daemon may take so long from its lock on the database to its socket

DATABASE = Verb("db", "migrate, bring back, copy or vacuum the database", ["proxyd db migrate"])


@verb("db migrate", "proxyd db migrate")
@until_hangup
async def migrate(options: argparse.Namespace) -> int:
    """Upgrade the database to the newest schema."""
    from proxyd.store.backups import migrate_database

    settings = settings_of(options)
    await migrate_database(settings.database)
    print(f"{settings.database_shown} is at the newest schema")
    return 0


@verb("db back", "proxyd db back")
async def bring_back(options: argparse.Namespace) -> int:
    """Put back the database as it was before the last upgrade, for the version before, while no daemon runs."""
    from proxyd.store import backups

    settings = settings_of(options)
    copy, made_s, aside = await backups.bring_back(settings.database, stamp=_stamp())
    # An upgrade that leaves the schema alone makes no copy: the last one may be older than whoever asks thinks
    made = f"{datetime.fromtimestamp(made_s, UTC):%Y-%m-%d %H:%M} UTC"
    print(f"{settings.database_shown} is again {copy}, made {made}; the upgraded one is kept as {aside}")
    print("now start the version before; it may tell again what was told since the upgrade")
    return 0


@verb(
    "db copy",
    "proxyd db copy postgresql+asyncpg://proxyd@db.example/proxyd",
    takes=[
        argument(
            "target",
            "path of a file, or address of a PostgreSQL database (password in PGPASSWORD or PGPASSFILE)",
            metavar="DATABASE",
        ),
        JSON,
    ],
)
@until_hangup
async def copy(options: argparse.Namespace) -> int:
    """Copy the database into an empty one, while no daemon runs."""
    from proxyd.store.backups import copy_database

    settings, target = settings_of(options), settings_of(options, database=options.target)
    counts = await copy_database(settings.database, target.database)
    answer = {"database": target.database_shown, "rows": counts}
    done = f"{sum(counts.values())} rows of {len(counts)} tables copied to {target.database_shown}"
    return print_answer(options, answer, [done, "now let the setting database name it, and start the daemon"])


@verb("db vacuum", "proxyd db vacuum")
async def vacuum(options: argparse.Namespace) -> int:
    """Free the disk space of deleted rows, while no daemon runs."""
    from proxyd.store import backups

    settings = settings_of(options)
    path = settings.database_path
    before = _size(path)
    await backups.vacuum(settings.database)
    back = "" if path is None else f": {before / 2**20:.1f} MiB before, {_size(path) / 2**20:.1f} MiB now"
    print(f"{settings.database_shown} is vacuumed{back}")
    return 0


def _size(path: Path | None) -> int:
    return path.stat().st_size if path is not None and path.exists() else 0


@verb(
    "backup",
    "proxyd backup /var/backups/proxyd.db",
    "proxyd backup --verify",
    takes=[
        argument("file", "file to write; must not exist yet", type=Path, metavar="FILE", nargs="?"),
        flag("--verify", "only check a copy: FILE, or the newest nightly one"),
        JSON,
    ],
)
@until_hangup
async def backup(options: argparse.Namespace) -> int:
    """Write and check a copy of the database, with the profiles and settings beside it; the daemon may run."""
    from proxyd.store.backups import back_up, check_copy

    settings = settings_of(options)
    if options.verify:
        file = options.file or _newest_copy(settings)
        await check_copy(file)
        sound = f"{file}: {file.stat().st_size / 2**20:.1f} MiB, sound; `proxyd restore {file}` brings it back"
        return print_answer(options, {"file": str(file), "bytes": file.stat().st_size}, [sound])
    if options.file is None:
        raise ConfigError(["name the file to write, or take --verify"])
    texts = _files_beside(options, settings)
    await back_up(settings.database, options.file, texts)
    size = options.file.stat().st_size
    said = [
        f"{options.file}: {size / 2**20:.1f} MiB, checked; `proxyd restore {options.file}` brings it back",
        f"it holds {', '.join(sorted(texts)) or 'no files'}, but no secrets: take their variables and files along",
    ]
    return print_answer(options, {"file": str(options.file), "bytes": size, "files": sorted(texts)}, said)


def _files_beside(options: argparse.Namespace, settings: Settings) -> dict[str, str]:
    """Return the texts of the profiles and of the settings file, by their names in a copy."""
    from proxyd.config.loading import settings_file
    from proxyd.config.profile_files import profiles_to_keep
    from proxyd.store.kept_files import SETTINGS_FILE

    texts = profiles_to_keep(settings.profiles)
    file = settings_file(options.config)
    return texts | ({SETTINGS_FILE: file.read_text(encoding="utf-8")} if file.is_file() else {})


def _newest_copy(settings: Settings) -> Path:
    from proxyd.daemon.housekeeping import nightly_copies

    folder = settings.backup_folder
    if folder is None:
        raise ConfigError(["no nightly copies are made (setting backup); name the file to check"])
    if not (copies := nightly_copies(folder)):
        raise NotFoundError(f"there is no nightly copy in {folder} yet; make one with `proxyd backup FILE`")
    return copies[-1]


@verb(
    "restore",
    "proxyd restore /var/backups/proxyd.db",
    takes=[
        argument("file", "file written by `proxyd backup`", type=Path, metavar="FILE"),
        flag("--replace", "delete what the PostgreSQL database holds now"),
        flag("--trust", "also take settings in FILE that name paths outside this folder"),
        JSON,
    ],
)
@until_hangup
async def restore(options: argparse.Namespace) -> int:
    """Replace the database with a backup, while no daemon runs, and write the files in it that are missing here."""
    from proxyd.config.loading import settings_file
    from proxyd.store import backups
    from proxyd.store.kept_files import SETTINGS_FILE, kept_files, profiles_among

    await backups.check_copy(options.file)
    texts, own = kept_files(options.file), settings_file(options.config)
    settings = _settings_to_restore(options, own, texts.get(SETTINGS_FILE))
    aside = await backups.restore(settings.database, options.file, stamp=_stamp(), replaces=options.replace)
    kept = "" if aside is None else f"; the previous one is kept as {aside}"
    files = {settings.profiles / name: text for name, text in profiles_among(texts).items()}
    if SETTINGS_FILE in texts:
        files = {own: texts[SETTINGS_FILE]} | files
    written, said = _write_missing(files)
    answer = {"database": settings.database_shown, "kept": None if aside is None else str(aside)}
    print_answer(options, answer, [f"{settings.database_shown} is restored from {options.file}{kept}", *said])
    return 0 if written else 1


def _settings_to_restore(options: argparse.Namespace, own: Path, kept: str | None) -> Settings:
    """Return the settings of this machine, or if it has no file of them those that a copy holds, if any.

    Raises ``ConfigError``: the copy's do not hold here, or name paths that whoever did not write them might not want.
    """
    from proxyd.config.loading import load, paths_elsewhere

    if kept is None or own.exists() or options.config is not None:
        return settings_of(options)
    remedy = f"write a {own} here first, with settings of your own"
    try:
        settings = load(own, text=kept)
    except ConfigError as error:
        raise ConfigError([f"the settings in {options.file}: {each}; {remedy}" for each in error.problems]) from error
    if (elsewhere := paths_elsewhere(kept, own.parent)) and not options.trust:
        names = visible(", ".join(elsewhere))
        raise ConfigError(
            [f"the settings in {options.file} name paths outside this folder: {names}; take --trust, or {remedy}"]
        )
    return settings


def _stamp() -> str:
    from proxyd.base.clock import SystemClock

    return datetime.fromtimestamp(SystemClock().wall_s(), UTC).strftime("%Y%m%dT%H%M%SZ")


def _write_missing(files: Mapping[Path, str]) -> tuple[bool, list[str]]:
    """Write the files that are not here yet; return whether that went well, and what was done."""
    from proxyd.config.profile_files import write_text

    went_well, said = True, []
    for file, text in files.items():
        if file.exists():
            said.append(f"{file} is left as it is here")
            continue
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text(file, text)
            said.append(f"{file} is written")
        except (OSError, ConfigError) as error:  # the database is in place: say what is missing, and go on
            went_well = False
            said.append(str(error))
    return went_well, [visible(each) for each in said]


_LIMITED = ("sources", "rules", "receivers", "probes")


def limit_of(text: str) -> tuple[str, int]:
    """Return a limit that is written on the command line.

    >>> limit_of("sources=50")
    ('sources', 50)
    """
    name, _, most = text.partition("=")
    if name not in _LIMITED or not (most.isascii() and most.isdecimal() and len(most) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is no limit: write one of {', '.join(_LIMITED)}, = and a number")
    return name, int(most)


_LIMIT = argument(
    "--limit",
    "how much may belong to its profiles: sources=50, rules, receivers, probes (an hour); repeat it for others",
    action="append",
    default=[],
    type=limit_of,
    metavar="KIND=N",
)
TOKEN = Verb("token", "create, list or drop tokens of the API", ["proxyd token create --name me --scope write"])


@verb(
    "token create",
    "proxyd token create --name reader --scope read --expires 90d",
    takes=[
        argument("--name", "what the token is for; must be unique", required=True),
        argument(
            "--scope", "admin includes write, write includes read", required=True, choices=("read", "write", "admin")
        ),
        argument("--expires", "lifetime (default: none)", type=duration, metavar="90d"),
        argument(
            "--profile",
            "a profile that it reads or writes, and no other; repeat it for others (default: all)",
            action="append",
            default=[],
            metavar="NAME",
        ),
        _LIMIT,
        argument("--person", "whose it is: it marks items for them, and ends with them", metavar="NAME"),
        *ASKING,
    ],
)
def create_token(options: argparse.Namespace) -> int:
    """Create a token and print it, once.

    A running daemon creates it, one that is starting once it listens; without one, it is written into the database.
    """
    made = _create_by_daemon(options) or _create_in_database(options)
    return print_answer(options, made, [made["token"]])


def _create_by_daemon(options: argparse.Namespace) -> TokenMade | None:
    """Return the token that a daemon made, or ``None`` if none runs."""
    try:
        return ask(
            options,
            lambda c: c.create_token(
                *(options.name, options.scope),
                expires_s=options.expires,
                profiles=options.profile,
                person=options.person,
                limits=dict(options.limit),
            ),
        )
    except UnreachableError as error:
        if options.url is not None or isinstance(error, SilentError):  # a slow daemon may have created it
            raise
        return None


def _create_in_database(options: argparse.Namespace) -> TokenMade:
    import asyncio

    from proxyd.app import wiring as app
    from proxyd.base.doers import OwnerLimits

    for _ in range(round(_STARTING_S / _PAUSE_S)):
        try:
            named = settings_of(options), options.name, options.scope
            lasts_s, profiles = options.expires, options.profile
            of = {"person": options.person, "limits": OwnerLimits(**dict(options.limit))}
            made = app.create_token(*named, expires_in_s=lasts_s, profiles=profiles, **of)
            with redirect_stdout(sys.stderr):  # what the database logs; scripts read the token
                return {"name": options.name, "scope": options.scope, "token": asyncio.run(made)}
        except StoreInUseError:  # a daemon holds the database, and will soon listen at its socket
            time.sleep(_PAUSE_S)
            if (found := _create_by_daemon(options)) is not None:
                return found
    raise StoreInUseError(
        f"{settings_of(options).database_shown} is in use by a proxyd that does not answer; see its log"
    )


@verb("audit", "proxyd audit --limit 20", takes=[limit(50, most=100_000), *ASKING])
def audit(options: argparse.Namespace) -> int:
    """List who changed, tried or sent what, and who signed in or failed to."""
    found = ask(options, lambda client: client.audit(limit=options.limit))
    return print_list(
        options,
        found,
        ["at", "who", "way", "from", "did", "what", "detail"],
        lambda each: [each[name] for name in ("at", "who", "way", "address", "did", "subject", "detail")],
        empty="nothing yet",
    )


@verb("token list", "proxyd token list", takes=ASKING)
def tokens(options: argparse.Namespace) -> int:
    """List the tokens, without their secrets."""
    found = ask(options, lambda client: client.tokens())
    return print_list(
        options,
        found,
        ["name", "scope", "reads", "person", "created", "expires", "id"],
        lambda each: [
            *(each["name"], each["scope"], ", ".join(each["profiles"]) or "all", each["person"] or ""),
            *(each["created"], each["expires"] or "never", each["id"]),
        ],
        empty="there is no token",
    )


@verb("token drop", "proxyd token drop reader", takes=[argument("name", "name of the token", metavar="NAME"), *ASKING])
def drop_token(options: argparse.Namespace) -> int:
    """Revoke a token."""
    answer = ask(options, lambda client: client.drop_token(options.name))
    return print_answer(options, answer, [f"token {options.name} is revoked"])


PERSON = Verb("person", "invite, list or drop people who sign in", ["proxyd person invite ann --scope write"])


@verb(
    "person invite",
    "proxyd person invite ann --scope write",
    "proxyd person invite ann --scope read --mail ann@example.org",
    takes=[
        argument("name", "what the person will sign in with", metavar="NAME"),
        argument(
            "--scope", "admin includes write, write includes read", required=True, choices=("read", "write", "admin")
        ),
        argument(
            "--profile",
            "a profile that they read or write, and nothing else; repeat it for others (default: all)",
            action="append",
            default=[],
            metavar="NAME",
        ),
        argument("--mail", "send the link to this address, and later ones; '' sends none", metavar="ADDRESS"),
        _LIMIT,
        *ASKING,
    ],
)
def invite_person(options: argparse.Namespace) -> int:
    """Print a link, or send it by mail, by which somebody chooses a password, once, within a day.

    Somebody who is known gets the scope at once, and another password when the link is used.
    """
    asked = options.name, options.scope
    limits = dict(options.limit) or None
    given = {"profiles": options.profile, "mail": options.mail, "limits": limits}
    made = ask(options, lambda client: client.invite_person(*asked, **given))
    link = dashboard_of(options) + made["link"]
    if made["mail_error"] and not options.json:
        print(visible(f"the link could not be sent: {made['mail_error']}"), file=sys.stderr)
    return print_answer(
        options, {**made, "link": link}, [f"the link was sent to {options.mail}"] if made["mailed"] else [link]
    )


@verb("person list", "proxyd person list", takes=ASKING)
def people(options: argparse.Namespace) -> int:
    """List who may sign in to the dashboard."""
    found = ask(options, lambda client: client.people())
    return print_list(
        options,
        found,
        ["name", "scope", "profiles", "password", "mail", "limits"],
        lambda each: [
            *(each["name"], each["scope"], ", ".join(each["profiles"]) or "all"),
            *("chosen" if each["has_password"] else "not yet", each["mail"] or ""),
            " ".join(f"{kind}={most}" for kind, most in each["limits"].items() if most is not None),
        ],
        empty="nobody may sign in; `proxyd person invite NAME --scope admin` makes a link",
    )


@verb(
    "person limit",
    "proxyd person limit ann sources=50 probes=600",
    "proxyd person limit ann",
    takes=[
        argument("name", "name of the person", metavar="NAME"),
        argument(
            "limits",
            "sources, rules, receivers or probes (an hour); those that are left out have no limit",
            nargs="*",
            type=limit_of,
            metavar="KIND=N",
        ),
        *ASKING,
    ],
)
def limit_person(options: argparse.Namespace) -> int:
    """Say how much may belong to a person's profiles from now on."""
    made = ask(options, lambda client: client.limit_person(options.name, dict(options.limits)))
    told = ", ".join(f"{name} {most:,}" for name, most in made.items() if most is not None)
    return print_answer(options, made, [f"{options.name}: {told or 'no limits'}"])


@verb("person drop", "proxyd person drop ann", takes=[argument("name", "name of the person", metavar="NAME"), *ASKING])
def drop_person(options: argparse.Namespace) -> int:
    """Let somebody sign in no more; their sessions end."""
    answer = ask(options, lambda client: client.drop_person(options.name))
    return print_answer(options, answer, [f"{options.name} can sign in no more"])


CLUSTER = Verb("cluster", "prepare a cluster of several machines", ["proxyd cluster init nats --server 127.0.0.1"])


def _servers(text: str) -> Sequence[Server]:
    from proxyd.cluster.nats_users import read_servers

    try:
        return read_servers(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _listeners(text: str) -> Sequence[str]:
    from proxyd.cluster.nats_users import read_listeners

    try:
        return read_listeners(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


@verb(
    "cluster init",
    "proxyd cluster init nats --server 127.0.0.1",
    "proxyd cluster init nats --server nats.example:4222 --listen 10.0.0.1 --tls",
    "proxyd cluster init nats --server one.example,two.example,three.example --listen 10.0.0.1,10.0.0.2,10.0.0.3",
    takes=[
        argument("folder", "folder to write the files into", type=Path, metavar="DIR"),
        argument(
            "--server",
            "host of the NATS server, and its port if not 4222; several, with commas, make a cluster",
            type=_servers,
            required=True,
            metavar="HOST[:PORT]",
        ),
        argument(
            "--listen",
            "IP address that the server listens on (default: 127.0.0.1); several servers have one each, or one for all",
            type=_listeners,
            default="127.0.0.1",
            metavar="ADDRESS",
        ),
        flag("--tls", "let the servers encrypt; put the certificate of each next to its configuration"),
    ],
)
def init(options: argparse.Namespace) -> int:
    """Write the configuration of NATS servers, with a user and a password for each role."""
    import secrets

    from proxyd.cluster.nats_users import PASSWORDS, USERS, config_names, files_of

    servers: Sequence[Server] = options.server
    listeners: Sequence[str] = options.listen
    if len(listeners) not in {1, len(servers)}:
        raise ConfigError([f"--listen names {len(listeners)} addresses for {len(servers)} servers: one each, or one"])
    _write(options.folder, files_of(servers, listeners, lambda: secrets.token_hex(24), is_encrypted=options.tls))
    several = len(servers) > 1
    if several:
        print(f"copy to each server its configuration and {options.folder / PASSWORDS}, into one folder")
    for server, name in zip(servers, config_names(servers), strict=True):
        if options.tls:
            where = f"next to its {name}" if several else f"into {options.folder}"
            print(f"put the certificate of {server.host} {where}: nats-cert.pem, nats-key.pem")
        start = f"start on {server.host}" if several else "start the server"
        print(f"{start}: nats-server --config {options.folder / name}")
    if listeners == ("127.0.0.1",):
        print("only programs on its own machine reach a server; others do with --listen ADDRESS")
    print(f"each machine needs one file, that of its role ({', '.join(USERS)}):")
    print(f"PROXYD_NATS_FILE={options.folder / 'nats_url_ROLE'} proxyd serve --role ROLE")
    return 0


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files that only their owner may read, and none if one exists."""
    there = [name for name in files if (folder / name).exists()]
    if there:
        raise ProxydError(f"{folder / there[0]} exists already: delete it, or name another folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in files.items():
        handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
