"""Verbs that read and write profiles without a daemon, also from and to the lists of other programs."""

from __future__ import annotations

import argparse
import csv
import json
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

from proxyd.cli.printed_answers import client_of, print_json, print_lines, print_text, settings_of, socket_of, with_noun
from proxyd.core.errors import ConfigError, ProfileError, ProxydError, RuleError, UnreachableError
from proxyd.core.texts.safe_text import visible
from proxyd.terminal.verbs import JSON, URL, argument, flag, verb

if TYPE_CHECKING:
    from proxyd.client import Client
    from proxyd.client.types import MoveShown
    from proxyd.config.settings import Settings
    from proxyd.core.language import Checked, Merged, SourceText
    from proxyd.core.model.profile import Declaration, NotificationRule

_T = TypeVar("_T")
_API_TEXTS = "SELECT name, text FROM texts WHERE origin = 'api' ORDER BY position"
_EXPORTED = ("position", "source", "id", "title", "text", "link", "came", "seen", "gone", "read", "starred")
_MOST_NAMED = 20  # unreadable addresses of an import that are printed
_PATHS = argument("paths", "files, or directories of *.profile files", nargs="+", type=Path, metavar="PATH")


@verb(
    "check",
    "proxyd check profiles",
    "proxyd check a.profile --json",
    "proxyd check --upgrade",
    takes=[
        argument(
            "paths",
            "files, or directories of *.profile files (default: those of the daemon)",
            nargs="*",
            type=Path,
            metavar="PATH",
        ),
        flag("--upgrade", "also say what starting this version would change in the database"),
        JSON,
    ],
)
async def check(options: argparse.Namespace) -> int:
    """Check profiles as one declaration and print every error."""
    settings = settings_of(options)
    paths = options.paths or [settings.profiles]
    texts, upgrade = _texts(paths), await _upgrade(settings) if options.upgrade else None
    checked = _check_arguments(texts, settings, is_whole=_is_whole(paths, settings))
    declared = checked.declaration
    running = _Differences() if declared is None else await _differences(declared, settings)
    if declared is not None:
        moved = _moves_of(texts, await _request_to_fetch(settings, lambda client: client.moves()))
        checked = replace(checked, warnings=(*checked.warnings, *moved))
    if options.json:
        print_json(_as_json(checked, len(texts), running) | ({"upgrade": upgrade} if options.upgrade else {}))
    else:
        if options.upgrade:
            print_lines(_upgrade_lines(settings, upgrade))
        _print(checked, len(texts), running)
    return 1 if declared is None else 0


async def _upgrade(settings: Settings) -> dict[str, Any] | None:
    """Return what starting this version would change in the database, if it changes anything."""
    from proxyd.store.backups import former_copy, upgrade_of

    if (found := await upgrade_of(settings.database)) is None:
        return None
    path = settings.database_path
    copy = None if path is None else str(former_copy(path, found.schema))
    return {"schema": found.schema, "migrations": dict(found.migrations), "copy": copy}


def _upgrade_lines(settings: Settings, upgrade: Mapping[str, Any] | None) -> list[str]:
    name, path = settings.database_shown, settings.database_path
    if path is not None and (not path.exists() or not path.stat().st_size):
        return [f"note: {name} is made by the next start"]
    if upgrade is None:
        return [f"note: {name} needs no upgrade"]
    if upgrade["copy"] is None:
        first = (
            f"note: {name} is upgraded by the next start: make a copy first, with `proxyd backup` of the version before"
        )
    else:
        first = f"note: {name} is upgraded by the next start, and copied to {upgrade['copy']} first"
    return [first, *(f"note: migration {each}: {purpose}" for each, purpose in upgrade["migrations"].items())]


def _check_arguments(texts: Sequence[SourceText], settings: Settings, *, is_whole: bool) -> Checked:
    """Check texts as one declaration, and then together with what was declared through the API.

    Errors in other texts count only if these are all files of the daemon (``is_whole``); warnings in others never do.
    """
    from proxyd.app.check_settings import check_settings
    from proxyd.core.language import check

    known = check_settings(settings)
    checked = check(texts, known)
    api = api_texts(settings)
    if checked.declaration is None or not api:
        return checked
    own, together = {text.file for text in texts}, check([*api, *texts], known)
    errors = tuple(each for each in together.errors if is_whole or each.file in own)
    if errors:
        return replace(checked, declaration=None, errors=errors, warnings=())
    if together.declaration is None:
        return checked
    return replace(checked, warnings=tuple(each for each in together.warnings if each.file in own))


def api_texts(settings: Settings) -> list[SourceText]:
    """Return what was declared through the API, if the database is a file here."""
    from proxyd.core.language import SourceText

    return [SourceText(name, text) for name, text in _read_here(settings.database_path, _API_TEXTS)]


def _is_whole(paths: Sequence[Path], settings: Settings) -> bool:
    return settings.profiles.resolve() in {path.resolve() for path in paths}


@dataclass(frozen=True, slots=True)
class _Differences:
    """How rules differ from those that a daemon runs, or ran last."""

    # The counters that would start again, by rule
    restarting: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # What rules that an earlier version accepted do differently, by name
    meanings: Mapping[str, str] = field(default_factory=dict)


def _print(checked: Checked, files: int, running: _Differences) -> None:
    for error in checked.errors:
        print(visible(str(error)))
    for warning in checked.warnings:
        print(visible(f"warning: {warning}"))
    if checked.declaration is None:
        print(with_noun(len(checked.errors), "error"))
        return
    if not files:
        print("no file there ends with .profile")
    print_lines(_restarting_line(rule, counters) for rule, counters in running.restarting.items())
    print_lines(
        [f"note: rule {name} means something else now: {changed}" for name, changed in running.meanings.items()]
    )
    print(", ".join(with_noun(count, noun) for noun, count in _counts(checked.declaration, files).items()))


def _as_json(checked: Checked, files: int, running: _Differences) -> dict[str, object]:
    counts = {} if checked.declaration is None else _counts(checked.declaration, files)
    return {
        "errors": [_place(error) for error in checked.errors],
        "warnings": [_place(warning) for warning in checked.warnings],
        "restarting": list(running.restarting),
        "counters": {name: list(counters) for name, counters in running.restarting.items()},
        "meanings": dict(running.meanings),
        **{f"{noun}s": count for noun, count in counts.items()},
    }


def _place(error: RuleError) -> dict[str, object]:
    return {"file": error.file, "line": error.line, "column": error.column, "detail": error.message}


def _counts(declared: Declaration, files: int) -> dict[str, int]:
    counts = {"profile": declared.profiles, "rule": declared.rules, "source": declared.sources}
    return {"file": files} | {noun: len(found) for noun, found in counts.items()}


def _restarting_line(rule: str, counters: Sequence[str]) -> str:
    starts = "starts" if len(counters) == 1 else "start"
    kept = "its NOW, its other counters and what was sent are kept"
    return f"note: rule {rule}: {', '.join(counters)} {starts} again; {kept}"


class _Accepted(NamedTuple):
    """A rule as it was accepted last; ``counting`` is empty in a database of an earlier version."""

    fingerprint: str
    meaning: int
    counting: str


async def _differences(declared: Declaration, settings: Settings) -> _Differences:
    from proxyd.core.language import MEANING, what_changed

    accepted = _acceptance_times_here(settings.database_path)
    if not accepted:
        running = await _request_to_fetch(settings, lambda client: client.rules())
        accepted = {rule["name"]: _Accepted(rule["fingerprint"], MEANING, rule["counting"]) for rule in running}
    known = {name: (rule, accepted[name]) for name, rule in declared.rules.items() if name in accepted}
    restarting = {name: _restarting(*each) for name, each in known.items()}
    meanings = {name: what_changed(rule, before.meaning) for name, (rule, before) in known.items()}
    return _Differences(
        {name: counters for name, counters in restarting.items() if counters},
        {name: changed for name, changed in meanings.items() if changed is not None},
    )


def _restarting(rule: NotificationRule, before: _Accepted) -> Sequence[str]:
    from proxyd.core.language import counters_to_restart

    return () if rule.fingerprint == before.fingerprint else counters_to_restart(rule, before.counting)


def _acceptance_times_here(database: Path | None) -> dict[str, _Accepted]:
    """Return the rules as they were accepted last, as far as a database file says it."""
    # It is read without the store, which is slow to import. A database of an earlier version does not hold everything.
    columns = {name for _, name, *_ in _read_here(database, "PRAGMA table_info(rules)")}
    meaning = "meaning" if "meaning" in columns else "1"
    counting = "counting" if "counting" in columns else "''"
    rows = _read_here(database, f"SELECT name, fingerprint, {meaning}, {counting} FROM rules")
    return {name: _Accepted(*others) for name, *others in rows}


def _read_here(database: Path | None, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query on a database file; none if the file is missing or of another version."""
    if database is None or not database.is_file():
        return []
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True)) as opened:
        return opened.execute(query).fetchall()
    return []


def _moves_of(texts: Sequence[SourceText], moves: Sequence[MoveShown]) -> list[RuleError]:
    """Return a warning at the address of each source that a daemon reads elsewhere because its move was accepted."""
    from proxyd.core.language import parse, written_addresses

    accepted = [move for move in moves if move["state"] == "accepted"]
    written = written_addresses([parse(text.text, text.file) for text in texts]) if accepted else {}
    found = ((written.get(move["source"]), move) for move in accepted)
    return [
        address.warning(move["url"])
        for address, move in found
        if address is not None and address.url.value == move["declared"]
    ]


async def _request_to_fetch(settings: Settings, question: Callable[[Client], Awaitable[Sequence[_T]]]) -> Sequence[_T]:
    """Return the answer of the daemon on this machine, or nothing if it does not answer."""
    from proxyd.client import Client

    try:
        async with Client.over_socket(socket_of(settings), timeout_s=2.0) as client:
            return await question(client)
    except ProxydError:
        return []


@verb(
    "fmt",
    "proxyd fmt --write profiles",
    "proxyd fmt --long profiles",
    takes=[
        _PATHS,
        flag("--write", "rewrite the files instead of printing"),
        flag("--long", "show each WATCH as the statements that it stands for"),
    ],
)
def fmt(options: argparse.Namespace) -> int:
    """Print profiles in the canonical layout."""
    from proxyd.core.language import expand, format_parsed, is_list, parse

    texts = [each for each in _texts(options.paths) if not is_list(each.file)]
    parsed = [parse(text.text, text.file) for text in texts]
    if errors := [error for each in parsed for error in each.errors]:
        raise ProfileError(errors)
    for index, (text, each) in enumerate(zip(texts, expand(parsed) if options.long else parsed, strict=True)):
        formatted = format_parsed(each)
        if not options.write:
            print_text(f"\n{formatted}" if index else formatted)
        elif formatted != text.text:
            Path(text.file).write_text(formatted, encoding="utf-8")
            print(f"rewrote {text.file}")
    return 0


def _texts(paths: list[Path]) -> list[SourceText]:
    """Return the texts of files and directories with the lists that they name, each once."""
    from proxyd.config.profile_files import read_directory, read_profile

    texts: dict[str, SourceText] = {}
    for path in paths:
        if not path.exists():
            raise ConfigError([f"{path}: no such file or directory"])
        found = read_directory(path) if path.is_dir() else read_profile(path)
        texts |= {each.file: each for each in found}
    return list(texts.values())


@verb(
    "import",
    "proxyd import feeds.opml --out profiles/feeds.profile",
    "proxyd import feeds.opml --match cve --out profiles/cve.profile",
    takes=[
        argument(
            "file",
            "OPML, text with an address on each line, or what another program keeps (docs/how-to.md)",
            type=Path,
            metavar="FILE",
        ),
        argument("--name", "domain and profile of what is in no folder (default Imported)", default="Imported"),
        flag("--pages", "the addresses are web pages, not feeds: notify of changes"),
        argument("--match", "only notify of items, or pages, that contain this word", metavar="WORD"),
        argument(
            "--to",
            "a mail address, a chat, a webhook or a receiver to tell; repeat it",
            action="append",
            metavar="ADDRESS",
        ),
        argument("--secret", "the variable with a webhook's secret, such as SECRET_HOOK", metavar="NAME"),
        argument("--out", "write to this file, or add to it, instead of printing", type=Path, metavar="FILE.profile"),
    ],
)
def import_feeds(options: argparse.Namespace) -> int:
    """Make profiles of another program's list, and leave alone what is declared already."""
    from proxyd.app.check_settings import check_declaration, check_settings
    from proxyd.cli.other_programs import Moved, merge_watches, read_other_program
    from proxyd.config.profile_files import check_place, write_text
    from proxyd.core.language import format_parsed, merge_listing, parse

    refuse_unsigned_webhooks(options)
    settings, out = settings_of(options), options.out
    unread = None if out is None else check_place(out, settings.profiles)
    try:
        listed = read_other_program(options.file, pages=options.pages)
    except OSError as error:
        raise ConfigError([f"{options.file} cannot be read ({error.strerror})"]) from error
    files = _files_beside(out, settings)
    declared = check_declaration(files, settings)
    watched = set() if unread else _addresses_of_daemon(settings.database_path)
    notes: Sequence[str]
    to, secret = options.to or (), options.secret
    if isinstance(listed, Moved):
        merged, notes = merge_watches(listed, declared, check_settings(settings), to, secret, watched=watched)
    else:
        new = tuple(each for each in listed.feeds if each.url not in watched)
        merged = merge_listing(
            replace(listed, feeds=new),
            declared,
            options.name,
            pages=options.pages,
            match=options.match,
            to=to,
            secret=secret,
        )
        merged = replace(merged, known=merged.known + len(listed.feeds) - len(new))
        notes = listed.unreadable
    before = next((each.text for each in files if out is not None and Path(each.file) == out), "")
    parsed = parse("\n".join([before, *merged.statements]), str(out or "the list"))
    if parsed.errors:
        raise ProfileError(parsed.errors)
    text = format_parsed(parsed)
    if merged.new and out is not None:
        others = [each for each in files if Path(each.file) != out]
        check_declaration([*others, replace(parsed.source, text=text)], settings)
        write_text(out, text)
    elif out is None:
        print_text(text)
    noun, repeated = ("left out in part", 0) if isinstance(listed, Moved) else ("left out", listed.repeated)
    _tell_of_import(merged, notes, out, noun, repeated)
    if unread is not None and merged.new:
        print_lines([unread])
    return 0


def refuse_unsigned_webhooks(options: argparse.Namespace) -> None:
    """Raise ``ConfigError`` if --to has a webhook, and --secret does not name its secret."""
    if options.secret is None and any(to.lower().startswith(("http://", "https://")) for to in options.to or ()):
        raise ConfigError(["a webhook is signed: add --secret with the variable that holds its secret, as SECRET_HOOK"])


def _files_beside(out: Path | None, settings: Settings) -> list[SourceText]:
    """Return the profiles of the folder that an import goes to."""
    from proxyd.config.profile_files import read_directory, read_text

    folder = settings.profiles if out is None else out.parent
    files = read_directory(folder) if folder.is_dir() else []
    if out is not None and out.exists() and not any(Path(each.file) == out for each in files):
        files.append(read_text(out))
    return files


def _addresses_of_daemon(database: Path | None) -> set[str]:
    """Return the addresses that a daemon here was told to watch otherwise than by files, as far as its database says.

    They would be watched twice, and told twice.
    """
    from proxyd.core.language import CreateSource, Watch, parse

    rows = _read_here(database, "SELECT text FROM texts WHERE origin = 'api'")
    statements = (each for (text,) in rows for each in parse(text).statements)
    return {each.url.value for each in statements if isinstance(each, CreateSource | Watch)}


def _tell_of_import(merged: Merged, notes: Sequence[str], out: Path | None, noun: str, repeated: int) -> None:
    """Print the counts of an import and what is left out, on standard error if standard output has the profile."""
    where = "" if not merged.new else " printed" if out is None else f" in {out}"
    twice = f", {repeated} listed again" if repeated else ""
    said = f"{with_noun(merged.new, 'new source')}{where}, {merged.known} already there{twice}, {len(notes)} {noun}"
    more = [f"and {len(notes) - _MOST_NAMED} more"] if len(notes) > _MOST_NAMED else []
    if out is None and merged.new:
        more.append("nothing is watched by that: `--out profiles/FILE.profile` writes it where the daemon reads it")
    for line in [said, *notes[:_MOST_NAMED], *more]:
        print(visible(line), file=sys.stderr if out is None else sys.stdout)


@verb(
    "export",
    "proxyd export",
    "proxyd export --items csv --source news",
    takes=[
        argument("--items", "the stored items instead, newest first", choices=("json", "csv")),
        argument("--source", "only the items of this source", metavar="NAME"),
        URL,
    ],
)
async def export(options: argparse.Namespace) -> int:
    """Print all sources as OPML, or the stored items, one a line; without a daemon the sources of the profiles."""
    if options.items is not None:
        await _export_items(options)
        return 0
    try:
        async with client_of(options) as client:
            sys.stdout.write(await client.export_feeds())
    except UnreachableError as error:
        print(f"proxyd: {error}; these are the sources of the profiles alone", file=sys.stderr)
        print(_sources_of_files(settings_of(options)))
    return 0


def _sources_of_files(settings: Settings) -> str:
    from proxyd.app.check_settings import check_declaration
    from proxyd.config.profile_files import read_directory
    from proxyd.core.language import opml_of

    declaration = check_declaration(read_directory(settings.profiles), settings)
    return opml_of(declaration, declaration.sources)


async def _export_items(options: argparse.Namespace) -> None:
    """Print the stored items as they are read: JSON a line, or CSV with a heading."""
    is_csv = options.items == "csv"
    rows = csv.DictWriter(sys.stdout, _EXPORTED, extrasaction="ignore", lineterminator="\n")
    async with client_of(options) as client:
        has_heading = False
        async for item in client.stored_items(source=options.source):
            if is_csv and not has_heading:  # what is refused is no table
                rows.writeheader()
                has_heading = True
            if is_csv:
                rows.writerow({name: visible(each) if isinstance(each, str) else each for name, each in item.items()})
            else:
                sys.stdout.write(json.dumps(item) + "\n")
