"""What people reported of programs of this kind, as small inputs: what must be told, by the daemon's own path.

To add a case, write ``cases/NAME.case`` (``case.py`` says how) and judge by hand what must be told: nothing rewrites
it. A case that fails today goes into ``FAULTS_LEFT``; whoever mends a fault takes its cases out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxyd.core.language import SourceText, check, merge_listing, read_listing
from proxyd.core.model.profile import EMPTY_DECLARATION
from tests.golden.reports.case import Case, Step, all_cases, filled, messages
from tests.golden.reports.daemon_world import Sent, World, running

CASES = all_cases(Path(__file__).parent / "cases")
FAULTS_LEFT = frozenset(
    {
        "06-a-session-id-in-every-link-is-no-news",
        "06-a-third-of-the-guids-change-from-http-to-https",
        "06-ids-are-regenerated-and-all-times-are-an-hour-later",
        "06-ids-are-regenerated-and-the-texts-are-longer",
        "06-links-without-guids-change-from-http-to-https",
        "06-links-without-guids-gain-a-slash",
        "06-links-without-guids-gain-a-tracking-parameter",
        "06-links-without-guids-gain-www",
        "06-one-guid-changes-from-http-to-https",
        "07-a-guid-that-occurs-twice-identifies-nothing",
        "07-all-items-have-an-address-as-their-guid",
        "07-all-items-have-the-word-null-as-their-guid",
        "07-items-without-guids-share-a-link",
        "08-a-page-grows-from-eight-items-to-thirty",
        "08-a-page-of-undated-items-grows-from-eight-to-thirty",
        "08-a-redirect-leads-to-another-feed",
        "08-an-empty-first-contact-makes-old-items-no-news",
        "08-an-error-item-at-first-contact-makes-old-items-no-news",
        "08-the-next-older-item-enters-after-a-deletion",
        "08-undated-items-after-one-empty-probe-are-no-news",
        "09-a-byte-order-mark-appears-in-a-text",
        "09-a-directional-mark-appears-in-a-text",
        "09-a-narrow-no-break-space-stands-for-a-space",
        "09-a-number-is-written-as-an-integer-or-a-decimal-or-a-text",
        "09-a-price-is-spelled-differently",
        "09-a-soft-hyphen-appears-in-a-text",
        "09-a-text-is-composed-differently",
        "09-a-zero-width-space-appears-in-a-text",
        "09-an-em-space-stands-for-a-space",
        "09-keys-of-rows-are-spelled-differently",
        "09-the-title-of-an-item-is-escaped-differently",
        "12-a-coding-that-is-a-charset-is-ignored",
        "16-a-bare-ampersand-does-not-refuse-a-list",
        "19-forty-rows-go-to-Discord-in-messages-that-it-takes",
        "20-a-site-that-answered-503-is-told-within-a-minute-of-its-return",
    }
)


def _marked() -> Iterator[object]:
    left = pytest.mark.xfail(strict=True, reason="a fault that is left")
    for name, case in CASES.items():
        yield pytest.param(case, id=name, marks=[left] if name in FAULTS_LEFT else [])


@pytest.mark.filterwarnings("ignore::DeprecationWarning:apprise")
@pytest.mark.parametrize("case", list(_marked()))
async def test_what_must_be_told_is_told(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if any(step.verb == "import" for step in case.steps):
        _check_import(case)
        return
    async with asyncio.timeout(60.0), running(case, tmp_path, monkeypatch) as world:
        for step, after in zip(case.steps, [*case.steps[1:], Step("end")], strict=True):
            await _take(world, step)
            if step.verb in {"at", "until"} and after.verb not in {"told", "sent"}:
                assert (step.at_s, await world.told()) == (step.at_s, [])


async def _take(world: World, step: Step) -> None:
    match step.verb:
        case "at":
            await _answer(world, step)
        case "until":
            await world.go_to(step.at_s)
        case "told":
            assert await world.told() == messages(step.lines)
        case "sent":
            await world.told()
            _check_sent([each for each in world.sent if each.host.endswith(step.address)], step.lines)
            world.sent.clear()


async def _answer(world: World, step: Step) -> None:
    """Let an address answer so from now on, and probe it if it is that of a source."""
    await world.go_to(step.at_s)
    assert step.answer is not None
    world.answers[step.address] = step.answer
    source_id = world.sources().get(step.address)
    if source_id is not None and not world.runs:
        await world.probe(source_id)
        await world.go_to(step.at_s)


def _check_sent(sent: list[Sent], lines: tuple[str, ...]) -> None:
    """Check what a receiver was sent: ``count 2``, ``most 2000`` characters, ``has x``, ``once x``, ``no pings``..."""
    texts = [each.text for each in sent]
    for line in filter(None, lines):
        verb, _, rest = line.partition(" ")
        match verb:
            case "count":
                assert len(texts) == int(rest), texts
            case "most":
                assert max(map(len, texts)) <= int(rest)
            case "has":
                assert any(rest in text for text in texts), texts
            case "lacks":
                assert not any(rest in text for text in texts), texts
            case "once":
                assert sum(text.count(rest) for text in texts) == 1, texts
            case "order":
                assert texts == rest.split(", "), texts
            case "no":
                assert all(_is_silent(each) for each in sent), texts
            case _:
                raise ValueError(f"{line!r} is no line of what is sent")


def _is_silent(sent: Sent) -> bool:
    """Return whether a message to Discord alerts nobody."""
    allowed = sent.body.get("allowed_mentions")
    is_open = allowed is None or bool(allowed.get("parse"))
    return not (is_open and any(word in sent.text for word in ("@everyone", "@here")))


def _check_import(case: Case) -> None:
    """Check what a list of feeds declares, and that what it writes can be read."""
    listed, expected = (step.lines for step in case.steps)
    listing = read_listing(filled("\n".join(listed)).encode(), "feeds.opml")
    texts = merge_listing(listing, EMPTY_DECLARATION, "imported").texts()
    checked = check([SourceText(f"{number}.profile", text) for number, text in enumerate(texts)])
    assert checked.declaration is not None, "\n".join(map(str, checked.errors))
    secrets = [line.removeprefix("lacks ") for line in expected if line.startswith("lacks ")]
    assert not any(secret in text for secret in secrets for text in texts)
    declared = [source.url for source in checked.declaration.sources.values()]
    assert declared == [line for line in expected if line and not line.startswith("lacks ")]


def test_each_fault_that_is_left_is_a_case() -> None:
    assert CASES.keys() >= FAULTS_LEFT
