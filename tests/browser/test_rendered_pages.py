"""Pages that a real Chromium renders for a probe: what is read, and what they do not reach."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver
from playwright.async_api import BrowserContext

from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.delivery import SecretRef
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.core.model.profile import Auth, Extraction, Field, FieldType, PageClass, Reader, Rendering
from proxyd.net.guard import Guard
from proxyd.net.host_turns import HostTokens
from proxyd.net.session import make_session, user_agent
from proxyd.notify.channels.message_forms import subject
from proxyd.probing.browser.chromium import Chromium, PageLoader, open_chromium
from proxyd.probing.browser.page_requests import RenderLimits
from proxyd.probing.http.fetcher import Fetcher, FetchLimits
from proxyd.probing.http.robots import Robots, robots_limits
from proxyd.probing.prober import HttpProber
from tests.addresses import NamesResolver, RebindingResolver
from tests.browser.devtools import DevTools, running_chromium
from tests.fakes import FakeClock
from tests.fleets import Drive, decider
from tests.integration.test_guard_vectors import ONCE, listening
from tests.origin import InlineParser
from tests.unit.core.rules.test_everyday_tasks import task

GUARD = Guard([ip_network("127.0.0.1/32")])
JOBS = PageClass(
    "JOB",
    "Jobs",
    (Field("name", FieldType.STRING, Extraction(Reader.CSS, "b")),),
    each=Extraction(Reader.CSS, "li"),
    key=("name",),
)
SHOW = """<!doctype html><title>t</title><ul></ul><script>
const show = text => { const li = document.createElement('li'); li.innerHTML = '<b></b>';
  li.firstChild.textContent = text; document.querySelector('ul').append(li) };
const said = (name, asked) => asked.then(() => show(name + ' answered'), () => show(name + ' refused'));
"""
DONE = "document.body.insertAdjacentHTML('beforeend', '<p id=done>')"
QUICK = RenderLimits(total_s=20.0, settle_s=1.0)


@pytest.fixture(scope="module")
def devtools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTools]:
    with running_chromium(tmp_path_factory.mktemp("chromium")) as chromium:
        yield chromium


@dataclass(frozen=True, slots=True)
class Stored:
    """A response, as often as it is asked for."""

    body: str | bytes
    kind: str = "text/html"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Site:
    """Responses by their path, and the requests that came: path, Authorization, Cookie."""

    port: int = 0
    stored: dict[str, Stored] = field(default_factory=dict)
    arrivals: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    came: dict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    def put(self, path: str, body: str | bytes, kind: str = "text/plain", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.stored[path] = Stored(body, kind, headers=named)

    def redirect(self, path: str, url: str, status: int = 302) -> None:
        self.stored[path] = Stored("", status=status, headers={"Location": url})

    def script(self, path: str, script: str, **headers: str) -> None:
        self.put(path, f"{SHOW}{script}</script>", "text/html", **headers)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def count(self, path: str) -> int:
        return [asked for asked, *_ in self.arrivals].count(path)

    async def answer(self, request: web.Request) -> web.Response:
        self.arrivals.append((request.path, request.headers.get("Authorization"), request.headers.get("Cookie")))
        self.came[request.path].set()
        found = self.stored.get(request.path, Stored("", status=404))
        body = found.body.encode() if isinstance(found.body, str) else found.body
        return web.Response(status=found.status, body=body, headers={"Content-Type": found.kind, **found.headers})


@asynccontextmanager
async def serving() -> AsyncIterator[Site]:
    site = Site()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", site.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        tcp = web.TCPSite(runner, "127.0.0.1", 0)
        await tcp.start()
        site.port = runner.addresses[0][1]
        yield site
    finally:
        await runner.cleanup()


@dataclass
class Rig:
    site: Site
    prober: HttpProber
    chromium: Chromium

    async def probe(self, url: str, wait_for: str | None = None, **known: Any) -> ProbeOutcome:
        if not url.startswith("http"):
            url = self.site.url(url)
        request = ProbeRequest("s", url, page_class=JOBS, rendering=Rendering(wait_for), **known)
        return await self.prober.probe(request)


@asynccontextmanager
async def rigged(
    devtools: DevTools, limits: RenderLimits = QUICK, resolver: AbstractResolver | None = None
) -> AsyncIterator[Rig]:
    clock, fetching = FakeClock(), FetchLimits(total_s=20.0)
    tokens = HostTokens(clock, 0.0)
    names_of = resolver or NamesResolver()
    async with serving() as site, make_session(GUARD, contact="me", resolver=names_of, limits=ONCE) as session:
        fetcher = Fetcher(session, GUARD, tokens, clock, fetching)
        loader = PageLoader(fetcher, session, GUARD, user_agent("me"), limits)
        robots = Robots(Fetcher(session, GUARD, tokens, clock, robots_limits(fetching)), clock)
        async with open_chromium(devtools.address, loader) as chromium:
            prober = HttpProber(
                fetcher, InlineParser(), clock, resolve_secret=lambda _: b"hush", robots=robots, browser=chromium
            )
            yield Rig(site, prober, chromium)


def names(outcome: ProbeOutcome) -> list[object]:
    assert outcome.kind is OutcomeKind.CHANGED, outcome.detail
    return [item.fields["name"] for item in outcome.items]


async def test_a_page_that_scripts_build_is_read_as_the_browser_shows_it(devtools: DevTools) -> None:
    async with rigged(devtools) as rig:
        rig.site.put("/jobs.json", '["cook", "näher"]', "application/json")
        script = "fetch('/jobs.json').then(a => a.json()).then(a => setTimeout(() => a.forEach(show), 700));"
        rig.site.script("/jobs", script)
        outcome = await rig.probe("/jobs", "li:nth-child(2)")
    assert names(outcome) == ["cook", "näher"]
    assert (outcome.status, outcome.answered_by, outcome.requests) == (200, "127.0.0.1", 2)


@pytest.mark.long
async def test_a_page_that_was_read_is_kept_if_it_cannot_be_closed(
    devtools: DevTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: BrowserContext) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(BrowserContext, "close", never)
    async with rigged(devtools, RenderLimits(total_s=4.0, settle_s=1.0)) as rig:  # closing ends after 5 s
        rig.site.script("/page", f"show('read'); {DONE};")
        outcome = await rig.probe("/page", "#done")
    assert names(outcome) == ["read"]


@pytest.mark.long
async def test_what_the_how_to_watches_is_told_when_the_scripts_show_it(devtools: DevTools) -> None:
    async with rigged(devtools) as rig:
        checked = check([SourceText("t", task("Watch a page built by scripts"))], CheckSettings(can_mail=True))
        assert checked.declaration is not None
        drive = Drive(decider(checked.declaration, now_s=1_000_000_000.0))
        build = """fetch('/jobs.json').then(a => a.json()).then(a => setTimeout(() => a.forEach(name =>
          document.body.insertAdjacentHTML('beforeend', `<li class=job><a href=/${name}>${name}</a>`)), 300));"""
        rig.site.script("/jobs", build)
        for jobs in ('["cook"]', '["baker", "cook"]'):
            rig.site.put("/jobs.json", jobs, "application/json")
            request = drive.decider.request("example.org/jobs", 1_000_000_000.0)
            assert request is not None
            seen = await drive.see(await rig.prober.probe(replace(request, url=rig.site.url("/jobs"))))
    assert [subject("", each.body) for each in seen.rules.notifications] == ["baker"]


async def test_a_page_without_wait_for_is_read_once_it_is_quiet(devtools: DevTools) -> None:
    async with rigged(devtools, RenderLimits(total_s=20.0)) as rig:
        rig.site.put("/jobs.json", '["cook"]', "application/json")
        rig.site.script("/jobs", "fetch('/jobs.json').then(a => a.json()).then(a => a.forEach(show));")
        assert names(await rig.probe("/jobs")) == ["cook"]


async def test_a_page_that_is_moved_is_read_at_its_new_address(devtools: DevTools) -> None:
    async with rigged(devtools) as rig:
        rig.site.redirect("/old", "/new/page", 301)
        rig.site.script("/new/page", "show(location.pathname);")
        outcome = await rig.probe("/old", "li")
    assert names(outcome) == ["/new/page"]
    assert outcome.permanent_url == rig.site.url("/new/page")


async def test_what_the_page_asks_of_private_addresses_is_refused_and_the_page_is_read(devtools: DevTools) -> None:
    async with rigged(devtools) as rig, listening("127.0.0.2") as inside:
        inside_url = f"127.0.0.2:{inside.port}"
        rig.site.redirect("/away", f"http://{inside_url}/away")
        worker = f"fetch('http://{inside_url}/worker').then(() => postMessage(1), () => postMessage(0))"
        rig.site.put("/worker.js", worker, "text/javascript")
        shared = f"onconnect = () => fetch('http://{inside_url}/shared')"
        rig.site.put("/shared.js", shared, "text/javascript")
        rig.site.script(
            "/page",
            f"""
            new Image().src = 'http://{inside_url}/image';
            new SharedWorker('/shared.js');
            navigator.sendBeacon('http://{inside_url}/beacon', 'x');
            document.body.insertAdjacentHTML('beforeend', `<iframe src="http://{inside_url}/frame"></iframe>
              <link rel=preconnect href="http://{inside_url}/"><link rel=prefetch href="http://{inside_url}/prefetch">
              <link rel=stylesheet href="http://{inside_url}/style">`);
            const worker = new Worker('/worker.js');
            const socket = new WebSocket('ws://{inside_url}/socket');
            show(typeof RTCPeerConnection);
            Promise.all([
              said('fetch', fetch('http://{inside_url}/fetch', {{mode: 'no-cors'}})),
              said('redirect', fetch('/away')),
              new Promise(done => worker.onmessage = e => {{ show('worker ' + e.data); done() }}),
              new Promise(done => socket.onclose = () => {{ show('socket closed'); done() }}),
            ]).then(() => {DONE});
            """,
        )
        outcome = await rig.probe("/page", "#done")
    assert {"undefined", "fetch refused", "redirect refused", "worker 0", "socket closed"} == set(names(outcome))
    assert inside.paths == []
    assert "requests of the page refused: 127.0.0.2 is refused: loopback" in outcome.detail


async def test_a_name_that_changes_its_address_reaches_nothing_inside(devtools: DevTools) -> None:
    resolver = RebindingResolver("127.0.0.1", "127.0.0.2")
    async with rigged(devtools, resolver=resolver) as rig, listening("127.0.0.2", port=rig.site.port) as inside:
        rig.site.script("/page", f"said('later', fetch('/inside')).then(() => {DONE});", Connection="close")
        outcome = await rig.probe(rig.site.url("/page", "rebinding.example"), "#done")
    assert (names(outcome), inside.paths) == (["later refused"], [])


async def test_secrets_go_to_the_origin_of_the_source_only(devtools: DevTools) -> None:
    async with rigged(devtools) as rig, serving() as other:
        for path in ("/theirs", "/led"):
            other.put(path, "{}", Access_Control_Allow_Origin="*")
        rig.site.put("/ours", "{}")
        rig.site.redirect("/leads", other.url("/led"), 307)
        asked = ", ".join(f"fetch('{url}')" for url in ("/ours", "/leads", other.url("/theirs")))
        rig.site.script("/page", f"document.cookie = 'own=1'; Promise.all([{asked}]).then(() => show('all'));")
        outcome = await rig.probe(
            "/page",
            "li",
            headers=(("Cookie", SecretRef("env", "SECRET_A")),),
            auth=Auth("bearer", SecretRef("env", "SECRET_A")),
        )
    assert names(outcome) == ["all"]
    ours = {path: secrets for path, *secrets in rig.site.arrivals}
    assert ours["/page"] == ["Bearer hush", "hush"]
    assert ours["/ours"] == ours["/leads"] == ["Bearer hush", "hush; own=1"]
    assert sorted(path for path, *_ in other.arrivals) == ["/led", "/theirs"]
    assert "hush" not in repr(other.arrivals)


async def test_a_frame_of_another_origin_does_not_act_with_the_secrets_and_reads_nothing(devtools: DevTools) -> None:
    async with rigged(devtools) as rig, serving() as other:
        for path in ("/read", "/led", "/posted", "/sent"):
            rig.site.put(path, "private", Set_Cookie="session=1")
        other.redirect("/leads", rig.site.url("/led"))
        frame = f"""<script>
          const tell = (name, asked) => asked.then(() => parent.postMessage(name + ' answered', '*'),
            () => parent.postMessage(name + ' refused', '*'));
          const ours = '{rig.site.url("")}';
          Promise.all([tell('read', fetch(ours + '/read')), tell('led', fetch('/leads')),
            tell('posted', fetch(ours + '/posted', {{method: 'POST', headers: {{'X-A': 'b'}}}})),
            tell('sent', fetch(ours + '/sent', {{mode: 'no-cors'}}))]).then(() => parent.postMessage('all', '*'));
        </script>"""
        other.put("/frame", frame, "text/html")
        insert = f"""document.body.insertAdjacentHTML('beforeend', '<iframe src="{other.url("/frame")}"></iframe>')"""
        rig.site.script(
            "/page", f"onmessage = e => e.data == 'all' ? {DONE} : show(e.data); {insert};", Set_Cookie="own=1"
        )
        outcome = await rig.probe("/page", "#done", auth=Auth("bearer", SecretRef("env", "SECRET_A")))
    assert set(names(outcome)) == {"read refused", "led refused", "posted refused", "sent answered"}
    asked = [each for each in rig.site.arrivals if each[0] != "/page"]
    assert sorted(asked) == [(path, None, None) for path in ("/led", "/posted", "/read", "/sent")]


@pytest.mark.parametrize(
    "navigation",
    ["location = '{ours}'", pytest.param("frames[0].location = '{ours}'", marks=pytest.mark.long)],
    ids=["itself", "its own frame"],
)
async def test_a_frame_that_navigates_itself_to_the_sources_host_sends_no_secret(
    devtools: DevTools, navigation: str
) -> None:
    async with rigged(devtools) as rig, serving() as other:
        rig.site.put("/private", f"<script>parent.postMessage('all', '*'); top.{DONE};</script>", "text/html")
        frame = f"<iframe name=x></iframe><script>{navigation.format(ours=rig.site.url('/private'))};</script>"
        other.put("/frame", frame, "text/html")
        insert = f"""document.body.insertAdjacentHTML('beforeend', '<iframe src="{other.url("/frame")}"></iframe>')"""
        rig.site.script(
            "/page", f"onmessage = () => {DONE}; setTimeout(() => {DONE}, 3000); {insert};", Set_Cookie="own=1"
        )
        await rig.probe("/page", "#done", auth=Auth("bearer", SecretRef("env", "SECRET_A")))
    assert [each for each in rig.site.arrivals if each[0] != "/page"] == [("/private", None, None)]


async def test_a_frame_of_the_sources_own_sends_its_secrets(devtools: DevTools) -> None:
    async with rigged(devtools) as rig:
        rig.site.put("/ours", "<script>parent.postMessage('all', '*')</script>", "text/html")
        insert = "document.body.insertAdjacentHTML('beforeend', '<iframe src=\"/ours\"></iframe>')"
        rig.site.script("/page", f"onmessage = () => {DONE}; {insert};")
        await rig.probe("/page", "#done", auth=Auth("bearer", SecretRef("env", "SECRET_A")))
    assert [each[1] for each in rig.site.arrivals] == ["Bearer hush", "Bearer hush"]


async def test_a_page_that_sends_large_bodies_asks_no_more(devtools: DevTools) -> None:
    async with rigged(devtools) as rig:
        rig.site.put("/sink", "x")
        script = f"""const body = 'x'.repeat(600000);
          (async () => {{ for (const n of [1, 2, 3]) await fetch('/sink', {{method: 'POST', body}}).then(
            () => show(n + ' answered'), () => show(n + ' refused')); {DONE}; }})();"""
        rig.site.script("/page", script)
        outcome = await rig.probe("/page", "#done")
    assert names(outcome) == ["1 answered", "2 refused", "3 refused"]
    assert "it sends more than 1048576 bytes" in outcome.detail


async def test_cookies_of_a_page_are_its_own(devtools: DevTools) -> None:
    async with rigged(devtools) as rig:
        script = "fetch('/again').then(a => a.text()).then(() => show(document.cookie || 'none'));"
        rig.site.script("/page", script)
        rig.site.script("/sets", script, Set_Cookie="session=1")
        rig.site.put("/again", "x")
        first = await rig.probe("/sets", "li")
        second = await rig.probe("/page", "li")
    assert (names(first), names(second)) == (["session=1"], ["none"])
    assert [cookie for path, _, cookie in rig.site.arrivals if path == "/again"] == ["session=1", None]


async def test_downloads_popups_and_dialogs_are_ended(devtools: DevTools) -> None:
    async with rigged(devtools) as rig:
        rig.site.put("/file", b"x", "application/octet-stream", Content_Disposition="attachment; filename=x")
        rig.site.script(
            "/page",
            f"""
            document.body.insertAdjacentHTML('beforeend', '<a href="/file" download="x"></a>');
            document.querySelector('a').click();
            window.open('/popup');
            alert('wait'); confirm('wait');
            show('read'); {DONE};
            """,
        )
        outcome = await rig.probe("/page", "#done")
        download = await rig.probe("/file")
    assert names(outcome) == ["read"]
    assert (download.kind, "is not a web page" in download.detail) == (OutcomeKind.UNREADABLE, True)


@pytest.mark.parametrize(
    "script", ["while (true) {}", pytest.param("setTimeout(() => { while (true) {} }, 50);", marks=pytest.mark.long)]
)
async def test_an_endless_script_is_ended_and_the_next_page_is_read(devtools: DevTools, script: str) -> None:
    async with rigged(devtools, RenderLimits(total_s=2.0, settle_s=1.0)) as rig:
        rig.site.script("/endless", script)
        endless = await rig.probe("/endless", "#never")
    async with rigged(devtools) as rig:
        rig.site.script("/next", "show('next');")
        after = await rig.probe("/next", "li")
    assert (endless.kind, names(after)) == (OutcomeKind.TIMEOUT, ["next"])


async def test_what_never_appears_is_named(devtools: DevTools) -> None:
    async with rigged(devtools, RenderLimits(total_s=1.0)) as rig:
        rig.site.script("/page", "show('other');")
        outcome = await rig.probe("/page", "#never")
    assert (outcome.kind, outcome.detail) == (OutcomeKind.TIMEOUT, "nothing matched WAIT FOR '#never' within 1 s")


async def test_endless_requests_end_at_the_limit_and_the_page_is_read(devtools: DevTools) -> None:
    async with rigged(devtools, RenderLimits(total_s=20.0, settle_s=0.5, requests=10)) as rig:
        rig.site.put("/more", "x")
        more = f"const more = () => fetch('/more').then(more, () => {{ {DONE}; more() }}); more();"
        rig.site.script("/page", f"show('read'); {more}")
        outcome = await rig.probe("/page", "#done")
    assert names(outcome) == ["read"]
    assert rig.site.count("/more") == 10
    assert "it makes more than 10 requests" in outcome.detail


@pytest.mark.long
async def test_requests_without_end_are_left_to_the_dead_proxy(devtools: DevTools) -> None:
    limits = RenderLimits(total_s=20.0, settle_s=0.5, requests=10)
    async with rigged(devtools, limits) as rig, listening("127.0.0.2") as inside:
        rig.site.put("/more", "x")
        inside_url = f"http://127.0.0.2:{inside.port}/inside"
        rounds = """(async () => { for (let round = 0; round < 20; round++)
          await Promise.allSettled(Array.from({length: 100}, () => fetch('/more'))) })()"""
        last = f"said('last', fetch('{inside_url}', {{mode: 'no-cors'}}))"
        rig.site.script("/page", f"{rounds}.then(() => {last}).then(() => {DONE});")
        outcome = await rig.probe("/page", "#done")
    assert (names(outcome), inside.paths) == (["last refused"], [])
    assert rig.site.count("/more") == 10
    refused = re.search(r"(\d+) requests of the page refused: it makes more than 10 requests", outcome.detail)
    assert refused is not None
    assert 300 <= int(refused[1]) < 500


async def test_many_bytes_end_at_the_limit_and_the_page_is_read(devtools: DevTools) -> None:
    async with rigged(devtools, RenderLimits(total_s=20.0, total_bytes=100_000)) as rig:
        rig.site.put("/large", b"x" * 300_000)
        rig.site.script("/page", f"said('large', fetch('/large')).then(() => {DONE});")
        outcome = await rig.probe("/page", "#done")
    assert names(outcome) == ["large refused"]
    assert "it loads more than 100000 bytes" in outcome.detail


async def test_a_page_that_removes_itself_shows_nothing(devtools: DevTools) -> None:
    async with rigged(devtools) as rig:
        rig.site.script("/page", "document.documentElement.remove();")
        outcome = await rig.probe("/page")
    assert outcome.kind is OutcomeKind.EMPTY


async def test_a_page_that_grows_too_large_is_not_read(devtools: DevTools) -> None:
    async with rigged(devtools, RenderLimits(total_s=20.0, body_bytes=50_000)) as rig:
        rig.site.script("/page", f"show('x'.repeat(60000)); {DONE};")
        outcome = await rig.probe("/page", "#done")
    assert outcome.kind is OutcomeKind.TOO_LARGE


async def test_robots_txt_is_asked_and_the_status_counts(devtools: DevTools) -> None:
    async with rigged(devtools) as rig:
        rig.site.put("/robots.txt", "User-agent: *\nDisallow: /private")
        rig.site.script("/private", "show('x');")
        forbidden = await rig.probe("/private", obeys_robots=True)
        missing = await rig.probe("/missing")
    assert (forbidden.kind, missing.kind, missing.status) == (OutcomeKind.DISALLOWED, OutcomeKind.HTTP_ERROR, 404)


async def test_the_browser_killed_in_the_middle_loses_one_probe(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running_chromium(tmp_path_factory.mktemp("chromium")) as devtools:
        async with rigged(devtools) as rig:
            rig.site.script("/page", "fetch('/asked'); setTimeout(() => show('read'), 300);")
            probing = asyncio.create_task(rig.probe("/page", "#never"))
            await rig.site.came["/asked"].wait()
            devtools.kill()
            lost, unreached = await probing, await rig.probe("/page", "li")
            devtools.restart()
            again = await rig.probe("/page", "li")
    assert (lost.kind, lost.detail) == (OutcomeKind.NO_BROWSER, "the browser died while it rendered the page")
    assert (unreached.kind, unreached.requests) == (OutcomeKind.NO_BROWSER, 0)
    assert names(again) == ["read"]
