"""How languages write numbers: with a decimal point or a decimal comma. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

POINT, COMMA = ".", ","

_LONGEST_TAG = 35  # by BCP 47; a rule may read it from a source
_TAG = re.compile(r"([A-Za-z]{2,3})(?:-[A-Za-z]{4})?(?:-([A-Za-z]{2}|[0-9]{3}))?(?:-[A-Za-z0-9]{1,8})*")
_WITH_COMMA = (
    "af az be bg br bs ca cs da de el es et eu fi fo fr fy gl hr hu hy id is it ka kk kl ky lb lo lt lv mk nb nl nn no "
    "oc pl pt ro ru sc se sk sl sq sr sv tg tk tr tt uk uz vi wo"
)
_WITH_POINT = (
    "am ar bn cy en fa fil ga gd gu ha he hi ig ja km kn ko ml mn mr ms mt my ne pa rm si so sw ta te th ur yo zh zu"
)
_OF_REGIONS = {
    POINT: "de-ch de-li es-419 es-bz es-cu es-do es-gt es-hn es-mx es-ni es-pa es-pe es-pr es-sv es-us it-ch",
    COMMA: "ar-dz ar-ly ar-ma ar-mr ar-tn en-za ms-bn sw-cd",
}
_MARKS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(_WITH_COMMA.split(), COMMA)
    | dict.fromkeys(_WITH_POINT.split(), POINT)
    | {tag: mark for mark, tags in _OF_REGIONS.items() for tag in tags.split()}
)
"""The decimal mark of each language in lower case, and of regions that write otherwise than their language."""

LANGUAGES = tuple(sorted(tag for tag in _MARKS if "-" not in tag))
"""The languages whose notation is known."""

LANGUAGE_NAMES: Mapping[str, str] = MappingProxyType(
    {"english": "en", "german": "de", "deutsch": "de", "deu": "de", "french": "fr", "francais": "fr", "spanish": "es"}
    | {"italian": "it", "dutch": "nl", "polish": "pl", "portuguese": "pt", "russian": "ru", "swedish": "sv"}
    | {"turkish": "tr", "czech": "cs", "danish": "da", "japanese": "ja", "chinese": "zh", "hindi": "hi"}
)
"""What people write instead of a tag."""


def mark_of(tag: str) -> str | None:
    """Return the decimal mark of a language by its BCP 47 tag, or ``None`` if the tag or the language is unknown.

    >>> mark_of("de"), mark_of("de-CH"), mark_of("en-US"), mark_of("de_DE"), mark_of("xx")
    (',', '.', '.', None, None)
    """
    found = _TAG.fullmatch(tag) if len(tag) <= _LONGEST_TAG else None
    if found is None:
        return None
    language, region = found[1].lower(), (found[2] or "").lower()
    return _MARKS.get(f"{language}-{region}") or _MARKS.get(language)


def mark_of_page(stated: str | None) -> str | None:
    """Return the decimal mark of what a page says about its language, which is often no exact tag.

    >>> mark_of_page("de_DE"), mark_of_page("fr, en"), mark_of_page(""), mark_of_page(None)
    (',', ',', None, None)
    """
    first = re.split(r"[,;\s]", (stated or "")[:100].strip(), maxsplit=1)[0]
    return mark_of(first.replace("_", "-"))


@dataclass(frozen=True, slots=True)
class Languages:
    """What is known of a document's language besides the document: the LOCALE of its source, and Content-Language."""

    locale: str | None = None
    header: str | None = None

    @property
    def mark_of_locale(self) -> str | None:
        """The decimal mark of LOCALE; nothing else says how data for programs is meant."""
        return None if self.locale is None else mark_of(self.locale)

    def mark(self, stated: str | None) -> str | None:
        """Return the decimal mark of texts in a document that states its language: LOCALE goes first, the header last.

        >>> Languages(None, "en").mark("de"), Languages("en", "de").mark("de"), Languages(None, "de").mark(None)
        (',', '.', ',')
        """
        return self.mark_of_locale or mark_of_page(stated) or mark_of_page(self.header)


NO_LANGUAGES = Languages()
