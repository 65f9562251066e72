"""The pages of the fleet, and the actions of their buttons; they show what the REST API returns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from aiohttp import web
from yarl import URL

from proxyd.api import wire
from proxyd.api.endpoint import read_query
from proxyd.api.listings import Listings
from proxyd.api.queries import Queries
from proxyd.api.rest.action_handlers import asker
from proxyd.api.rest.profile_handlers import refusal_of_reload, reload_profiles
from proxyd.api.web.charts import (
    Chart,
    Frame,
    Points,
    Tick,
    chart,
    factor_times,
    factors,
    round_steps,
    round_times,
    spark_line,
)
from proxyd.api.web.page_gate import SIGNED, read_form
from proxyd.api.web.page_texts import (
    awaits_no_items,
    duration,
    mute_until_s,
    number,
    part,
    percent,
    profile_page,
    receivers_of,
    told_of,
)
from proxyd.api.web.rendering import Renderer
from proxyd.base.metrics import SHARES
from proxyd.core.language import find_source
from proxyd.core.model.field_values import iso_time, parse_iso
from proxyd.core.model.item import EventKind
from proxyd.core.model.suspension import EVERYTHING, Subject
from proxyd.core.rules.answers.shown_events import difference_in_a_line
from proxyd.core.rules.programs.message_program import heading
from proxyd.daemon.declarations import Declarations

_MOST_COMING = 100
_SPARK_DAYS, _MOST_CHOICES = 14, 500
_MOST_DEAD = 20
_LARGE_FLEET = 20_000  # sources
_SHOWN_WITHIN_S = 0.2  # of a large fleet's pages
_MOST_ASKED = 8  # answers at a time
_KEPT_S = 10.0  # for which one is kept, five times as long as a page waits before it asks again
_T = TypeVar("_T")


class WebPages:
    """Handlers of the pages that only show something."""

    def __init__(self, queries: Queries, listings: Listings, renderer: Renderer) -> None:
        self._profiles = queries.profiles
        self._plans = queries.plans
        self._choices = queries.choices
        self._history = queries.history
        self._clock = queries.clock
        self._vitals = queries.vitals
        self._moves = queries.moves
        self._suspensions = queries.suspensions
        self._listings = listings
        self._render = renderer.page
        self._long_answers = _LongAnswers(self._profiles)

    async def settings(self, request: web.Request) -> web.Response:
        """Show what people set: whether anything is told, profiles, tokens."""
        muted = next((each for each in self._suspensions.all() if each.subject is Subject.ALL), None)
        shown = None if muted is None else wire.SuspensionShown.list_of([muted])[0]
        return self._render(request, "settings.html", everything={"muted": shown, "name": EVERYTHING})

    async def more(self, request: web.Request) -> web.Response:
        """Show where the pages are that a narrow window does not list."""
        return self._render(request, "more.html")

    async def state(self, request: web.Request) -> web.Response:
        """Show the state of the whole fleet, and its results day by day."""
        days = read_query(request, wire.Days)
        report = await self._long_answers.ask(f"state {days.days}", lambda: self._listings.plans.report(days))
        if report is None:
            return self._reload_soon(request)
        samples = await self._vitals.samples()
        return self._render(
            request,
            "state.html",
            report=report,
            charts=_report_charts(report),
            fates=self._plans.capture_counts(self._profiles.shown.rules),
            failing=len(self._plans.failing()),
            silent=len(self._plans.silent()),
            values=samples.values,
            delays=[
                ("items seen", samples.delays("proxyd_item_delay_seconds")),
                ("deliveries accepted", samples.delays("proxyd_notification_delay_seconds")),
            ],
            is_delivered_elsewhere=samples.is_delivered_elsewhere,
            shares=SHARES,
            checks=await self._vitals.readiness(),
            webhooks=(await self._listings.deliveries.list_webhooks()).items,
            dead=(await self._listings.deliveries.list_dead_letters(wire.ListWindow(limit=_MOST_DEAD))).items,
        )

    async def sources(self, request: web.Request) -> web.Response:
        """List the sources, those that were searched for, in the order asked for."""
        _without_blanks(request)
        asked = read_query(request, wire.SourcesWindow)
        found = await self._listings.profiles.list_sources(asked)
        names = [each.source for each in found.items]
        recent = await self._history.recent_items(names, self._clock.time_s(), days=_SPARK_DAYS)
        lines = {name: spark_line(each.days) for name, each in recent.items()}
        declaration = self._profiles.shown
        moved, places = await self._moves.proposals(names), self._moves.places(names)
        return self._render(
            request,
            "sources.html",
            found=found,
            asked=asked,
            recent=recent,
            lines=lines,
            newest={each.source: each.newest for each in found.items}
            | {name: iso_time(each.newest_s) for name, each in recent.items()},
            item_free={each.source for each in found.items if awaits_no_items(declaration, each.rules)},
            spark_days=_SPARK_DAYS,
            profiles=sorted(declaration.profiles)[:_MOST_CHOICES],
            moved=moved,
            places=places,
            total=len(declaration.sources),
        )

    async def rules(self, request: web.Request) -> web.Response:
        """List the rules and what they achieved."""
        found = self._listings.profiles.list_rules(read_query(request, wire.ListWindow))
        declared = self._profiles.shown.rules
        profiles = sorted(self._profiles.shown.profiles)[:_MOST_CHOICES]
        about = {each.name: told_of(declared[each.name]) for each in found.items}
        receivers = {each.name: receivers_of(declared[each.name]) for each in found.items}
        return self._render(request, "rules.html", found=found, about=about, receivers=receivers, profiles=profiles)

    async def notifications(self, request: web.Request) -> web.Response:
        """List notifications, newest first."""
        _without_blanks(request)
        asked = read_query(request, wire.Found)
        news = await self._listings.deliveries.list_notifications(asked)
        declaration, names = self._profiles.shown, await self._choices.names()
        return self._render(
            request,
            "notifications.html",
            news=news,
            asked=asked,
            titles=titles_of(news.items),
            rules=sorted(declaration.rules)[:_MOST_CHOICES],
            sources=[*islice((each for each in names if each in declaration.sources), _MOST_CHOICES)],
        )

    async def notification(self, request: web.Request) -> web.Response:
        """Show a notification, the probe that led to it, and its deliveries."""
        found = await self._listings.deliveries.get_notification(request.match_info["id"])
        words = found.body.get("data", {}).get("message", {}).get("rows", [])
        return self._render(request, "notification.html", found=found, title=_title(found), words=words)

    async def screenshot(self, request: web.Request) -> web.Response:
        """Return the picture of a notification's page."""
        return await self._listings.deliveries.get_screenshot(request.match_info["id"])

    async def plan(self, request: web.Request) -> web.Response:
        """Show the coming probes of all sources."""
        planned = (await self._listings.plans.plan(wire.PlanWindow(limit=_MOST_COMING))).items
        return self._render(request, "plan.html", planned=planned, most=_MOST_COMING)

    async def hosts(self, request: web.Request) -> web.Response:
        """Show how the hosts answer."""
        found = await self._listings.plans.list_hosts(read_query(request, wire.ListWindow))
        return self._render(request, "hosts.html", found=found)

    async def audit(self, request: web.Request) -> web.Response:
        """Show who changed what."""
        found = await self._listings.deliveries.list_audit(read_query(request, wire.ListWindow))
        return self._render(request, "audit.html", found=found)

    async def budget(self, request: web.Request) -> web.Response:
        """Show what other budgets would achieve."""
        found = await self._long_answers.ask("budget", self._listings.plans.advice)
        if found is None:
            return self._reload_soon(request)
        return self._render(request, "budget.html", found=found, trade=_trade_chart(found), front=_front_chart(found))

    def _reload_soon(self, request: web.Request) -> web.Response:
        """Return a page that says to wait, and asks for itself again."""
        page = self._render(request, "computing.html")
        page.headers["Refresh"] = "2"
        return page


class _LongAnswers:
    """What takes seconds in a large fleet: it goes on while its readers see a page that says so."""

    def __init__(self, profiles: Declarations) -> None:
        self._profiles = profiles
        self._asked: dict[str, asyncio.Task[Any]] = {}

    async def ask(self, name: str, answer: Callable[[], Awaitable[_T]]) -> _T | None:
        """Return an answer, or ``None`` if a large fleet's is not there soon: whoever asks then gets the same one."""
        if len(self._profiles.shown.sources) < _LARGE_FLEET:
            return await answer()
        asked = self._asked.get(name)
        if asked is None:
            if len(self._asked) >= _MOST_ASKED:
                return await answer()
            asked = self._asked[name] = asyncio.create_task(self._find(name, answer), name=f"answer for {name}")
        await asyncio.wait([asked], timeout=_SHOWN_WITHIN_S)
        if not asked.done():
            return None
        found: _T = asked.result()
        return found

    async def _find(self, name: str, answer: Callable[[], Awaitable[_T]]) -> _T:
        """Return an answer; it is forgotten soon after it has come, or its readers who have left would keep it."""
        try:
            return await answer()
        finally:
            asyncio.get_running_loop().call_later(_KEPT_S, self._asked.pop, name, None)


class Actions:
    """Handlers of forms; each redirects to a page that shows what it did."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._profiles = queries.profiles
        self._suspensions = queries.suspensions
        self._moves = queries.moves
        self._deliveries = queries.deliveries
        self._plans = queries.plans
        self._clock = queries.clock

    async def replay(self, request: web.Request) -> web.StreamResponse:
        """Send a notification again."""
        notification_id = request.match_info["id"]
        count = await self._deliveries.replay(notification_id)
        many = "1 delivery is" if count == 1 else f"{count} deliveries are"
        request[SIGNED].session.say(f"{many} due again.")
        raise web.HTTPSeeOther(URL(f"/notifications/{part(notification_id)}", encoded=True))

    async def replay_dead(self, request: web.Request) -> web.StreamResponse:
        """Send every delivery again that was given up."""
        count = await self._deliveries.replay(None)
        request[SIGNED].session.say(f"Deliveries that will be sent again: {count}.")
        raise web.HTTPSeeOther("/")

    async def reload(self, request: web.Request) -> web.StreamResponse:
        """Check the profile files and load them."""
        if errors := await reload_profiles(self._queries):
            return refusal_of_reload(errors)
        request[SIGNED].session.say("Reloaded: the profile files have no errors and are now in use.")
        raise web.HTTPSeeOther("/plan")

    async def pause(self, request: web.Request) -> web.StreamResponse:
        """Pause a source."""
        return _told(request, (await self._suspensions.pause(request.match_info["name"], asker(request))).said)

    async def probe(self, request: web.Request) -> web.StreamResponse:
        """Have a source probed as soon as politeness allows."""
        name = request.match_info["name"]
        find_source(name, self._profiles.ready())
        (asked,) = self._plans.ask(name)
        wait = duration(asked.at_s - self._clock.time_s())
        when = f"in {wait}; {asked.waits_for} allows it no sooner" if asked.waits_for else "at once"
        return _told(request, "it is being probed" if asked.is_under_way else f"it is probed {when}")

    async def accept_move(self, request: web.Request) -> web.StreamResponse:
        """Read a source at its new address."""
        name, shown = request.match_info["name"], (await read_form(request)).get("url")
        return _told(request, (await self._moves.accept(name, to=shown)).said)

    async def resume(self, request: web.Request) -> web.StreamResponse:
        """Probe a paused source again, or evaluate a suspended rule again."""
        name = request.match_info["name"]
        return _told(request, (await self._suspensions.resume(name, subject=_subject_of(request))).said)

    async def mute(self, request: web.Request) -> web.StreamResponse:
        """Mute a rule, a profile or everything, for the time chosen."""
        chosen = (await read_form(request)).get("for", "")
        until_s = mute_until_s(chosen, self._clock.time_s(), self._deliveries.zone)
        name, subject = request.match_info.get("name", EVERYTHING), _subject_of(request)
        return _told(
            request, (await self._suspensions.mute(name, asker(request), subject=subject, until_s=until_s)).said
        )

    async def unmute(self, request: web.Request) -> web.StreamResponse:
        """Send what was kept back of a rule, a profile or everything, or drop it."""
        drop = "drop" in await read_form(request)
        name, subject = request.match_info.get("name", EVERYTHING), _subject_of(request)
        return _told(request, (await self._suspensions.unmute(name, subject=subject, drop=drop)).said)


_SUBJECTS = {"sources": Subject.SOURCE, "rules": Subject.RULE, "profiles": Subject.PROFILE, "settings": Subject.ALL}


def _subject_of(request: web.Request) -> Subject:
    """Return what the path of a form is about."""
    return _SUBJECTS[request.path.split("/")[1]]


def _told(request: web.Request, said: str) -> web.StreamResponse:
    """Redirect to the page of what a form was about, which says what was done."""
    request[SIGNED].session.say(f"{said[:1].upper()}{said[1:]}.")
    of, name = request.path.split("/")[1], request.match_info.get("name")
    page = f"/{of}" if name is None else profile_page(name) if of == "profiles" else f"/{of}/{part(name)}"
    raise web.HTTPSeeOther(URL(page, encoded=True))


def _without_blanks(request: web.Request) -> None:
    """Redirect a form with empty fields to the address without these fields."""
    filled = {name: value for name, value in request.query.items() if value.strip()}
    if len(filled) < len(request.query):
        raise web.HTTPSeeOther(request.rel_url.with_query(filled))


def titles_of(news: list[wire.NotificationListed]) -> dict[str, str]:
    """Return the title of each notification, by its id."""
    return {each.id: _title(each) for each in news}


def changes_of(news: list[wire.NotificationListed]) -> dict[str, str]:
    """Return the first lines of what changed, by the id of the notification that reports it."""
    found = {}
    for each in news:
        data = each.body.get("data", {})
        rows = data.get("message", {}).get("rows", ())
        if rows and data.get("event", {}).get("kind") == EventKind.UPDATE.value:
            found[each.id] = difference_in_a_line(rows[0].partition("\n")[2])
    return {name: text for name, text in found.items() if text}


def _title(found: wire.NotificationListed) -> str:
    return heading(found.body.get("data", {}), found.rule)


# -- charts


def _report_charts(report: wire.ReportShown) -> list[tuple[str, Chart]]:
    """Return charts that compare completeness, delay and items with their predictions, day by day."""
    if not report.days:
        return []
    days = report.days
    wanted: list[
        tuple[str, Callable[[wire.Day], float | None], Callable[[wire.Day], float | None], Callable[[float], str]]
    ] = [
        ("Share in time", lambda d: d.completeness, lambda d: d.predicted_completeness, percent),
        ("Mean delay of items", lambda d: d.mean_delay_s, lambda d: d.predicted_mean_delay_s, duration),
        ("New items", lambda d: d.items, lambda d: d.predicted_items, number),
    ]
    at = [(parse_iso(day.day) or 0.0) / 86400.0 for day in days]
    charts = []
    for name, found, predicted, unit in wanted:
        series = [found(day) for day in days], [predicted(day) for day in days]
        lines: list[tuple[str, str, Points]] = [
            ("predicted", "predicted", list(zip(at, series[1], strict=True))),
            ("found", "found", list(zip(at, series[0], strict=True))),
        ]
        high = 1.0 if name == "Share in time" else max((y for each in series for y in each if y is not None), default=0)
        charts.append((name, _day_chart(at, [day.day for day in days], lines, high, unit)))
    return charts


def _day_chart(
    at: list[float], names: list[str], lines: list[tuple[str, str, Points]], high: float, unit: Callable[[float], str]
) -> Chart:
    steps = round_times(high) if unit is duration else round_steps(high)
    frame = Frame(at[0] - 0.5, at[-1] + 0.5, max(steps[-1], high), width=420.0, height=170.0, left=58.0)
    every = max(1, -(-len(at) // 5))
    ticks = [Tick(day, name[5:]) for day, name in zip(at[::every], names[::every], strict=True)]
    return chart(frame, lines, ticks, [Tick(step, unit(step)) for step in steps])


def _trade_chart(found: wire.AdviceShown) -> Chart | None:
    """Return a chart of delay against detection probes that marks the current point."""
    trade = [each for each in found.trade if each.probes_per_hour > 0]
    if not trade:
        return None
    points: Points = [(each.probes_per_hour, each.delay_s) for each in trade]
    low_x, high_x = min(x for x, _ in points) / 1.3, max(x for x, _ in points) * 1.3
    delays = [y for _, y in points if y]
    low_y, high_y = min(delays, default=1.0) / 1.5, max(delays, default=1.0) * 1.5
    frame = Frame(low_x, high_x, high_y, low_y, is_log=True, left=64.0, height=260.0)
    across = [Tick(each, number(each)) for each in factors(low_x, high_x)]
    up = [Tick(each, duration(each)) for each in factor_times(low_y, high_y)]
    made = chart(frame, [("mean delay", "found", [(x, y or None) for x, y in points])], across, up)
    present = [each for each in trade if each.probes_per_hour == found.planned_per_hour and each.delay_s]
    return replace(made, mark=(frame.x(present[0].probes_per_hour), frame.y(present[0].delay_s)) if present else None)


def _front_chart(found: wire.AdviceShown) -> Chart | None:
    """Return the Pareto set: the least mean delay against the number of captured intervals."""
    points: Points = [(float(each.captured), each.delay_s) for each in found.pareto]
    if not points:
        return None
    high_x, high_y = max(x for x, _ in points), max(y or 0.0 for _, y in points)
    across, up = round_steps(high_x, 5), round_times(high_y)
    frame = Frame(0.0, across[-1], up[-1], left=64.0, height=240.0)
    ticks = [Tick(step, number(step)) for step in across], [Tick(step, duration(step)) for step in up]
    return chart(frame, [("least mean delay", "found", points)], *ticks)
