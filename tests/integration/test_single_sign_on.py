"""People sign in with a provider of OpenID Connect, a real one that runs on loopback; and what it must not get through.

Each step of the browser is made by hand, so that a test can change what is sent.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from time import time
from typing import Any, cast

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer
from joserfc import jwt
from joserfc.jwk import RSAKey
from yarl import URL

from proxyd.api.passwords import invite
from proxyd.api.web.single_sign_on import BACK_PATH, OidcSettings
from proxyd.app.server import PublicFront, make_app
from tests.fakes import FakeClock
from tests.integration.api_world import Running, running_api
from tests.servers import free_port

USERS = [
    {"sub": "1", "preferred_username": "ann", "email": "ann@example.org", "email_verified": True},
    {"sub": "2", "email": "ben@example.org", "email_verified": False},
]


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """Run a provider in a process of its own; yields its address."""
    port = free_port()
    users = [part for user in USERS for part in ("--user-claims", json.dumps(user))]
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce", *users]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert any("running on" in line for line in process.stderr)
            yield f"http://localhost:{port}"
        finally:
            process.terminate()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as running:
        clock = cast("FakeClock", running.control.resources.clock)
        await clock.advance(time() - clock.time_s())  # the provider has the machine's time
        yield running


def settings(issuer: str, claim: str = "preferred_username") -> OidcSettings:
    return OidcSettings(issuer, "proxyd", "a secret", claim, [ip_network("127.0.0.0/8"), ip_network("::1/128")])


def serve(api: Running, elsewhere: OidcSettings) -> TestClient[Any, Any]:
    return TestClient(TestServer(make_app(api.control.queries, PublicFront(elsewhere=elsewhere))))


async def at_provider(client: TestClient[Any, Any], sub: str, next_page: str = "/sources") -> URL:
    """Go to the provider, say who one is there, and return the address to which it sends the browser back."""
    async with client.get(f"/sign-in/elsewhere?next={next_page}", allow_redirects=False) as answer:
        assert answer.status == 303, await answer.text()
        target = answer.headers["Location"]
    async with ClientSession() as browser, browser.post(target, data={"sub": sub}, allow_redirects=False) as answer:
        return URL(answer.headers["Location"])


async def come_back(client: TestClient[Any, Any], address: URL) -> tuple[int, str]:
    async with client.get(address.path_qs, allow_redirects=False) as answer:
        return answer.status, await answer.text()


async def is_signed_in(client: TestClient[Any, Any]) -> bool:
    async with client.get("/sources", allow_redirects=False) as answer:
        return answer.status == 200


async def test_who_was_invited_signs_in_with_the_provider_and_goes_where_they_wanted(
    api: Running, provider: str
) -> None:
    await invite(api.control.queries, "ann", "read")
    async with serve(api, settings(provider)) as client:
        async with client.get("/sign-in") as form:
            assert "/sign-in/elsewhere" in await form.text()
        back = await at_provider(client, "1")
        assert back.path == BACK_PATH
        status, page = await come_back(client, back)
        assert status == 200
        assert 'content="0;url=/sources"' in page
        assert await is_signed_in(client)
        async with client.get("/add", allow_redirects=False) as answer:
            assert answer.status == 403
        assert (await come_back(client, back))[0] == 401  # a code works once


async def test_whom_nobody_has_invited_does_not_come_in(api: Running, provider: str) -> None:
    async with serve(api, settings(provider)) as client:
        status, page = await come_back(client, await at_provider(client, "1"))
        assert status == 403, page.partition('role="alert"')[2][:300]
        assert "There is no person &#39;ann&#39; here" in page
        assert not await is_signed_in(client)


@pytest.mark.parametrize(("sub", "said"), [("1", None), ("2", "has not verified your address")])
async def test_an_address_is_a_name_only_if_the_provider_has_verified_it(
    api: Running, provider: str, sub: str, said: str | None
) -> None:
    await invite(api.control.queries, "ann@example.org", "read")
    await invite(api.control.queries, "ben@example.org", "read")
    async with serve(api, settings(provider, "email")) as client:
        status, page = await come_back(client, await at_provider(client, sub))
        assert (status, said is None or said in page) == (200 if said is None else 401, True)


async def test_who_has_no_name_at_the_provider_is_told_so(api: Running, provider: str) -> None:
    async with serve(api, settings(provider)) as client:
        status, page = await come_back(client, await at_provider(client, "2"))
        assert status == 401
        assert "there is no preferred_username" in page


async def test_a_name_that_has_changed_hands_at_the_provider_does_not_open_the_account(
    api: Running, provider: str
) -> None:
    await invite(api.control.queries, "ann", "read")
    assert await api.control.queries.people.bind("ann", f"{provider} 7")  # she has signed in before
    async with serve(api, settings(provider)) as client:
        status, page = await come_back(client, await at_provider(client, "1"))
        assert status == 403
        assert "another account" in page
        assert not await is_signed_in(client)
        await invite(api.control.queries, "ann", "read")
        for _ in range(2):
            assert (await come_back(client, await at_provider(client, "1")))[0] == 200


@pytest.mark.parametrize("change", ["state", "cookie", "code"])
async def test_an_answer_for_another_browser_or_with_another_code_is_refused(
    api: Running, provider: str, change: str
) -> None:
    await invite(api.control.queries, "ann", "read")
    async with serve(api, settings(provider)) as client:
        back = await at_provider(client, "1")
        if change == "cookie":
            client.session.cookie_jar.clear()
        else:
            back = back.update_query({change: "guessed"})
        assert (await come_back(client, back))[0] == 401
        assert not await is_signed_in(client)


@pytest.mark.parametrize("place", ["//evil.example/", "https://evil.example/", "/\\evil.example"])
async def test_it_leads_to_pages_of_ours_only(api: Running, provider: str, place: str) -> None:
    await invite(api.control.queries, "ann", "read")
    async with serve(api, settings(provider)) as client:
        _, page = await come_back(client, await at_provider(client, "1", place))
        assert 'content="0;url=/"' in page


async def test_a_provider_that_is_not_there_is_reported_and_the_password_still_works(api: Running) -> None:
    async with serve(api, settings("http://localhost:9")) as client:
        async with client.get("/sign-in/elsewhere", allow_redirects=False) as answer:
            assert answer.status == 502
            assert "The provider cannot be asked" in await answer.text()
        async with client.get("/sign-in") as form:
            assert 'name="token"' in await form.text()


async def test_a_provider_in_a_network_that_is_not_allowed_is_not_asked(api: Running, provider: str) -> None:
    async with (
        serve(api, replace(settings(provider), networks=[])) as client,
        client.get("/sign-in/elsewhere", allow_redirects=False) as answer,
    ):
        assert answer.status == 502


# -- a provider that lies


class Liar:
    """A provider whose ID tokens a test makes as it likes."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "1"})
        self.signs_with: Any = self.key
        self.head: dict[str, str] | None = None  # of a token without a signature of its own
        self.changes: dict[str, Any] = {}
        self.nonce = ""
        self.issuer = ""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._describe)
        app.router.add_get("/keys", self._keys)
        app.router.add_post("/token", self._token)
        return app

    async def _describe(self, _request: web.Request) -> web.Response:
        places = {"authorization_endpoint": "/auth", "token_endpoint": "/token", "jwks_uri": "/keys"}
        told = {"issuer": self.issuer} | {name: f"{self.issuer}{path}" for name, path in places.items()}
        return web.json_response(told)

    async def _keys(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for part in re.findall(".{1,99}", json.dumps({"keys": [self.key.as_dict(private=False)]})):
            await answer.write(part.encode())  # some answers come in parts
        return answer

    async def _token(self, _request: web.Request) -> web.Response:
        now = int(time())
        claims = {"iss": self.issuer, "aud": "proxyd", "sub": "1", "iat": now, "exp": now + 300, "nonce": self.nonce}
        claims |= {"preferred_username": "ann"} | self.changes
        made = jwt.encode({"alg": "RS256", "kid": "1"}, claims, self.signs_with, algorithms=["RS256"])
        if self.head is not None:
            head = urlsafe_b64encode(json.dumps(self.head).encode()).decode().rstrip("=")
            made = f"{head}.{made.split('.')[1]}.{'AAAA' if 'kid' in self.head else ''}"
        return web.json_response({"id_token": made, "access_token": "x"})


LIES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "the issuer": {"iss": "https://evil.example"},
    "the audience": {"aud": "another"},
    "several audiences": {"aud": ["proxyd", "another"], "azp": "another"},
    "the nonce": {"nonce": "replayed"},
    "no nonce": {"nonce": None},
    "an old token": {"exp": 1_700_000_000},
    "a token of tomorrow": {"iat": 4_000_000_000},
    "the name is no text": {"preferred_username": ["ann"]},
}


HEADS = {"no signature": {"alg": "none"}, "a secret that everybody knows": {"alg": "HS256", "kid": "1"}}


@pytest.mark.parametrize("lie", LIES)
async def test_an_id_token_is_believed_only_if_it_is_for_us_now_and_for_this_journey(api: Running, lie: str) -> None:
    await invite(api.control.queries, "ann", "read")
    assert await lies(api, LIES[lie]) == (lie == "nothing")


@pytest.mark.parametrize("signature", ["another key", *HEADS])
async def test_an_id_token_that_the_provider_has_not_signed_is_not_believed(api: Running, signature: str) -> None:
    await invite(api.control.queries, "ann", "read")
    assert not await lies(api, {}, signature)


async def lies(api: Running, changes: dict[str, Any], signature: str = "") -> bool:
    """Return whether somebody gets in by what a provider says."""
    liar = Liar()
    liar.changes = changes
    if signature == "another key":
        liar.signs_with = RSAKey.generate_key(2048, {"kid": "1"})
    async with TestServer(liar.app(), host="localhost") as server:
        liar.issuer = f"http://localhost:{server.port}"
        async with serve(api, settings(liar.issuer)) as client:
            async with client.get("/sign-in/elsewhere", allow_redirects=False) as answer:
                query = URL(answer.headers["Location"]).query
            liar.nonce = query["nonce"]
            liar.head = HEADS.get(signature)
            await come_back(client, URL(BACK_PATH).with_query(state=query["state"], code="x"))
            return await is_signed_in(client)
