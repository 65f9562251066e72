"""The pages of sites: all of them, one of them, the form that adds some, and status pages for others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from aiohttp import web

from proxyd.api import wire
from proxyd.api.endpoint import read_query
from proxyd.api.listings import Listings
from proxyd.api.problems import EXPECTED, answer_to
from proxyd.api.queries import Queries
from proxyd.api.web.charts import Chart, Frame, Tick, chart, day_ticks, round_steps
from proxyd.api.web.page_gate import SIGNED, read_form
from proxyd.api.web.page_texts import duration, warnings_of
from proxyd.api.web.rendering import Renderer
from proxyd.core.errors import ConfigError
from proxyd.core.language import (
    DropStatement,
    Statement,
    Watch,
    address_to_watch,
    format_statements,
    parse,
    with_options_of,
)
from proxyd.core.language.watch_wishes import sites_text
from proxyd.core.model.field_values import parse_iso
from proxyd.core.model.profile import SITE_CLASS
from proxyd.daemon.site_queries import ShownIncident, SiteStanding

_LONGEST, _MOST_SITES = 20_000, 200  # characters of a field of the form, and addresses in it
_MOST_OUTAGES = 10  # of a site on a status page, which may show 50 sites
_WEEK_S = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class _Choices:
    """The fields of the form."""

    addresses: str = ""
    holding: str = ""
    to: str = ""
    secret: str = ""

    @classmethod
    def of(cls, form: Mapping[str, str]) -> _Choices:
        """Return the fields that a browser sent, without spaces around them."""
        return cls(**{name: form.get(name, "").strip()[:_LONGEST] for name in cls.__slots__})

    @property
    def sites(self) -> list[tuple[str, str]]:
        """The addresses and names; https:// may be left out. Raises ``ConfigError`` for what is no address."""
        lines = list(dict.fromkeys(filter(None, map(str.strip, self.addresses.splitlines()))))
        if not lines or len(lines) > _MOST_SITES:
            raise ConfigError([f"write 1 to {_MOST_SITES} addresses, one a line"])
        pairs = [(address, name.strip()) for address, _, name in (each.partition(" ") for each in lines)]
        return [(address_to_watch(each if "://" in each else f"https://{each}"), name) for each, name in pairs]

    def text(self) -> str:
        """Return the statements that it asks for."""
        to = self.to.replace(",", " ").split()
        return sites_text(self.sites, holding=self.holding or None, to=to, secret=self.secret or None)


class SitePages:
    """Handlers of the pages of sites."""

    def __init__(self, queries: Queries, listings: Listings, renderer: Renderer) -> None:
        self._profiles = queries.profiles
        self._sites = queries.sites
        self._clock = queries.clock
        self._deliveries = queries.deliveries
        self._listings = listings.sites
        self._render = renderer.page

    async def sites(self, request: web.Request) -> web.Response:
        """List the sites: whether each is up, and its last 90 days."""
        return await self._list(request, _Choices())

    async def add(self, request: web.Request) -> web.StreamResponse:
        """Watch the sites of the form."""
        chosen = _Choices.of(await read_form(request))
        try:
            text, known = self._with_options_of_known(chosen.text())
            changes = await self._profiles.declare(text)
        except ConfigError as error:
            return await self._list(request, chosen, status=422, error="; ".join(error.problems))
        except EXPECTED as error:
            faults = getattr(error, "errors", ())
            said = "; ".join(each.message for each in faults) or str(error)
            return await self._list(request, chosen, status=answer_to(error).status, error=said)
        count = len(changes.added)
        said = f"Watching {count} more {'site' if count == 1 else 'sites'}." if count or not known else ""
        said += f" Watched already, and changed where you filled in something: {known}." if known else ""
        request[SIGNED].session.say(said, *warnings_of(changes))
        raise web.HTTPSeeOther("/sites")

    def _with_options_of_known(self, text: str) -> tuple[str, int]:
        """Return the statements with what the watches of these sites say already, and the number of such watches.

        Raises ``ConfigError`` if something else of an address is watched under its name.
        """
        known, texts = 0, self._profiles.texts
        made: list[Statement] = []
        for each in parse(text).statements:
            if not isinstance(each, Watch):
                made.append(each)
                continue
            old = texts.watch_of(each.name.value) or texts.watch_of(texts.title_of(each.address.value))
            if old is None:
                made.append(each)
                continue
            if old.address.value != each.address.value:
                raise ConfigError([f"{each.name.value} is the name of another watch: choose another"])
            if old.page_class is None or old.page_class.name.upper() != SITE_CLASS.name:
                own = f"WATCH '{old.url.value}' OF SITE AS \"another name\""
                raise ConfigError(
                    [f"{each.name.value} is watched already, but not as a site: write {own} in a profile"]
                )
            known += 1
            edited = with_options_of(old, each)
            made += [edited] if edited.name.value == old.name.value else [DropStatement(old.kind, old.name), edited]
        return format_statements(made), known

    async def _list(
        self, request: web.Request, chosen: _Choices, *, status: int = 200, error: str | None = None
    ) -> web.Response:
        window = read_query(request, wire.ListWindow) if request.method == "GET" else wire.ListWindow()
        found = await self._listings.list_sites(window)
        return self._render(request, "sites.html", status=status, found=found, chosen=chosen, error=error)

    async def site(self, request: web.Request) -> web.Response:
        """Show one site: its uptime, its outages and how long it takes to answer."""
        found = await self._listings.get_site(request.match_info["name"])
        latency = _latency_chart(found.latencies, self._clock.time_s(), self._deliveries.zone)
        return self._render(request, "site.html", found=found, latency=latency)

    async def status(self, request: web.Request) -> web.Response:
        """Show the chosen sites of a status page to everybody, without addresses and reasons."""
        name = request.match_info["name"]
        found = await self._sites.status_page(name)
        sites = await asyncio.to_thread(lambda: [_status_of(standing, past) for standing, past in found])
        is_up = all(each["shown"].state != "down" for each in sites)
        return self._render(request, "status.html", name=name, sites=sites, is_up=is_up, most_listed=_MOST_OUTAGES)


def _status_of(standing: SiteStanding, past: Sequence[ShownIncident]) -> dict[str, Any]:
    return {"shown": wire.SiteShown.model_validate(standing), "incidents": wire.IncidentShown.list_of(past)}


def _latency_chart(latencies: Sequence[wire.LatencyShown], now_s: float, zone: tzinfo | None) -> Chart | None:
    """Return the median and the 95th percentile by hour, with gaps where nothing is known."""
    if not latencies:
        return None
    by_hour = {parse_iso(each.at) or 0.0: each for each in latencies}
    begin_s = now_s - _WEEK_S
    hours = [hour * 3600.0 for hour in range(int(begin_s // 3600.0) + 1, int(now_s // 3600.0) + 1)]
    most_s = round_steps(max(each.p95_s for each in latencies))
    frame = Frame(begin_s, now_s, most_s[-1], left=84.0)  # on a phone, "80 ms" is wide
    known = [(at_s, by_hour.get(at_s)) for at_s in hours]
    lines = (
        ("median", "found", [(at_s, None if each is None else each.median_s) for at_s, each in known]),
        ("95th percentile", "predicted", [(at_s, None if each is None else each.p95_s) for at_s, each in known]),
    )
    marks = [Tick(each, duration(each) if each else "0") for each in most_s]
    return chart(frame, lines, day_ticks(begin_s, now_s, zone), marks)
