"""Checks single values: addresses, zones, secrets, durations, times, parts of the week."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit, urlunsplit

from yarl import URL

from proxyd.core.errors import ConfigError, suggest
from proxyd.core.language.syntax.check_context import CheckSettings, Reporter
from proxyd.core.language.syntax.readers import selector_problem
from proxyd.core.language.syntax.words import did_you_mean
from proxyd.core.model.chronon import WallTime, read_clock, zone_names
from proxyd.core.model.day_parts import QuietHours, leaves_time, parse_during, parse_week_parts
from proxyd.core.model.decimal_marks import LANGUAGE_NAMES, LANGUAGES, mark_of
from proxyd.core.model.delivery import SECRET_PREFIX, SecretRef
from proxyd.core.model.expression import Duration, TextSpan, Unit
from proxyd.core.model.profile import Digest, Extraction, Reader
from proxyd.core.model.site import CONNECTIONS
from proxyd.core.model.text_blocks import pattern_problem

_LONGEST_ADDRESS = 4096  # a longer one is not asked
_PLAIN_ADDRESS = re.compile(r"https?://[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::[0-9]{1,4})?(?:[/?#][\x21-\x7e]*)?")  # nearly all
_NOT_PRINTABLE = re.compile(r"[^\x21-\x7e]")
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_AROUND = " \t\r\n\f\xa0\u200b\u2060\ufeff"
_BREAKS = str.maketrans("", "", "\t\r\n")  # as browsers do: mail programs break long addresses
_FEED_SCHEME = re.compile(
    r"(?:feed|rss|pcast|podcast|itpc):(?://)?(?=https?:)|(?:feed|rss|pcast|podcast|itpc)://", re.I
)
_WITHOUT_SCHEME = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+)(?::[0-9]+)?(?:[/?#].*)?", re.S)
_USER = re.compile(r"//[^/?#]*@")
WITHOUT_USER = "an address must not hold a user or password"


def address_problem(url: str, *, of_site: bool = False) -> str | None:
    """Return why an address cannot be asked; those of sites may be of tcp and tls, with a port and without a path.

    >>> address_problem("https://example.org/feed"), address_problem("https://example.org:65536/")
    (None, "'https://example.org:65536/' is not an address")
    >>> address_problem("tcp://db.example.org:5432", of_site=True)
    """
    is_plain = len(url) <= _LONGEST_ADDRESS and _PLAIN_ADDRESS.fullmatch(url)
    return None if is_plain else _problem_of_unusual(url, of_site=of_site)


def _problem_of_unusual(url: str, *, of_site: bool) -> str | None:
    if _NOT_PRINTABLE.search(url):
        return "an address may contain only printable ASCII without spaces"
    if len(url) > _LONGEST_ADDRESS:
        return f"an address may have {_LONGEST_ADDRESS} characters at most"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return f"{url!r} is not an address"
    if of_site and parts.scheme in CONNECTIONS:
        is_right, wanted = (
            bool(host and port) and not any((*parts[2:],)),
            "a host with a port",
        )
    else:
        is_right, wanted = bool(host) and parts.scheme in ("http", "https"), "an http or https address"
    if not is_right:
        return f"{without_user(url)!r} is not {wanted}"
    if parts.username is not None or parts.password is not None:
        return WITHOUT_USER
    return None


def is_mail(text: str) -> bool:
    """Return whether a text is one mail address, and nothing else.

    >>> is_mail("me@example.org"), is_mail("me@example.org, you@example.org")
    (True, False)
    """
    return _MAIL.fullmatch(text) is not None


def plain_address(text: str) -> str:
    """Return an address as the language takes it, if it can be meant; ``address_problem`` judges the result.

    Feed schemes become http, names of hosts punycode, and what is not printable ASCII is percent-encoded in UTF-8. An
    address that is fine is not changed, and user and password are never left out silently.

    >>> plain_address(" feed://b\u00fccher.example/a b?q=\u00fc ")
    'http://xn--bcher-kva.example/a%20b?q=%C3%BC'
    """
    url = _FEED_SCHEME.sub(_http, text.strip(_AROUND).translate(_BREAKS), count=1)
    if len(url) > _LONGEST_ADDRESS or address_problem(url) is None:
        return url
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            return url
        user, at, host = parts.netloc.rpartition("@")
        return urlunsplit(
            parts._replace(
                netloc=quote(user, safe=_PRINTABLE) + at + _ascii_host(host), **_quote_paths(parts._asdict())
            )
        )
    except ValueError:
        return url


def meant_address(text: str) -> str:
    """Return an address as ``plain_address`` does, and one that somebody wrote without a scheme with https.

    >>> meant_address("example.org/feed"), meant_address("feed.xml?"), meant_address("me@example.org")
    ('https://example.org/feed', 'https://feed.xml?', 'me@example.org')
    """
    url = plain_address(text)
    secure = plain_address(f"https://{url}") if _WITHOUT_SCHEME.fullmatch(url) else url
    return secure if address_problem(secure) is None else url


def address_to_watch(text: str, *, of_site: bool = False) -> str:
    """Return the address that someone asks to watch; raises ``ConfigError`` if it cannot be asked."""
    url = meant_address(text)
    problem = address_problem(url, of_site=of_site)
    if problem == WITHOUT_USER:
        raise ConfigError([f"{problem}; declare it as a source without them, with AUTH BASIC 'user' SECRET ENV '...'"])
    if problem is not None:
        if of_site and _is_connection(url):
            raise ConfigError([f"{problem}; write one such as tcp://db.example.org:5432"])
        if _is_connection(url):
            raise ConfigError([f"{without_user(url)!r} can be watched only as a site: write OF SITE, or --site"])
        known = "https://, http://, tcp:// or tls://" if of_site else "https:// or http://"
        raise ConfigError([f"{without_user(text)!r} is not an address; it starts with {known}"])
    return url


def _is_connection(url: str) -> bool:
    return url.partition("://")[0] in CONNECTIONS


def without_user(url: str) -> str:
    """Return an address for people, without the user and password that it may hold.

    >>> without_user("http://me:pw@h.example/k")
    'http://[hidden]@h.example/k'
    """
    return _USER.sub("//[hidden]@", url, count=1)


def _http(scheme: re.Match[str]) -> str:
    return "" if scheme.string[scheme.end() :].lower().startswith(("http:", "https:")) else "http://"


def _quote_paths(parts: dict[str, str]) -> dict[str, str]:
    return {name: quote(parts[name], safe=_PRINTABLE) for name in ("path", "query", "fragment")}


def _ascii_host(host: str) -> str:
    """Return a host, and its port, in ASCII; raises ``ValueError`` if no name can be so."""
    if host.isascii():
        return host
    name, colon, port = host.partition(":")
    return (URL.build(scheme="http", host=name).raw_host or "") + colon + port


_MAX_YEARS = 100
_YEAR_S = 366 * 86400
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_MAIL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[\w-]+(?:\.[\w-]+)*")  # no list of several addresses
_CHANNEL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://[^\s\x00-\x1f\x7f]+")
_SECOND_ADDRESS = re.compile(r"[,;][^/]*://")  # where senders split a text into several addresses
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN_HEADERS = {
    "host": "the address sets it",
    "content-length": "the request sets it",
    "transfer-encoding": "the request sets it",
    "connection": "the request sets it",
    "accept-encoding": "the request sets it",
    "expect": "the request sets it",
    "te": "the request sets it",
    "upgrade": "the request sets it",
    "user-agent": "it identifies proxyd; see the setting contact",
    "authorization": "use AUTH",
    "proxy-authorization": "use AUTH",
    "if-none-match": "the daemon sets it",
    "if-modified-since": "the daemon sets it",
}


def channel_scheme(url: str) -> str | None:
    """Return the scheme of a channel's address in lower case, or ``None`` if the text is not exactly one address.

    >>> channel_scheme("Ntfy://topic"), channel_scheme("tgram://token/1, json://h"), channel_scheme("topic")
    ('ntfy', None, None)
    """
    found = _CHANNEL.fullmatch(url)
    return None if found is None or _SECOND_ADDRESS.search(url) else found[1].lower()


def read_time(text: str) -> float | None:
    """Return the unix seconds of an ISO 8601 time, in UTC if it has no offset, or ``None`` if it is not a time.

    >>> read_time("2026-01-01T00:00:00Z"), read_time("tomorrow")
    (1767225600.0, None)
    """
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


class Values:
    """Checks values and reports errors in them."""

    def __init__(self, reporter: Reporter, settings: CheckSettings) -> None:
        self.reporter = reporter
        self._settings = settings

    def url(self, url: str, span: TextSpan, *, of_site: bool = False) -> None:
        """Report an address that is not an absolute one of http or https, or that contains credentials."""
        problem = address_problem(url, of_site=of_site)
        if problem:
            plain = meant_address(url)
            can_be_meant = address_problem(plain) is None
            example = "tcp://db.example.org:5432" if _is_connection(url) and of_site else "https://example.org/feed"
            such = f"write {plain!r}" if can_be_meant else f"expected an address such as {example!r}"
            if not of_site and address_problem(url, of_site=True) is None:
                such = "only a WATCH ... OF SITE connects to it"
            self.reporter.error(f"{problem}: {such}", span)

    def websub(self, span: TextSpan) -> None:
        """Warn about WEBSUB ON if no hub can reach the daemon."""
        if not self._settings.can_subscribe:
            self.reporter.warn_once("WEBSUB ON has no effect while the setting public_url is empty", span)

    def browser(self, span: TextSpan) -> None:
        """Warn about FETCH BROWSER if there is no browser to render pages with."""
        if (missing := self._settings.browser_missing) is not None:
            self.reporter.warn_once(f"FETCH BROWSER reads nothing while {missing}", span)

    def css(self, selector: str, span: TextSpan) -> None:
        """Report a text that is not a CSS selector."""
        if not selector.strip() or selector_problem(Extraction(Reader.CSS, selector)) is not None:
            self.reporter.error(f"{selector!r} is not a CSS selector", span)

    def line_pattern(self, pattern: str, span: TextSpan) -> None:
        """Report what no line can match, or every line does."""
        if not pattern.strip():
            self.reporter.error("IGNORE '' would leave out everything; write what the lines hold", span)
        elif (problem := pattern_problem(pattern)) is not None:
            self.reporter.error(f"{pattern} is no pattern: {problem}", span)

    def zone(self, zone: str, span: TextSpan) -> None:
        """Report a name that is not an IANA time zone."""
        if zone not in zone_names():
            suggestion = did_you_mean(zone, sorted(zone_names()))
            self.reporter.error(f"{zone!r} is not a time zone.{suggestion}", span)

    def locale(self, tag: str, span: TextSpan) -> None:
        """Report a text that is not the tag of a language whose notation of numbers is known."""
        if mark_of(tag) is None:
            message = f"{tag!r} is not the tag of a language whose numbers proxyd knows, such as 'de' or 'de-CH'."
            self.reporter.error(message + _meant_language(tag), span)

    def digest(self, digest: Digest, span: TextSpan) -> None:
        """Report wrong times of a digest."""
        self.at_least_one("AT MOST", digest.at_most, span)
        if not isinstance(digest.when, WallTime):
            self.durations([("DIGEST EVERY", digest.when)], span)
            return
        if read_clock(digest.when.at) is None:
            self.reporter.error(f"expected a time of day such as '08:00', found {digest.when.at!r}", span)
        if digest.when.zone is not None:
            self.zone(digest.when.zone, span)

    def secret(self, secret: SecretRef, span: TextSpan) -> None:
        """Report an environment name outside the prefix, and a file name that is a path."""
        if secret.kind == "file":
            if _FILE_NAME.fullmatch(secret.name) is None:
                message = f"SECRET FILE takes the plain name of a file in the secrets folder; found {secret.name!r}"
                self.reporter.error(message, span)
        elif _ENV_NAME.fullmatch(secret.name) is None:
            self.reporter.error(f"{secret.name!r} is not a valid name of an environment variable", span)
        elif not secret.name.startswith(SECRET_PREFIX) or secret.name == SECRET_PREFIX:
            message = f"the name of a secret must start with {SECRET_PREFIX!r}; found {secret.name!r}"
            self.reporter.error(message, span)
        if not self.reporter.has_error(span) and not self._settings.is_secret_set(secret):
            told = (
                "set it where the daemon runs, and restart"
                if secret.kind == "env"
                else "put it into the folder secrets"
            )
            self.reporter.warn_once(f"{secret.name} is not set: {told}", span)

    def mail(self, address: str, span: TextSpan) -> None:
        """Report a text that is not a mail address."""
        if not is_mail(address):
            self.reporter.error(f"{address!r} is not a mail address", span)

    def can_mail(self, span: TextSpan) -> None:
        """Warn about DELIVERY MAIL if there is no mail server."""
        if not self._settings.can_mail:
            self.reporter.warn_once("DELIVERY MAIL waits while the settings smtp and mail_from are empty", span)

    def channel(self, url: str, span: TextSpan) -> None:
        """Report a text that is not exactly one address, or that the settings do not allow."""
        # What was accepted before is only warned of, so that a change of settings does not keep the daemon from
        # starting
        settings, scheme = self._settings, channel_scheme(url)
        refuse = self.reporter.warn if settings.accepted_before else self.reporter.error
        if "://[hidden " in url:
            self.reporter.error("this address is hidden; write it, or read it with a token of scope write", span)
        elif scheme is None:
            refuse("CHANNEL takes exactly one address, such as 'ntfy://topic'; write another CHANNEL for another", span)
        elif settings.channel_schemes is not None and scheme not in settings.channel_schemes:
            refuse(f"nothing is sent to {scheme}:// while the setting channel_schemes does not name it", span)
        elif settings.channel_problem is not None and (problem := settings.channel_problem(url)) is not None:
            refuse(problem, span)
        elif settings.chats is not None and scheme not in settings.chats:
            self.reporter.warn_once(f"nothing is sent to {scheme}:// while proxyd[apprise] is not installed", span)

    def header(self, name: str, value: str | SecretRef, span: TextSpan) -> None:
        """Report a header that cannot be sent, or that a rule must not set."""
        if _HEADER_NAME.fullmatch(name) is None:
            self.reporter.error(f"{name!r} is not a valid name of a header", span)
        elif name.lower() in _OWN_HEADERS:
            self.reporter.error(f"HEADER cannot set {name}: {_OWN_HEADERS[name.lower()]}", span)
        if isinstance(value, SecretRef):
            self.secret(value, span)
        elif any(ord(char) < 32 or ord(char) > 126 for char in value):
            self.reporter.error("the value of a header may contain only printable ASCII", span)

    def during(self, text: str, span: TextSpan) -> None:
        """Report a text that does not name a part of the week."""
        if parse_during(text) is None:
            message = f"DURING takes days and hours such as 'Mon-Fri 09:00-18:00'; found {text!r}"
            self.reporter.error(message, span)

    def quiet(self, quiet: QuietHours, span: TextSpan) -> None:
        """Report hours that cannot be read, or that never end."""
        endless = "QUIET leaves no time for messages; mute the profile instead"
        self._hours("QUIET", quiet, "'Mon-Fri 22:00-07:00, Sat,Sun'", endless, span)

    def maintenance(self, hours: QuietHours, span: TextSpan) -> None:
        """Report hours that cannot be read, or that never end."""
        endless = "MAINTENANCE leaves no time in which the site counts; pause the source instead"
        self._hours("MAINTENANCE", hours, "'Sun 02:00-04:00'", endless, span)

    def _hours(self, clause: str, hours: QuietHours, such: str, endless: str, span: TextSpan) -> None:
        parts = parse_week_parts(hours.during)
        if parts is None:
            self.reporter.error(f"{clause} DURING takes days and hours such as {such}; found {hours.during!r}", span)
        elif not leaves_time(parts):
            self.reporter.error(endless, span)
        if hours.zone is not None:
            self.zone(hours.zone, span)

    def durations(self, named: Iterable[tuple[str, Duration | None]], span: TextSpan) -> None:
        """Report durations that are not above 0, too long, or not a whole number of chronons."""
        for name, duration in named:
            if duration is not None:
                self._duration(name, duration, span)

    def _duration(self, name: str, duration: Duration, span: TextSpan) -> None:
        if duration.amount <= 0:
            self.reporter.error(f"{name} must be longer than 0", span)
        elif duration.in_seconds(chronon_s=self._settings.chronon_s) > _MAX_YEARS * _YEAR_S:
            self.reporter.error(f"{name} must not be longer than {_MAX_YEARS} years", span)
        elif duration.unit is Unit.CHRONONS and duration.amount % 1:
            self.reporter.error(f"{name} must be a whole number of chronons", span)

    def at_least_one(self, name: str, count: int | None, span: TextSpan, *, most: int = 1_000_000) -> None:
        """Report a count below 1 or above ``most``."""
        if count is not None and not 1 <= count <= most:
            self.reporter.error(f"{name} must lie between 1 and {most}", span)


def _meant_language(tag: str) -> str:
    """Return a suggestion: the same tag written correctly, that of a language by its name, or a similar one."""
    written = tag.strip().replace("_", "-")
    language = suggest(written, LANGUAGE_NAMES)
    if mark_of(written) is None and language is not None:
        written = LANGUAGE_NAMES[language]
    return f" Did you mean {written}?" if mark_of(written) is not None else did_you_mean(written, LANGUAGES)
