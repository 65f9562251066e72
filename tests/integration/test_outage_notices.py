"""The notice that proxyd was offline, from the probes to the outbox and the API."""

from __future__ import annotations

from pathlib import Path

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from tests.fleets import changed, item
from tests.integration.api_world import T0, running_api

HOSTS = "abcd"
TEXT = "CREATE PROFILE \"Status\" ON TROUBLE TELL LOG 'trouble';\n" + "".join(
    f"WATCH 'https://{name}.example.org/' AS \"{name} is down\" INTO \"Status\" ON FAILURE TELL LOG 'down';\n"
    for name in HOSTS
)


async def test_each_receiver_has_one_notice_that_is_delivered_like_every_other(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        await api.control.declarations.declare(TEXT)
        names = [f"{name}.example.org" for name in HOSTS]
        for name in names:
            await api.control.loops.observer.take_in(changed(name, [item("one")], T0))
        for name in names[:3]:
            await api.control.loops.observer.take_in(
                ProbeOutcome(name, OutcomeKind.TIMEOUT, T0 + 60, T0 + 90, requests=1)
            )
        await api.control.loops.observer.take_in(changed(names[3], [item("one")], T0 + 600))
        headers = await api.token("read")
        async with api.client.get("/api/v1/notifications", headers=headers) as answer:
            listed = (await answer.json())["items"]
        found = [each for each in listed if each["body"]["data"]["event"]["kind"] == "offline"]
        assert sorted(each["rule"] for each in found) == ["Status: trouble", "a is down"]
        async with api.client.get(f"/api/v1/notifications/{found[0]['id']}", headers=headers) as answer:
            traced = await answer.json()
        assert traced["body"]["data"]["message"]["title"].startswith("proxyd was offline from 2001-09-09 01:47 UTC to")
        assert [each["state"] for each in traced["deliveries"]] == ["pending"]
