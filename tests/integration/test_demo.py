"""The demo in this process: its origin, its receiver, and the daemon between them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from standardwebhooks import Webhook

from proxyd.cli.demo import Origin, Receiver, item_id, run
from tests.fakes import FakeClock

SECRET = "whsec_" + "c2VjcmV0" * 4


async def test_a_short_demo_loses_nothing_and_compares_three_schedules(tmp_path: Path) -> None:
    said: list[str] = []
    results = await run(tmp_path, 4.5, 1, said.append)  # a busy machine finds nothing in one second
    assert said[-1] == ""
    assert said[0].endswith(" notifications")
    shown: dict[str, dict[str, Any]] = json.loads(results.to_json())
    proxyd, uniform, clairvoyant = (shown[name] for name in ("proxyd", "uniform", "clairvoyant"))
    assert 0 < proxyd["notifications"] == proxyd["verified"] <= proxyd["items"]
    assert (proxyd["duplicates"], proxyd["out_of_order"], proxyd["undelivered"]) == (0, 0, 0)
    assert 0 < clairvoyant["probes"] <= proxyd["probes"] == uniform["probes"]
    assert clairvoyant["mean_delay_s"] <= min(proxyd["mean_delay_s"], uniform["mean_delay_s"])
    assert results.delivered.is_fine
    lines = results.to_text().splitlines()
    assert lines[0] == f"60 feeds, {proxyd['items']} items in 4.5 s, seed 1"
    assert [line.split()[0] for line in lines[3:6]] == ["proxyd", "uniform", "clairvoyant"]
    assert lines[-1].startswith("  Item ")
    assert 0 <= shown["proxyd"]["probes_late_s"] == results.late_s
    assert not any("too slow" in line for line in replace(results, late_s=0.9).to_text().splitlines())
    assert "one probe in twenty started 1.5 s late or more" in replace(results, late_s=1.5).to_text()


async def told(address: str, number: int, *, key: str = SECRET) -> int:
    """Send the receiver a notification of an item, and return the status of its answer."""
    row = {"channel.item.guid": item_id(3, number), "channel.item.title": f"Item {number}"}
    data: Mapping[str, Any] = {"rule": "r", "items": [row]}
    body, now = json.dumps({"type": "proxyd.notification", "data": data}), datetime.now(UTC)
    signed = Webhook(key).sign(f"m{number}", now, body)
    headers = {"webhook-id": f"m{number}", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signed}
    async with aiohttp.ClientSession() as session, session.post(address, data=body, headers=headers) as answer:
        return answer.status


async def test_the_receiver_counts_what_is_repeated_out_of_order_or_signed_by_another() -> None:
    receiver = Receiver(SECRET)
    async with receiver.serving() as address:
        assert [await told(address, number) for number in (1, 4, 2, 4)] == [204] * 4
        assert await told(address, 5, key="whsec_" + "b3RoZXJz" * 4) == 401
        await receiver.has({(3, 1), (3, 2), (3, 4)})
    delivered = receiver.delivered
    assert (delivered.notifications, delivered.verified) == (5, 4)
    assert (delivered.duplicates, delivered.disordered, delivered.is_fine) == (1, 1, False)


async def test_the_origin_shows_the_newest_items_and_answers_304_to_who_has_them() -> None:
    clock = FakeClock(100.0)
    origin = Origin([np.array([10.0, 20.0, 30.0, 200.0])], clock, window=2)
    async with origin.serving() as [address], aiohttp.ClientSession() as session:
        async with session.get(f"{address}/feeds/0.atom") as answer:
            page, tag = await answer.text(), answer.headers["ETag"]
        async with session.get(f"{address}/feeds/0.atom", headers={"If-None-Match": tag}) as answer:
            assert answer.status == 304
        async with session.get(f"{address}/feeds/7.atom") as answer:
            assert answer.status == 404
    assert [item_id(0, number) in page for number in range(4)] == [False, True, True, False]
    assert origin.requests_s == [[100.0, 100.0]]
