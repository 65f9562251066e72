"""Names that do not resolve, origins that are all away, a clock that jumps: the daemon goes on, and nobody is flooded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.governed import govern
from tests.acceptance.support import DOMAIN, PROFILE, World, eventually, rule_text, world

NAMES = [f"n{number}" for number in range(100)]  # more than there are threads that resolve names
DAY_S = 86400.0


def named(w: World) -> str:
    """Return a declaration of sources at names of their own."""
    declared = "".join(
        f"CREATE SOURCE \"{name}\" OF RSS AT 'http://{name}.test:{w.origin.port}/{name}';\n" for name in NAMES
    )
    return f"{DOMAIN}{declared}{PROFILE}{rule_text('each', 1, w.receiver.url('each'))}"


async def on_names(w: World) -> None:
    """Let the daemon know sources at names that answer, and stop it: it forgets where names lead to."""
    for name in NAMES:
        w.origin.feed(name, "atom").add(1, age_s=3600.0)
    govern(w.daemon)
    w.daemon.declare(named(w))
    await w.daemon.start()
    await w.daemon.knows(*NAMES)
    await w.daemon.stop()


async def connection_is(w: World, up: float) -> None:
    async def noticed() -> bool:
        return await w.daemon.metric("proxyd_connection_up") == up

    await eventually(noticed, f"the connection is {'up' if up else 'down'}", state=lambda: w.daemon.log[-2000:])


async def everything_is_told(w: World, news: dict[str, list[str]]) -> None:
    """Wait until each item was delivered once, those of a source in their order."""
    await w.receiver.received("each", sum(map(len, news.values())))
    for source, guids in news.items():
        assert [guid for a in w.receiver.accepted("each") if a.data["source"] == source for guid in a.guids] == guids
    w.receiver.check()


@pytest.mark.parametrize("fault", ["fail", "hang"])
async def test_while_names_do_not_resolve_it_goes_on_and_then_finds_everything(tmp_path: Path, fault: str) -> None:
    async with world(tmp_path, probe_timeout="1s") as w:
        await on_names(w)
        govern(w.daemon, names=fault)
        await w.daemon.start()
        await connection_is(w, 0.0)
        news = {name: w.origin.feeds[name].add(2) for name in NAMES}
        # What needs threads of its own goes on too: a changed profile is taken.
        w.daemon.declare(named(w) + rule_text("other", 1, w.receiver.url("other")))
        await w.daemon.metric_reaches("proxyd_rules", 2)
        assert (await w.daemon.request("GET", "/healthz"))[0] == 200
        govern(w.daemon)
        await connection_is(w, 1.0)
        await everything_is_told(w, news)
        assert "Traceback" not in w.daemon.log
        await w.daemon.stop()
