"""Names that do not resolve, hosts that are all down, a clock that jumps: it goes on, and nobody is flooded."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.acceptance.governed import govern
from tests.acceptance.support import DOMAIN, PROFILE, World, eventually, rule_text, world
from tests.cluster.hosts import hosts

NAMES = [f"n{number}" for number in range(100)]  # more than there are threads that resolve names


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


@pytest.mark.long
@pytest.mark.parametrize("fault", [pytest.param("fail", marks=pytest.mark.long), "hang"])
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


async def test_it_stops_in_time_while_names_hang(tmp_path: Path) -> None:
    async with world(tmp_path, probe_timeout="60s", drain_timeout="100ms") as w:
        govern(w.daemon, names="hang")
        w.daemon.declare(named(w))
        await w.daemon.start()
        threads = Path(f"/proc/{w.daemon.pid}/task")
        await eventually(lambda: len(list(threads.iterdir())) > 64, "names are being looked up")
        await w.daemon.stop()


@pytest.mark.long
async def test_hosts_that_are_all_down_come_back_without_a_storm(tmp_path: Path) -> None:
    """The budget would not hold them back: what spreads them is that each waits for its own time."""
    budget, chronon_s = 40, 1.0
    async with (
        hosts(60) as origin,
        world(tmp_path, budget=f"{budget}/s", chronon="1s", source_spacing="1s", host_concurrency="1") as w,
    ):
        for number, text in enumerate(origin.texts(w.receiver.url("each"))):
            w.daemon.declare(text, f"watch-{number}")
        await w.daemon.start()
        await eventually(lambda: all(origin.answered[name] for name in origin.names), "every host is known")
        origin.is_down = True
        await connection_is(w, 0.0)
        news = {name: feed.add(1) for name, feed in origin.feeds.items()}
        began_s = time.monotonic()
        origin.is_down = False
        origin.asked.clear()
        await connection_is(w, 1.0)
        await everything_is_told(w, news)
        passed_s = time.monotonic() - began_s
        first = [at_s for at_s, _ in origin.asked if at_s < began_s + passed_s]
        for number, at_s in enumerate(first):
            within = sum(at_s <= other < at_s + chronon_s for other in first[number:])
            assert within <= 2 * budget  # of two chronons that it may touch
        assert origin.in_turn


@pytest.mark.long
@pytest.mark.parametrize("ahead_s", [250.0, pytest.param(-250.0, marks=pytest.mark.long)])
async def test_a_clock_that_jumps_under_the_running_daemon_changes_no_promise(tmp_path: Path, ahead_s: float) -> None:
    """Receivers refuse what is stamped five minutes off; longer jumps are tested under a fake clock."""
    sources = [f"s{number}" for number in range(20)]
    async with world(tmp_path) as w:
        govern(w.daemon)
        for source in sources:
            w.origin.feed(source, "atom").add(1, age_s=3600.0)
        w.daemon.declare(w.text(sources, {"each": 1, "third": 3}))
        await w.daemon.start()
        await w.daemon.knows(*sources)
        news = {source: w.origin.feeds[source].add(2) for source in sources}
        await w.receiver.received("each", 2 * len(sources))
        govern(w.daemon, ahead_s=ahead_s)
        for source in sources:
            news[source] += w.origin.feeds[source].add(1)
        await everything_is_told(w, news)
        await w.receiver.received("third", 3 * len(sources))
        if ahead_s < 0.0:
            await w.daemon.metric_reaches("proxyd_clock_ahead_seconds", -ahead_s / 2.0)
            assert "restart proxyd to follow it at once" in w.daemon.log
        await w.daemon.restart()
        for source in sources:
            news[source] += w.origin.feeds[source].add(1)
        await everything_is_told(w, news)
        assert "Traceback" not in w.daemon.log
