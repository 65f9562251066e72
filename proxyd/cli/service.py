"""Verbs that run a daemon, and those that tell how it is configured and whether it is ready."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import tzinfo
from functools import partial
from typing import TYPE_CHECKING

from proxyd.base.interpreter import without
from proxyd.cli.printed_answers import (
    about,
    ask,
    client_of,
    print_answer,
    print_json,
    print_lines,
    settings_of,
    with_noun,
)
from proxyd.core.errors import ConfigError, ProfileError, ProxydError, StoreError
from proxyd.terminal.verbs import JSON, SEED, URL, argument, duration, require_extra, until_hangup, verb

if TYPE_CHECKING:
    from proxyd.api.queries import Queries
    from proxyd.app.wiring import Built
    from proxyd.config.settings import Settings
    from proxyd.core.planning.queue.probe_slots import PlannedProbe


_FIRST = "admin"  # the name of the first who signs in
_ROLE = argument(
    "--role",
    "role of this machine in a cluster (default: the setting role)",
    choices=("all", "planner", "prober", "notifier"),
)


@verb("serve", "proxyd serve", "proxyd --config /etc/proxyd.toml serve", "proxyd serve --role prober", takes=[_ROLE])
def serve(options: argparse.Namespace) -> int:
    """Run the daemon until SIGTERM."""
    import asyncio

    with without("rich"):  # structlog would load it, and Pygments, for tracebacks that the log has plain
        from proxyd.app.server import check_address
        from proxyd.base import log

    settings = settings_of(options, role=options.role)
    settings.check_roles()
    if not settings.nats and not (settings.database_path and settings.database_path.exists()):
        check_address(*settings.listen_address)  # of a database that is there, its lock says who has it
    _make_profiles_folder(settings)
    log.configure(settings.log_format, settings.log_level)
    errors: list[ProxydError] = []
    try:
        asyncio.run(_serve_daemon(settings))
    except* ProxydError as group:
        errors = leaves(group)
    for error in errors:
        named = settings.database_shown in str(error) or not isinstance(error, StoreError)
        where = "" if named else f" (database {settings.database_shown})"
        print(f"proxyd: {_said(error)}{where}", file=sys.stderr)
    return 1 if errors else 0


def _make_profiles_folder(settings: Settings) -> None:
    """Make the folder of the profiles if it is the usual one; one that somebody has named may be a slip."""
    if "profiles" in settings.model_fields_set or settings.profiles.exists():
        return
    try:
        settings.profiles.mkdir()
    except OSError as error:
        folder = settings.profiles.absolute()
        raise ConfigError([f"the folder {folder} cannot be made ({error.strerror or error})"]) from error
    print(f"proxyd: made the folder {settings.profiles.absolute()} for your profiles", file=sys.stderr)


def _said(error: ProxydError) -> str:
    """Return what went wrong; the journal gets no text of profiles, which may hold secrets."""
    if isinstance(error, ProfileError) and not sys.stderr.isatty():
        return f"{error.without_texts}\n`proxyd check` shows the lines"
    return str(error)


def _serve_daemon(settings: Settings) -> Coroutine[None, None, None]:
    """Return the coroutine that runs the daemon: on its own file, or as one of several machines."""
    if settings.database_path is not None and not settings.nats:
        from proxyd.app import wiring

        return wiring.serve(settings, ready=partial(_greet, settings) if sys.stdout.isatty() else None)
    from proxyd.cluster import machine  # it needs drivers that are optional dependencies

    return machine.serve(settings)


async def _greet(settings: Settings, built: Built) -> None:
    """Say on the terminal what runs, and where to look."""
    declared, coming = built.declarations.declaration, await built.queries.plans.plan(limit=1)
    lines = greeting(
        sources=len(declared.sources),
        rules=len(declared.rules),
        coming=coming[0] if coming else None,
        dashboard=f"{settings.dashboard}/",
        link=await _first_link(settings, built.queries),
        zone=settings.zone,
        drain_s=settings.drain_timeout,
    )
    print_lines(lines)


async def _first_link(settings: Settings, queries: Queries) -> str | None:
    """Return a link for the first person, who may then invite others; ``None`` if somebody can sign in already."""
    from proxyd.api.passwords import invite

    if await queries.access.tokens() or await queries.people.are_there():
        return None
    return settings.dashboard + await invite(queries, _FIRST, "admin")


@verb(
    "demo",
    "proxyd demo --for 60s",
    takes=[
        argument("--for", "duration (default 60s)", dest="duration_s", type=duration, default=60.0, metavar="60s"),
        argument("--seed", "seed of the feeds' rates and items", type=SEED, default=1),
        JSON,
    ],
)
@until_hangup
async def demo(options: argparse.Namespace) -> int:
    """Run proxyd offline against generated feeds and show the measurements."""
    from proxyd.cli.demo import run_demo

    with proxyd_errors():
        results = await run_demo(options.duration_s, options.seed)
    print(results.to_json() if options.json else results.to_text())
    return 0 if results.delivered.is_fine else 1


@verb(
    "healthcheck",
    "proxyd healthcheck --timeout 2s",
    takes=[argument("--timeout", "longest wait", type=duration, default=5.0, metavar="5s"), URL, JSON],
)
def healthcheck(options: argparse.Namespace) -> int:
    """Exit with 0 if the daemon is ready."""
    answer = ask(options, lambda client: client.ready(), timeout_s=options.timeout)
    failed = [name for name, holds in answer["checks"].items() if not holds]
    state = f"not ready: {', '.join(failed)}; the daemon's log says more" if failed else "ready"
    print_answer(options, answer, [state])
    return 1 if failed else 0


@verb("mcp", "proxyd mcp", takes=[URL])
async def mcp(options: argparse.Namespace) -> int:
    """Serve agents on standard input and output, by the Model Context Protocol."""
    require_extra("mcp", "mcp")
    from proxyd.api.rest.agent_tools import make_server

    async with client_of(options) as client:
        await client.sources(limit=1)  # whoever starts it learns at once that no daemon answers, or takes its token
        await make_server(lambda: client).run_stdio_async()
    return 0


@verb("config", "proxyd config", "proxyd config --json", takes=[JSON])
def config(options: argparse.Namespace) -> int:
    """Print the settings in force."""
    values = settings_of(options).describe()
    if options.json:
        print_json(values)
        return 0
    for key, value in values.items():
        print(f"{key} = {json.dumps(value)}" if value is not None else f"# {key} is not set")
    return 0


@verb("version", "proxyd version", takes=[JSON])
def version(options: argparse.Namespace) -> int:
    """Print the version."""
    from importlib import metadata

    number = metadata.version("proxyd")
    return print_answer(options, {"version": number}, [f"proxyd {number}"])


def leaves(group: BaseExceptionGroup[ProxydError]) -> list[ProxydError]:
    """Return the distinct errors of a group."""
    found: dict[str, ProxydError] = {}
    for error in group.exceptions:
        for leaf in leaves(error) if isinstance(error, BaseExceptionGroup) else [error]:
            found[str(leaf)] = leaf
    return list(found.values())


@contextmanager
def proxyd_errors() -> Iterator[None]:
    """Raise the first error of a group of ``ProxydError`` on its own; other errors pass unchanged."""
    errors: list[ProxydError] = []
    try:
        yield
    except* ProxydError as group:
        errors = leaves(group)
    if errors:
        raise errors[0]


def greeting(
    *,
    sources: int,
    rules: int,
    coming: PlannedProbe | None,
    dashboard: str,
    link: str | None = None,
    zone: tzinfo | None = None,
    drain_s: float = 10.0,
) -> Iterator[str]:
    """Yield the lines of the greeting; ``dashboard`` is its address, and ``link`` that for the first who signs in.

    >>> next(greeting(sources=0, rules=0, coming=None, dashboard="http://127.0.0.1:8080/"))
    'proxyd runs, and watches nothing yet'
    """
    if sources:
        yield f"proxyd runs, and watches {with_noun(sources, 'source')} for {with_noun(rules, 'rule')}"
    else:
        yield "proxyd runs, and watches nothing yet"
        yield "to watch a feed or a page: `proxyd add ADDRESS`, in another terminal, in this folder"
    if coming is not None:
        from proxyd.core.model.field_values import local_time

        at = local_time(coming.start_s, zone)
        yield f"the first probe is that of {coming.probe.source_id}, at {at:%H:%M:%S}; `proxyd plan` lists more"
    if link is None:
        yield f"dashboard: {dashboard} (who has no password gets a link: `proxyd person invite NAME --scope write`)"
    else:
        yield f"dashboard: {link} (opens once: choose the password of {_FIRST!r} there)"
    yield f"Ctrl-C ends it; it waits for probes and messages under way, {about(drain_s)} at most, or until Ctrl-C again"
