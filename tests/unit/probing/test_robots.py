from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from proxyd.core.errors import BlockedAddressError, FetchError, FetchTimeoutError, ProbeError
from proxyd.net.http_values import fresh_for_s
from proxyd.probing.documents.probe_failures import DisallowedError, QueueTimeoutError, TooManyRedirectsError
from proxyd.probing.http.fetcher import FetchLimits, FetchRequest, FetchResponse, ProbeTrace
from proxyd.probing.http.robots import Robots, read_robots, robots_limits
from tests.fakes import FakeClock, settle

HOUR_S, DAY_S = 3600.0, 86_400.0
FEED = URL("http://a.example/feed")
NOTHING = "User-agent: *\nDisallow: /"
Answer: TypeAlias = "FetchResponse | ProbeError"


def allows(text: str, path: str) -> bool:
    return read_robots(text.encode()).allows(URL(f"http://a.example{path}"))


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/feed", True),
        ("User-agent: *\nDisallow:", "/feed", True),
        ("User-agent: *\nDisallow: /", "/", False),
        ("User-agent: *\nDisallow: /", "/robots.txt", True),
        ("User-agent: *\nDisallow: /feed", "/feeds/1", False),
        ("User-agent: *\nDisallow: /feed$", "/feeds", True),
        ("User-agent: *\nDisallow: /feed$", "/feed", False),
        ("User-agent: *\nDisallow: /*.xml", "/a/b.xml?c", False),
        ("User-agent: *\nDisallow: /?q=", "/?q=1", False),
        ("User-agent: *\nDisallow: /caf\u00e9", "/caf%C3%A9", False),
        ("User-agent: *\nDisallow: /a%2Fb", "/a/b", True),
        ("User-agent: *\nDisallow: /\nAllow: /feed", "/feed", True),
        ("User-agent: *\nAllow: /feed\nDisallow: /feed", "/feed", True),
        ("User-agent: *\nDisallow: /feed\nAllow: /", "/feed", False),
        ("User-agent: proxyd\nDisallow: /\nUser-agent: *\nDisallow:", "/feed", False),
        ("User-agent: *\nDisallow: /\nUser-agent: ProxyD/2.0\nDisallow:", "/feed", True),
        ("User-agent: proxydude\nDisallow: /", "/feed", True),
        ("User-agent: prox\nDisallow: /", "/feed", True),
        ("User-agent: other\nDisallow: /", "/feed", True),
        ("User-agent: other\nUser-agent: *\nDisallow: /", "/feed", False),
        ("User-agent: *\nDisallow: /x\nUser-agent: other\nDisallow: /feed", "/feed", True),
        ("User-agent: *\nDisallow: /a\nUser-agent: b\nDisallow: /\nUser-agent: *\nDisallow: /feed", "/feed", False),
        ("Disallow: /", "/feed", True),
        ("<html><p>Disallow: /</p>", "/feed", True),
        ("\ufeffUser-agent: * # all\n  disallow : /feed # not this", "/feed", False),
        ("User-agent: *\r\nDisallow: /feed\r\n", "/feed", False),
        ("User-agent: *\nSitemap: /s\n\nDisallow: /feed", "/feed", False),
        ("User-agent: *\nDisallow: /" + "x" * 5000 + "\nUser-agent: proxyd\nAllow: /\nDisallow: /feed", "/feed", False),
        ("User-agent: *\nDisallow: /" + "x" * 5000 + "\nUser-agent: proxyd\nDisallow: /feed", "/other", True),
        ("User-agent: *\nDisallow: /" + "*a" * 500 + "$", "/" + "a" * 3000 + "b", True),
    ],
)
def test_what_is_allowed(text: str, path: str, allowed: bool) -> None:
    assert allows(text, path) is allowed


def test_names_and_rules_without_end_are_cut() -> None:
    agents = "".join(f"User-agent: a{number}\n" for number in range(20_000))
    rules = "".join(f"Disallow: /{number}x\n" for number in range(20_000))
    assert read_robots((agents + rules).encode()).characters == 0
    assert read_robots(("User-agent: *\n" + rules).encode()).characters < 200_000


@pytest.mark.parametrize(
    ("line", "delay_s"), [("Crawl-delay: 7.5", 7.5), ("crawl-delay: soon", None), ("Crawl-delay: -1", None), ("", None)]
)
def test_crawl_delays(line: str, delay_s: float | None) -> None:
    assert read_robots(f"User-agent: *\nDisallow: /x\n{line}".encode()).crawl_delay_s == delay_s


@given(
    st.binary(max_size=300) | st.text(alphabet="User-agent: *\n#Disallow/$%proxyd\r\x0b", max_size=300).map(str.encode)
)
def test_whatever_is_sent_can_be_read(body: bytes) -> None:
    rules = read_robots(body)
    assert rules.allows(URL("http://a.example/feed?x=%zz")) in {True, False}
    assert rules.crawl_delay_s is None or rules.crawl_delay_s >= 0


class ScriptedFetcher:
    """Answers from a function of the address; notes what was asked."""

    def __init__(self, answer: Callable[[str], Answer]) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.gate: asyncio.Event | None = None

    async def fetch(self, request: FetchRequest, trip: ProbeTrace | None = None) -> FetchResponse:
        self.asked.append(request.url)
        assert trip is not None
        trip.requests += 1
        trip.count_bytes(100)
        if self.gate is not None:
            await self.gate.wait()
        answer = self.answer(request.url)
        if isinstance(answer, ProbeError):
            raise answer
        return answer


def response(text: str = "", status: int = 200, headers: Mapping[str, str] | None = None) -> FetchResponse:
    received = CIMultiDictProxy(CIMultiDict(headers or {}))
    return FetchResponse(
        status, "http://a.example/robots.txt", received, text.encode(), 1, fresh_for_s=fresh_for_s(received, 0.0)
    )


class Rig:
    def __init__(self, answer: Answer, **settings: float) -> None:
        self.clock = FakeClock()
        self.fetcher = ScriptedFetcher(lambda _: answer)
        self.robots = Robots(self.fetcher, self.clock, **settings)  # type: ignore[arg-type]

    def answers(self, answer: Answer) -> None:
        self.fetcher.answer = lambda _: answer

    async def allows(self, url: URL = FEED) -> bool:
        try:
            await self.robots(url, ProbeTrace())
        except DisallowedError:
            return False
        return True

    @property
    def fetches(self) -> int:
        return len(self.fetcher.asked)


async def test_each_origin_has_its_own_file() -> None:
    rig = Rig(response())
    for url in ("http://a.example/x", "http://a.example:8080/", "https://a.example/?y", "http://A.example:80/z#f"):
        assert await rig.allows(URL(url))
    assert rig.fetcher.asked == [
        "http://a.example/robots.txt",
        "http://a.example:8080/robots.txt",
        "https://a.example/robots.txt",
    ]


async def test_the_detour_is_told_but_not_its_bytes() -> None:
    trip = ProbeTrace(requests=1)
    await Rig(response()).robots(FEED, trip)
    assert (trip.requests, trip.body_bytes) == (2, 0)


@pytest.mark.parametrize(
    ("cache_control", "kept_s"),
    [(None, DAY_S), ("max-age=7200", 7200.0), ("max-age=999999", DAY_S), ("no-cache", 300.0), ("max-age=1", 300.0)],
)
async def test_how_long_a_file_is_kept(cache_control: str | None, kept_s: float) -> None:
    rig = Rig(response(headers={"Cache-Control": cache_control} if cache_control else None))
    await rig.allows()
    rig.clock.jump(kept_s - 1.0)
    await rig.allows()
    assert rig.fetches == 1
    rig.clock.jump(1.0)
    await rig.allows()
    assert rig.fetches == 2


async def test_callers_wait_for_the_one_that_fetches_and_go_on_if_it_gives_up() -> None:
    rig = Rig(response(NOTHING))
    rig.fetcher.gate = asyncio.Event()
    first = asyncio.create_task(rig.allows(), name="first")
    others = [asyncio.create_task(rig.allows(), name="other") for _ in range(3)]
    await settle()
    assert rig.fetches == 1
    first.cancel()
    await settle()
    assert rig.fetches == 2
    rig.fetcher.gate.set()
    assert await asyncio.gather(*others) == [False, False, False]
    assert rig.fetches == 2
    await asyncio.gather(first, return_exceptions=True)


@pytest.mark.parametrize(
    "failure", [response(status=500), response(status=503), FetchError("no route"), FetchTimeoutError()]
)
async def test_an_old_copy_holds_for_thirty_days_while_a_new_one_cannot_be_had(failure: Answer) -> None:
    rig = Rig(response("User-agent: *\nDisallow: /private"))
    await rig.allows()
    rig.answers(failure)
    rig.clock.jump(29 * DAY_S)
    assert await rig.allows()
    assert not await rig.allows(URL("http://a.example/private"))
    rig.clock.jump(2 * DAY_S)
    with pytest.raises(ProbeError):
        await rig.robots(FEED, ProbeTrace())


@pytest.mark.parametrize("failure", [response(status=500), FetchError("no route")])
async def test_a_file_that_cannot_be_had_for_thirty_days_allows_everything(failure: Answer) -> None:
    rig = Rig(failure)
    with pytest.raises(ProbeError):
        await rig.robots(FEED, ProbeTrace())
    rig.clock.jump(29 * DAY_S)
    with pytest.raises(ProbeError):
        await rig.robots(FEED, ProbeTrace())
    rig.clock.jump(DAY_S)
    assert await rig.allows()


async def test_a_server_error_is_remembered_for_five_minutes() -> None:
    rig = Rig(response(status=500))
    assert not await rig.allows()
    rig.answers(response())
    assert not await rig.allows()
    assert rig.fetches == 1
    rig.clock.jump(300.0)
    assert await rig.allows()


async def test_a_host_that_cannot_be_reached_says_so_and_is_tried_again() -> None:
    rig = Rig(FetchTimeoutError("too late"))
    with pytest.raises(FetchTimeoutError) as caught:
        await rig.robots(FEED, ProbeTrace())
    assert caught.value.message == "robots.txt of http://a.example: too late"
    rig.answers(response())
    assert await rig.allows()


@pytest.mark.parametrize("error", [BlockedAddressError("no"), QueueTimeoutError("full")])
async def test_trouble_of_our_own_says_nothing_about_the_file(error: ProbeError) -> None:
    rig = Rig(response())
    await rig.allows()
    rig.answers(error)
    rig.clock.jump(DAY_S)
    with pytest.raises(type(error)):
        await rig.robots(FEED, ProbeTrace())


async def test_redirects_without_end_are_no_file() -> None:
    assert await Rig(TooManyRedirectsError()).allows()


async def test_the_delay_is_told_and_capped() -> None:
    rig, trip = Rig(response("User-agent: *\nCrawl-delay: 100")), ProbeTrace()
    assert await rig.robots(FEED, trip) == 60.0
    assert trip.crawl_delay_s == 60.0


async def test_the_refusal_names_the_origin_and_what_helps() -> None:
    with pytest.raises(
        DisallowedError, match=r"robots\.txt of http://a\.example disallows /feed to proxyd; .*ROBOTS IGNORE"
    ):
        await Rig(response(NOTHING)).robots(FEED, ProbeTrace())


async def test_only_so_many_origins_are_remembered() -> None:
    rig = Rig(response(NOTHING), origins=3)
    for host in "abcda":
        await rig.allows(URL(f"http://{host}/"))
    assert len(rig.robots) == 3
    assert rig.fetches == 5
    await rig.allows(URL("http://d/"))
    assert rig.fetches == 5


async def test_long_files_are_forgotten_earlier() -> None:
    rules = "".join(f"Disallow: /{'x' * 2000}{number}\n" for number in range(250))
    rig = Rig(response("User-agent: *\n" + rules))
    for number in range(200):
        await rig.allows(URL(f"http://h{number}/"))
    assert 50 < len(rig.robots) < 200


def test_a_robots_file_has_its_own_limits() -> None:
    limits = robots_limits(FetchLimits(total_s=99.0, queue_s=7.0, body_bytes=5, redirects=1))
    assert limits == FetchLimits(total_s=10.0, queue_s=7.0, body_bytes=512 * 1024, redirects=5, cut=True)
    assert robots_limits(FetchLimits(total_s=3.0)).total_s == 3.0
