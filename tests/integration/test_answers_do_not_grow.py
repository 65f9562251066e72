"""No answer holds the loop for longer because the fleet is larger: calls in one turn of the loop, at two sizes."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import pytest

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.daemon.plan_loop import in_parts
from tests.fleets import DOMAIN, changed, item, rule, source
from tests.integration.api_world import T0, running_api
from tests.integration.dashboard_world import Browser

SMALL, LARGE = 1_100, 2_600  # a preview copies a thousand sources
ROUTES = (
    "/api/v1/profiles",
    "/api/v1/profiles/P",
    "/api/v1/export",
    "/api/v1/rules",
    "/api/v1/rules/counted",
    "/api/v1/rules/counted/intervals",
    "/api/v1/domains",
    "/api/v1/sources?limit=50",
    "/api/v1/sources?limit=50&q=s1&sort=newest",
    "/api/v1/sources?limit=50&failing=true",
    "/api/v1/sources?limit=50&silent=true&sort=items",
    "/api/v1/sources/s7/probes",
    "/api/v1/sources/s7/items",
    "/api/v1/explain/s7",
    "/api/v1/items?q=news",
    "/api/v1/items?view=unread&profile=P",
    "/api/v1/plan?limit=50",
    "/api/v1/hosts?limit=50",
    "/api/v1/sites?limit=50",
    "/api/v1/advice",
    "/api/v1/report",
    "/api/v1/notifications?limit=50",
    "/api/v1/webhooks",
    "/api/v1/moves",
    "/api/v1/suspensions",
    "/api/v1/deliveries/dead",
    "/metrics",
    "/readyz",
    "/healthz",
)
PAGES = (
    *(
        "/",
        "/state",
        "/more",
        "/sources",
        "/sources?q=s1",
        "/sources/s7",
        "/sources/s7/why",
        "/rules",
        "/rules/counted",
    ),
    *(
        "/plan",
        "/hosts",
        "/sites",
        "/budget",
        "/profiles",
        "/profiles/P",
        "/profiles/new",
        "/notifications",
        "/search?q=news",
        "/read?view=all",
        "/add",
    ),
)


@dataclass
class Turns:
    """Counts the calls of each turn of this thread's loop, and keeps the most."""

    most: int = 0
    calls: int = 0

    def count(self, _frame: FrameType, event: str, _argument: object) -> None:
        self.calls += event in {"call", "c_call"}


@contextmanager
def counting(turns: Turns) -> Iterator[None]:
    run, here = asyncio.events.Handle._run, threading.get_ident()

    def count_run(self: asyncio.Handle) -> None:
        turns.calls = 0
        run(self)
        if threading.get_ident() == here:
            turns.most = max(turns.most, turns.calls)

    asyncio.events.Handle._run = count_run  # type: ignore[method-assign]
    sys.setprofile(turns.count)
    try:
        yield
    finally:
        sys.setprofile(None)
        asyncio.events.Handle._run = run  # type: ignore[method-assign]


@asynccontextmanager
async def browsing(folder: Path, size: int) -> AsyncIterator[Browser]:
    """Yield somebody at a daemon with many sources, of which some fail, some were seen, and most are new."""
    async with running_api(folder) as api:
        names = [f"s{number}" for number in range(size)]
        texts = [source(name, host=f"h{number // 3}.example") for number, name in enumerate(names)]
        rules = rule("every") + rule("counted", when="COUNT(*) % 7 = 0")
        (api.folder / "a.profile").write_text(DOMAIN + "".join(texts) + rules)
        assert await api.control.declarations.reload() == ()
        decider = api.control.decider
        for _ in decider.placement.place_in_parts(lambda: T0):
            pass
        for number, name in enumerate(names[: size // 4]):
            outcome = changed(name, [item(f"news {number}", T0 - 60.0 * number)], T0)
            if number % 5 == 0:
                outcome = ProbeOutcome(name, OutcomeKind.TIMEOUT, T0, T0 + 1.0)
            if number % 7 == 0:
                outcome = replace(outcome, permanent_url=f"https://moved.example/{name}")
            observation = decider.observe(outcome)
            assert observation is not None
            decider.outcomes.finish(observation.outcome, observation)
        week = (await in_parts(decider.snapshot(T0))).plan()
        if week is not None:
            await in_parts(decider.switch_plan(week, T0))
        decider.choose(decider.known.grid.chronon_at(T0))
        browser = Browser(api)
        await browser.sign_in("admin")
        yield browser


async def most_calls(folder: Path, size: int) -> dict[str, int]:
    found = {}
    async with browsing(folder, size) as browser:
        headers = await browser.api.token("read")
        for path in (*ROUTES, *PAGES):
            own = headers if path in ROUTES else {}
            await browser.get(path, **own)  # the first time also compiles templates and imports modules
            turns = Turns()
            with counting(turns):
                status, _ = await browser.get(path, **own)
            assert status in {200, 503}, (path, status)
            found[path] = turns.most
    return found


async def test_no_turn_of_the_loop_makes_more_calls_for_an_answer_of_a_larger_fleet(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    small, large = [await most_calls(tmp_path_factory.mktemp("fleet"), size) for size in (SMALL, LARGE)]
    grown = {path: (small[path], large[path]) for path in small if large[path] > 1.5 * small[path] + 500}
    assert grown == {}
