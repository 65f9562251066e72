"""What is published arrives: signed, once, in order."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.support import world

FORMS = {"rss2": "rss2", "rss1": "rss1", "atom": "atom"}


async def test_every_item_of_every_kind_of_feed_arrives_once_and_in_order(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        feeds = [w.origin.feed(name, form) for name, form in FORMS.items()]
        old = [guid for feed in feeds for guid in feed.add(2, age_s=3600.0)]
        w.daemon.declare(w.text(list(FORMS), {"each": 1, "third": 3}))
        await w.daemon.start()
        await w.daemon.knows(*FORMS)
        for count in (1, 3, 1, 2, 1):
            for feed in feeds:
                feed.add(count)
            await w.origin.was_asked(*FORMS, times=2)
        await w.receiver.received("each", 24)
        await w.receiver.received("third", 18)
        # Both rules have seen all there is: what comes now comes after all that could be a duplicate.
        for feed in feeds:
            feed.add(1)
        await w.receiver.received("each", 27)
        await w.receiver.received("third", 27)
        w.receiver.check()
        for feed in feeds:
            news = [guid for guid in feed.guids if guid not in old]
            each = [a.guids for a in w.receiver.arrivals["each"] if a.data["source"] == feed.name]
            third = [a.guids for a in w.receiver.arrivals["third"] if a.data["source"] == feed.name]
            assert each == [[guid] for guid in news]
            assert third == [news[0:3], news[3:6], news[6:9]]
        first = w.receiver.arrivals["each"][0].data
        assert {"id", "rule", "profiles", "source", "url", "event", "interval", "late", "items"} <= first.keys()
        assert first["items"][0]["channel.item.title"].endswith("<ö & co>")
        assert await w.daemon.metric('proxyd_deliveries_total{result="retry"}') == 0
