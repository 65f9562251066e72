"""Pictures that a real Chromium takes of pages: their size, what they load, and what they never reach."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from proxyd.core.model.outcome import ProbeOutcome
from proxyd.probing.browser.chromium import MOST_BYTES
from proxyd.probing.browser.page_requests import RenderLimits
from tests.browser.devtools import DevTools, running_chromium
from tests.browser.test_rendered_pages import DONE, QUICK, Rig, names, rigged
from tests.integration.test_guard_vectors import listening

HEAD = "document.head.innerHTML = '<style>body { margin: 0 } img { display: block }</style>';"


@pytest.fixture(scope="module")
def devtools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTools]:
    with running_chromium(tmp_path_factory.mktemp("chromium")) as chromium:
        yield chromium


def png(width: int, height: int, *, color: bytes = b"\xff\x00\x00") -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\x00" + color * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def size(outcome: ProbeOutcome) -> tuple[int, int]:
    """Return width and height as the header of the PNG says."""
    assert outcome.picture is not None, outcome.detail
    assert outcome.picture.media_type == "image/png"
    assert outcome.picture.data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", outcome.picture.data[16:24])
    return width, height


async def probe(rig: Rig, path: str = "/page", wait_for: str | None = "#done") -> ProbeOutcome:
    return await rig.probe(path, wait_for, wants_picture=True)


async def test_a_page_that_scripts_build_is_pictured_whole_with_its_images(devtools: DevTools) -> None:
    async with rigged(devtools) as rig:
        rig.site.put("/image.png", png(10, 1700), "image/png")
        rig.site.put("/lazy.png", png(10, 10), "image/png")
        images = "<img src=/image.png><img src=/lazy.png loading=lazy width=10 height=10>"
        rig.site.script("/page", f"{HEAD} document.body.innerHTML = '{images}<ul></ul>'; show('read'); {DONE};")
        outcome = await probe(rig)
        plain = await rig.probe("/page", "#done")
    assert names(outcome) == names(plain) == ["read"]
    assert plain.picture is None
    width, height = size(outcome)
    assert width == 1280
    assert 1710 <= height < 1900  # the images, a list and a paragraph
    assert (rig.site.count("/image.png"), rig.site.count("/lazy.png")) == (1, 1)


@pytest.mark.long
async def test_a_short_page_has_the_height_of_the_window(devtools: DevTools) -> None:
    async with rigged(devtools) as rig:
        rig.site.script("/page", f"show('read'); {DONE};")
        assert size(await probe(rig)) == (1280, 720)


async def test_a_page_that_does_not_show_what_is_read_has_a_picture(devtools: DevTools) -> None:
    async with rigged(devtools) as rig:
        rig.site.script("/page", f"{DONE};")
        outcome = await probe(rig)
    assert outcome.detail == "no row matches li"
    assert size(outcome) == (1280, 720)


@pytest.mark.long
@pytest.mark.parametrize("style", ["height: 3000000px", "height: 30000px; width: 30000px"])
async def test_a_giant_page_is_pictured_within_the_limits(devtools: DevTools, style: str) -> None:
    async with rigged(devtools) as rig:
        build = f"document.body.innerHTML = '<ul></ul><div style=\"{style}\"></div>'; show('read'); {DONE};"
        rig.site.script("/page", build)
        outcome = await probe(rig)
    assert names(outcome) == ["read"]
    assert size(outcome) == (1280, 5000)


NOISE = """
const canvas = document.createElement('canvas'); canvas.width = 1280; canvas.height = %d;
const pen = canvas.getContext('2d'), noise = pen.createImageData(canvas.width, canvas.height);
for (let n = 0; n < noise.data.length; n++) noise.data[n] = n %% 4 == 3 ? 255 : Math.random() * 256;
pen.putImageData(noise, 0, 0); document.body.append(canvas); show('read');
"""


@pytest.mark.long
async def test_a_large_picture_becomes_a_jpeg(devtools: DevTools) -> None:
    async with rigged(devtools) as rig:
        rig.site.script("/page", f"{NOISE % 800} {DONE};")
        outcome = await probe(rig)
    assert names(outcome) == ["read"]
    assert outcome.picture is not None, outcome.detail
    assert outcome.picture.media_type == "image/jpeg"
    assert outcome.picture.data[:2] == b"\xff\xd8"
    assert len(outcome.picture.data) <= MOST_BYTES


@pytest.mark.long
async def test_a_picture_that_stays_too_large_is_left_out_and_the_page_is_read(devtools: DevTools) -> None:
    async with rigged(devtools, RenderLimits(total_s=200.0, settle_s=1.0)) as rig:
        rig.site.script("/page", f"{NOISE % 5000} {DONE};")
        outcome = await probe(rig)
    assert names(outcome) == ["read"]
    assert outcome.picture is None
    assert "no screenshot: it has more than 512 KiB" in outcome.detail


async def test_an_image_at_a_private_address_is_refused(devtools: DevTools) -> None:
    async with rigged(devtools) as rig, listening("127.0.0.2") as inside:
        rig.site.redirect("/away.png", f"http://127.0.0.2:{inside.port}/away.png")
        images = f"<img src=http://127.0.0.2:{inside.port}/image.png><img src=/away.png><ul></ul>"
        rig.site.script("/page", f"document.body.innerHTML = '{images}'; show('read'); {DONE};")
        outcome = await probe(rig)
    assert names(outcome) == ["read"]
    assert size(outcome) == (1280, 720)
    assert inside.paths == []
    assert "2 requests of the page refused: 127.0.0.2 is refused: loopback" in outcome.detail


async def test_images_leave_half_of_the_requests_to_scripts(devtools: DevTools) -> None:
    async with rigged(devtools, replace(QUICK, requests=10)) as rig:
        rig.site.put("/image.png", png(1, 1), "image/png")
        rig.site.put("/data", "x")
        images = (
            "for (let n = 0; n < 20; n++) document.body.append(Object.assign(new Image(), {src: '/image.png?' + n}));"
        )
        fetched = (
            "Promise.all([0, 1, 2, 3, 4].map(n => fetch('/data?' + n))).then(() => show('read'), () => show('lost'))"
        )
        rig.site.script("/page", f"{images} onload = () => {fetched}.then(() => {DONE});")
        outcome = await probe(rig)
    assert names(outcome) == ["read"]
    assert (rig.site.count("/image.png"), rig.site.count("/data")) == (5, 5)
    assert "15 requests of the page refused: it makes more than 5 requests" in outcome.detail


async def test_a_page_that_lets_no_picture_be_taken_is_read_without_it(devtools: DevTools) -> None:
    """Its script hangs once the picture asks for the image below the window, which is after the page was read."""
    async with rigged(devtools, RenderLimits(total_s=3.0, settle_s=1.0)) as rig:
        rig.site.put("/late.png", png(1, 1), "image/png")
        hang = '<p style="margin-top: 20000px"><img loading=lazy src=/late.png onload="while (true) {}">'
        rig.site.script("/page", f"document.body.insertAdjacentHTML('beforeend', `{hang}`); show('read'); {DONE};")
        outcome = await probe(rig)
    assert names(outcome) == ["read"]
    assert outcome.picture is None
    assert "no screenshot: there was no time left" in outcome.detail
