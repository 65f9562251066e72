"""Texts and addresses in the form in which they are compared: what people read, and where an address leads. Pure."""

from __future__ import annotations

import re
import unicodedata
from html import unescape
from urllib.parse import urlsplit

from proxyd.core.model.item import Value
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

    >>> differ(5, 5.0), differ("tea", "tea\u00a0"), differ("tea", "coffee")
    (False, False, True)
    """
    return old != new and normal_value(old, field_type, path) != normal_value(new, field_type, path)


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
    query = "&".join(part for part in parts.query.split("&") if part and not is_tracking(part))
    fragment = "" if is_tracking(parts.fragment) else parts.fragment
    return f"{host}{path}{f'?{query}' if query else ''}{f'#{fragment}' if fragment else ''}"


def is_tracking(parameter: str) -> bool:
    """Return whether a parameter of an address only says where its reader came from, or names a session.

    >>> is_tracking("utm_medium=feed"), is_tracking("p=8")
    (True, False)
    """
    return _TRACKING.fullmatch(parameter.partition("=")[0]) is not None
