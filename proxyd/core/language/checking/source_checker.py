"""Checks CREATE SOURCE, CREATE PROFILE and deliveries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from sys import intern
from typing import TypeAlias

from proxyd.core.language.checking.classes import ClassIndex
from proxyd.core.language.syntax.check_context import Reporter
from proxyd.core.language.syntax.clauses import PROFILE_OPTIONS, SOURCE_OPTIONS, check_clauses
from proxyd.core.language.syntax.delivery_kinds import ReceiverName, kind_of
from proxyd.core.language.syntax.nodes import (
    CreateProfile,
    CreateSource,
    CreateSources,
    ListedSource,
    Located,
    SourceOptions,
    StatementKind,
    Unread,
)
from proxyd.core.language.syntax.quoting import quote_text
from proxyd.core.language.syntax.readers import READER_KINDS
from proxyd.core.language.syntax.value_checks import Values, is_mail, meant_address
from proxyd.core.model.delivery import Delivery
from proxyd.core.model.expression import TextSpan
from proxyd.core.model.profile import (
    SITE_CLASS,
    SOURCE_CLASS,
    Domain,
    PageClass,
    Politeness,
    Profile,
    Rendering,
    Source,
)
from proxyd.core.model.site import CONNECTIONS, SPACING, SiteChecks

_SITE_OPTIONS = ("certificate", "domain", "holding", "maintenance")
_APART = {"headers", "ignored", "browser", "wait_for", *_SITE_OPTIONS}
_OPTIONS = [each.attribute for each in SOURCE_OPTIONS if each.attribute not in _APART]
"""The options that a source has as they are written."""
_OF_A_SITE = {
    "politeness": Politeness(spacing=SPACING),
    "freshness": False,
    "websub": False,
    "robots": False,
    "backoff": False,
}
"""What holds for a site unless it is written otherwise: it is your own, and asked every minute also while it fails."""


Receivers: TypeAlias = Mapping[str, tuple[Delivery, ...]]
"""The deliveries of each receiver, by its name."""


def check_source(statement: CreateSource, classes: ClassIndex, reporter: Reporter, values: Values) -> Source | None:
    """Return the source, or ``None`` if its class cannot be found."""
    if isinstance(statement, ListedSource):
        page_class = classes.find(statement.page_class, Reporter(reporter.source))
    else:
        page_class = check_reading(statement, classes, reporter, values)
    values.url(statement.url.value, statement.url.span, of_site=page_class == SITE_CLASS)
    if page_class is None:
        return None
    options = {name: each.value for name in _OPTIONS if (each := getattr(statement, name)) is not None}
    if page_class == SITE_CLASS:
        _check_connection(statement, reporter)
        checks = {name: each.value for name in _SITE_OPTIONS if (each := getattr(statement, name)) is not None}
        options = {**_OF_A_SITE, **options, "site": SiteChecks(**checks)}
    wait_for = statement.wait_for
    return Source(
        source_id=intern(statement.name.value),  # one string is shared with the rows of this source
        page_class=page_class.name,
        domain=page_class.domain,
        url=statement.url.value,
        headers=tuple(header.value for header in statement.headers),
        ignored=tuple(each.value for each in statement.ignored),
        rendering=Rendering(None if wait_for is None else wait_for.value) if statement.browser is not None else None,
        **options,
    )


def check_reading(
    statement: CreateSource | CreateSources, classes: ClassIndex, reporter: Reporter, values: Values
) -> PageClass | None:
    """Check how sources are asked and read; return their class, or ``None`` if it cannot be found."""
    _check_options(statement, reporter, values)
    page_class = classes.find(statement.page_class, reporter)
    if page_class == SOURCE_CLASS:
        reporter.error("SOURCE is the class of all sources, and not of a kind of page", statement.page_class.span)
    if page_class is not None and page_class != SITE_CLASS:
        _check_no_site(statement, page_class, reporter)
    if page_class is not None and statement.browser is not None:
        _check_rendered(page_class, statement.browser.span, reporter)
    if page_class is not None and statement.ignored:
        _check_ignored(page_class, statement.ignored[0].span, reporter)
    if page_class is not None and statement.full_articles is not None:
        _check_articles(page_class, statement.full_articles.span, reporter)
    return page_class


def _check_options(statement: SourceOptions, reporter: Reporter, values: Values) -> None:
    """Report wrong values, and options that do not go together."""
    check_clauses(statement, SOURCE_OPTIONS, values)
    is_pushed = statement.websub is not None and statement.websub.value
    if is_pushed and statement.post is not None:
        message = "WEBSUB ON does not go with METHOD POST: a hub pushes documents that are asked for by GET"
        reporter.error(message, statement.post.span)
    if statement.wait_for is not None and statement.browser is None:
        reporter.error("WAIT FOR needs FETCH BROWSER: only a browser can wait", statement.wait_for.span)
    if statement.browser is not None and statement.post is not None:
        message = "FETCH BROWSER does not go with METHOD POST: a browser opens pages by GET"
        reporter.error(message, statement.post.span)
    if statement.browser is not None and statement.websub is not None and is_pushed:
        message = "WEBSUB ON does not go with FETCH BROWSER: a hub pushes pages whose scripts did not run"
        reporter.error(message, statement.websub.span)


def _check_no_site(statement: SourceOptions, page_class: PageClass, reporter: Reporter) -> None:
    """Report options of sites, which other sources do not have."""
    for clause in (each for each in SOURCE_OPTIONS if each.attribute in _SITE_OPTIONS):
        if (value := getattr(statement, clause.attribute)) is not None:
            message = f"{clause.words} is an option of sites, and this is of class {page_class.name}: write OF SITE"
            reporter.error(message, value.span)


def _check_connection(statement: CreateSource, reporter: Reporter) -> None:
    """Report headers, credentials and bodies for an address to which nothing is sent."""
    scheme = statement.url.value.partition("://")[0]
    if scheme not in CONNECTIONS:
        return
    sent = (("HEADER", statement.headers[:1]), ("AUTH", (statement.auth,)), ("METHOD", (statement.post,)))
    for words, values in sent:
        for value in filter(None, values):
            reporter.error(f"{words} is for addresses of http and https: to {scheme} nothing is sent", value.span)


def _check_ignored(page_class: PageClass, span: TextSpan, reporter: Reporter) -> None:
    """Report a class that does not read the text of whole pages."""
    if page_class.is_feed:
        message = f"IGNORE is for the text of pages, and {page_class.name} reads feeds: write WITHOUT in a WATCH"
        reporter.error(message, span)
    elif page_class == SITE_CLASS or any(each.extraction for each in page_class.fields):
        reporter.error(f"IGNORE is for the text of whole pages: {page_class.name} reads none, so leave it out", span)


def _check_rendered(page_class: PageClass, span: TextSpan, reporter: Reporter) -> None:
    """Report a class that does not read web pages."""
    named = [page_class.each, *(field.extraction for field in page_class.fields)]
    if page_class == SITE_CLASS:
        message = (
            "FETCH BROWSER does not go with OF SITE: a probe of a site looks whether it answers, and reads nothing"
        )
        reporter.error(message, span)
    elif page_class.is_feed or any(each is not None and READER_KINDS[each.reader].is_of_json for each in named):
        message = f"FETCH BROWSER is for web pages, but {page_class.name} reads other documents: write OF PAGE"
        reporter.error(message, span)


def _check_articles(page_class: PageClass, span: TextSpan, reporter: Reporter) -> None:
    """Report a class that reads no feeds."""
    if not page_class.is_feed:
        message = f"FULL ARTICLES is for feeds, whose items lead to pages, and {page_class.name} reads no feed"
        reporter.error(message, span)


def check_profile(
    statement: CreateProfile,
    domains: Mapping[str, Domain],
    receivers: Receivers,
    reporter: Reporter,
    values: Values,
    unread: Unread,
) -> Profile:
    """Return the profile; domains that could not be read do not count as unknown."""
    _check_languages(statement.languages, reporter)
    for kind, names in (("DOMAIN", statement.domains), ("USER", statement.users)):
        report_repeated(kind, names, reporter)
    for domain in statement.domains:
        if domain.value not in domains and not unread.hides(StatementKind.DOMAIN, domain.value):
            suggestion = reporter.hint(domain.value, domains)
            reporter.error(f"there is no domain {domain.value!r}.{suggestion}", domain.span)
    check_deliveries(statement.deliveries, reporter, values)
    check_deliveries(statement.trouble, reporter, values)
    check_receivers(statement.deliveries, receivers, reporter, unread)
    check_clauses(statement, PROFILE_OPTIONS, values)
    return Profile(
        name=statement.name.value,
        domains=tuple(domains[name].name if name in domains else name for name in (d.value for d in statement.domains)),
        users=tuple(user.value for user in statement.users),
        deliveries=once_each(reached(statement.deliveries, receivers)),
        digest=None if statement.digest is None else statement.digest.value,
        quiet=None if statement.quiet is None else statement.quiet.value,
        file=reporter.source.file,
    )


def _check_languages(languages: Sequence[Located[str]], reporter: Reporter) -> None:
    for language in languages:
        if language.value.upper() != "SQL":
            reporter.error(f'the LANGUAGE of a profile is "SQL"; found {language.value!r}', language.span)
    if len(languages) > 1:
        reporter.error("LANGUAGE is given twice", languages[1].span)


def report_repeated(kind: str, names: Iterable[Located[str]], reporter: Reporter) -> None:
    """Report names that occur twice in a list."""
    seen: set[str] = set()
    for name in names:
        if name.value in seen:
            reporter.error(f"{kind} {name.value!r} is listed twice", name.span)
        seen.add(name.value)


def once_each(deliveries: Iterable[Delivery]) -> tuple[Delivery, ...]:
    """Return the first delivery to each address."""
    found: dict[str, Delivery] = {}
    for delivery in deliveries:
        found.setdefault(delivery.endpoint, delivery)
    return tuple(found.values())


def check_deliveries(deliveries: Iterable[Located[Delivery]], reporter: Reporter, values: Values) -> None:
    """Report addresses, secrets and forms that do not fit, and addresses that occur twice."""
    endpoints: set[str] = set()
    for each in deliveries:
        delivery, span = each.value, each.span
        if delivery.endpoint in endpoints:
            reporter.warn("this address is listed twice; only the first is used", span)
        endpoints.add(delivery.endpoint)
        if not isinstance(delivery, ReceiverName):
            kind_of(delivery).check(values, delivery, span)


def check_receivers(
    deliveries: Iterable[Located[Delivery]], receivers: Receivers, reporter: Reporter, unread: Unread
) -> None:
    """Report names of receivers that no statement declares; those that could not be read do not count as unknown."""
    for each in deliveries:
        if isinstance(each.value, ReceiverName) and each.value.receiver not in receivers:
            name = each.value.receiver
            if not unread.hides(StatementKind.RECEIVER, name):
                hint = reporter.hint(name, receivers) or _remedy(name)
                reporter.error(f"there is no receiver {name!r}.{hint}", each.span)


def _remedy(name: str) -> str:
    """Return how to write what has been taken for the name of a receiver."""
    if is_mail(name):
        return f" Write MAIL {quote_text(name)} for the address."
    address = meant_address(name)
    more = "" if address == name else f", or write {address!r} for a webhook"
    return f" Declare it with CREATE RECEIVER{more}."


def has_receiver(deliveries: Iterable[Located[Delivery]]) -> bool:
    """Return whether the name of a receiver is among some deliveries."""
    return any(isinstance(each.value, ReceiverName) for each in deliveries)


def reached(deliveries: Iterable[Located[Delivery]], receivers: Receivers) -> Iterator[Delivery]:
    """Yield deliveries, those of a receiver in the place of its name."""
    for each in deliveries:
        if isinstance(each.value, ReceiverName):
            yield from receivers.get(each.value.receiver, ())
        else:
            yield each.value
