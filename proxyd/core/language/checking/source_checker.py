"""Checks CREATE SOURCE, CREATE PROFILE and deliveries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from sys import intern

from proxyd.core.language.checking.check_context import Reporter
from proxyd.core.language.checking.classes import ClassIndex
from proxyd.core.language.checking.value_reader import Values
from proxyd.core.language.deliveries import kind_of
from proxyd.core.language.nodes import (
    CreateProfile,
    CreateSource,
    CreateSources,
    ListedSource,
    Located,
    SourceOptions,
    StatementKind,
    Unread,
)
from proxyd.core.language.readers import READER_KINDS
from proxyd.core.language.words import did_you_mean
from proxyd.core.model.delivery import Delivery
from proxyd.core.model.expression import TextSpan
from proxyd.core.model.profile import Auth, PageClass, Politeness, Profile, Rendering, Source
from proxyd.core.model.source_class import SOURCE_CLASS

MAX_BODY_BYTES = 65_536
"""Bytes of the BODY of a request."""


def check_source(statement: CreateSource, classes: ClassIndex, reporter: Reporter, values: Values) -> Source | None:
    """Return the source, or ``None`` if its class cannot be found."""
    values.url(statement.url.value, statement.url.span)
    if isinstance(statement, ListedSource):
        page_class = classes.find(statement.page_class, Reporter(reporter.source))
    else:
        page_class = check_reading(statement, classes, reporter, values)
    if page_class is None:
        return None
    return Source(
        source_id=intern(statement.name.value),  # one string is shared with the rows of this source
        page_class=page_class.name,
        domain=page_class.domain,
        url=statement.url.value,
        politeness=statement.politeness.value if statement.politeness else None,
        expect=statement.expect.value if statement.expect else None,
        zone=statement.zone.value if statement.zone else None,
        locale=statement.locale.value if statement.locale else None,
        freshness=statement.freshness.value if statement.freshness else None,
        headers=tuple(header.value for header in statement.headers),
        auth=statement.auth.value if statement.auth else None,
        post=statement.post.value if statement.post else None,
        websub=statement.websub.value if statement.websub else None,
        robots=statement.robots.value if statement.robots else None,
        backoff=statement.backoff.value if statement.backoff else None,
        rendering=_rendering(statement),
    )


def check_reading(
    statement: CreateSource | CreateSources, classes: ClassIndex, reporter: Reporter, values: Values
) -> PageClass | None:
    """Check how sources are asked and read; return their class, or ``None`` if it cannot be found."""
    _check_options(statement, reporter, values)
    page_class = classes.find(statement.page_class, reporter)
    if page_class == SOURCE_CLASS:
        reporter.error("SOURCE is the class of all sources, and not of a kind of page", statement.page_class.span)
    if page_class is not None and statement.browser is not None:
        _check_rendered(page_class, statement.browser.span, reporter)
    return page_class


def _check_options(statement: SourceOptions, reporter: Reporter, values: Values) -> None:
    if statement.politeness is not None:
        _check_politeness(statement.politeness, values)
    if statement.expect is not None:
        expect, span = statement.expect.value, statement.expect.span
        values.durations([("the period of EXPECT", expect.per)], span)
        if expect.amount <= 0:
            reporter.error("EXPECT must be more than 0; leave it out if the rate is unknown", span)
    if statement.zone is not None:
        values.zone(statement.zone.value, statement.zone.span)
    if statement.locale is not None:
        values.locale(statement.locale.value, statement.locale.span)
    if statement.auth is not None:
        _check_auth(statement.auth, reporter, values)
    for header in statement.headers:
        values.header(*header.value, header.span)
    if statement.post is not None:
        _check_post(statement, statement.post, reporter)
    if statement.websub is not None and statement.websub.value:
        values.websub(statement.websub.span)
    _check_fetching(statement, reporter, values)


def _check_fetching(statement: SourceOptions, reporter: Reporter, values: Values) -> None:
    if statement.wait_for is not None:
        values.css(statement.wait_for.value, statement.wait_for.span)
        if statement.browser is None:
            reporter.error("WAIT FOR needs FETCH BROWSER: only a browser can wait", statement.wait_for.span)
    if statement.browser is None:
        return
    values.browser(statement.browser.span)
    if statement.post is not None:
        reporter.error("FETCH BROWSER does not go with METHOD POST: a browser opens pages by GET", statement.post.span)
    if statement.websub is not None and statement.websub.value:
        reporter.error(
            "WEBSUB ON does not go with FETCH BROWSER: a hub pushes pages whose scripts did not run",
            statement.websub.span,
        )


def _check_rendered(page_class: PageClass, span: TextSpan, reporter: Reporter) -> None:
    """Report a class that does not read web pages."""
    named = [page_class.each, *(field.extraction for field in page_class.fields)]
    if page_class.is_feed or any(each is not None and READER_KINDS[each.reader].is_of_json for each in named):
        message = f"FETCH BROWSER is for web pages, but {page_class.name} reads other documents: write OF PAGE"
        reporter.error(message, span)


def _rendering(statement: CreateSource) -> Rendering | None:
    if statement.browser is None:
        return None
    return Rendering(None if statement.wait_for is None else statement.wait_for.value)


def _check_politeness(politeness: Located[Politeness], values: Values) -> None:
    limit, span = politeness.value, politeness.span
    values.at_least_one("the number of probes", limit.probes, span)
    values.durations([("the period of POLITENESS", limit.per), ("SPACING", limit.spacing)], span)


def _check_post(statement: SourceOptions, post: Located[str], reporter: Reporter) -> None:
    if len(post.value.encode("utf-8", "surrogatepass")) > MAX_BODY_BYTES:
        reporter.error(f"the BODY of a request may have {MAX_BODY_BYTES:,} bytes at most", post.span)
    if statement.websub is not None and statement.websub.value:
        reporter.error(
            "WEBSUB ON does not go with METHOD POST: a hub pushes documents that are asked for by GET", post.span
        )


def _check_auth(auth: Located[Auth], reporter: Reporter, values: Values) -> None:
    values.secret(auth.value.secret, auth.span)
    user = auth.value.user
    if user is not None and (not user.isprintable() or ":" in user):
        reporter.error("the user of AUTH BASIC takes printable characters other than ':'", auth.span)


def check_profile(
    statement: CreateProfile, domains: Collection[str], reporter: Reporter, values: Values, unread: Unread
) -> Profile:
    """Return the profile; domains that could not be read do not count as unknown."""
    _check_languages(statement.languages, reporter)
    for kind, names in (("DOMAIN", statement.domains), ("USER", statement.users)):
        report_repeated(kind, names, reporter)
    for domain in statement.domains:
        if domain.value not in domains and not unread.hides(StatementKind.DOMAIN, domain.value):
            suggestion = did_you_mean(domain.value, domains)
            reporter.error(f"there is no domain {domain.value!r}.{suggestion}", domain.span)
    check_deliveries(statement.deliveries, reporter, values)
    check_deliveries(statement.trouble, reporter, values)
    if statement.digest is not None:
        values.digest(statement.digest.value, statement.digest.span)
    return Profile(
        name=statement.name.value,
        domains=tuple(domain.value for domain in statement.domains),
        users=tuple(user.value for user in statement.users),
        deliveries=once_each(delivery.value for delivery in statement.deliveries),
        digest=None if statement.digest is None else statement.digest.value,
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
        kind_of(delivery).check(delivery, values, reporter, span)
