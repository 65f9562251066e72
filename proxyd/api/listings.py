"""What the REST API and the dashboard both show: queries of the daemon, answered with the models of the wire."""

from __future__ import annotations

from proxyd.api.rest.notification_traces import trace
from proxyd.api.rest.query_readers import InOrder, before, known_declaration, page_of, part_of, wanted
from proxyd.api.wire import (
    AdviceShown,
    ComingProbe,
    DaysOfIntervals,
    DaysOfItems,
    DeadLetter,
    DomainShown,
    Explained,
    Found,
    IntervalOfRule,
    Items,
    ItemSeen,
    ListWindow,
    NotificationListed,
    NotificationTraced,
    Page,
    ProbeMade,
    ProfileListed,
    ReportShown,
    Rule,
    SourceListed,
    SourcesWindow,
    TokenShown,
    WebhookShown,
)
from proxyd.api.wire import converters as payloads
from proxyd.core.language import no_such
from proxyd.core.model.profile import NotificationRule
from proxyd.queries import Queries


class Listings:
    """Lists and single things, by the ports of a daemon."""

    def __init__(self, queries: Queries) -> None:
        self._profiles = queries.profiles
        self._plans = queries.plans
        self._deliveries = queries.deliveries
        self._access = queries.access
        self._source_names = InOrder()

    # -- what is declared

    def profiles(self, window: ListWindow) -> Page[ProfileListed]:
        """Return profiles, by name."""
        names, next_cursor = part_of(sorted(self._profiles.declaration.profiles), window)
        return Page[ProfileListed](items=[self._profile(name) for name in names], next_cursor=next_cursor)

    def profile(self, name: str) -> ProfileListed:
        """Return one profile; raises ``NotFoundError``."""
        known = known_declaration(self._profiles).profiles
        if name not in known:
            raise no_such("profile", name, known)
        return self._profile(name)

    def _profile(self, name: str) -> ProfileListed:
        declaration = self._profiles.declaration
        declared = declaration.profiles[name]
        rules = [each for each in declaration.rules.values() if name in each.profiles]
        counts = self._plans.capture_counts([each.name for each in rules])
        shown = [self._rule(each) for each in rules]
        return ProfileListed(**payloads.profile(declared, self._profiles.origin(declared.file), shown, counts))

    def rules(self, window: ListWindow) -> Page[Rule]:
        """Return rules, by name, and what became of their execution intervals."""
        declared = self._profiles.declaration.rules
        names, next_cursor = part_of(sorted(declared), window)
        return Page[Rule](items=[self._rule(declared[name]) for name in names], next_cursor=next_cursor)

    def rule(self, name: str) -> Rule:
        """Return one rule; raises ``NotFoundError``."""
        rules = known_declaration(self._profiles).rules
        if name not in rules:
            raise no_such("rule", name, rules)
        return self._rule(rules[name])

    def _rule(self, declared: NotificationRule) -> Rule:
        return payloads.rule(
            declared, self._profiles.origin(declared.file), self._plans.capture_counts([declared.name])
        )

    def domains(self, window: ListWindow) -> Page[DomainShown]:
        """Return domains, by name, with their page classes."""
        domains = self._profiles.declaration.domains
        names, next_cursor = part_of(sorted(domains), window)
        return Page[DomainShown](items=[payloads.domain(domains[name]) for name in names], next_cursor=next_cursor)

    def source_names(self) -> list[str]:
        """Return the names of the declared sources, in order."""
        return self._source_names.of(known_declaration(self._profiles).sources)

    def sources(self, asked: SourcesWindow) -> Page[SourceListed]:
        """Return sources, by name: state, rate, next probe and its reason."""
        declaration = self._profiles.declaration
        wanted_names = sorted(self._plans.failing()) if asked.failing else self._source_names.of(declaration.sources)
        names, next_cursor = part_of(wanted_names, asked)
        found = [self._plans.explain(name) for name in names]
        items = [payloads.source(declaration, each) for each in found if each is not None]
        return Page[SourceListed](items=items, next_cursor=next_cursor)

    def explanation(self, name: str) -> Explained:
        """Return why and when a source is probed next; raises ``NotFoundError``."""
        sources = known_declaration(self._profiles).sources  # raises while the daemon starts
        found = self._plans.explain(name)
        if found is None:
            raise no_such("source", name, sources)
        return payloads.explanation(found)

    # -- what is planned, and what came of it

    def coming(self, limit: int) -> Items[ComingProbe]:
        """Return the coming probes in order, each with its reason."""
        return Items[ComingProbe](items=[payloads.planned_probe(each) for each in self._plans.plan(limit=limit)])

    async def probes(self, source_id: str, window: ListWindow) -> Page[ProbeMade]:
        """Return the probes of a source in the last week, newest first."""
        found = await self._plans.made_probes(source_id, before=before(window.cursor), limit=window.limit + 1)
        found, next_cursor = page_of(found, window.limit)
        return Page[ProbeMade](items=[payloads.probe_made(each) for each in found], next_cursor=next_cursor)

    async def items(self, source_id: str, asked: DaysOfItems) -> Items[ItemSeen]:
        """Return when items of a source came and when each was seen, newest first."""
        found = await self._plans.seen_items(source_id, days=asked.days, limit=asked.limit)
        return Items[ItemSeen](items=[payloads.item_seen(each) for each in found])

    async def intervals(self, rule: str, asked: DaysOfIntervals) -> Items[IntervalOfRule]:
        """Return the execution intervals of a rule that were decided in the last days, newest first."""
        found = await self._plans.intervals(rule, days=asked.days, limit=asked.limit)
        return Items[IntervalOfRule](items=[payloads.interval(each) for each in found])

    async def advice(self) -> AdviceShown:
        """Return what other budgets would buy."""
        return payloads.advice(await self._plans.advise())

    async def report(self, days: int) -> ReportShown:
        """Return what was found and predicted, day by day."""
        return payloads.report(await self._plans.report(days=days))

    # -- notifications, receivers and tokens

    async def notifications(self, asked: Found) -> Page[NotificationListed]:
        """Return notifications, newest first, each with its deliveries."""
        which = wanted(asked, self._profiles, since=asked.since)
        found = await self._deliveries.notifications(which, before=before(asked.cursor), limit=asked.limit + 1)
        found, next_cursor = page_of(found, asked.limit)
        return Page[NotificationListed](items=[payloads.notification(each) for each in found], next_cursor=next_cursor)

    async def notification(self, notification_id: str) -> NotificationTraced:
        """Return a notification, all that led to it and what became of it; raises ``NotFoundError``."""
        return trace(await self._deliveries.trace(notification_id))

    async def dead_letters(self, window: ListWindow) -> Page[DeadLetter]:
        """Return the deliveries that were given up, newest first."""
        found = await self._deliveries.dead_letters(before=before(window.cursor), limit=window.limit + 1)
        found, next_cursor = page_of(found, window.limit)
        return Page[DeadLetter](items=[payloads.dead_letter(each) for each in found], next_cursor=next_cursor)

    async def webhooks(self) -> Items[WebhookShown]:
        """Return the webhooks and whether each has shown that it is there."""
        return Items[WebhookShown](items=[payloads.webhook(each) for each in await self._deliveries.webhooks()])

    async def tokens(self) -> Items[TokenShown]:
        """Return the tokens, without their secrets."""
        return Items[TokenShown](items=[payloads.token(each) for each in await self._access.tokens()])
