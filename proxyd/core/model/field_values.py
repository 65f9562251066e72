"""Values of fields: as their types, compared as people read them, and in the form that decides identity."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import lru_cache
from html import unescape
from urllib.parse import urlsplit

from proxyd.core.model.item import Value
from proxyd.core.model.numbers import may_be_one_currency, plain_number
from proxyd.core.model.profile import FieldType

_SPACES = re.compile(r"[^\S\n\t ]|[\u2028\u2029\u0085\u180e]")
_RUNS = re.compile(r"\s+")
_FORMAT = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9:-]*)((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>")
_SCRIPT = re.compile(r"<(?:script|style)\b", re.IGNORECASE)
_SCRIPT_END = re.compile(r"</(?:script|style)\s*>", re.IGNORECASE)
_ADDRESS = re.compile(r"\s(?:href|src)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
_INLINE = re.compile(
    r"(?:abbr|bd[io]|big|cite|code|data|del|dfn|em|font|ins|kbd|label|mark|samp|small|span|strike|strong|su[bp]|time|tt"
    r"|var|wbr|[abiqsu])",
    re.IGNORECASE,
)
_MARKUP_PATHS = frozenset({"channel.item.description", "channel.item.content"})
_LINK_PATHS = frozenset({"channel.item.link", "channel.item.enclosure"})
_WEB = re.compile(r"\s*https?://", re.IGNORECASE)
_TRACKING = re.compile(
    r"utm_\w+|mtm_\w+|pk_\w+|piwik_\w+|hsa_\w+|_hsenc|_hsmi|__hs\w+|at_(?:medium|campaign|custom\d|bbc_team|link_\w+|ptr_name"
    r"|format)|fbclid|gclid|gclsrc|dclid|gbraid|wbraid|msclkid|yclid|twclid|ttclid|igshid|igsh|mc_cid|mc_eid|mkt_tok|xtor"
    r"|oly_anon_id|oly_enc_id|vero_id|vero_conv|wickedid|rb_clickid|s_cid|ml_subscriber\w*|ns_\w+|wt_mc|wt\.mc_id|ocid|cmpid"
    r"|cmp|ito|feature_source|campaign_id|ref_src|ref_url|phpsessid|jsessionid|aspsessionid\w*|oscsid|zenid|cftoken|cfid",
    re.IGNORECASE,
)
_PATH_SESSION = re.compile(r";(?:jsessionid|phpsessid)=[^/?#;]*", re.IGNORECASE)
_DEFAULT_PORT = re.compile(r":(?:80|443)?\Z")
_UNRESERVED = re.compile(r"%([46][1-9A-F]|[57][0-9A]|3[0-9]|2[DE]|5F|7E)", re.IGNORECASE)


def plain_text(text: str) -> str:
    r"""Return a text as it is stored and told: composed (NFC), with plain spaces; otherwise as written.

    >>> plain_text("Cafe\u0301\u00a0au\u2009lait")
    'Café au lait'
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _SPACES.sub(" ", text))


def normal_text(text: str) -> str:
    r"""Return a text by what is read of it: without format characters, and with every run of white space as one space.

    >>> normal_text(" so\u00adft\u200b  news\u00a0\n") == normal_text("soft news")
    True
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", _FORMAT.sub("", text))
    return _RUNS.sub(" ", text).strip()


def normal_markup(text: str) -> str:
    """Return an HTML text by what it shows: its words, and the addresses of its links and pictures.

    >>> normal_markup('<p>A&#38;B <b class="x">so</b>ld</p><br/>') == normal_markup("A&amp;B <i>so</i>ld")
    True
    """
    if "<" in text:
        text = _without_scripts(_without_comments(text) if "<!--" in text else text)
        text = _TAG.sub(_shown_of_tag, text)
    return normal_text(unescape(unescape(text)) if "&" in text else text)


def _without_comments(text: str) -> str:
    first, *others = text.split("<!--")  # a pattern would look for the end of each of ten thousand open comments
    return first + "".join(part.partition("-->")[2] for part in others)


def _without_scripts(text: str) -> str:
    first, *others = _SCRIPT.split(text)  # as with comments, each part is searched once
    ends = ((part, _SCRIPT_END.search(part)) for part in others)
    return first + "".join(part if end is None else part[end.end() :] for part, end in ends)


def _shown_of_tag(match: re.Match[str]) -> str:
    gap = "" if _INLINE.fullmatch(match[1]) else " "
    addresses = [normal_link(unescape("".join(written))) for written in _ADDRESS.findall(match[2])]
    return f"{gap}\x01{' '.join(addresses)}\x01" if addresses else gap


def normal_value(value: Value, field_type: FieldType = FieldType.STRING, path: str = "") -> Value:
    """Return a field's value in the form in which it is compared: numbers by their size, texts by what is read.

    ``path`` is the field's, in lower case: of feeds it says which texts hold markup or an address.

    >>> normal_value(5.0), normal_value("a&amp;b", path="channel.item.content")
    (5, 'a&b')
    """
    if isinstance(value, str):
        if field_type is FieldType.URL or path in _LINK_PATHS:
            return normal_link(value)
        return normal_markup(value) if path in _MARKUP_PATHS else normal_text(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def differ(old: Value, new: Value, field_type: FieldType = FieldType.STRING, path: str = "") -> bool:
    """Return whether two values of a field differ in more than their spelling.

    >>> differ(5, 5.0), differ("tea", "tea\u00a0"), differ("€", "EUR"), differ("tea", "coffee")
    (False, False, False, True)
    """
    if old == new:
        return False
    a, b = normal_value(old, field_type, path), normal_value(new, field_type, path)
    return a != b and not (isinstance(a, str) and isinstance(b, str) and may_be_one_currency(a, b))


def normal_link(link: str) -> str:
    """Return where an address leads, however it is spelt.

    Scheme, ``www.``, a default port, a trailing slash, the parameters and fragments by which sites track their readers,
    and sessions are left out. Other parameters and fragments remain. What is no address of the web is only trimmed.

    >>> normal_link("http://www.Example.org/8/?utm_source=rss&p=1"), normal_link("tag:example.org,2026:8")
    ('example.org/8?p=1', 'tag:example.org,2026:8')
    """
    if not _WEB.match(link):
        return link.strip()
    try:
        parts = urlsplit(link.strip())
    except ValueError:
        return link.strip()
    host = _DEFAULT_PORT.sub("", parts.netloc.rpartition("@")[2].lower()).rstrip(".").removeprefix("www.")
    path = _UNRESERVED.sub(lambda match: chr(int(match[1], 16)), _PATH_SESSION.sub("", parts.path)).rstrip("/")
    query = "&".join(part for part in parts.query.split("&") if part and not _is_tracking(part))
    fragment = "" if _is_tracking(parts.fragment) else parts.fragment
    return f"{host}{path}{f'?{query}' if query else ''}{f'#{fragment}' if fragment else ''}"


def _is_tracking(parameter: str) -> bool:
    """Return whether a parameter of an address only says where its reader came from, or names a session.

    >>> _is_tracking("utm_medium=feed"), _is_tracking("p=8")
    (True, False)
    """
    return _TRACKING.fullmatch(parameter.partition("=")[0]) is not None


_EARLIEST_S, _LATEST_S = -62135596800.0, 253402300799.0  # years 1 to 9999
_DAY_S = 86400.0
_LARGEST = 2**63
_TIMESTAMP_PATHS = frozenset({"channel.item.pubdate", "channel.item.updated"})


@lru_cache(maxsize=1024)  # a page of sites names the same 90 days for each of them
def iso_time(time_s: float) -> str:
    """Return unix seconds as ISO 8601 in UTC, to the millisecond; such times sort as texts.

    >>> iso_time(0.0), iso_time(1.5)
    ('1970-01-01T00:00:00.000Z', '1970-01-01T00:00:01.500Z')
    """
    time_s = min(max(time_s, _EARLIEST_S), _LATEST_S)
    return datetime.fromtimestamp(round(time_s, 3), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local_time(time_s: float, zone: tzinfo | None) -> datetime:
    """Return unix seconds as a clock in a zone shows them, or this machine's clock if it is ``None``."""
    within_s = min(max(time_s, _EARLIEST_S + _DAY_S), _LATEST_S - _DAY_S)
    return datetime.fromtimestamp(within_s, UTC).astimezone(zone)


def minute_of(time_s: float, zone: tzinfo | None = UTC) -> str:
    """Return unix seconds for people, to the minute, in a zone; ``None`` is that of this machine.

    >>> minute_of(90.0)
    '1970-01-01 00:01 UTC'
    """
    return f"{local_time(time_s, zone):%Y-%m-%d %H:%M %Z}"


def day_of(time_s: float, zone: tzinfo | None = UTC) -> str:
    """Return the day of unix seconds for people, in a zone; ``None`` is that of this machine.

    >>> day_of(86400.0)
    '1970-01-02'
    """
    return minute_of(time_s, zone)[:10]


_ISO_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def with_local_times(text: str, zone: tzinfo | None) -> str:
    """Return a text with the times that ``iso_time`` wrote as a clock in a zone shows them, or this machine's clock.

    >>> with_local_times("since 1970-01-01T00:00:01.500Z", UTC)
    'since 1970-01-01 00:00:01 UTC'
    """
    return _ISO_TIME.sub(lambda found: f"{local_time(parse_iso(found[0]) or 0.0, zone):%Y-%m-%d %H:%M:%S %Z}", text)


def length_in_words(length_s: float) -> str:
    """Return a length of time for people, in its largest unit, rounded down.

    >>> [length_in_words(length_s) for length_s in (-5.0, 59.0, 250.0, 7300.0, 86400.0, 13.5 * 86400.0)]
    ['0 s', '59 s', '4 min', '2 h', '24 h', '13 days']
    """
    for unit_s, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if length_s >= unit_s * (2 if name == "days" else 1):
            return f"{int(length_s // unit_s)} {name}"
    return f"{int(max(length_s, 0.0))} s"


def parse_iso(text: str) -> float | None:
    """Return the unix seconds of an ISO 8601 time (UTC if it names no zone), or ``None``.

    >>> parse_iso("1970-01-02"), parse_iso("soon")
    (86400.0, None)
    """
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    time_s = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return time_s if _EARLIEST_S <= time_s <= _LATEST_S else None


_CLOCK = re.compile(r"\d?\d:\d\d(?:Z|[+-]\d\d:\d\d)?")


def moment_s(text: str, now_s: float, zone: tzinfo | None) -> float | None:
    """Return the unix seconds of the next time such as 07:00, or of an ISO 8601 time; ``None`` if a text is neither.

    Unless the time names a zone, it is in ``zone``, or in that of this machine if that is ``None``. Of a time that the
    clocks show twice, it is the first that is still to come.

    >>> from zoneinfo import ZoneInfo
    >>> at_s = moment_s("07:00", 1774719000.0, ZoneInfo("Europe/Berlin"))  # half past six; clocks change at night
    >>> iso_time(1774719000.0), iso_time(at_s)
    ('2026-03-28T17:30:00.000Z', '2026-03-29T05:00:00.000Z')
    """
    try:
        if _CLOCK.fullmatch(text):
            at = time.fromisoformat(text if text[2] == ":" else f"0{text}")
            today = local_time(now_s, at.tzinfo or zone).date()
            meant = [datetime.combine(today + timedelta(days=days), at) for days in (0, 1)]
        else:
            meant = [datetime.fromisoformat(text)]
        moments_s = [_in_zone(each.replace(fold=fold), zone).timestamp() for each in meant for fold in (0, 1)]
        return next((each_s for each_s in moments_s if each_s > now_s), moments_s[0])
    except (ValueError, OverflowError):
        return None


def _in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    if moment.tzinfo is not None:
        return moment
    return moment.astimezone() if zone is None else moment.replace(tzinfo=zone)


def coerce(
    value: Value,
    field_type: FieldType,
    *,
    path: str = "",
    read_number: Callable[[str], float | int | None] = plain_number,
) -> Value:
    """Return ``value`` as its declared type, or ``None`` if it does not fit.

    A feed's times, which are declared as String, are read as ISO 8601. ``read_number`` reads the texts of numbers.

    >>> coerce("12", FieldType.INTEGER), coerce("twelve", FieldType.INTEGER), coerce("yes", FieldType.BOOLEAN)
    (12, None, True)
    """
    if value is None:
        return None
    match field_type:
        case FieldType.STRING | FieldType.URL:
            return iso_time(float(value)) if path in _TIMESTAMP_PATHS and isinstance(value, float) else str(value)
        case FieldType.BOOLEAN:
            return _boolean(value)
        case FieldType.TIMESTAMP:
            return float(value) if isinstance(value, int | float) else parse_iso(value)
        case FieldType.INTEGER:
            number = read_number(str(value))
            is_whole = number is not None and number == int(number) and abs(number) < _LARGEST
            return int(number) if number is not None and is_whole else None
        case FieldType.DECIMAL:
            return read_number(str(value))


def _boolean(value: Value) -> bool | None:
    text = str(value).strip().lower()
    if text in {"true", "yes", "1", "on", "t", "y"}:
        return True
    return False if text in {"false", "no", "0", "off", "f", "n"} else None


def is_equal(left: Value, right: Value) -> bool:
    """Return whether two values that are not null are equal: as numbers if both are numbers, otherwise as texts."""
    a, b = _comparable(left, right)
    return a == b


def is_less(left: Value, right: Value) -> bool:
    """Return whether one value comes before another; neither may be null."""
    a, b = _comparable(left, right)
    return a < b  # type: ignore[operator]  # both numbers or both texts


def _comparable(left: Value, right: Value) -> tuple[float, float] | tuple[str, str]:
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left, right
    return str(left), str(right)
