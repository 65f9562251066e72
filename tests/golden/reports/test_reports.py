"""What people reported of programs of this kind, as small inputs: what must be told, by the daemon's own path.

To add a case, write ``cases/NAME.case`` (``case.py`` says how) and judge by hand what must be told: nothing rewrites
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from proxyd.core.language import SourceText, check, merge_listing, read_listing
from proxyd.core.model.profile import EMPTY_DECLARATION
from tests.golden.reports.case import Case, Step, all_cases, messages, plain_text
from tests.golden.reports.daemon_world import Receipt, World, running

CASES = all_cases(Path(__file__).parent / "cases")


def _count(receipts: Sequence[Receipt], text: str) -> int:
    return sum(each.text.count(text) for each in receipts)


def _is_silent(receipt: Receipt) -> bool:
    """Return whether a message to Discord alerts nobody."""
    allowed = receipt.body.get("allowed_mentions")
    is_open = allowed is None or bool(allowed.get("parse"))
    return not (is_open and any(word in receipt.text for word in ("@everyone", "@here")))


RECEIPT_CHECKS: Mapping[str, Callable[[Sequence[Receipt], str], bool]] = {
    "count": lambda receipts, number: len(receipts) == int(number),
    "most": lambda receipts, length: max(len(each.text) for each in receipts) <= int(length),
    "has": lambda receipts, text: _count(receipts, text) > 0,
    "lacks": lambda receipts, text: _count(receipts, text) == 0,
    "once": lambda receipts, text: _count(receipts, text) == 1,
    "no": lambda receipts, _pings: all(map(_is_silent, receipts)),
}
"""The lines below ``sent``: how many messages, of how many characters, with which texts, as Telegram reads them."""


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_what_must_be_told_is_told(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if any(step.verb == "import" for step in case.steps):
        _check_import(case)
        return
    async with asyncio.timeout(60.0), running(case, tmp_path, monkeypatch) as world:
        for step, after in zip(case.steps, [*case.steps[1:], Step("end")], strict=True):
            await _take(world, step)
            if step.verb in {"at", "until"} and after.verb != "told" and not world.delivers:
                assert (step.at_s, await world.find_messages()) == (step.at_s, [])


async def _take(world: World, step: Step) -> None:
    match step.verb:
        case "at":
            await _answer(world, step)
        case "until":
            await world.go_to(step.at_s)
        case "told":
            assert await world.find_messages() == messages(step.lines)
        case "sent":
            await world.find_messages()
            _check_receipts([each for each in world.receipts if each.host.endswith(step.address)], step.lines)
            world.receipts.clear()


async def _answer(world: World, step: Step) -> None:
    """Let an address answer so from now on, and probe it if it is that of a source."""
    await world.go_to(step.at_s)
    assert step.answer is not None
    world.answers[step.address] = step.answer
    source_id = world.sources().get(step.address)
    if source_id is not None and not world.runs:
        await world.probe(source_id)
        await world.go_to(step.at_s)


def _check_receipts(receipts: Sequence[Receipt], lines: Sequence[str]) -> None:
    texts = [each.text for each in receipts]
    for line in filter(None, lines):
        verb, _, rest = line.partition(" ")
        assert RECEIPT_CHECKS[verb](receipts, rest), (line, texts)


def _check_import(case: Case) -> None:
    """Check what a list of feeds declares, and that what it writes can be read."""
    listed, expected = (step.lines for step in case.steps)
    listing = read_listing(plain_text("\n".join(listed)).encode(), "feeds.opml")
    texts = merge_listing(listing, EMPTY_DECLARATION, "imported").texts()
    checked = check([SourceText(f"{number}.profile", text) for number, text in enumerate(texts)])
    assert checked.declaration is not None, "\n".join(map(str, checked.errors))
    declared = [source.url for source in checked.declaration.sources.values()]
    rules = dict(line.split(" ", 1) for line in expected if " " in line)
    assert "lacks" not in rules or rules["lacks"] not in "".join(texts)
    assert "includes" not in rules or rules["includes"] in declared
    assert rules or declared == [line for line in expected if line]


def test_there_are_60_cases_and_25_of_them_are_reports_of_addresses_of_their_own() -> None:
    addresses = [case.report for case in CASES.values() if case.report]
    assert len(CASES) >= 60
    assert len(set(addresses)) == len(addresses) >= 25
