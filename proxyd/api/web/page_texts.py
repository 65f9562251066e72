"""Texts and numbers as pages show them; foreign texts are isolated, their invisible characters made visible."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from math import floor, log10
from urllib.parse import quote

from markupsafe import Markup

from proxyd.api.problems import BadRequestError
from proxyd.base.doers import current_doer
from proxyd.core.language.checking.word_conditions import condition_in_words
from proxyd.core.language.syntax.expression_printer import format_after, format_then
from proxyd.core.model.delivery import shown_endpoint
from proxyd.core.model.field_values import moment_s
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import Declaration, NotificationRule, plain_name
from proxyd.core.texts.safe_text import visible
from proxyd.daemon.declarations import Declarations
from proxyd.daemon.declared_texts import DeclarationChanges

_DAY_S, _MOST_WARNINGS = 86400.0, 20
MUTE_S: Mapping[str, float | None] = {
    "until I unmute it": None,
    "until 07:00": 0.0,
    "1 hour": 3600.0,
    "8 hours": 8 * 3600.0,
    "1 day": 86400.0,
    "1 week": 7 * 86400.0,
}
"""For how many seconds the dashboard mutes, by what it offers; 0 until the morning."""
_MORNING = "07:00"
_UNITS = ((_DAY_S, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (0.001, "ms"))


def shown(value: object, most: int = 160) -> Markup:
    """Return a text isolated from its surroundings; a text that is too long is cut, and its full length added.

    >>> shown("<b>")
    Markup('<bdi>&lt;b&gt;</bdi>')
    >>> shown("x" * 2000, most=3)
    Markup('<bdi>xxx…</bdi> <span class="cut">(2,000 characters)</span>')
    """
    text = "" if value is None else str(value)
    if len(text) <= most:
        return Markup("<bdi>{}</bdi>").format(visible(text))
    cut = Markup('<bdi>{}…</bdi> <span class="cut">({} characters)</span>')
    return cut.format(visible(text[:most]), f"{len(text):,}")


def beginning(value: str, most: int) -> Markup:
    """Return the beginning of a text, isolated from its surroundings, up to the end of a word.

    >>> beginning("one two three", 9)
    Markup('<bdi>one two…</bdi>')
    """
    if len(value) <= most:
        return Markup("<bdi>{}</bdi>").format(visible(value))
    cut = value[:most]
    return Markup("<bdi>{}…</bdi>").format(visible(cut.rpartition(" ")[0] or cut))


def field(name: str) -> str:
    """Return the name of a field without the prefix of all fields of feeds.

    >>> field("channel.item.title"), field("price")
    ('title', 'price')
    """
    return name.removeprefix("channel.item.")


def diff(text: str) -> Markup:
    r"""Return a difference of texts, in lines that begin with ``-`` and ``+``, side by side.

    >>> print(diff("- Tea 3\n+ Tea 4"))
    <div class="diff"><del><bdi>Tea 3</bdi></del><ins><bdi>Tea 4</bdi></ins></div>
    """
    runs: list[tuple[list[str], list[str]]] = [([], [])]
    is_new = False
    for line in text.split("\n"):
        if line.startswith("- ") and runs[-1][1]:
            runs.append(([], []))
        if line[:2] in {"- ", "+ "}:
            is_new = line.startswith("+")
        runs[-1][is_new].append(line[2:])
    pairs = [(visible("\n".join(old)), visible("\n".join(new))) for old, new in runs]
    cells = Markup("<del><bdi>{}</bdi></del><ins><bdi>{}</bdi></ins>")
    return Markup('<div class="diff">{}</div>').format(Markup().join(cells.format(*each) for each in pairs))


def code(text: str) -> Markup:
    """Return a text in which parts between backticks are marked as code.

    >>> code("from after ``Last-Event-ID`` <on>")
    Markup('from after <code>Last-Event-ID</code> &lt;on&gt;')
    """
    parts = re.split(r"(`+)(.+?)\1", visible(text))
    spans = zip(parts[::3], [*parts[2::3], None], strict=True)
    return Markup().join(
        Markup("{}<code>{}</code>").format(plain, span) if span is not None else Markup("{}").format(plain)
        for plain, span in spans
    )


def verbatim(text: str) -> Markup:
    """Return a text for a form's field, unchanged except for characters that no form can hold.

    >>> verbatim("a < b")
    Markup('a &lt; b')
    """
    return Markup("{}").format(text.encode("utf-8", "replace").decode())


def finalize(value: object) -> object:
    """Return the output for a value in a template: invisible characters made visible, nothing for ``None``."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) else value


def part(text: str) -> str:
    """Return a name as a part of a path.

    >>> part("a/b c")
    'a%2Fb%20c'
    """
    return quote(text.encode("utf-8", "replace"), safe="")


def mute_until_s(chosen: str, now_s: float, zone: tzinfo | None) -> float | None:
    """Return until when a choice of ``MUTE_S`` mutes, in unix seconds; the morning is that of a zone, or the machine's.

    >>> from datetime import UTC
    >>> mute_until_s("until 07:00", 1774719000.0, UTC) - 1774719000.0, mute_until_s("1 hour", 60.0, UTC)
    (48600.0, 3660.0)
    """
    if chosen not in MUTE_S:
        raise BadRequestError("choose one of the times that the form offers")
    lasts_s = MUTE_S[chosen]
    if lasts_s:
        return now_s + lasts_s
    return None if lasts_s is None else moment_s(_MORNING, now_s, zone)


def duration(seconds: float | None, digits: int = 3) -> str:
    """Return a time span in a suitable unit.

    >>> [duration(each) for each in (None, 0.0, 0.000223, 0.25, 90, 7200, 259200)]
    ['—', '0 s', '0.223 ms', '0.25 s', '1.5 min', '2 h', '3 d']
    """
    if seconds is None:
        return "—"
    fitting = (each for each in _UNITS if abs(seconds) >= each[0] * (0.1 if each[1] == "s" else 1.5))
    size, unit = next(fitting, (1.0, "s") if seconds == 0 else _UNITS[-1])
    return f"{number(seconds / size, digits)} {unit}"


_NOTHING = 1e-9  # nobody reads so many zeros


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with so many significant digits; whole numbers in full.

    >>> [number(each) for each in (None, 0.012345, 12.3456, 1234567.8, 5.0, 0.0000654, 0.999999, 6.5e-17)]
    ['—', '0.0123', '12.3', '1,234,568', '5', '0.0000654', '1', '0']
    """
    if value is None:
        return "—"
    if abs(value) < _NOTHING:
        return "0"
    if abs(value) >= 10 ** (digits - 1) or value == int(value):
        return f"{value:,.0f}"
    places = digits - 1 - floor(log10(abs(value)))
    return f"{value:.{places}f}".rstrip("0").rstrip(".")


def with_noun(count: float | None, noun: str) -> str:
    """Return a number with its noun.

    >>> with_noun(1, "event"), with_noun(1200, "event"), with_noun(2, "delivery"), with_noun(2, "watch")
    ('1 event', '1,200 events', '2 deliveries', '2 watches')
    """
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number(count)} {noun if count == 1 else many}"


def size(count: float | None) -> str:
    """Return a number of bytes in a suitable unit.

    >>> size(512.0), size(3_500_000.0)
    ('512 bytes', '3.5 MB')
    """
    if count is None:
        return "—"
    unit = next((each for each in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= each[0]), (1.0, "bytes"))
    return f"{number(count / unit[0], 2)} {unit[1]}"


def percent(share: float | None) -> str:
    """Return a share as a percentage; only 1 is shown as 100 %.

    >>> percent(None), percent(0.9876), percent(1.0), percent(0.99999)
    ('—', '98.8 %', '100 %', '99.9 %')
    """
    if share is None:
        return "—"
    shown_share = min(share * 100.0, 99.9) if share < 1.0 else share * 100.0
    return f"{shown_share:.3g} %"


def profile_page(name: str) -> str:
    """Return the address of a profile; one called "new" needs a slash after its name.

    >>> profile_page("new"), profile_page("a/b")
    ('/profiles/new/', '/profiles/a%2Fb')
    """
    return f"/profiles/{part(name)}{'/' if name == 'new' else ''}"


_TOLD_OF: Mapping[EventKind, str] = {
    EventKind.INSERT: "new items",
    EventKind.UPDATE: "changes",
    EventKind.DELETE: "items that go away",
    EventKind.FAILURE: "failures",
    EventKind.RECOVERY: "recoveries",
    EventKind.MOVED: "moves",
    EventKind.EMPTY: "sources that go empty",
    EventKind.TROUBLE: "failures, moves and sources that go empty",
    EventKind.SLOW: "slow answers",
    EventKind.HEALTH: "sites that are down, up again or slow, or expire soon",
    EventKind.PROBE: "probes",
}


def told_of(rule: NotificationRule) -> str:
    """Return what a rule tells of: ``new items WHERE title ILIKE '%rc%'``."""
    trigger = rule.trigger
    after = "" if trigger.after is None else f" {format_after(trigger.after)}"
    written = [("WHERE", trigger.where), ("WHEN", trigger.condition)]
    conditions = [condition_in_words(each, word) for word, each in written if each is not None]
    then = [] if trigger.then is None else [format_then(trigger.then).replace("channel.item.", "")]
    return " ".join([f"{_TOLD_OF[trigger.kind]}{after}", *conditions, *then])


MOST_RECEIVERS = 100
"""The receivers that a form offers."""


def receiver_names(profiles: Declarations) -> list[str]:
    """Return the names of receivers, as whoever asks writes them."""
    known = profiles.receivers
    return [plain_name(each) for each in known] if current_doer().profiles else [*known]


def receivers_of(rule: NotificationRule) -> list[tuple[str, str]]:
    """Return the kind and the address of each receiver of a rule, without the tokens of channels."""
    return [(each.kind, shown_endpoint(each.kind, each.endpoint, each.receiver)) for each in rule.deliveries]


def awaits_no_items(declaration: Declaration, rules: Sequence[str]) -> bool:
    """Return whether all rules of a source wait for events of the source itself, such as failures."""
    kinds = [declaration.rules[rule].trigger.kind for rule in rules if rule in declaration.rules]
    return bool(kinds) and all(kind.is_of_source for kind in kinds)


def said_of(error: Exception) -> str:
    """Return an error in words, with the faults of a text."""
    faults = getattr(error, "errors", ())
    return "; ".join(each.message for each in faults) or str(error)


def warnings_of(changes: DeclarationChanges, *, with_lines: bool = False) -> list[str]:
    """Return the first warnings about the texts that were sent."""
    shown = changes.warnings[:_MOST_WARNINGS]
    return [f"Line {each.line}: {each.message}." if with_lines else f"{each.message}." for each in shown]
