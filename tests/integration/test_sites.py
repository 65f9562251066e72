"""Sites from their probes to the pages, the API and the verb: uptime, outages, latency and what expires."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from proxyd.cli.main import main
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.schedule import Probe, Reason
from proxyd.core.model.suspension import Subject
from proxyd.core.rules.known.state import SourceState
from proxyd.core.rules.stages.site_uptime import Incident, SiteChange
from proxyd.store.listed_rows import Wanted
from tests.fakes import FakeClock
from tests.integration.api_world import T0, Running, running_api
from tests.integration.dashboard_world import HOSTILE, Browser, field
from tests.observations import observed

SITE, DAY_S = "shop.example.org", 86400.0
PATH = f"/api/v1/sites/{SITE}"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path, status_pages=[f"public: {SITE} | gone.example.org"]) as api:
        await api.control.declarations.declare(f"WATCH 'https://{SITE}/' OF SITE INTO \"P\" DOMAIN NONE;")
        yield api


@pytest.fixture
def browser(running: Running) -> Browser:
    return Browser(running)


async def probe(api: Running, at_s: float, *, fails: bool = False, took_s: float = 0.25, detail: str = "") -> None:
    """Let a probe of the site end."""
    await cast("FakeClock", api.control.resources.clock).advance(at_s + took_s - api.control.queries.clock.time_s())
    kind, status = (OutcomeKind.HTTP_ERROR, 503) if fails else (OutcomeKind.SAME_BODY, 200)
    outcome = ProbeOutcome(SITE, kind, at_s, at_s + took_s, status, detail=detail or f"status {status}")
    made = Probe(SITE, int(at_s / 10), Reason.DETECTION, SITE, 1.0)
    outcome = replace(outcome, is_answered=True, certificate_end_s=T0 + 40 * DAY_S)
    assert await api.control.loops.observer.take_in(outcome, probe=made)


async def live(api: Running, *, detail: str = "") -> None:
    """Let the site be up for ten minutes, down for two, and up for eight."""
    for number in range(30):
        at_s = T0 + 40.0 * number
        await probe(api, at_s, fails=15 <= number < 18, detail=detail if 15 <= number < 18 else "")


async def reader(api: Running) -> dict[str, str]:
    """Return the headers of somebody who may read."""
    known = await api.control.queries.access.tokens()
    return await api.token("read", expires_in_s=3600.0 + len(known))


async def asked(api: Running, path: str) -> tuple[int, Any]:
    async with api.client.get(path, headers=await reader(api)) as answer:
        return answer.status, await answer.json()


async def test_a_site_has_its_uptime_its_outage_and_its_latency(running: Running) -> None:
    await live(running)
    status, found = await asked(running, PATH)
    assert status == 200
    assert (found["state"], found["detail"], found["since"]) == ("up", "status 200", None)
    share = round(1.0 - 120.0 / (29 * 40.0), 6)
    assert found["uptime"] == {"day": share, "week": share, "month": share, "quarter": share}
    assert len(found["days"]) == 90
    assert [each["down_s"] for each in found["days"] if each["down_s"]] == [120.0]
    assert found["incidents"] == [
        {
            "began": iso_time(T0 + 600.25),
            "ended": iso_time(T0 + 720.25),
            "length_s": 120.0,
            "reason": "status 503",
        }
    ]
    assert (found["median_s"], found["latency_s"], len(found["latencies"])) == (0.25, 0.25, 2)
    assert found["expires"] == {
        "certificate": iso_time(T0 + 40 * DAY_S),
        "domain": "",
        "domain_expires": None,
        "problem": "",
    }


async def test_a_site_that_is_down_says_since_when_and_why(running: Running, browser: Browser) -> None:
    await probe(running, T0)
    for number in range(1, 4):
        await probe(running, T0 + 40.0 * number, fails=True)
    _, found = await asked(running, PATH)
    assert (found["state"], found["since"], found["incidents"][0]["ended"]) == ("down", iso_time(T0 + 40.25), None)
    await browser.sign_in("read")
    for path in ("/sites", f"/sites/{SITE}"):
        status, page = await browser.get(path)
        assert (status, "status 503" in page) == (200, True)


async def test_before_its_first_probe_and_while_it_is_paused_nothing_is_known(running: Running) -> None:
    _, found = await asked(running, "/api/v1/sites")
    assert [(each["name"], each["state"], each["uptime"]["week"]) for each in found["items"]] == [
        (SITE, "unknown", None)
    ]
    await probe(running, T0)
    await running.control.queries.suspensions.pause(SITE, "me")
    assert (await asked(running, PATH))[1]["state"] == "unknown"
    assert running.control.queries.suspensions.of(Subject.SOURCE, SITE) is not None


async def test_a_site_in_maintenance_says_until_when_and_an_http_site_has_no_certificate(
    running: Running, browser: Browser, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    maintained = f"WATCH 'https://{SITE}/' OF SITE MAINTENANCE DURING '01:00-04:00' INTO \"P\" DOMAIN NONE;"
    plain = "WATCH 'http://printer.example.org/' OF SITE INTO \"P\" DOMAIN NONE;"
    await running.control.declarations.declare(maintained + plain)  # it is 01:46:40
    await probe(running, T0, fails=True)
    await probe(running, T0 + 40.0, fails=True)
    status, found = await asked(running, PATH)
    assert (found["state"], found["detail"]) == ("maintenance", "until 2001-09-09T04:00:00.000Z")
    assert found["incidents"] == []
    await browser.sign_in("read")
    for path in ("/sites", f"/sites/{SITE}", "/status/public"):
        status, page = await browser.get(path)
        assert (status, "in maintenance" in page, "status 503" in page) == (200, True, False), path
        assert "until 2001-09-09 04:00:00 UTC" in page, path
    assert "none (http)" in (await browser.get("/sites/printer.example.org"))[1]
    monkeypatch.setattr("proxyd.cli.sources.ask", lambda *_: [found])
    assert main(["sites"]) == 0
    assert "in maintenance until 2001-09-09 04:00:00 UTC" in capsys.readouterr().out


async def test_why_a_site_is_probed_says_nothing_of_items(running: Running) -> None:
    await live(running)
    _, found = await asked(running, f"/api/v1/explain/{SITE}")
    assert [line for line in found["summary"] if "item" in line] == []


async def test_other_sources_are_no_sites(running: Running) -> None:
    status, found = await asked(running, "/api/v1/sites/s")
    assert (status, found["detail"]) == (404, "there is no site 's'")


async def test_pages_show_what_is_stored_and_hide_nothing_behind_scripts(running: Running, browser: Browser) -> None:
    await live(running, detail=HOSTILE)
    await browser.sign_in("read")
    _, page = await browser.get("/sites")
    assert f'<a href="/sites/{SITE}">' in page
    assert "89.65 %" in page
    assert "Add sites" not in page  # a reader may not
    _, page = await browser.get(f"/sites/{SITE}")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "2001-09-09" in page  # the day of its outage
    assert "2001-10-19" in page  # the end of its certificate


async def test_sites_are_added_by_a_form_one_a_line(running: Running, browser: Browser) -> None:
    await browser.sign_in("write")
    form = {"addresses": "https://a.example/\n\nb.example\n", "holding": "It's up", "to": "me@example.org"}
    answer, _ = await browser.post("/sites", form)
    assert (answer.status, answer.headers["Location"]) == (303, "/sites")
    declared = running.control.queries.profiles.declaration
    assert {"a.example", "b.example"} <= declared.sources.keys()
    rule, source = declared.rules["b.example"], declared.sources["b.example"]
    assert source.site is not None
    assert (source.url, source.site.holding, [each.endpoint for each in rule.deliveries]) == (
        "https://b.example",
        "It's up",
        ["me@example.org"],
    )


async def test_the_form_keeps_what_a_site_that_is_watched_already_has(running: Running, browser: Browser) -> None:
    await browser.sign_in("write")
    form = {"addresses": f"https://{SITE}/\nc.example", "to": "me@example.org"}
    await browser.post("/sites", form)
    _, page = await browser.get("/sites")
    assert "Watching 1 more site. Watched already, and changed where you filled in something: 1." in page
    declared = running.control.queries.profiles.declaration
    rule, source = declared.rules[SITE], declared.sources[SITE]
    assert source.site is not None
    assert (rule.profiles, source.site.domain, [each.endpoint for each in rule.deliveries]) == (
        ("P",),
        None,
        ["me@example.org"],
    )


async def test_a_site_goes_by_the_name_that_its_line_gives_it(running: Running, browser: Browser) -> None:
    await probe(running, T0)
    await browser.sign_in("write")
    await browser.post("/sites", {"addresses": f"{SITE} The shop\nhttps://blog.example.org/  Blog"})
    declared = running.control.queries.profiles.declaration
    assert {"The shop", "Blog"} < declared.rules.keys()
    assert SITE not in declared.rules  # it was called so before
    await browser.post("/sites", {"addresses": SITE, "holding": "Welcome"})
    assert SITE not in running.control.queries.profiles.declaration.rules
    for path in ("/sites", f"/sites/{SITE}", "/status/public"):
        assert "<bdi>The shop</bdi>" in (await browser.get(path))[1], path
    status, found = await asked(running, PATH)
    assert (status, found["name"], found["title"], found["state"]) == (200, SITE, "The shop", "up")


async def test_a_site_that_gets_another_name_stays_muted(running: Running, browser: Browser) -> None:
    await browser.sign_in("write")
    await running.control.queries.suspensions.mute(SITE, "me", until_s=T0 + DAY_S)
    await browser.post("/sites", {"addresses": f"{SITE} Shop"})
    _, page = await browser.get("/sites")
    assert "Watched already, and changed where you filled in something: 1." in page
    assert "more site" not in page
    (mute,) = running.control.queries.suspensions.all()
    assert (mute.subject, mute.name, mute.by, mute.until_s) == (Subject.RULE, "Shop", "me", T0 + DAY_S)


@pytest.mark.parametrize(
    "line", ["d.example", "other.example Blog", "https://d.example/ Blog", "other.example Written"]
)
async def test_the_form_replaces_no_other_watch(running: Running, browser: Browser, line: str) -> None:
    await running.control.declarations.declare(
        """WATCH 'https://d.example' OF PAGE WITHOUT 'cookie'; WATCH 'https://blog.example' OF SITE AS "Blog";
        CREATE PROFILE Q; INSERT NOTIFICATION "Written" INTO Q SET QUERY "SELECT trouble FROM SOURCE"
        SET TRIGGER "ON FAILURE TO SOURCE";"""
    )
    await browser.sign_in("write")
    answer, page = await browser.post("/sites", {"addresses": line})
    said = "is the name of another watch: put another name after the address"
    assert (answer.status, said in page) == (422, True)


@pytest.mark.parametrize("before", ["", "WATCH 'https://e.example' OF SITE AS \"Shop\";"])
@pytest.mark.parametrize(("line", "name"), [("e.example Shop", "Shop"), ("https://e.example/\tThe  shop", "The shop")])
@pytest.mark.parametrize("feed", ['AS "News"', ""])
async def test_an_address_that_is_read_as_a_feed_can_be_a_site_too(
    running: Running, browser: Browser, before: str, line: str, name: str, feed: str
) -> None:
    await running.control.declarations.declare(f"WATCH 'https://e.example' {feed}; {before}")
    await browser.sign_in("write")
    answer, _ = await browser.post("/sites", {"addresses": line})
    assert answer.status == 303
    declared = running.control.queries.profiles.declaration
    site = declared.sources["e.example (SITE)"]
    assert [each for each, rule in declared.rules.items() if site.source_id in rule.source_ids] == [name]
    assert ("News" if feed else "e.example") in declared.rules


async def test_a_site_without_a_name_goes_by_its_address_if_a_feed_has_another(
    running: Running, browser: Browser
) -> None:
    await running.control.declarations.declare("WATCH 'https://e.example' AS \"News\";")
    await browser.sign_in("write")
    answer, _ = await browser.post("/sites", {"addresses": "e.example"})
    assert answer.status == 303
    assert {"News", "e.example"} < running.control.queries.profiles.declaration.rules.keys()


@pytest.mark.parametrize(
    "form",
    [
        {"addresses": ""},
        {"addresses": "ftp://x"},
        {"addresses": f"a.example {101 * 'x'}"},
        {"addresses": "a.example", "to": "https://h.example/"},
        {"addresses": "a.example", "to": "me"},
        {"addresses": "a.example Shop\nhttps://a.example/ Blog"},
        {"addresses": "a.example Shop\nb.example Shop"},
        {"addresses": "a.example\nb.example a.example"},
    ],
)
async def test_a_form_that_asks_for_nothing_says_so(browser: Browser, form: dict[str, str]) -> None:
    await browser.sign_in("write")
    answer, page = await browser.post("/sites", form)
    assert (answer.status, 'role="alert"' in page) == (422, True)


async def test_a_status_page_is_for_everybody_and_tells_no_reasons(running: Running, browser: Browser) -> None:
    await live(running, detail="connection to 10.1.2.3 refused")
    status, page = await browser.get("/status/public")
    assert status == 200
    assert SITE in page
    assert "1 outage" in page
    assert not any(each in page for each in ("10.1.2.3", "https://shop", "Sign out", "gone.example.org"))
    assert (await browser.get("/status/other"))[0] == 404
    assert (await browser.get(f"/sites/{SITE}"))[1].count("Sign in") > 0


async def test_a_status_page_says_how_many_outages_it_leaves_out(running: Running, browser: Browser) -> None:
    store = running.control.resources.store
    outcome = ProbeOutcome(SITE, OutcomeKind.SAME_BODY, T0, T0)
    for number in range(12):
        began_s = T0 - 3600.0 * (number + 1)
        for incident in (Incident(began_s, reason="x"), Incident(began_s, began_s + 60.0)):
            change = SiteChange((), incident)
            await store.record(observed(SourceState(SITE, f"https://{SITE}"), outcome, site=change))
    _, page = await browser.get("/status/public")
    assert "12 outages" in page
    assert "the newest 10 of 12" in page
    assert page.count('data-label="Lasted"') == 10


async def test_answers_hold_50_sites_and_100_sources_and_lead_on(running: Running) -> None:
    names = [f"s{number:03d}.example.org" for number in range(120)]
    watches = "".join(f"WATCH 'https://{name}/' OF SITE INTO \"P\" DOMAIN NONE;" for name in names)
    await running.control.declarations.declare(watches)
    for path, most, member in (("/api/v1/sites", 50, "name"), ("/api/v1/sources", 100, "source")):
        found, pages, cursor = list[str](), list[int](), ""
        while cursor is not None:
            _, page = await asked(running, f"{path}?limit=500{cursor and f'&cursor={cursor}'}")
            found += [each[member] for each in page["items"]]
            pages.append(len(page["items"]))
            cursor = page["next_cursor"]
        assert set(found) >= {*names, SITE}
        assert len(found) == len(set(found))
        assert max(pages) == most


async def test_who_changes_the_watch_of_a_site_comes_back_to_the_site_s_source(browser: Browser) -> None:
    await browser.sign_in("write")
    form = {"tag": field(await browser.get(f"/sources/{SITE}/change"), "tag")}
    text = f"WATCH 'https://{SITE}/' OF SITE INTO \"P\" DOMAIN NONE HOLDING 'Welcome';"
    answer, _ = await browser.post(f"/sources/{SITE}/change", form | {"text": text})
    assert (answer.status, answer.headers["Location"]) == (303, f"/sources/{SITE}")


async def test_a_site_of_tcp_is_changed_on_its_page_and_its_address_is_no_secret(
    running: Running, browser: Browser
) -> None:
    await browser.sign_in()
    answer, _ = await browser.post("/sites", {"addresses": "tcp://db.example.org:5432 Database"})
    assert answer.status == 303
    assert running.control.declarations.declaration.sources["db.example.org:5432"].url == "tcp://db.example.org:5432"
    for path in ("/sources/db.example.org:5432/change", "/sites/db.example.org:5432", "/profiles/default"):
        status, page = await browser.get(path)
        assert (status, "tcp://db.example.org:5432" in page, "[hidden" in page) == (
            200,
            True,
            False,
        )
    assert 'href="tcp:' not in page


async def test_an_outage_ends_also_at_another_address(running: Running) -> None:
    for number in range(3):
        await probe(running, T0 + 40.0 * number, fails=True)
    shown = await running.control.queries.sites.standing(SITE)
    assert (shown.state, len((await running.control.queries.sites.past(SITE)).incidents)) == ("down", 1)
    await running.control.declarations.declare(f"WATCH 'http://{SITE}/' OF SITE INTO \"P\" DOMAIN NONE;")
    await probe(running, T0 + 200.0)
    past = await running.control.queries.sites.past(SITE)
    assert [each.ended_s for each in past.incidents] == [T0 + 200.25]
    told_of = await running.control.queries.history.find_notifications(Wanted(), before=None, limit=10)
    assert any(b"up again" in each.body for each in told_of.rows)


async def test_a_site_that_has_never_answered_is_not_up_after_its_first_failure(running: Running) -> None:
    await probe(running, T0, fails=True)
    assert (await running.control.queries.sites.standing(SITE)).state == "unknown"
    await probe(running, T0 + 20.0, fails=True)
    assert (await running.control.queries.sites.standing(SITE)).state == "down"


async def test_a_status_page_finds_its_sites_by_the_names_that_their_watches_give(tmp_path: Path) -> None:
    async with running_api(tmp_path, status_pages=["public: Shop | gone", "empty: gone"]) as api:
        await api.control.declarations.declare(f'WATCH \'https://{SITE}/\' OF SITE AS "Shop" INTO "P" DOMAIN NONE;')
        async with api.client.get("/status/public") as answer:
            page = await answer.text()
        assert ("Shop" in page, "No site is shown here yet" in page) == (True, False)
        async with api.client.get("/status/empty") as answer:
            assert "All is well" not in await answer.text()
