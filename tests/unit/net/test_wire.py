from __future__ import annotations

import socket

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from proxyd.core.texts.safe_text import one_line
from proxyd.net.http_values import describe, http_date_s, retry_after_s

NOW_S = 784111777.0  # Sun, 06 Nov 1994 08:49:37 GMT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 120 ", 120.0),
        ("1.5", 1.5),
        ("999999999999", 366 * 86400.0),
        ("9" * 400, None),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60.0),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60.0),
        ("Sun Nov  6 08:50:37 1994", 60.0),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 0.0),
        ("Sun, 06 Nov 9994 08:00:00 GMT", 366 * 86400.0),
        ("Sun, 99 Foo 1994 99:99:99 GMT", None),
    ],
)
def test_retry_after_in_every_form(text: str, expected: float | None) -> None:
    assert retry_after_s({"Retry-After": text}, NOW_S) == expected


def test_no_header_asks_for_nothing() -> None:
    assert retry_after_s({}, NOW_S) is None


def test_a_date_is_measured_from_the_servers_own_clock() -> None:
    headers = CIMultiDict({"retry-after": "Sun, 06 Nov 1994 08:50:37 GMT", "date": "Sun, 06 Nov 1994 08:50:07 GMT"})
    assert retry_after_s(headers, now_s=0.0) == 30.0


def test_http_dates() -> None:
    assert http_date_s("Sun, 06 Nov 1994 08:49:37 GMT") == NOW_S
    assert http_date_s("nonsense") is None


def test_one_line_has_no_control_characters_and_no_surrogates() -> None:
    assert one_line("a\x1b[31m\udc80b\r\nSet-Cookie: c") == "a [31m b Set-Cookie: c"
    assert len(one_line("x" * 999)) == 300


def test_what_went_wrong_is_described_without_the_address() -> None:
    url = URL("http://example.org/hook?token=hunter2")
    headers = CIMultiDictProxy(CIMultiDict[str]())
    info = aiohttp.RequestInfo(url, "GET", headers, url)
    assert describe(aiohttp.ClientResponseError(info, (), status=400, message="bad header")) == "400, bad header"
    assert describe(aiohttp.InvalidURL(url)) == "the address cannot be read"
    key = ConnectionKey("a.example", 80, is_ssl=False, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None)
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert describe(aiohttp.ClientConnectorDNSError(key, unknown)) == "a.example: Name or service not known"
    refused = ConnectionRefusedError(111, "Connect call failed ('192.0.2.1', 80)")
    assert describe(aiohttp.ClientConnectorError(key, refused)) == "a.example: connection refused"
