"""The page of receivers that have names: who uses each, a form that adds one, and a button that tries it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from proxyd.api import wire
from proxyd.api.problems import EXPECTED, answer_to
from proxyd.api.queries import Queries
from proxyd.api.web.page_gate import SIGNED, read_form
from proxyd.api.web.page_texts import said_of, warnings_of
from proxyd.api.web.rendering import Renderer
from proxyd.base.doers import current_doer
from proxyd.core.errors import ConfigError
from proxyd.core.language import CreateReceiver, Statement, deliveries_of
from proxyd.core.language.watch_wishes import receiver_text, recipients
from proxyd.core.model.delivery import Delivery, WebhookDelivery, shown_endpoint
from proxyd.core.model.profile import NotificationRule, found_name, owner_of
from proxyd.daemon.declared_texts import API_TEXT, DeclarationChanges, origin

_LONGEST, _LONGEST_NAME, _MOST_LISTED, _MOST_SHOWN = 2_000, 100, 500, 5
_FIELDS = {"name": _LONGEST_NAME, "to": _LONGEST, "secret": _LONGEST_NAME}


@dataclass(frozen=True, slots=True)
class _Shown:
    """A receiver for people: where it leads, without what addresses hold that nobody needs to see again."""

    name: str
    declared_by: str
    is_own: bool
    to: tuple[str, ...]
    more: int  # addresses that are not in `to`
    rules: int  # that tell it


class ReceiverPages:
    """Handlers of the page; what it declares is changed and removed as rules are."""

    def __init__(self, queries: Queries, renderer: Renderer) -> None:
        self._profiles = queries.profiles
        self._deliveries = queries.deliveries
        self._render = renderer.page

    async def receivers(self, request: web.Request) -> web.Response:
        """List the receivers that have names."""
        return await self._page(request)

    async def add(self, request: web.Request) -> web.StreamResponse:
        """Declare the receiver of the form."""
        given = await read_form(request)
        form = {name: given.get(name, "").strip()[:most] for name, most in _FIELDS.items()}
        try:
            changes = await self._declare(form["name"], form["to"], form["secret"])
        except ConfigError as error:
            return await self._page(request, status=422, error="; ".join(error.problems), form=form)
        except EXPECTED as error:
            return await self._page(request, status=answer_to(error).status, error=said_of(error), form=form)
        request[SIGNED].session.say(f"{form['name']} is a receiver now: test it here.", *warnings_of(changes))
        raise web.HTTPSeeOther("/receivers")

    async def _declare(self, name: str, to: str, secret: str) -> DeclarationChanges:
        known, receivers = self._profiles.ready(), self._profiles.receivers
        if found_name(name, receivers, current_doer().profiles) in receivers:
            raise ConfigError([f"there is a receiver {name!r} already: change it, or give another name"])
        text = receiver_text(name, recipients(to, ()), secret or None)
        return await self._profiles.declare(text, instead_of=known)

    async def test(self, request: web.Request) -> web.Response:
        """Send a test message to a receiver, and show what each of its addresses answers."""
        name = request.match_info["name"]
        tested = wire.TestResult.list_of(await self._deliveries.test_receiver(name))
        return await self._page(request, tested=tested, tested_name=name)

    async def _page(self, request: web.Request, *, status: int = 200, **facts: Any) -> web.Response:
        known = await asyncio.to_thread(_list, self._profiles.receivers, self._profiles.shown.rules)
        nothing: dict[str, Any] = {"error": "", "form": dict.fromkeys(_FIELDS, ""), "tested": None}
        return self._render(request, "receivers.html", status=status, known=known, **{**nothing, **facts})


def _list(declared: Mapping[str, tuple[str, Statement]], rules: Mapping[str, NotificationRule]) -> list[_Shown]:
    used: Counter[str] = Counter()
    for rule, each in rules.items():
        owner = owner_of(rule)
        used.update({found_name(its.receiver, declared, [owner] if owner else ()) for its in each.deliveries})
    shown = []
    for name, (file, statement) in sorted(declared.items())[:_MOST_LISTED]:
        assert isinstance(statement, CreateReceiver)
        to = deliveries_of(statement)
        places = tuple(map(_place, to[:_MOST_SHOWN]))
        by = origin(file)
        shown.append(_Shown(name, by, by == API_TEXT, places, len(to) - len(places), used[name]))
    return shown


def _place(delivery: Delivery) -> str:
    """Return where a delivery leads; the path of a webhook may be as good as a password.

    >>> from proxyd.core.model.delivery import SecretRef
    >>> _place(WebhookDelivery("https://me:pw@[2001:db8::1]:8443/T0/x", SecretRef("env", "SECRET_A")))
    'https://[2001:db8::1]:8443/…'
    """
    if isinstance(delivery, WebhookDelivery):
        parts = urlsplit(delivery.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/…"
    return shown_endpoint(delivery.kind, delivery.endpoint)
