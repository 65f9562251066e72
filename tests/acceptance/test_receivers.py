"""Whatever a receiver does, it gets everything, in order for each rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.support import eventually, world


@pytest.mark.long
async def test_receivers_that_refuse_drop_or_stall_get_everything_in_order(tmp_path: Path) -> None:
    async with world(tmp_path, delivery_timeout="1s") as w:
        feed = w.origin.feed("feed")
        feed.add(1, age_s=3600.0)
        rules = ["refusing", "dropping", "stalling", "healthy"]
        w.daemon.declare(w.text(["feed"], dict.fromkeys(rules, 1)))
        w.receiver.scripts["refusing"].extend(["503", "503", "ok", "503"])
        w.receiver.scripts["dropping"].extend(["drop", "drop", "ok", "drop"])
        w.receiver.scripts["stalling"].extend(["stall", "stall", "ok", "stall"])
        await w.daemon.start()
        await w.daemon.knows("feed")
        news = feed.add(2)
        await w.origin.was_asked("feed", times=2)
        news += feed.add(3)
        assert await w.receiver.received("healthy", 5) == news
        for rule in rules:
            assert await w.receiver.received(rule, 5) == news
        w.receiver.check()
        for rule in rules[:3]:
            ids = [arrival.webhook_id for arrival in w.receiver.arrivals[rule]]
            assert ids == sorted(ids, key=ids.index), f"{rule}: an id came back after a later one"
            assert len(ids) == 5 + 3
        await w.daemon.metric_reaches('proxyd_deliveries_total{result="accepted"}', 20)
        samples = await w.daemon.metrics()
        assert samples['proxyd_deliveries_total{result="retry"}'] == 9
        assert samples["proxyd_outbox_pending"] == 0


@pytest.mark.long
async def test_a_notification_that_keeps_failing_holds_back_its_rule_only_so_long(tmp_path: Path) -> None:
    async with world(tmp_path, delivery_hold="500ms") as w:
        feed = w.origin.feed("feed")
        w.daemon.declare(w.text(["feed"], {"each": 1}))
        feed.add(1, age_s=3600.0)
        await w.daemon.start()
        await w.daemon.knows("feed")
        stuck, *others = feed.add(3)
        w.receiver.refused.add(stuck)
        assert await w.receiver.received("each", 2) == others
        w.receiver.refused.clear()
        assert await w.receiver.received("each", 3) == [*others, stuck]
        w.receiver.check()


@pytest.mark.long
async def test_a_receiver_that_is_gone_for_good_is_left_alone_until_someone_replays(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        feed = w.origin.feed("feed")
        feed.add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed"], {"each": 1}))
        w.receiver.scripts["each"].append("410")
        await w.daemon.start()
        await w.daemon.knows("feed")
        gone, kept = feed.add(2)
        await w.daemon.metric_reaches("proxyd_outbox_dead", 2)
        assert w.receiver.accepted("each") == []
        replayed = await w.daemon.cli("webhook", "replay", "--dead")
        assert (replayed.code, replayed.out) == (0, "deliveries that are sent again: 2\n")
        assert await w.receiver.received("each", 2) == [gone, kept]
        first = w.receiver.arrivals["each"][2].webhook_id
        again = await w.daemon.cli("webhook", "replay", first)
        assert again.code == 0, again.err
        await eventually(
            lambda: [a.webhook_id for a in w.receiver.arrivals["each"]].count(first) == 2, f"{first} a second time"
        )
        w.receiver.check()


async def test_a_new_webhook_gets_nothing_before_it_accepted_its_ping(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        feed = w.origin.feed("feed")
        feed.add(1, age_s=3600.0)
        w.daemon.declare(w.text(["feed"], {"each": 1}))
        w.receiver.ping_answers.extend([503] * 100)
        await w.daemon.start()
        await w.daemon.knows("feed")
        news = feed.add(1)
        await w.daemon.metric_reaches("proxyd_notifications_total", 1)
        await eventually(lambda: len(w.receiver.pings) > 1, "a second ping")
        assert w.receiver.arrivals["each"] == []
        listed = (await w.daemon.cli("webhook", "list")).out
        assert "unconfirmed" in listed
        assert "503" in listed
        assert "held" in (await w.daemon.cli("notifications")).out
        w.receiver.ping_answers.clear()
        assert await w.receiver.received("each", 1) == news
        assert "confirmed" in (await w.daemon.cli("webhook", "list")).out.split()
        asked = len(w.receiver.pings)
        await w.daemon.kill()
        await w.daemon.start()
        news += feed.add(1)
        assert await w.receiver.received("each", 2) == news
        assert len(w.receiver.pings) == asked
        w.receiver.check()
