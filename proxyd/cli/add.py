"""The verb that watches an address: it finds what is there, shows what it would send, and declares it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from proxyd.cli.answers import client_of, counted, print_json, print_lines, settings_of
from proxyd.errors import ConfigError, NotFoundError, ProfileError, UnreachableError
from proxyd.safe_text import is_web, visible, visible_line
from proxyd.terminal.verbs import ASKING, argument, flag, verb

if TYPE_CHECKING:
    from proxyd.config import Settings
    from proxyd.core.language import Parsed, SourceText, Watch
    from proxyd.core.model.outcome import ProbeOutcome
    from proxyd.core.model.profile import PageClass

_SHOWN = 5
_LINE = 160


@verb(
    "add",
    "proxyd add https://github.com/python/cpython/releases.atom --to me@example.org",
    "proxyd add https://example.org/blog --match cve --match security --file profiles/news.profile",
    takes=[
        argument("address", "a feed, a page that links to one, or a page whose text you want to follow"),
        argument("--match", "tell only of what holds this text; repeat it for others", action="append", metavar="TEXT"),
        argument("--name", "call it so (default: the address without its scheme)"),
        argument(
            "--to",
            "a mail address, a chat address or a webhook; repeat it for others",
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
    from proxyd.app.discovery import discover

    if not is_web(options.address):
        raise ConfigError([f"{options.address!r} is not an address; it starts with https:// or http://"])
    settings = settings_of(options)
    outcome, page_class = await discover(settings, options.address)
    if not outcome.kind.is_success:
        raise NotFoundError(f"{options.address} cannot be watched: {outcome.detail}")
    wish = _wish(options, outcome.source_id, page_class)
    text, old = await _known(options, wish)
    watch = _edited(old, wish)
    samples = _samples(settings, watch, outcome)
    if not options.json:
        _print_found(options.address, outcome, page_class, samples)
        print(visible(_written(watch)))
    where = "nothing was changed"
    if not options.dry_run and options.file is not None:
        _write(options.file, _with(text, old, watch, settings))
        where = f"written to {options.file}"
    elif not options.dry_run:
        where = await _declare(options, watch)
    if options.json:
        print_json(
            {
                "address": outcome.source_id,
                "class": page_class.name,
                "items": len(outcome.items),
                "linked_feeds": list(outcome.linked_feeds),
                "messages": samples,
                "statement": _written(watch),
                "done": where,
            }
        )
    else:
        print_lines([where])
    return 0


# -- the statement


def _wish(options: argparse.Namespace, url: str, page_class: PageClass) -> Watch:
    """Return the WATCH of the arguments; raises ``ConfigError``, ``ProfileError``."""
    from proxyd.core.language import Watch, parse
    from proxyd.core.language.printing.quoting import quote_name, quote_text

    parts = [f"WATCH {quote_text(url)}"]
    if page_class.name != "FEED":
        parts.append(f"OF {page_class.name}")
    if options.name is not None:
        parts.append(f"AS {quote_name(options.name)}")
    if options.match:
        field = "text" if page_class.name == "PAGE" else "title"
        parts.append("WHERE " + " OR ".join(f"{field} ILIKE {_pattern(text)}" for text in options.match))
    parts += [f"TELL {_delivery(to, options.secret)}" for to in options.to or ()]
    parsed = parse(" ".join(parts), "the arguments")
    if parsed.errors:
        raise ProfileError(parsed.errors)
    (watch,) = parsed.statements
    assert isinstance(watch, Watch)
    return watch


def _pattern(text: str) -> str:
    """Return a pattern for texts that hold this one.

    >>> _pattern("rc"), _pattern("50%")
    ("'%rc%'", "'%50!%%' ESCAPE '!'")
    """
    from proxyd.core.language.printing.quoting import quote_text

    if not set(text) & set("%_"):
        return quote_text(f"%{text}%")
    escaped = "".join(f"!{char}" if char in "%_!" else char for char in text)
    return f"{quote_text(f'%{escaped}%')} ESCAPE '!'"


def _delivery(to: str, secret: str | None) -> str:
    """Return a delivery to a mail address, a webhook or a chat.

    >>> _delivery("me@example.org", None), _delivery("tgram://a/b", None)
    ("MAIL 'me@example.org'", "CHANNEL 'tgram://a/b'")
    """
    from proxyd.core.language.printing.quoting import quote_text

    if "://" not in to:
        return f"MAIL {quote_text(to)}"
    if not to.lower().startswith(("http://", "https://")):
        return f"CHANNEL {quote_text(to)}"
    if secret is None:
        raise ConfigError(["a webhook is signed: name the variable that holds its secret, as in --secret SECRET_HOOK"])
    return f"WEBHOOK {quote_text(to)} SECRET ENV {quote_text(secret)}"


def _edited(old: Watch | None, wish: Watch) -> Watch:
    from proxyd.core.language import edited

    return wish if old is None else edited(old, wish)


def _written(watch: Watch) -> str:
    from proxyd.core.language import format_statements

    return format_statements([watch]).rstrip("\n")


# -- what is there


def _samples(settings: Settings, watch: Watch, outcome: ProbeOutcome) -> list[str]:
    """Return the messages that the items there now would give; none for the text of a page, which has to change."""
    from proxyd.app.check_settings import check_settings
    from proxyd.core.language import SourceText, check
    from proxyd.core.model.item import EventKind
    from proxyd.core.rules.answers.samples import sample
    from proxyd.core.rules.programs.rule_program import compile_rule

    checked = check([SourceText("the arguments", _written(watch))], check_settings(settings))
    if checked.declaration is None:
        raise ProfileError(checked.errors)
    (rule,) = checked.declaration.rules.values()
    if rule.trigger.kind is not EventKind.INSERT:
        return []
    program = compile_rule(rule, checked.declaration, accepted_s=outcome.finished_s, chronon_s=settings.chronon)
    return sample(program, outcome.items, watch.address.value, outcome.finished_s)


def _print_found(address: str, outcome: ProbeOutcome, page_class: PageClass, samples: Sequence[str]) -> None:
    if page_class.name == "PAGE":
        (item,) = outcome.items
        text = str(item.fields.get("text") or "")
        lines = [f"a page without a feed: you are told when its text changes ({len(text)} characters now)"]
        lines += [f"  {visible_line(line, _LINE)}" for line in text.splitlines()[:_SHOWN]]
        return print_lines(lines)
    if outcome.source_id != address:
        print_lines([f"the page links to the feed {outcome.source_id}"])
        print_lines(f"  another one: {link}" for link in outcome.linked_feeds[1:])
    print_lines([f"{counted(len(outcome.items), 'item')} there now; of these it would have told:"])
    print_lines(f"  {visible_line(text, _LINE)}" for text in samples[:_SHOWN])
    if len(samples) > _SHOWN:
        print_lines([f"  and {len(samples) - _SHOWN} more"])
    if not samples:
        print_lines(["  none"])
    return None


# -- what is watched already


async def _known(options: argparse.Namespace, wish: Watch) -> tuple[SourceText, Watch | None]:
    """Return the text that an edit belongs to, and the WATCH of this address in it."""
    from proxyd.config.profile_files import read_text
    from proxyd.core.language import SourceText, find_watch, parse

    name = wish.rule_name.value if wish.rule_name else None
    if options.file is None:
        texts = [] if options.dry_run else await _declared(options)
        statements = [statement for each in texts for statement in parse(each).statements]
        return SourceText("", ""), find_watch(statements, wish.url.value, name)
    if options.file.suffix != ".profile":
        raise ConfigError([f"{options.file}: profiles are files that end with .profile"])
    text = read_text(options.file) if options.file.exists() else SourceText(str(options.file), "")
    return text, find_watch(_sound(text).statements, wish.url.value, name)


async def _declared(options: argparse.Namespace) -> list[str]:
    """Return the texts of the profiles that were declared to the daemon."""
    try:
        async with client_of(options) as client:
            profiles = await client.profiles()
            return [
                (await client.profile(each["name"])).profile["text"] for each in profiles if each["origin"] == "api"
            ]
    except UnreachableError as error:
        raise UnreachableError(f"{error}, or write the WATCH into a file with --file") from error


async def _declare(options: argparse.Namespace, watch: Watch) -> str:
    """Declare a WATCH to the daemon; return what became of it."""
    async with client_of(options) as client:
        changes = await client.declare(_written(watch))
    return "declared to the daemon" + ("" if changes["added"] else ", in place of the one before")


def _sound(text: SourceText) -> Parsed:
    from proxyd.core.language import parse

    parsed = parse(text.text, text.file)
    if parsed.errors:
        raise ProfileError(parsed.errors)
    return parsed


def _with(text: SourceText, old: Watch | None, watch: Watch, settings: Settings) -> str:
    """Return a file's text with a WATCH in its place or at its end, checked with the other files of its folder."""
    from proxyd.app.check_settings import check_settings
    from proxyd.config.profile_files import read_directory
    from proxyd.core.language import SourceText, check

    if old is None:
        gap = "\n" if text.text and not text.text.endswith("\n\n") else ""
        ends = ";\n" if _ends_open(text) else ""
        new = f"{text.text}{ends}{gap}{_written(watch)}\n"
    else:
        rest = text.text[old.span.stop :]
        new = (
            text.text[: old.span.start]
            + _written(watch).removesuffix(";" if rest.lstrip().startswith(";") else "")
            + rest
        )
    path = Path(text.file)
    others = [each for each in read_directory(path.parent or Path()) if Path(each.file) != path]
    checked = check([*others, SourceText(text.file, new)], check_settings(settings))
    if checked.errors:
        raise ProfileError(checked.errors)
    return new


def _ends_open(text: SourceText) -> bool:
    """Whether the last statement of a text has no ``;``."""
    statements = _sound(text).statements
    return bool(statements) and ";" not in text.text[statements[-1].span.stop :]


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole."""
    try:
        new = path.with_name(f".{path.name}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise ConfigError([f"{path} cannot be written ({error.strerror})"]) from error
