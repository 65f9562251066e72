"""The pages of sites: all of them, one of them, the form that adds some, and status pages for others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
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
from proxyd.api.web.page_texts import MOST_RECEIVERS, duration, receiver_names, said_of, warnings_of
from proxyd.api.web.rendering import Renderer
from proxyd.base.doers import current_doer
from proxyd.core.errors import ConfigError, ProfileError
from proxyd.core.language import (
    DropStatement,
    Located,
    Statement,
    StatementKind,
    Watch,
    address_to_watch,
    default_owner,
    format_statements,
    parse,
    with_options_of,
    without_scheme,
)
from proxyd.core.language.watch_wishes import recipients, sites_text
from proxyd.core.model.field_values import parse_iso
from proxyd.core.model.profile import full_name, plain_name
from proxyd.core.model.suspension import Subject, Suspension
from proxyd.daemon.site_queries import ShownIncident, SiteStanding

_LONGEST, _MOST_SITES = 20_000, 200  # characters of a field of the form, and addresses in it
_LONGEST_NAME = 100
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
        """The addresses and names; https:// may be left out.

        Raises ``ConfigError`` for what is no address, and for an address or a name of two lines.
        """
        lines = list(filter(None, map(str.split, self.addresses.splitlines())))
        if not lines or len(lines) > _MOST_SITES:
            raise ConfigError([f"write 1 to {_MOST_SITES} addresses, one a line"])
        whole = ((each if "://" in each else f"https://{each}", " ".join(words)) for each, *words in lines)
        pairs = list(dict.fromkeys((address_to_watch(url, of_site=True), name) for url, name in whole))
        if any(len(name) > _LONGEST_NAME for _, name in pairs):
            raise ConfigError([f"a name has at most {_LONGEST_NAME} characters"])
        counts = Counter(each for url, name in pairs for each in (url.rstrip("/"), name or without_scheme(url)))
        if twice := [each for each, count in counts.items() if count > 1]:
            raise ConfigError([f"{twice[0]} is given twice: write one line for each site, each with its own name"])
        return pairs

    def text(self, receivers: Collection[str]) -> str:
        """Return the statements that it asks for; ``receivers`` have names."""
        to = recipients(self.to, receivers)
        return sites_text(self.sites, holding=self.holding or None, to=to, secret=self.secret or None)


@dataclass(frozen=True, slots=True)
class _Edit:
    """The statements of a form, how many of its sites are watched already, and the new name of a watch by its old."""

    text: str
    known: int
    renamed: Mapping[str, str]


class SitePages:
    """Handlers of the pages of sites."""

    def __init__(self, queries: Queries, listings: Listings, renderer: Renderer) -> None:
        self._profiles = queries.profiles
        self._sites = queries.sites
        self._suspensions = queries.suspensions
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
            edit = self._edit_of(chosen.text(receiver_names(self._profiles)))
            muted = self._mutes_of(edit)
            changes = await self._profiles.declare(edit.text)
        except ConfigError as error:
            return await self._list(request, chosen, status=422, error="; ".join(error.problems))
        except EXPECTED as error:
            return await self._list(request, chosen, status=answer_to(error).status, error=said_of(error))
        await self._mute_again(muted)
        count = len(changes.added) - len(edit.renamed)
        said = f"Watching {count} more {'site' if count == 1 else 'sites'}." if count or not edit.known else ""
        said += f" Watched already, and changed where you filled in something: {edit.known}." if edit.known else ""
        request[SIGNED].session.say(said, *warnings_of(changes))
        raise web.HTTPSeeOther("/sites")

    def _edit_of(self, text: str) -> _Edit:
        """Return the statements of a form with what the watches of its sites say already.

        Raises ``ConfigError`` for the name of something else, and ``ProfileError``.
        """
        parsed, texts = parse(text), self._profiles.texts
        if parsed.errors:
            raise ProfileError(parsed.errors)
        made: list[Statement] = []
        known, renamed = 0, dict[str, str]()
        owner = default_owner(owners) if (owners := current_doer().profiles) else None
        for each in parsed.statements:
            assert isinstance(each, Watch)
            watches, full = texts.site_watches(each.url.value, owner), full_name(owner, each.name.value)
            wanted = each if each.rule_name is None else replace(each, rule_name=Located(full))
            old = next((watch for watch in watches if watch.name.value == full), next(iter(watches), None))
            edited = wanted if old is None else with_options_of(old, wanted)
            name = full_name(owner, edited.name.value)
            if (old is None or old.name.value != name) and texts.is_of_api(StatementKind.NOTIFICATION, name):
                said = f"{plain_name(name)} is the name of another watch: put another name after the address"
                raise ConfigError([said])
            if old is not None:
                known += 1
                if old.name.value != name:
                    renamed[old.name.value] = name
                    made.append(DropStatement(old.kind, old.name))
            made.append(edited)
        return _Edit(format_statements(made), known, renamed)

    def _mutes_of(self, edit: _Edit) -> dict[str, Suspension]:
        """Return the mutes of watches that get another name, by that."""
        found = ((new, self._suspensions.of(Subject.RULE, old)) for old, new in edit.renamed.items())
        return {name: mute for name, mute in found if mute is not None}

    async def _mute_again(self, muted: Mapping[str, Suspension]) -> None:
        """Mute watches by their new names; their mutes ended with the old ones."""
        for name, mute in muted.items():
            if mute.until_s is None or mute.until_s > self._clock.time_s():
                await self._suspensions.mute(name, mute.by, subject=Subject.RULE, until_s=mute.until_s)

    async def _list(
        self, request: web.Request, chosen: _Choices, *, status: int = 200, error: str | None = None
    ) -> web.Response:
        window = read_query(request, wire.ListWindow) if request.method == "GET" else wire.ListWindow()
        found = await self._listings.list_sites(window)
        facts = {"found": found, "chosen": chosen, "error": error}
        facts["receivers"] = sorted(receiver_names(self._profiles))[:MOST_RECEIVERS]
        return self._render(request, "sites.html", status=status, **facts)

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
