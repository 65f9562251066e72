"""Rendering of templates: all values are escaped, and invisible characters are made visible."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

from aiohttp import web
from jinja2 import DictLoader, Environment, StrictUndefined

from proxyd import __version__
from proxyd.api import wire
from proxyd.api.auth import SCOPES
from proxyd.api.queries import Queries
from proxyd.api.web import page_texts as text
from proxyd.api.web.charts import day_bars
from proxyd.api.web.page_gate import SIGNED
from proxyd.core.model.field_values import local_time, parse_iso, with_local_times
from proxyd.core.rules.stages.site_uptime import uptime_text
from proxyd.core.texts.safe_text import is_web

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


_INDENTED = re.compile(rb"\n\s+")  # every page loads the style: what only its authors see is not sent


@dataclass(frozen=True, slots=True)
class _StaticFile:
    """A static file, which does not change while proxyd runs; ``tag`` is part of its address."""

    body: bytes
    media_type: str
    tag: str


def static_files() -> dict[str, _StaticFile]:
    """Return the static files by name."""
    found = {}
    for each in resources.files("proxyd.api.web").joinpath("static").iterdir():
        media_type = _TYPES.get(each.name.rpartition(".")[2])
        if media_type is not None:
            body = _INDENTED.sub(b"\n", each.read_bytes())
            found[each.name] = _StaticFile(body, media_type, hashlib.sha256(body).hexdigest()[:12])
    return found


def _sources() -> dict[str, str]:
    """Return the templates by name, read once: an upgrade of the files does not change a daemon that runs."""
    folder = resources.files("proxyd.api.web").joinpath("templates")
    return {each.name: each.read_text(encoding="utf-8") for each in folder.iterdir() if each.name.endswith(".html")}


class Renderer:
    """Renders templates with the values that every page needs."""

    def __init__(self, queries: Queries, files: dict[str, _StaticFile]) -> None:
        self._clock = queries.clock
        self._deliveries = queries.deliveries
        self._templates = Environment(
            loader=DictLoader(_sources()),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=text.finalize,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "shown": text.shown,
            "beginning": text.beginning,
            "diff": text.diff,
            "field": text.field,
            "code": text.code,
            "verbatim": text.verbatim,
            "part": text.part,
            "duration": text.duration,
            "number": text.number,
            "with_noun": text.with_noun,
            "bytes": text.size,
            "percent": text.percent,
            "uptime": uptime_text,
            "bars": day_bars,
            "ago": self._ago,
            "local": lambda told: with_local_times(told, self._deliveries.zone),
            "waited": _wait_s,
            "caret": _caret,
            "warnings_of": lambda changes: text.warnings_of(changes, with_lines=True),
        }
        self._templates.tests["web"] = lambda value: isinstance(value, str) and is_web(value)
        self._templates.globals |= {
            "version": __version__,
            "mute_times": list(text.MUTE_S),
            "static": {name: f"/static/{name}?v={file.tag}" for name, file in files.items()},
        }

    def compile_all(self) -> None:
        """Compile the templates; in a thread, or the first reader of each page would hold the loop for 100 ms."""
        for name in self._templates.list_templates():
            self._templates.get_template(name)

    def page(self, request: web.Request, template: str, *, status: int = 200, **facts: Any) -> web.Response:
        """Return a page; ``can`` tells the template which scopes its reader has."""
        signed = request.get(SIGNED)
        scope = -1 if signed is None else SCOPES.index(signed.token.scope)
        page = self._templates.get_template(template).render(
            facts,
            token=None if signed is None else signed.token,
            csrf="" if signed is None else signed.session.csrf,
            can={each: scope >= SCOPES.index(each) for each in SCOPES},
            path=request.path,
            query=request.query,
            next_query=lambda cursor: request.rel_url.update_query(cursor=cursor).raw_query_string,
            notes=signed.session.take_notes() if signed is not None and _is_shown_whole(request) else [],
            time_zone=None if (zone := self._deliveries.zone) is None else str(zone),
            now=local_time(self._clock.time_s(), zone),
        )
        return web.Response(
            body=page.encode("utf-8", "replace"), status=status, content_type="text/html", charset="utf-8"
        )

    async def problem(self, request: web.Request, problem: wire.Problem) -> web.Response:
        """Return a page that explains why a request was refused."""
        return self.page(request, "problem.html", status=problem.status, problem=problem)

    def _ago(self, time: str | None) -> str:
        """Return the distance of a time from now in words."""
        time_s = None if time is None else parse_iso(time)
        if time_s is None:
            return ""
        ahead_s = time_s - self._clock.time_s()
        if abs(ahead_s) < 1.0:
            return "now"
        span = text.duration(abs(ahead_s), digits=2)
        return f"in {span}" if ahead_s > 0 else f"{span} ago"


def _is_shown_whole(request: web.Request) -> bool:
    """Return whether the browser navigates to a page; our scripts fetch pages to update parts of the open one."""
    return request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"


def _wait_s(found: wire.NotificationListed) -> float | None:
    """Return the time from a notification's event to its creation, in seconds."""
    event_s, made_s = parse_iso(found.event), parse_iso(found.created)
    return None if event_s is None or made_s is None else max(0.0, made_s - event_s)


def _caret(fault: wire.Fault) -> str:
    """Return a caret below the column of a fault; tabs are kept so that it lines up."""
    before = (fault.source_line or "")[: max(0, (fault.column or 1) - 1)][:400]
    return "".join("\t" if char == "\t" else " " for char in before) + "^"
