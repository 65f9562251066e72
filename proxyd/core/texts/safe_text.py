"""Makes text from outside safe to show: without invisible characters, or ones that change the text's direction."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import urlsplit

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d\t\n")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def one_line(text: str, limit: int = 300) -> str:
    r"""Return text for records: one line without control or direction characters, at most ``limit`` characters.

    >>> one_line("a\r\nb  \x00c")
    'a b c'
    >>> one_line("evil \u202egpj.exe")
    'evil gpj.exe'
    """
    return " ".join(_UNPRINTABLE.sub(" ", text).split())[:limit]


def for_xml(text: str) -> str:
    r"""Return a text with the characters that XML cannot hold replaced.

    >>> for_xml("a\x00b") == "a\ufffdb"
    True
    """
    return _NOT_XML.sub("\ufffd", text)


def is_web(address: str) -> bool:
    """Return whether a text is an http or https address that can be linked to."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and address.isprintable() and " " not in address


def visible(text: str) -> str:
    r"""Return a text with control and direction characters spelt out; joiners that scripts need stay.

    >>> visible("a\u202eb\x1b")
    'a⟨U+202E⟩b⟨U+001B⟩'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelt(char) for char in text)


def visible_line(text: str, most: int = 200) -> str:
    r"""Return a text as ``visible`` does, on one line of at most ``most`` characters.

    >>> visible_line("a\nb\x1b[2J"), visible_line("x" * 1_000_000, 3)
    ('a b⟨U+001B⟩[2J', 'xxx…')
    """
    cut = f"{text[:most]}…" if len(text) > most else text
    return visible(cut.replace("\n", " ").replace("\t", " "))


def _spelt(char: str) -> str:
    is_hidden = char not in _JOINERS and unicodedata.category(char) in _HIDDEN
    return f"⟨U+{ord(char):04X}⟩" if is_hidden else char
