"""The text of a WATCH from what people choose: an address, words, a price or a value, and where to tell."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from proxyd.core.errors import ConfigError
from proxyd.core.language.syntax.quoting import format_contains, quote_name, quote_text

VALUE_CLASS, VALUE_FIELD = "VALUE", "value"
_SEARCHED = {"FEED": "title", "PAGE": "text", VALUE_CLASS: VALUE_FIELD}
WHEN_OF_VALUES = {"changes": "", "falls": "NEW.value < OLD.value", "rises": "NEW.value > OLD.value"}
"""When to tell of a value, and the condition for it."""

DIGESTS = {"hourly": "EVERY 1 HOUR", "daily": "DAILY AT '08:00'", "weekly": "WEEKLY ON MONDAY AT '08:00'"}
"""How often one message tells of all that came, as forms name it."""
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)")
_UNITS = {"s": "SECONDS", "m": "MINUTES", "h": "HOURS", "d": "DAYS", "w": "WEEKS"}


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What most people leave out: how often, how worded, and how a page is asked and read."""

    without: tuple[str, ...] = ()  # to leave out what holds one of these
    every: str = ""  # the longest time between two probes, as people write it: "5 minutes"
    digest: str = ""  # how often one message tells of all, as the language writes it: see `digest_text`
    message: str = ""  # the wording of a message
    profile: str = ""  # where it belongs; empty for the default
    needs_browser: bool = False  # whether a browser runs the page's scripts
    headers: tuple[tuple[str, str], ...] = ()  # names and values that each request carries
    ignored: tuple[str, ...] = ()  # what the lines of a page hold that are left out of its text
    least_words: str = ""  # how many words of a page must change at least
    holding: str = ""  # what a site must hold

    def clauses(self) -> list[str]:
        """Return the options of the WATCH; with headers, how the page is asked and read is said of its source."""
        parts = [] if self.headers else self._of_the_source()
        parts += [f"INTO {quote_name(self.profile)}"] if self.profile else []
        parts += [f"WITHOUT {', '.join(map(quote_text, self.without))}"] if self.without else []
        parts += [f"HOLDING {quote_text(self.holding)}"] if self.holding else []
        parts += [f"OVER {_whole(self.least_words)} WORDS"] if self.least_words else []
        parts += [f"EVERY {_duration_text(self.every)}"] if self.every else []
        parts += [f"MESSAGE {quote_text(self.message)}"] if self.message else []
        parts += [f"DIGEST {self.digest}"] if self.digest else []
        return parts

    def source(self, url: str, page_class: str) -> list[str]:
        """Return the CREATE SOURCE that carries headers, if there are any; the WATCH finds it by its address."""
        if not self.headers:
            return []
        name = re.sub(r"^[a-z]+://", "", url).rstrip("/") or url
        headers = [f"HEADER {quote_text(each)} {quote_text(value)}" for each, value in self.headers]
        options = " ".join([*headers, *self._of_the_source()])
        return [f"CREATE SOURCE {quote_name(name)} OF {page_class or 'FEED'} AT {quote_text(url)} {options};"]

    def _of_the_source(self) -> list[str]:
        ignored = [f"IGNORE {', '.join(map(quote_text, self.ignored))}"] if self.ignored else []
        return ["FETCH BROWSER", *ignored] if self.needs_browser else ignored


_NO_OPTIONS = WatchOptions()


@dataclass(frozen=True, slots=True)
class WatchWish:
    """What somebody wants to watch."""

    url: str
    # The class that reads the address, such as `PAGE`; empty for a feed, or to leave that as it is
    page_class: str = ""
    name: str | None = None
    locale: str | None = None
    words: tuple[str, ...] = ()  # to tell only of what holds one of these
    searched: str | None = None  # the class that reads the address if `page_class` does not say it
    selector: str = ""  # of a value of the page, or empty. It is a number if `when` compares it.
    reader: str = "CSS"  # how the selector is read
    when: str = "changes"  # when to tell of a value or a price: one of `WHEN_OF_VALUES`
    # Mail addresses, chats, webhooks and receivers' names; `secret` names the variable with the secret of webhooks
    to: tuple[str, ...] = ()
    secret: str | None = None
    options: WatchOptions = _NO_OPTIONS


def watch_text(wish: WatchWish) -> str:
    """Return the WATCH that somebody wants, after the DOMAIN that it needs to read a value.

    Raises ``ConfigError`` if the wish is not complete, or contradicts itself.

    Examples
    --------
    >>> print(watch_text(WatchWish("https://example.org/feed", words=("cve",), to=("me@example.org",))))
    WATCH 'https://example.org/feed' WHERE title ILIKE '%cve%' TELL MAIL 'me@example.org';
    >>> print(watch_text(WatchWish("https://shop.example/lamp", selector="p.price", when="falls")))
    CREATE DOMAIN "shop.example/lamp" AS CLASS::VALUE(value:Decimal FROM CSS 'p.price');
    WATCH 'https://shop.example/lamp' OF "shop.example/lamp".VALUE WHERE NEW.value < OLD.value;
    >>> options = WatchOptions(headers=(("Cookie", "a=1"),), every="10", digest=digest_text("daily"))
    >>> print(watch_text(WatchWish("https://example.org/feed", options=options)))
    CREATE SOURCE "example.org/feed" OF FEED AT 'https://example.org/feed' HEADER 'Cookie' 'a=1';
    WATCH 'https://example.org/feed' EVERY 10 MINUTES DIGEST DAILY AT '08:00';
    """
    statements, page_class = [], wish.page_class
    if wish.selector:
        domain = quote_name(_domain_of(wish))
        kind = "String" if wish.when == "changes" else "Decimal"
        reads = f"{VALUE_FIELD}:{kind} FROM {wish.reader} {quote_text(wish.selector)}"
        statements.append(f"CREATE DOMAIN {domain} AS CLASS::{VALUE_CLASS}({reads});")
        page_class = f"{domain}.{VALUE_CLASS}"
    statements += wish.options.source(wish.url, page_class or wish.searched or "")
    parts = [f"WATCH {quote_text(wish.url)}"]
    parts += [f"OF {page_class}"] if page_class else []
    parts += [] if wish.name is None else [f"AS {quote_name(wish.name)}"]
    parts += [] if wish.locale is None else [f"LOCALE {quote_text(wish.locale)}"]
    if condition := _condition(wish):
        parts.append(f"WHERE {condition}")
    parts += wish.options.clauses()
    parts += [f"TELL {delivery_text(to, wish.secret)}" for to in wish.to]
    return "\n".join([*statements, f"{' '.join(parts)};"])


def _duration_text(written: str) -> str:
    """Return a length of time as the language writes it; a number alone is minutes. Raises ``ConfigError``.

    >>> _duration_text("5"), _duration_text("5 min"), _duration_text("2h"), _duration_text("1 day")
    ('5 MINUTES', '5 MINUTES', '2 HOURS', '1 DAYS')
    """
    found = _DURATION.fullmatch(written.strip().lower())
    if found is None:
        raise ConfigError([f"{written!r} is no length of time: write 5 minutes, or 2 hours"])
    return f"{found[1]} {_UNITS[found[2][:1] or 'm']}"


def digest_text(chosen: str, zone: str = "") -> str:
    """Return one of `DIGESTS` as the language writes it, in a time zone or else in UTC; an empty text for none.

    >>> digest_text("daily", "Europe/Berlin"), digest_text("daily"), digest_text("hourly", "Europe/Berlin")
    ("DAILY AT '08:00' IN 'Europe/Berlin'", "DAILY AT '08:00'", 'EVERY 1 HOUR')
    """
    text = DIGESTS.get(chosen, chosen)
    return f"{text} IN {quote_text(zone)}" if zone and " AT " in text else text


def _whole(written: str) -> int:
    if not written.strip().isdecimal():
        raise ConfigError([f"{written!r} is no number of words"])
    return int(written)


def headers_of(written: str) -> tuple[tuple[str, str], ...]:
    """Return the headers that lines such as ``Cookie: session=1`` name. Raises ``ConfigError``.

    >>> headers_of("Cookie: a=1; b=2")
    (('Cookie', 'a=1; b=2'),)
    """
    pairs = [line.partition(":") for line in written.splitlines() if line.strip()]
    if wrong := [name.strip() for name, colon, _ in pairs if not colon or not name.strip()]:
        raise ConfigError([f"{wrong[0]!r} is no header: write a name, a colon and the value, as Cookie: session=1"])
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)


def sites_text(
    sites: Iterable[tuple[str, str]], *, holding: str | None = None, to: Sequence[str] = (), secret: str | None = None
) -> str:
    """Return a WATCH for each address and name, which may be empty; raises ``ConfigError`` if a receiver is incomplete.

    >>> print(sites_text([("https://example.org", "Shop")], holding="Welcome", to=["me@example.org"]))
    WATCH 'https://example.org' OF SITE AS "Shop" HOLDING 'Welcome' TELL MAIL 'me@example.org';
    """
    options = "" if holding is None else f" HOLDING {quote_text(holding)}"
    options += "".join(f" TELL {delivery_text(each, secret)}" for each in to)
    named = [(url, f" AS {quote_name(name)}" if name else "") for url, name in sites]
    return "\n".join(f"WATCH {quote_text(url)} OF SITE{name}{options};" for url, name in named)


def _condition(wish: WatchWish) -> str:
    if wish.when not in WHEN_OF_VALUES:
        raise ConfigError([f"{wish.when!r} is not one of {', '.join(WHEN_OF_VALUES)}"])
    known = (VALUE_CLASS if wish.selector else wish.page_class or wish.searched or "FEED").upper()
    if wish.when != "changes" and known not in {VALUE_CLASS, "PRICE"}:
        raise ConfigError(["only a price or a value can fall or rise"])
    compared = WHEN_OF_VALUES[wish.when].replace(VALUE_FIELD, "price" if known == "PRICE" else VALUE_FIELD)
    if not wish.words:
        return compared
    if compared:
        raise ConfigError(["tell either of words, or when a value falls or rises"])
    if not all(each.strip() for each in wish.words):
        raise ConfigError(["the words to match are not empty"])
    field = _SEARCHED.get(known)
    if field is None:
        raise ConfigError([f"words cannot be matched with {known}, whose fields are its own; write the WHERE yourself"])
    return " OR ".join(format_contains(field, words) for words in wish.words)


def _domain_of(wish: WatchWish) -> str:
    """Return a name for the domain of a value: that of the WATCH, or its address without the scheme."""
    if wish.name is not None:
        return wish.name
    parts = urlsplit(wish.url)
    query = f"?{parts.query}" if parts.query else ""  # of two pages that differ in it, each has its own
    return re.sub(r"[\x00-\x1f]", "", f"{parts.netloc}{parts.path}".rstrip("/") + query) or "page"


def recipients(written: str, receivers: Collection[str]) -> tuple[str, ...]:
    """Return the addresses and the names of receivers in a field of a form; names with spaces stand between commas.

    >>> recipients("on call, me@example.org tgram://a/b", {"on call"})
    ('on call', 'me@example.org', 'tgram://a/b')
    """
    parts = [each.strip() for each in written.split(",")]
    return tuple(to for part in parts for to in ([part] if part in receivers else part.split()))


def receiver_text(name: str, to: Sequence[str], secret: str | None = None) -> str:
    """Return the statement that names a receiver; raises ``ConfigError`` if it is incomplete.

    >>> print(receiver_text("on call", ["me@example.org", "tgram://a/b"]))
    CREATE RECEIVER "on call" AS MAIL 'me@example.org', CHANNEL 'tgram://a/b';
    """
    if not name or any(mark in name for mark in ("@", ",", "://")):
        raise ConfigError(["give it a name without @, commas and ://, which tell addresses from names"])
    if not to:
        raise ConfigError(["write a mail address, a chat or a webhook"])
    if names := [each for each in to if "://" not in each and "@" not in each]:
        raise ConfigError([f"{names[0]!r} is no address: write a mail address, or one with ://"])
    return f"CREATE RECEIVER {quote_name(name)} AS {', '.join(delivery_text(each, secret) for each in to)};"


def delivery_text(to: str, secret: str | None = None) -> str:
    """Return a delivery to a mail address, a webhook, a chat, or a receiver that has a name.

    >>> delivery_text("me@example.org"), delivery_text("tgram://a/b"), delivery_text("on call")
    ("MAIL 'me@example.org'", "CHANNEL 'tgram://a/b'", '"on call"')
    """
    if "://" not in to:
        return f"MAIL {quote_text(to)}" if "@" in to else quote_name(to)
    if not to.lower().startswith(("http://", "https://")):
        return f"CHANNEL {quote_text(to)}"
    if secret is None:
        raise ConfigError(["a webhook is signed: name the variable that holds its secret, such as SECRET_HOOK"])
    return f"WEBHOOK {quote_text(to)} SECRET ENV {quote_text(secret)}"
