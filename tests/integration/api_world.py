"""The REST API over real sockets, against the real declarations on a store of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from sqlalchemy import Connection, insert, update

from proxyd.api.auth import Quota, new_token
from proxyd.api.rest.live_streams import StreamSettings
from proxyd.app.server import PublicFront, make_app
from proxyd.app.wiring import Built, Resources, build
from proxyd.base.metrics import ROLES
from proxyd.base.ports import Clock, Message, Prober
from proxyd.config.loading import SecretStore, load
from proxyd.config.settings import Settings
from proxyd.core.errors import DeliveryError, FetchError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.delivery import MailDelivery
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.outcome import OutcomeKind, Picture, ProbeOutcome
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.daemon import PushParts
from proxyd.probing.http.hubs import HubClient
from proxyd.probing.prober import LocalTransport
from proxyd.store.api_rows import Scope
from proxyd.store.backups import open_store
from proxyd.store.databases import tables as t
from proxyd.store.sql_store import SqlStore
from tests.databases import migrated_file
from tests.fakes import FakeClock
from tests.fleets import DOMAIN, PoissonOrigin, rule, source
from tests.origin import InlineParser
from tests.outboxes import due_deliveries

T0 = 1_000_000_000.0
_OUTCOME = ProbeOutcome("s", OutcomeKind.CHANGED, T0, T0, 200)


class RefusingChannel:
    async def deliver(self, message: Message) -> str:
        raise DeliveryError("status 500")


class NoHub(HubClient):
    def __init__(self) -> None:
        """Need nothing: no request is sent."""

    async def request(self, url: str, form: Mapping[str, str]) -> None:
        raise FetchError


@dataclass
class Running:
    client: TestClient[web.Request, web.Application]
    control: Built
    folder: Path

    async def token(self, scope: Scope, *, expires_in_s: float | None = None) -> dict[str, str]:
        token, shown = new_token(f"{scope} {expires_in_s}", scope, now_s=T0, expires_in_s=expires_in_s)
        await self.control.queries.access.add_token(token)
        return {"Authorization": f"Bearer {shown}"}

    async def tell(self, *notifications: Notification) -> None:
        """Record notifications, as a probe would."""
        await self.control.resources.store.record_results(RuleResults(notifications=notifications))
        self.control.news.notify()

    async def keep_picture(self, name: str, picture: Picture) -> None:
        """Let a recorded notification have a picture."""
        row = {
            "sha256": picture.sha256,
            "media_type": picture.media_type,
            "data": picture.data,
            "size": 1,
            "taken_s": T0,
        }
        of_name = update(t.notifications).where(t.notifications.c.notification_id == name)

        def write(connection: Connection) -> None:
            connection.execute(insert(t.pictures), [row])
            connection.execute(of_name.values(picture=picture.sha256))

        await self.control.resources.store.writer.submit(write)

    async def give_up(self, name: str, error: str = "refused") -> None:
        """Record a notification by mail that was given up."""
        await self.tell(replace(told(name), deliveries=(MailDelivery("a@example.org"),)))
        due = await due_deliveries(self.control.resources.store, T0, limit=100)
        (delivery,) = (each for each in due if each.notification_id == name)
        await self.control.resources.store.record_failure(delivery, T0, next_s=None, error=error)


def told(name: str, *, rule_name: str = "r", at_s: float = T0, **data: Any) -> Notification:
    """Return a notification such as rules make."""
    news: dict[str, Any] = {
        "id": name,
        "rule": rule_name,
        "profiles": ["P"],
        "source": "s",
        "url": "https://example.org/s",
        "event": {"kind": "insert", "time": iso_time(at_s), "seen": iso_time(at_s)},
        "interval": {"start": iso_time(at_s), "end": None},
        "late": False,
        "items": [{"channel.item.title": name}],
    }
    body = {"type": "proxyd.notification", "timestamp": iso_time(at_s), "data": news | data}
    return Notification(name, rule_name, "s", at_s, at_s, False, json.dumps(body).encode(), ())


def offline_parts(settings: Settings, store: SqlStore, clock: Clock, prober: Prober) -> Resources:
    """Return what a daemon is made of that delivers nothing and has no hubs."""
    return Resources(
        clock=clock,
        store=store,
        transport=LocalTransport(prober),
        prober=prober,
        pushes=PushParts(NoHub(), InlineParser(), ""),
        channel=RefusingChannel(),
        secrets=SecretStore(settings, {"SECRET_A": "x"}),
        rng=np.random.default_rng(1),
    )


@asynccontextmanager
async def running_api(
    folder: Path,
    streams: StreamSettings | None = None,
    quota: Quota | None = None,
    *,
    declared: bool = True,
    **values: Any,
) -> AsyncIterator[Running]:
    """Run the API of a daemon whose loops stand still; unless ``declared``, it has no sources.

    ``values`` are settings.
    """
    profiles = folder / "profiles"
    profiles.mkdir()
    webhook = "SET DELIVERY WEBHOOK 'https://r.example/hook' SECRET ENV 'SECRET_A'"
    text = DOMAIN + source("s") + source("a/b c") + rule("r", clauses=webhook)
    (profiles / "a.profile").write_text(text if declared else "")
    settings = load(environ={}, profiles=profiles, **values)
    clock = FakeClock(T0)
    async with open_store(migrated_file(folder / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
        parts = offline_parts(settings, store, clock, PoissonOrigin({}, clock.time_s))
        control = build(settings, parts)
        control.metrics.take_roles(*ROLES)  # as its daemon does once it runs
        await control.declarations.start()
        app = make_app(
            control.queries, PublicFront(quota, fever=settings.fever), stream_settings=streams or StreamSettings()
        )
        async with control.loops.plan_worker, TestClient(TestServer(app)) as client:  # its process ends with the world
            yield Running(client, control, profiles)
