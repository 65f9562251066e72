"""Links by which people choose a password or sign in once, sent by a mail server on this machine."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from proxyd.api import passwords
from proxyd.api.passwords import invite, remove
from proxyd.api.problems import BadRequestError
from proxyd.cli.main import main
from proxyd.notify.channels.mail import MailChannel, MailSettings
from proxyd.store.person_rows import Person
from tests.fakes import FakeClock
from tests.integration.api_world import Running, running_api
from tests.integration.dashboard_world import Browser, field
from tests.integration.test_mail_delivery import Sink, serving
from tests.integration.test_people import PASSWORD, choose, forget_cookies, is_signed_in, sign_in

PUBLIC = "https://proxyd.example"
MAIL = "ann@example.org"


@dataclass
class World:
    running: Running
    browser: Browser
    sink: Sink

    async def mailed(self) -> list[tuple[str, str]]:
        """Return to whom mails went, and the path of the link in each."""
        links = [each for each in asyncio.all_tasks() if each.get_name() == "link to sign in by"]
        await asyncio.gather(*links)
        found = []
        for each in self.sink.mails:
            (link,) = re.findall(r"https?://\S+", each.get_content())
            assert link.startswith(f"{PUBLIC}/")
            found.append((each["To"], link.removeprefix(PUBLIC)))
        return found

    async def person(self, name: str = "ann") -> Person:
        found = await self.running.control.queries.people.find(name)
        assert found is not None
        return found

    async def ask(self, name: str, **headers: str) -> tuple[int, str]:
        mark = field(await self.browser.get("/sign-in"), "mark")
        answer, page = await self.browser.post("/sign-in/link", {"mark": mark, "name": name}, **headers)
        return answer.status, page

    async def follow(self, path: str) -> int:
        mark = field(await self.browser.get(path), "mark")
        return (await self.browser.post(path, {"mark": mark}))[0].status

    async def advance(self, seconds: float) -> None:
        await cast("FakeClock", self.running.control.resources.clock).advance(seconds)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    sink = Sink()
    settings: dict[str, Any] = {"smtp": "127.0.0.1:25", "mail_from": "proxyd@example.org", "public_url": PUBLIC}
    async with serving(sink) as port, running_api(tmp_path, **settings) as running:
        channel = MailChannel(MailSettings("127.0.0.1", port, "none", "proxyd@example.org", 10.0))
        monkeypatch.setattr(running.control.resources.channel, "deliver", channel.deliver)
        yield World(running, Browser(running), sink)


async def invited(world: World, name: str = "ann", mail: str = MAIL) -> str:
    return await invite(world.running.control.queries, name, "write", (), mail)


async def post_person(world: World, wanted: Mapping[str, Any], status: int = 201) -> Any:
    headers = await world.running.token("admin")
    async with world.running.client.post("/api/v1/people", json=wanted, headers=headers) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def test_an_invitation_goes_to_the_mail_address_and_leads_to_a_password(world: World) -> None:
    made = await post_person(world, {"name": "ann", "scope": "write", "mail": MAIL})
    assert (made["mailed"], made["mail_error"]) == (True, None)
    assert await world.mailed() == [(MAIL, made["link"])]
    (mail,) = world.sink.mails
    assert (mail["Subject"], mail["Auto-Submitted"]) == ("Your invitation to proxyd", "auto-generated")
    assert await choose(world.browser, made["link"]) == 303
    assert (await world.person()).mail == MAIL


async def test_an_invitation_that_cannot_be_sent_is_shown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.sink, "_recipient", "550 unknown")
    made = await post_person(world, {"name": "ann", "scope": "write", "mail": MAIL})
    assert (made["mailed"], made["mail_error"]) == (False, "the mail server answered 550: unknown")
    assert await choose(world.browser, made["link"]) == 303


async def test_the_dashboard_invites_by_mail_and_shows_no_link_then(world: World) -> None:
    await world.browser.sign_in("admin")
    answer, page = await world.browser.post("/people", {"name": "ann", "scope": "read", "mail": MAIL})
    assert answer.status == 201
    ((to, path),) = await world.mailed()
    assert (to, f"The link was sent to <bdi>{MAIL}</bdi>" in page, path in page) == (MAIL, True, False)
    answer, page = await world.browser.post("/people", {"name": "ben", "scope": "read", "mail": "ben@x\r\nBcc: eve@x"})
    assert (answer.status, "is not a mail address" in page) == (422, True)
    assert await world.running.control.queries.people.find("ben") is None


async def test_the_command_line_says_where_the_link_went(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    token = (await world.running.token("admin"))["Authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("PROXYD_TOKEN", token)
    base = str(world.running.client.make_url(""))
    inviting = ["person", "invite", "ann", "--scope", "read", "--mail", MAIL, "--url", base]
    assert await asyncio.to_thread(main, inviting) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"the link was sent to {MAIL}"
    monkeypatch.setattr(world.sink, "_recipient", "550 unknown")
    assert await asyncio.to_thread(main, inviting) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1].startswith(f"{base.rstrip('/')}/welcome/")
    assert "the link could not be sent: the mail server answered 550: unknown" in said.err
    assert await asyncio.to_thread(main, ["person", "list", "--url", base]) == 0
    assert MAIL in capsys.readouterr().out


@pytest.mark.parametrize(
    "mail", ["me", "a@b.example, c@d.example", "a@b.example\r\nBcc: c@d.example", "a@b.example\n", "<a@b.example>"]
)
async def test_what_is_no_mail_address_invites_nobody(world: World, mail: str) -> None:
    await post_person(world, {"name": "ann", "scope": "write", "mail": mail}, 400)
    with pytest.raises(BadRequestError, match="is not a mail address"):
        await invited(world, mail=mail)
    assert (await world.mailed(), await world.running.control.queries.people.all()) == ([], [])


async def test_an_address_stays_until_another_one_or_none_is_given(world: World) -> None:
    await invited(world)
    await invite(world.running.control.queries, "ann", "read")
    assert (await world.person()).mail == MAIL
    await invited(world, mail="")
    assert (await world.person()).mail is None


@pytest.mark.parametrize("name", ["ann", MAIL, "ANN@Example.org"])
async def test_a_person_signs_in_once_by_a_link_in_a_mail(world: World, name: str) -> None:
    await invited(world)
    assert (await world.ask(name))[0] == 200
    ((to, path),) = await world.mailed()
    assert to == MAIL
    stored = f"{await world.person()}"
    assert path.rpartition("/")[2] not in stored
    for _ in range(2):  # as programs that look at mails do
        status, page = await world.browser.get(path)
        assert (status, "Sign in as <bdi>ann</bdi>" in page) == (200, True)
    assert await world.follow(path) == 303
    assert await is_signed_in(world.browser)
    forget_cookies(world.browser)
    mark = field(await world.browser.get("/sign-in"), "mark")
    assert (await world.browser.get(path))[0] == 404
    assert (await world.browser.post(path, {"mark": mark}))[0].status == 404
    assert not await is_signed_in(world.browser)


async def test_two_browsers_at_once_cannot_both_sign_in_by_a_link(world: World) -> None:
    await invited(world)
    await world.ask("ann")
    ((_, path),) = await world.mailed()
    link, people = passwords.invitation_of(path.rpartition("/")[2]), world.running.control.queries.people
    now_s = world.running.control.resources.clock.time_s()
    found = await asyncio.gather(*(people.use_link(link, now_s=now_s) for _ in range(9)))
    assert [each.name for each in found if each is not None] == ["ann"]


@pytest.mark.parametrize("end", ["time", "a newer link", "a password", "another address", "removal"])
async def test_a_link_ends_by(world: World, end: str) -> None:
    invitation = await invited(world)
    await world.ask("ann")
    (_, path), *_ = await world.mailed()
    if end == "time":
        await world.advance(901.0)
    elif end == "a newer link":
        await world.ask("ann")
        assert len(await world.mailed()) == 2
    elif end == "a password":
        assert await choose(world.browser, invitation) == 303
        forget_cookies(world.browser)
    elif end == "another address":
        await invited(world, mail="other@example.org")
    else:
        await remove(world.running.control.queries, "ann")
    assert (await world.browser.get(path))[0] == 404


async def test_nobody_learns_who_is_known_here(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await invited(world)
    await invite(world.running.control.queries, "no mail", "read")
    asked = asyncio.Event()

    async def never(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(world.running.control.queries.people, "find_addressed", never)
    answers = [await world.ask(name) for name in ("ann", "no mail", "nobody", "x@example.org", "")]
    assert asked.is_set()  # what is looked up delays no answer
    assert len({(status, re.sub(r'content="[^"]*"', "", page)) for status, page in answers}) == 1


async def test_who_is_not_known_and_who_has_no_address_gets_no_mail(world: World) -> None:
    await invited(world)
    await invited(world, "two", "shared@example.org")
    await invited(world, "too", "shared@example.org")
    await invite(world.running.control.queries, "no mail", "read")
    for name in ("no mail", "nobody", "shared@example.org", "%", "ann@example.org, eve@example.org"):
        await world.ask(name)
    assert await world.mailed() == []


async def test_a_person_gets_a_few_links_and_then_one_in_some_minutes(world: World) -> None:
    await invited(world)
    for _ in range(6):
        assert (await world.ask("ann"))[0] == 200
        await world.mailed()
    assert len(await world.mailed()) == 3
    await world.advance(301.0)
    await world.ask("ann")
    await world.ask("ann")
    assert len(await world.mailed()) == 4


async def test_an_address_asks_for_so_many_links_and_then_waits(world: World) -> None:
    statuses = [(await world.ask(f"nobody {number}"))[0] for number in range(21)]
    assert statuses == [200] * 20 + [429]


async def test_a_link_never_leads_to_the_host_that_its_asker_names(world: World) -> None:
    await invited(world)
    mark = field(await world.browser.get("/sign-in"), "mark")
    form = {"mark": mark, "name": "ann"}
    headers = {"Host": "203.0.113.66", "X-Forwarded-Host": "evil.example"}
    async with world.running.client.post("/sign-in/link", data=form, headers=headers) as answer:
        assert answer.status == 200
    ((_, path),) = await world.mailed()  # which is below PUBLIC
    assert path.startswith("/sign-in/link/")


async def test_a_form_from_another_site_sends_nothing_and_signs_nobody_in(world: World) -> None:
    await invited(world)
    assert (await world.browser.post("/sign-in/link", {"mark": "guessed", "name": "ann"}))[0].status == 403
    assert (await world.ask("ann", Origin="https://evil.example"))[0] == 403
    assert await world.mailed() == []
    await world.ask("ann")
    ((_, path),) = await world.mailed()
    assert (await world.browser.post(path, {"mark": "guessed"}))[0].status == 200
    assert not await is_signed_in(world.browser)
    assert await world.follow(path) == 303


async def test_a_mail_server_that_refuses_is_no_fault_of_who_asks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await invited(world)
    monkeypatch.setattr(world.sink, "_recipient", "450 later")
    assert (await world.ask("ann"))[0] == 200
    assert await world.mailed() == []
    assert await choose(world.browser, await invited(world)) == 303
    forget_cookies(world.browser)
    assert await sign_in(world.browser, password=PASSWORD) == 303


@pytest.mark.parametrize("missing", ["smtp", "mail_from", "public_url"])
async def test_without_a_setting_no_link_is_offered(tmp_path: Path, missing: str) -> None:
    settings: dict[str, Any] = {
        "smtp": "127.0.0.1:25",
        "mail_from": "proxyd@example.org",
        "public_url": PUBLIC,
        missing: "",
    }
    async with running_api(tmp_path, **settings) as running:
        browser = Browser(running)
        await choose(browser, await invite(running.control.queries, "ann", "write"))
        forget_cookies(browser)
        page = await browser.get("/sign-in")
        assert "Send me a link" not in page[1]
        form = {"mark": field(page, "mark"), "name": "ann"}
        assert (await browser.post("/sign-in/link", form))[0].status == 404
        wanted = {"name": "ben", "scope": "read", "mail": "ben@example.org"}
        async with running.client.post("/api/v1/people", json=wanted, headers=await running.token("admin")) as answer:
            assert (answer.status, "smtp, mail_from and public_url" in await answer.text()) == (400, True)
