"""The everyday tasks of docs/how-to.md: what their few lines tell."""

from __future__ import annotations

import json

import pytest

from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.item import Item
from proxyd.notify.message_forms import chat_text, plain_text, subject
from tests.fleets import Drive, changed, decider
from tests.pages import ROOT, blocks

T0 = 1_000_000_000.0
SETTINGS = CheckSettings(can_mail=True, channel_schemes=frozenset({"tgram"}), has_channels=True)


def task(heading: str) -> str:
    """Return the profile that a task of the page shows; it has at most three lines."""
    page = ROOT / "docs" / "how-to.md"
    above, _, _ = page.read_text(encoding="utf-8").partition(f"## {heading}\n")
    (text, *_) = [each.text for each in blocks(page) if each.language == "profile" and each.line > above.count("\n")]
    assert text.count("\n") <= 3
    return text


async def told(profile: str, before: list[Item], after: list[Item]) -> list[bytes]:
    """Return the bodies of the notifications when the only source of a profile changes."""
    checked = check([SourceText("t", profile)], SETTINGS)
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    (name,) = checked.declaration.sources
    drive = Drive(decider(checked.declaration, now_s=T0))
    await drive.see(changed(name, before, T0))
    seen = await drive.see(changed(name, after, T0 + 60))
    return [each.body for each in seen.rules.notifications]


def entry(title: str) -> Item:
    return Item(title, {"channel.item.title": title, "channel.item.link": "https://example.org/1"}, None, title)


@pytest.mark.parametrize(("title", "count"), [("v3.16.1", 1), ("v3.17.0a3", 0), ("v3.17.0rc1", 0)])
async def test_stable_releases_only(title: str, count: int) -> None:
    bodies = await told(task("Hear of stable releases only"), [entry("v3.16.0")], [entry(title), entry("v3.16.0")])
    assert [subject("", body) for body in bodies] == [title] * count


async def test_a_chat_message_in_own_words() -> None:
    (body,) = await told(task("Word a chat message yourself"), [], [entry("Outage")])
    assert chat_text(body) == ("", "Status page: Outage. See https://example.org/1")


async def test_the_difference_of_a_page() -> None:
    kept = "\n\n".join(f"Paragraph {number} of the terms, as long as such paragraphs are." for number in range(9))
    before, after = (Item("page", {"text": f"{kept}\n\n{last}"}, None, last) for last in ("30 days.", "14 days."))
    (body,) = await told(task("See what changed on a page"), [before], [after])
    assert subject("", body) == "shop.example.org/terms changed"
    assert plain_text("", body).startswith("shop.example.org/terms changed\n- 30 days.\n+ 14 days.\n\nRule: ")
    assert json.loads(body)["data"]["rule"] == "shop.example.org/terms"
