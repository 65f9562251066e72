"""Certificates are verified: what nobody vouches for is not read, and says so."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from tests.acceptance.support import Daemon

FEED = "<rss version='2.0'><channel><title>f</title><item><guid>1</guid></item></channel></rss>"


@asynccontextmanager
async def serving(authority: trustme.CA, *names: str) -> AsyncIterator[int]:
    """Serve a feed over TLS with a certificate for ``names``; yield the port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(text=FEED, content_type="application/rss+xml")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.mark.parametrize(
    ("names", "is_trusted", "code", "said"),
    [
        pytest.param(("localhost",), True, 0, "changed", id="a trusted authority", marks=pytest.mark.long),
        pytest.param(("localhost",), False, 1, "certificate", id="an unknown authority"),
        pytest.param(("example.org",), True, 1, "certificate", id="another name"),
    ],
)
async def test_only_a_certificate_of_that_name_from_a_trusted_authority_is_taken(
    tmp_path: Path, names: tuple[str, ...], is_trusted: bool, code: int, said: str
) -> None:
    authority, bundle = trustme.CA(), tmp_path / "authorities.pem"
    (authority if is_trusted else trustme.CA()).cert_pem.write_to_path(str(bundle))
    async with serving(authority, *names) as port, Daemon(tmp_path) as daemon:
        done = await daemon.cli("probe", f"https://localhost:{port}/feed", SSL_CERT_FILE=str(bundle))
    assert (done.code, said in done.out) == (code, True), done
