"""The verbs that watch an address and stop watching it, by the daemon's declaration or in a file."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from proxyd.cli.local_profiles import refuse_unsigned_webhooks
from proxyd.cli.printed_answers import client_of, print_json, print_lines, settings_of, with_noun
from proxyd.core.errors import ConfigError, NotFoundError, ProfileError, UnreachableError
from proxyd.core.texts.safe_text import visible, visible_line
from proxyd.terminal.verbs import ASKING, argument, flag, verb

if TYPE_CHECKING:
    from proxyd.config.settings import Settings
    from proxyd.core.language import CreateSource, Parsed, SourceText, Statement, Watch
    from proxyd.core.model.item import Item
    from proxyd.core.model.outcome import ProbeOutcome
    from proxyd.daemon.discovery import Discovered, Way

_SHOWN = 5
_LINE = 160
_BY_API = "api"  # the origin of rules that no file declares


@verb(
    "add",
    "proxyd add https://github.com/python/cpython/releases.atom --to me@example.org",
    "proxyd add https://example.org/blog --match cve --match security --file profiles/news.profile",
    "proxyd add https://shop.example/lamp --price --to me@example.org",
    "proxyd add https://shop.example/lamp --css span.stock --to me@example.org",
    "proxyd add https://shop.example --site --to me@example.org",
    takes=[
        argument("address", "a feed, a page that links to one, or a page whose text you want to follow"),
        argument("--match", "tell only of what holds this text; repeat it for others", action="append", metavar="TEXT"),
        argument("--without", "leave out what holds this text; repeat it for others", action="append", metavar="TEXT"),
        argument("--every", "the longest time between two probes, such as 5m", metavar="TIME"),
        argument(
            "--digest",
            "one message for all: hourly, or daily or weekly at 08:00 in your time_zone",
            choices=("hourly", "daily", "weekly"),
        ),
        argument("--message", "the wording, with fields in braces, such as '{title} {link}'", metavar="TEXT"),
        argument("--into", "the profile it belongs to (default: default)", metavar="PROFILE"),
        argument(
            "--header",
            "a header of each request, such as 'Cookie: session=1'; repeat it for others",
            action="append",
            metavar="HEADER",
        ),
        argument(
            "--ignore", "leave out the lines of a page that hold this text; repeat it", action="append", metavar="TEXT"
        ),
        flag("--browser", "open the page in a browser, which runs its scripts"),
        flag("--site", "a site of your own: tell when it is down, and up again"),
        argument("--holding", "what the page of the site must hold", metavar="WORDS"),
        flag("--price", "follow the price that the page states: tell when it falls"),
        argument(
            "--css", "follow the value at this CSS selector; with --price, tell when it falls", metavar="SELECTOR"
        ),
        argument("--locale", "the language in which its numbers are written, such as de", metavar="TAG"),
        argument("--name", "call it so (default: the address without its scheme)"),
        argument(
            "--to",
            "a mail address, a chat address, a webhook, or the name of a receiver; repeat it for others",
            action="append",
            metavar="ADDRESS",
        ),
        argument("--secret", "the variable with a webhook's secret, such as SECRET_HOOK", metavar="NAME"),
        argument("--file", "write it into this file instead of declaring it to the daemon", type=Path, metavar="FILE"),
        flag("--dry-run", "change nothing; show what it would send"),
        *ASKING,
    ],
)
async def add(options: argparse.Namespace) -> int:
    """Watch an address."""
    from proxyd.app.network import discover
    from proxyd.base.clock import zone_name
    from proxyd.config.profile_files import check_place
    from proxyd.core.language import address_to_watch, find_watch
    from proxyd.core.language.watch_wishes import digest_text, headers_of
    from proxyd.daemon.discovery import Way, why_no_value

    options.address = address_to_watch(options.address, of_site=options.site)
    settings = settings_of(options)
    unread = None if options.file is None else check_place(options.file, settings.profiles)
    options.digest = digest_text(options.digest or "", zone_name(settings.zone))
    _refuse_contradictions(options)
    way = Way(headers_of("\n".join(options.header or ())), is_rendered=options.browser, locale=options.locale)
    reads = "PRICE" if options.price else "SITE" if options.site else ""
    value = None if options.css is None else (options.css, bool(options.price))
    if sys.stderr.isatty():  # reading a page twice, to see what differs, has taken 26 s
        print(f"asking {visible_line(options.address, _LINE)}, which may take half a minute", file=sys.stderr)
    found = await discover(settings, options.address, way, reads=reads, value=value)
    outcome = found.outcome
    if not outcome.kind.is_success and not options.site:
        raise NotFoundError(f"{options.address} cannot be watched: {outcome.detail}{_remedy(options, outcome)}")
    if value is not None and (why := why_no_value(outcome, is_number=options.price)) is not None:
        raise NotFoundError(f"nothing was read at {options.css} of {options.address}: {why}")
    text, known = await _text_to_edit(options)
    old = find_watch(known, outcome.source_id, options.name)
    _refuse_another_kind(old, found.page_class, options)
    if old is None and options.file is not None:
        _refuse_watched_elsewhere(options.file, outcome.source_id, options.name)
    source, watch = _statements_to_add(options, way, found, old)
    _refuse_a_taken_name(watch, old, known)
    texts = _texts(options.file, text, old, source, watch)
    samples = _samples(texts, settings, watch, outcome)
    if not options.json:
        _print_found(options.address, found, samples)
        print(visible(_written(*source, watch)))
        _print_kept(old, watch)
    done, warnings = await _carry_out(options, _written(*source, watch), texts[0])
    done = f"{done}{_place_among(known, old, watch)}"
    if options.json:
        print_json(_as_json(found, watch, samples, done) | {"warnings": warnings})
    else:
        print_lines([done, *(f"warning: {each}" for each in warnings)])
        if unread is not None:
            print_lines([unread])
        elif not watch.deliveries:
            print_lines(
                ["its news are on the dashboard and in `proxyd notifications --follow`; --to ADDRESS sends them"]
            )
    return 0


def _remedy(options: argparse.Namespace, outcome: ProbeOutcome) -> str:
    """Return what to try where an address cannot be watched, or nothing."""
    host, secure = options.address.partition("://")[2], options.address.startswith("https://")
    if secure and "WRONG_VERSION_NUMBER" in outcome.detail:  # so OpenSSL calls an answer in plain HTTP
        return f" (it speaks no https: write http://{host})"
    if options.price and options.css is None and outcome.status == 200:
        return " (here: --css '.price')"
    return ""


def _refuse_contradictions(options: argparse.Namespace) -> None:
    """Raise ``ConfigError`` if two options do not go together."""
    if options.price and options.match:
        raise ConfigError(["--price tells when the price falls; leave out --match"])
    if options.site and (options.price or options.match or options.css):
        raise ConfigError(["--site tells whether a site answers; leave out --price, --css and --match"])
    refuse_unsigned_webhooks(options)
    if options.holding and not options.site:
        raise ConfigError(["--holding is what a site must hold; add --site, or use --match"])


def _class_of(watch: Watch) -> str:
    return "FEED" if watch.page_class is None else watch.page_class.name.upper()


def _refuse_another_kind(old: Watch | None, asked: str, options: argparse.Namespace) -> None:
    """Raise ``ConfigError`` if an edit would leave a WATCH as it is, although what is told of it is another kind."""
    from proxyd.core.language.watch_wishes import VALUE_CLASS

    flags = {"SITE": "--site", "PRICE": "--price", VALUE_CLASS: "--css"}
    known = asked if old is None else _class_of(old)
    if old is None or known == asked or not {known, asked} & {"PAGE", *flags}:
        return
    change = f"add {flags[known]}" if known in flags else f"leave out {flags[asked]}" if asked in flags else ""
    edit = f"{change} to edit that, or " if change else f"now there is a {asked}; "
    remove = ["proxyd", "remove", old.name.value, *([] if options.file is None else ["--file", str(options.file)])]
    what = f"{old.url.value} is watched already as {known}: {edit}give this a --name"
    raise ConfigError([f"{what}; `{shlex.join(remove)}` ends the one before"])


def _refuse_a_taken_name(watch: Watch, old: Watch | None, known: Sequence[Statement]) -> None:
    """Raise ``ConfigError`` if the daemon would take a WATCH in place of a rule on something else."""
    taken = (each for each in known if each.kind is watch.kind and each.name.value == watch.name.value)
    if any(each is not old for each in taken):
        raise ConfigError([f"there is a rule {watch.name.value!r} on something else; give this another --name"])


def _refuse_watched_elsewhere(file: Path, url: str, name: str | None) -> None:
    """Raise ``ConfigError`` if another file of the folder has the WATCH that would be edited."""
    from proxyd.core.language import find_watch

    for other in _texts_in(file.parent):
        if find_watch(_statements(other), url, name) is not None:
            raise ConfigError([f"{url} is watched in {other.file}: give --file {other.file}, or another --name"])


def _print_kept(old: Watch | None, watch: Watch) -> None:
    """Print the options that an edit has left in a WATCH, which nobody has asked for now."""
    from proxyd.core.language import options_kept

    if old is not None and (kept := options_kept(old, watch)):
        print_lines([f"kept of the one before: {', '.join(kept)}"])


def _place_among(known: Sequence[Statement], old: Watch | None, watch: Watch) -> str:
    """Return how a WATCH stands to the others of its address."""
    from proxyd.core.language import Watch

    if old is not None:
        return ", in place of the one before"
    others = [each.name.value for each in known if isinstance(each, Watch) and each.url.value == watch.url.value]
    return f", beside {' and '.join(map(repr, others))} of the same address" if others else ""


def _as_json(found: Discovered, watch: Watch, samples: Sequence[str], done: str) -> dict[str, object]:
    return {
        "address": found.outcome.source_id,
        "class": found.page_class,
        "items": len(found.outcome.items),
        "linked_feeds": list(found.outcome.linked_feeds),
        "messages": list(samples),
        "statement": _written(watch),
        "done": done,
    }


@verb(
    "remove",
    "proxyd remove https://github.com/python/cpython/releases.atom",
    "proxyd remove releases --file profiles/news.profile",
    takes=[
        argument("watched", "its address or its name", metavar="ADDRESS"),
        argument("--file", "take it out of this file instead of the daemon", type=Path, metavar="FILE"),
        *ASKING,
    ],
)
async def remove(options: argparse.Namespace) -> int:
    """End what add began: an address is not watched any longer."""
    from proxyd.core.language.syntax.quoting import quote_name

    if options.file is not None:
        old, where = _remove_from(options.watched, options.file, settings_of(options)), str(options.file)
    else:
        where = "what was declared to the daemon"
        declared: dict[str, Sequence[Statement]] = {**await _declarations_of(options)}
        of_daemon = declared.pop(_BY_API, [])
        if not any(_watching(options.watched, its) for its in (of_daemon, *declared.values())):  # perhaps a source is
            declared = {each.file: _statements(each) for each in _texts_in(settings_of(options).profiles)}
        old = _find(options.watched, of_daemon, where, declared)
        async with client_of(options) as client:
            await client.declare(f"DROP NOTIFICATION {quote_name(old.name.value)};")
    done = f"removed {old.name.value} from {where}"
    if options.json:
        print_json({"name": old.name.value, "statement": _written(old), "done": done})
    else:
        print_lines([done, "to have it back:"])
        print(visible(_written(old)))  # a comment in it ends with its line
    return 0


def _find(
    written: str, statements: Sequence[Statement], where: str, elsewhere: Mapping[str, Sequence[Statement]]
) -> Statement:
    """Return what watches an address, or has a name; ``elsewhere`` are the statements of other files.

    Raises ``NotFoundError``, and ``ConfigError`` if there are several.
    """
    from proxyd.core.language import did_you_mean

    found = _watching(written, statements)
    for file in () if found else (each for each, its in elsewhere.items() if _watching(written, its)):
        command = shlex.join(["proxyd", "remove", written, "--file", file])
        raise NotFoundError(f"{written} is watched in {file}, not in {where}: `{command}` removes it there")
    if not found:
        known = [each.name.value for each in statements if isinstance(each, _kinds_that_watch())]
        hint = did_you_mean(written, known) or " Give the profile that holds it: --file FILE"
        raise NotFoundError(f"nothing watches {written!r} in {where}.{hint}")
    if len(found) > 1:
        names = " and ".join(repr(each.name.value) for each in found)
        raise ConfigError([f"{written} is watched {len(found)} times, as {names}; give one of these names"])
    return found[0]


def _kinds_that_watch() -> tuple[type[Watch], type[CreateSource]]:
    from proxyd.core.language import CreateSource, Watch

    return Watch, CreateSource


def _watching(written: str, statements: Sequence[Statement]) -> list[Watch | CreateSource]:
    """Return the WATCH of a name, or else those of an address; if there is none, the CREATE SOURCE, as imports make."""
    for kind in _kinds_that_watch():
        its = [each for each in statements if isinstance(each, kind)]
        named = [each for each in its if each.name.value == written]
        if found := named or [each for each in its if each.url.value == written]:
            return found
    return []


def _remove_from(written: str, file: Path, settings: Settings) -> Statement:
    """Remove what watches an address from a file and return it; raises ``ProfileError`` if other statements need it."""
    from proxyd.app.check_settings import check_declaration
    from proxyd.config.profile_files import read_text, write_text
    from proxyd.core.language import SourceText

    text = read_text(file)
    elsewhere = {each.file: _statements(each) for each in _others_in_folder(file)}
    old = _find(written, _parse_document_of(text).statements, str(file), elsewhere)
    rest = text.text[old.span.stop :].lstrip().removeprefix(";").lstrip()
    left = SourceText(text.file, text.text[: old.span.start] + rest)
    check_declaration([left, *_others_in_folder(file)], settings)
    write_text(file, left.text)
    return old


# -- the statement


def _statements_to_add(
    options: argparse.Namespace, way: Way, found: Discovered, old: Watch | None
) -> tuple[list[Statement], Watch]:
    """Return what the arguments ask for: the CREATE SOURCE of headers, and the WATCH; it edits ``old`` if there is one.

    Raises ``ConfigError`` or ``ProfileError``: the arguments do
    not make a WATCH.
    """
    from proxyd.core.language import Watch, parse, with_options_of
    from proxyd.core.language.watch_wishes import WatchOptions, WatchWish, watch_text

    wish = WatchWish(
        found.outcome.source_id,
        page_class=found.page_class if found.page_class != "FEED" and old is None else "",
        name=options.name,
        locale=options.locale,
        words=tuple(options.match or ()),
        searched=found.page_class if old is None else _class_of(old),
        selector=options.css or "",
        when="falls" if options.price else "changes",
        to=tuple(options.to or ()),
        secret=options.secret,
        options=WatchOptions(
            without=tuple(options.without or ()),
            every=options.every or "",
            digest=options.digest,
            message=options.message or "",
            profile=options.into or "",
            needs_browser=options.browser,
            headers=way.headers,
            holding=options.holding or "",
            ignored=tuple(options.ignore or (found.noise if old is None else ())),
        ),
    )
    parsed = parse(watch_text(wish), "the arguments")
    if parsed.errors:
        raise ProfileError(parsed.errors)
    *source, watch = parsed.statements
    assert isinstance(watch, Watch)
    return source, watch if old is None else with_options_of(old, watch)


def _written(*statements: Statement) -> str:
    from proxyd.core.language import format_statements

    return format_statements(statements).rstrip("\n")


# -- what is there


def _samples(texts: Sequence[SourceText], settings: Settings, watch: Watch, outcome: ProbeOutcome) -> list[str]:
    """Return the messages that the present items would give; none if the rule waits for a change of them.

    Raises ``ProfileError``: the texts have errors.
    """
    from proxyd.app.check_settings import check_declaration
    from proxyd.core.language import BUILT_IN
    from proxyd.core.model.item import EventKind
    from proxyd.core.rules.answers.advice import sample
    from proxyd.core.rules.programs.rule_program import compile_rule

    is_own = watch.page_class is not None and watch.page_class.name.upper() not in BUILT_IN.classes
    if is_own and len(texts) == 1 and texts[0].file == "the arguments":
        return []  # only the daemon knows the declaration of this class
    declaration = check_declaration(texts, settings)
    rule = declaration.rules[watch.name.value]
    if is_own or rule.trigger.kind is not EventKind.INSERT:
        return []
    program = compile_rule(rule, declaration, accepted_s=outcome.finished_s, chronon_s=settings.chronon)
    return sample(program, outcome.items, watch.address.value, outcome.finished_s)


def _print_found(address: str, found: Discovered, samples: Sequence[str]) -> None:
    from proxyd.core.language.watch_wishes import VALUE_CLASS, VALUE_FIELD

    outcome = found.outcome
    if found.page_class == "SITE":
        answers = "it answers" if outcome.kind.is_success else "it does not answer now"
        print_lines(
            [f"a site: you are told when it is down, and up again; {answers}: {visible_line(outcome.detail, _LINE)}"]
        )
        return
    if found.page_class == "PRICE":
        print_lines([f"a page that states a price, {_price(outcome.items[0])}: you are told when it falls"])
        return
    if found.page_class == VALUE_CLASS:
        value = outcome.items[0].fields[VALUE_FIELD]
        news = "changes" if isinstance(value, str) else "falls"
        print_lines([f"a value of the page, {visible_line(str(value), 40)}: you are told when it {news}"])
        return
    if found.page_class == "PAGE":
        (item,) = outcome.items
        text = str(item.fields.get("text") or "")
        lines = [f"a page without a feed: you are told when its text changes ({len(text)} characters now)"]
        lines += [f"  {visible_line(line, _LINE)}" for line in text.splitlines()[:_SHOWN]]
        lines += [f"left out, because it differs each time: {each}" for each in found.noise]
        lines += [f"it links to a feed that cannot be read: {link}" for link in outcome.linked_feeds]
        lines += [f"it states a price, {_price(each)}: --price follows that alone" for each in [found.price] if each]
        print_lines(lines)
        return
    if outcome.source_id != address:
        print_lines([f"the page links to the feed {outcome.source_id}"])
        print_lines(f"  another one: {link}" for link in outcome.linked_feeds[1:])
    print_lines([f"{with_noun(len(outcome.items), 'item')} there now; of these it would have told:"])
    print_lines(f"  {visible_line(text, _LINE)}" for text in samples[:_SHOWN])
    if len(samples) > _SHOWN:
        print_lines([f"  and {len(samples) - _SHOWN} more"])
    if not samples:
        print_lines(["  none"])


def _price(item: Item) -> str:
    from proxyd.core.rules.programs.message_program import price_text

    return visible_line(price_text(item.fields), 40)


# -- what is watched already


async def _text_to_edit(options: argparse.Namespace) -> tuple[SourceText, Sequence[Statement]]:
    """Return the file's text, which is empty without --file, and the statements that an edit may replace."""
    from proxyd.config.profile_files import read_text
    from proxyd.core.language import SourceText

    if options.file is not None:
        text = read_text(options.file) if options.file.exists() else SourceText(str(options.file), "")
        return text, _parse_document_of(text).statements
    try:
        return SourceText("", ""), (await _declarations_of(options)).get(_BY_API, [])
    except UnreachableError:
        if options.dry_run:
            return SourceText("", ""), ()
        raise


def _statements(text: SourceText) -> Sequence[Statement]:
    """Return the statements of a text that can be read."""
    from proxyd.core.language import parse

    return parse(text.text, text.file).statements


async def _declarations_of(options: argparse.Namespace) -> dict[str, list[Statement]]:
    """Return the statements of the rules that the daemon has, by the file that declares them, or ``_BY_API``."""
    from proxyd.core.language import SourceText

    declared: dict[str, list[Statement]] = {}
    try:
        async with client_of(options) as client:
            origins = {rule["name"]: rule["origin"] for rule in await client.rules()}
            profiles = [await client.profile(each["name"]) for each in await client.profiles()]
    except UnreachableError as error:
        raise UnreachableError(f"{error}, or write the WATCH into a file with --file") from error
    for each in (each for read in profiles for each in _statements(SourceText("", read.profile["text"]))):
        if each.name.value in origins:
            declared.setdefault(origins[each.name.value], []).append(each)
    return declared


async def _carry_out(options: argparse.Namespace, written: str, edited: SourceText) -> tuple[str, list[str]]:
    """Write the ``edited`` file, or declare what was ``written`` to the daemon, unless it is a dry run.

    Returns what was done, and the daemon's warnings.
    """
    from proxyd.config.profile_files import write_text

    if options.dry_run:
        return "nothing was changed", []
    if options.file is not None:
        write_text(options.file, edited.text)
        return f"written to {options.file}", []
    async with client_of(options) as client:
        changes = await client.declare(written)
    return "declared to the daemon", [each["detail"] for each in changes.get("warnings", ())]


def _parse_document_of(text: SourceText) -> Parsed:
    """Return a text parsed; raises ``ProfileError``."""
    from proxyd.core.language import parse

    parsed = parse(text.text, text.file)
    if parsed.errors:
        raise ProfileError(parsed.errors)
    return parsed


def _texts(
    file: Path | None, text: SourceText, old: Watch | None, source: Sequence[Statement], watch: Watch
) -> list[SourceText]:
    """Return the file's text with a WATCH in its place or at its end, and the others of its folder."""
    from proxyd.core.language import SourceText
    from proxyd.core.language.syntax.delivery_kinds import ReceiverName

    if file is None:  # only the daemon knows receivers by name
        known = tuple(each for each in watch.deliveries if not isinstance(each.value, ReceiverName))
        return [SourceText("the arguments", _written(*source, replace(watch, deliveries=known)))]
    return [SourceText(text.file, _edit_text(text, old, source, watch)), *_others_in_folder(file)]


def _edit_text(text: SourceText, old: Watch | None, source: Sequence[Statement], watch: Watch) -> str:
    """Return a file's text with each statement in the place of the one that it edits, or else before the WATCH."""
    from proxyd.core.language import is_edit

    if old is None:
        gap = "\n" if text.text and not text.text.endswith("\n\n") else ""
        return f"{text.text}{';' if _ends_open(text) else ''}{gap}{_written(*source, watch)}\n"
    known = _statements(text)
    edits = [([each], place) for each in source for place in known if is_edit(each, place)]
    added = [each for each in source if not any(is_edit(each, place) for place in known)]
    edits.append(([*added, watch], old))
    new = text.text
    for statements, place in sorted(edits, key=lambda edit: edit[1].span.start, reverse=True):
        rest = new[place.span.stop :]
        end = ";" if rest.lstrip().startswith(";") else ""
        new = new[: place.span.start] + _written(*statements).removesuffix(end) + rest
    return new


def _others_in_folder(file: Path) -> list[SourceText]:
    """Return the other profiles of a file's folder."""
    return [each for each in _texts_in(file.parent) if Path(each.file) != file]


def _texts_in(folder: Path) -> list[SourceText]:
    """Return the profiles of a folder; none of one that is still to be made."""
    from proxyd.config.profile_files import read_directory

    return read_directory(folder) if folder.exists() else []


def _ends_open(text: SourceText) -> bool:
    """Whether the last statement of a text has no ``;``."""
    statements = _parse_document_of(text).statements
    return bool(statements) and ";" not in text.text[statements[-1].span.stop :]
