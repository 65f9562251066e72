"""The lists and single things that the REST API and the dashboard both show, as models of the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from math import inf

from aiohttp import web

from proxyd.api import wire
from proxyd.api.bounds import Within
from proxyd.api.endpoint import Endpoint, listing
from proxyd.api.item_lists import ItemLists
from proxyd.api.peers import NO_PEERS, Peers
from proxyd.api.queries import Queries
from proxyd.api.query_readers import (
    cursor_after,
    cursor_of,
    filter_of_request,
    index_after,
    page_of,
    page_of_names,
    parse_position,
    read_cursor,
    read_position,
    rules_of_request,
)
from proxyd.api.wire import converters as payloads
from proxyd.api.wire import explained
from proxyd.api.wire.fates_in_words import item_fate
from proxyd.api.wire.notification_traces import trace
from proxyd.core.errors import ConflictError, NotFoundError
from proxyd.core.language import find_named
from proxyd.core.model.field_values import parse_iso
from proxyd.core.model.profile import Declaration, NotificationRule, Profile
from proxyd.core.model.suspension import Subject
from proxyd.core.rules.answers.advice import Advice, advice_of_all
from proxyd.core.rules.answers.explanation import Explanation, only_of
from proxyd.daemon.declared_texts import origin
from proxyd.daemon.source_choices import SourceChoice, SourceKind

_PART, _RULES_PART = 2, 50  # sources, and rules, that take some milliseconds
_MOST_RULES = 20_000  # of all sources, or of all profiles, on a page
_MOST_SOURCES, _MOST_SITES = 100, 50  # in an answer: each source takes 2 ms to explain, each site has 90 days
_MOST_NAMED, _MOST_NAMES = 1_000, 20_000  # sources of a rule, and of all rules in an answer
_PICTURE_HEADERS = {
    "Cache-Control": "private, no-cache",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}


class _Room:
    """How many sources an answer may still name."""

    def __init__(self) -> None:
        self._left = _MOST_NAMES

    def take(self, sources: Sequence[str]) -> list[str]:
        """Return those of a rule's sources that the answer names."""
        some = list(sources[: min(_MOST_NAMED, self._left)])
        self._left -= len(some)
        return some


class ProfileListings:
    """The running declaration: profiles, rules, domains and sources."""

    def __init__(self, queries: Queries, peers: Peers) -> None:
        self._profiles = queries.profiles
        self._suspensions = queries.suspensions
        self._plans = queries.plans
        self._choices = queries.choices
        self._reports = queries.reports
        self._peers = peers

    async def list_profiles(self, window: wire.ListWindow) -> wire.Page[wire.ProfileListed]:
        """List the profiles, by name."""
        declaration, room = self._profiles.shown, _Room()
        names, next_cursor = page_of_names(sorted(declaration.profiles), window)
        rules_of = await asyncio.to_thread(_rules_of, names, declaration)
        items: list[wire.ProfileListed] = []
        rules = 0
        for name in names:
            rules += len(rules_of[name])
            if items and rules > _MOST_RULES:
                next_cursor = cursor_of(items[-1].name)
                break
            items.append(await self._profile(declaration.profiles[name], rules_of[name], room))
        return wire.Page[wire.ProfileListed](items=items, next_cursor=next_cursor)

    async def get_profile(self, name: str) -> wire.ProfileListed:
        """Return one profile; raises ``NotFoundError``."""
        declaration = self._profiles.ready()
        declared = find_named("profile", name, declaration.profiles)
        rules = (await asyncio.to_thread(_rules_of, [name], declaration))[name]
        return await self._profile(declared, rules, _Room())

    async def _profile(self, declared: Profile, rules: Sequence[NotificationRule], room: _Room) -> wire.ProfileListed:
        shown: list[wire.Rule] = []
        for number, each in enumerate(rules):
            if number % _RULES_PART == 0:
                await asyncio.sleep(0)
            shown.append(self._rule(each, room))
        counts = self._plans.capture_counts([each.name for each in rules])
        muted = self._suspensions.of(Subject.PROFILE, declared.name)
        return wire.ProfileListed(**payloads.profile(declared, origin(declared.file), shown, counts, muted))

    def list_rules(self, window: wire.ListWindow) -> wire.Page[wire.Rule]:
        """List the rules, by name, with the share of events that each notified in time."""
        declared = self._profiles.shown.rules
        names, next_cursor = page_of_names(sorted(declared), window)
        room = _Room()
        items = [self._rule(declared[name], room) for name in names]
        return wire.Page[wire.Rule](items=items, next_cursor=next_cursor)

    def get_rule(self, name: str) -> wire.Rule:
        """Show one rule."""
        return self._rule(find_named("rule", name, self._profiles.ready().rules), _Room())

    def _rule(self, declared: NotificationRule, room: _Room) -> wire.Rule:
        counts = self._plans.capture_counts([declared.name])
        muted = self._suspensions.mute_of(declared.name, declared.profiles)
        failing = self._suspensions.failing.of(declared.name)
        sources, declared_in = room.take(declared.source_ids), origin(declared.file)
        return payloads.rule(declared, sources, declared_in, counts, muted, failing)

    def list_domains(self, window: wire.ListWindow) -> wire.Page[wire.DomainShown]:
        """List the domains, by name, with their page classes."""
        domains = self._profiles.shown.domains
        names, next_cursor = page_of_names(sorted(domains), window)
        items = [payloads.domain(domains[name]) for name in names]
        return wire.Page[wire.DomainShown](items=items, next_cursor=next_cursor)

    async def list_sources(self, asked: wire.SourcesWindow) -> wire.Page[wire.SourceListed]:
        """List the sources, by name: state, rate, next probe and its reason."""
        chosen = await self._choices.choose(await asyncio.to_thread(self._choice, asked))
        first = index_after(chosen, asked.cursor)
        names = chosen[first : first + min(asked.limit, _MOST_SOURCES)]
        after = first + len(names)
        items: list[wire.SourceListed] = []
        theirs = await self._peers.list_sources(names) if self._sees_all else {}
        rules = 0
        for number, name in enumerate(names):
            if number % _PART == 0:
                await asyncio.sleep(0)
            found = self._plans.outline(name)
            if found is None:
                continue
            found = self._seen(found)
            rules += len(found.rules)
            if items and rules > _MOST_RULES:
                after = first + number
                break
            items.append(theirs.get(name) or explained.source(self._profiles.shown, found))
        next_cursor = cursor_after(chosen, after) if after < len(chosen) else None
        return wire.Page[wire.SourceListed](items=items, next_cursor=next_cursor)

    def _choice(self, asked: wire.SourcesWindow) -> SourceChoice:
        kinds = frozenset(kind for kind in SourceKind if getattr(asked, kind.value))
        among = self._among(asked)
        return SourceChoice(asked.q or "", kinds, among, asked.sort)

    def _among(self, asked: wire.SourcesWindow) -> AbstractSet[str] | None:
        """Return the sources that a profile, a domain and suspensions leave, or ``None`` for all."""
        declaration = self._profiles.shown
        found: AbstractSet[str] | None = None if self._sees_all else declaration.sources.keys()
        if asked.profile is not None:
            find_named("profile", asked.profile, declaration.profiles)
            found = _both(
                found, _sources_of(each for each in declaration.rules.values() if asked.profile in each.profiles)
            )
        if asked.muted:
            muted = (e for e in declaration.rules.values() if self._suspensions.mute_of(e.name, e.profiles) is not None)
            found = _both(found, _sources_of(muted))
        if asked.paused:
            paused = (each.name for each in self._suspensions.all() if each.subject is Subject.SOURCE)
            found = _both(found, frozenset(paused))
        if asked.domain is not None:
            its = (name for name, each in declaration.sources.items() if each.domain == asked.domain)
            found = _both(found, frozenset(its))
        return found

    async def explain(self, name: str) -> wire.Explained:
        """Explain why and when a source is probed next."""
        return (await self.explain_source(name))[1]

    async def explain_source(self, name: str) -> tuple[Explanation, wire.Explained]:
        """Return why and when a source is probed next, as whoever asks may see it."""
        rules, found = self._profiles.ready().rules, self._seen(self._plans.explain(name))
        kept = await self._reports.kept(name)
        seen = kept if self._sees_all else [each for each in kept if each.rule in rules]
        return found, explained.explanation(found, seen)

    @property
    def _sees_all(self) -> bool:
        return self._profiles.shown is self._profiles.declaration

    def _seen(self, found: Explanation) -> Explanation:
        """Return an explanation as whoever asks may see it."""
        return found if self._sees_all else only_of(found, self._profiles.shown.rules)


def _rules_of(profiles: Iterable[str], declaration: Declaration) -> dict[str, list[NotificationRule]]:
    """Return the rules of some profiles."""
    found: dict[str, list[NotificationRule]] = {name: [] for name in profiles}
    for rule in declaration.rules.values():
        for name in rule.profiles:
            if name in found:
                found[name].append(rule)
    return found


def _sources_of(rules: Iterable[NotificationRule]) -> frozenset[str]:
    return frozenset(source_id for rule in rules for source_id in rule.source_ids)


def _both(found: AbstractSet[str] | None, more: AbstractSet[str]) -> AbstractSet[str]:
    return more if found is None else found & more


class _PlanListings:
    """The plan, its reasons and its results."""

    def __init__(self, queries: Queries, peers: Peers) -> None:
        self._plans = queries.plans
        self._past = queries.past
        self._reports = queries.reports
        self._peers = peers

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints of the plan and its results as a whole."""
        return (
            listing("/api/v1/plan", self.plan, wire.Items[wire.ComingProbe], wire.PlanWindow),
            listing("/api/v1/hosts", self.list_hosts, wire.Page[wire.HostShown], wire.ListWindow),
            listing("/api/v1/advice", self.advice, wire.AdviceShown),
            listing("/api/v1/report", self.report, wire.ReportShown, wire.Days),
        )

    async def probe(self, name: str) -> wire.Items[wire.ProbeAsked]:
        """Have a source, or the sources of a rule or of a profile, probed as soon as politeness allows."""
        theirs = await self._peers.have_probed(self._plans.meant(name))
        try:
            ours = wire.ProbeAsked.list_of(self._plans.ask(name))
        except ConflictError:
            if not theirs:
                raise
            ours = []
        return wire.Items[wire.ProbeAsked](items=[*ours, *theirs])

    async def plan(self, window: wire.PlanWindow) -> wire.Items[wire.ComingProbe]:
        """List the coming probes in order, each with its reason."""
        coming = [*await self.own_plan(window), *await self._peers.list_plan(window)]
        coming.sort(key=lambda each: parse_iso(each.at) or inf)
        return wire.Items[wire.ComingProbe](items=coming[: window.limit])

    async def own_plan(self, window: wire.PlanWindow) -> list[wire.ComingProbe]:
        """List the coming probes of the sources that this planner plans, in order."""
        return [payloads.probe_to_come(each) for each in await self._plans.plan(limit=window.limit)]

    async def list_hosts(self, window: wire.ListWindow) -> wire.Page[wire.HostShown]:
        """List the hosts by name: how they answer, and when they may be asked again."""
        known = [*await self.own_hosts(window), *await self._peers.list_hosts(window)]
        by_name = {each.host: each for each in sorted(known, key=lambda each: each.last)}  # who asked last has it now
        found = [by_name[name] for name in sorted(by_name)]
        next_cursor = cursor_of(found[window.limit - 1].host) if len(found) > window.limit else None
        return wire.Page[wire.HostShown](items=found[: window.limit], next_cursor=next_cursor)

    async def own_hosts(self, window: wire.ListWindow) -> list[wire.HostShown]:
        """List the hosts that this planner asks, by name, and one more than the window holds."""
        found = await self._plans.hosts(after=read_cursor(window.cursor), limit=window.limit + 1)
        return wire.HostShown.list_of(found)

    async def list_probes(self, source_id: str, window: wire.ListWindow) -> wire.Page[wire.ProbeMade]:
        """List the probes of a source in the last week, newest first, with their reasons and outcomes."""
        found = await self._past.made_probes(source_id, before=read_position(window.cursor), limit=window.limit + 1)
        found, next_cursor = page_of(found, window.limit)
        return wire.Page[wire.ProbeMade](items=wire.ProbeMade.list_of(found), next_cursor=next_cursor)

    async def list_items(self, source_id: str, window: wire.ListWindow) -> wire.Page[wire.ItemEvent]:
        """List what happened to the items of a source, newest first: what came, changed and went away."""
        found = await self._past.shown_events(source_id, before=read_position(window.cursor), limit=window.limit + 1)
        found, next_cursor = page_of(found, window.limit)
        return wire.Page[wire.ItemEvent](items=[payloads.item_event(each) for each in found], next_cursor=next_cursor)

    async def get_fates(self, source_id: str, position: str) -> wire.ItemFates:
        """Show an item of a source, by its `position`, and why each rule of the source told of it or did not."""
        event, told = await self._past.item_fates(source_id, parse_position(position, "a position is a whole number"))
        state = await self._past.page_text(source_id, event.position)
        return wire.ItemFates(item=payloads.item_event(event), state=state, rules=[item_fate(each) for each in told])

    async def list_intervals(self, rule: str, asked: wire.DaysOfIntervals) -> wire.Items[wire.IntervalOfRule]:
        """List a rule's intervals of the last days, newest first, and whether each was probed in time."""
        found = await self._past.intervals(rule, days=asked.days, limit=asked.limit)
        return wire.Items[wire.IntervalOfRule](items=[payloads.interval(each) for each in found])

    async def advice(self) -> wire.AdviceShown:
        """Show what other budgets would achieve, and which rules the current one cannot satisfy."""
        ours, theirs = await asyncio.gather(self._plans.advise(), self._peers.advice_of_others())
        silent = sorted(name for name, each in theirs.items() if each is None)
        parts = [ours, *(each for each in theirs.values() if each is not None)]
        return payloads.advice(ours if len(parts) == 1 else await asyncio.to_thread(advice_of_all, parts), silent)

    async def report(self, asked: wire.Days) -> wire.ReportShown:
        """Compare what was found with what was predicted, day by day."""
        return payloads.report(await self._reports.report(days=asked.days))


class _SiteListings:
    """Sites, their uptime and their outages."""

    def __init__(self, queries: Queries) -> None:
        self._profiles = queries.profiles
        self._sites = queries.sites

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints of sites."""
        return (
            listing("/api/v1/sites", self.list_sites, wire.Page[wire.SiteShown], wire.ListWindow, within=Within.PART),
            listing("/api/v1/sites/{name}", self.get_site, wire.SiteDetails, raises=(404,), within=Within.SOURCE),
        )

    async def list_sites(self, window: wire.ListWindow) -> wire.Page[wire.SiteShown]:
        """List the sites, by name: whether each is up, its uptime, and what expires."""
        some = wire.ListWindow(limit=min(window.limit, _MOST_SITES), cursor=window.cursor)
        names, next_cursor = page_of_names(await self._sites.names(), some)
        items = await asyncio.to_thread(wire.SiteShown.list_of, await self._sites.standings(names))
        return wire.Page[wire.SiteShown](items=items, next_cursor=next_cursor)

    async def get_site(self, name: str) -> wire.SiteDetails:
        """Show one site with its outages, and how long it took to answer in the last week."""
        self._profiles.ready()  # raises while the daemon starts
        shown = wire.SiteShown.model_validate(await self._sites.standing(name))
        past = await self._sites.past(name)
        return wire.SiteDetails(**dict(shown), **wire.members_of(past, wire.SiteDetails))


class _DeliveryListings:
    """Notifications, their deliveries and receivers, and the tokens."""

    def __init__(self, queries: Queries) -> None:
        self._profiles = queries.profiles
        self._deliveries = queries.deliveries
        self._history = queries.history
        self._access = queries.access
        self._audit = queries.audit

    async def list_notifications(self, asked: wire.Found) -> wire.Page[wire.NotificationListed]:
        """List notifications, newest first, each with its deliveries."""
        which = filter_of_request(asked, self._profiles, since=asked.since)
        found = await self._history.find_notifications(which, before=read_position(asked.cursor), limit=asked.limit)
        items = await asyncio.to_thread(lambda: [payloads.notification(each) for each in found.rows])
        next_cursor = None if found.rest is None else cursor_of(str(found.rest))
        return wire.Page[wire.NotificationListed](items=items, next_cursor=next_cursor)

    async def get_notification(self, notification_id: str) -> wire.NotificationTraced:
        """Show a notification, the probe that led to it, and its deliveries."""
        return trace(await self._deliveries.trace(notification_id))

    async def get_screenshot(self, notification_id: str) -> web.Response:
        """Return the picture of a notification's page, a PNG or a JPEG."""
        picture = await self._deliveries.picture(notification_id)
        return web.Response(body=picture.data, content_type=picture.media_type, headers=_PICTURE_HEADERS)

    async def list_dead_letters(self, window: wire.ListWindow) -> wire.Page[wire.DeadLetter]:
        """List the deliveries that were given up, newest first."""
        rules = rules_of_request(self._profiles, None, None)
        before = read_position(window.cursor)
        found = await self._history.dead_letters(before=before, limit=window.limit + 1, rules=rules)
        found, next_cursor = page_of(found, window.limit)
        return wire.Page[wire.DeadLetter](items=wire.DeadLetter.list_of(found), next_cursor=next_cursor)

    async def list_webhooks(self) -> wire.Items[wire.WebhookShown]:
        """List the webhooks and whether each has accepted a ping."""
        found = await self._deliveries.webhooks()
        return wire.Items[wire.WebhookShown](items=wire.WebhookShown.list_of(found))

    async def list_tokens(self) -> wire.Items[wire.TokenShown]:
        """List the tokens, without their secrets."""
        return wire.Items[wire.TokenShown](items=[payloads.token(each) for each in await self._access.tokens()])

    async def list_audit(self, window: wire.ListWindow) -> wire.Page[wire.DeedShown]:
        """List who declared, removed, paused, muted and replayed what, and made and revoked tokens, newest first."""
        found = await self._audit.find_deeds(before=read_position(window.cursor), limit=window.limit + 1)
        found, next_cursor = page_of(found, window.limit)
        return wire.Page[wire.DeedShown](items=wire.DeedShown.list_of(found), next_cursor=next_cursor)


class Listings:
    """All listings of a daemon, by subject."""

    def __init__(self, queries: Queries, peers: Peers = NO_PEERS) -> None:
        self._queries = queries
        self.profiles = ProfileListings(queries, peers)
        self.plans = _PlanListings(queries, peers)
        self.items = ItemLists(queries)
        self.sites = _SiteListings(queries)
        self.deliveries = _DeliveryListings(queries)

    # -- what other planners ask

    async def list_sources(self, names: Sequence[str]) -> list[wire.SourceListed]:
        """List some sources as this planner knows them."""
        items = []
        for number, name in enumerate(names):
            if number % _PART == 0:
                await asyncio.sleep(0)
            if (found := self._queries.plans.outline(name)) is not None:
                items.append(explained.source(self._queries.profiles.declaration, found))
        return items

    def have_probed(self, names: Sequence[str]) -> list[wire.ProbeAsked]:
        """Have those of some sources probed that this planner plans."""
        found: list[wire.ProbeAsked] = []
        for name in names:
            with suppress(ConflictError, NotFoundError):
                found += wire.ProbeAsked.list_of(self._queries.plans.ask(name))
        return found

    async def advice_of_others(self) -> Advice:
        """Return what other budgets would achieve for the sources that this planner plans."""
        return await self._queries.plans.advise()
