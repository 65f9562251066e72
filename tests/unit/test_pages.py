"""What the user's pages show works: links lead somewhere, commands parse or run, profiles are valid."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from proxyd.cli.main import main
from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.store.databases.tables import metadata
from tests.pages import PAGES, ROOT, Block, anchors, blocks, commands, links, options_of

EVERYTHING = CheckSettings(can_mail=True, can_subscribe=True, channel_schemes=frozenset({"tgram"}))
TUTORIAL = ROOT / "docs" / "tutorial.md"  # is run whole by tests/acceptance/test_tutorial.py
OFFLINE = {"check", "fmt", "import", "export", "solve", "simulate", "config", "version", "completion"}
SAMPLES = {  # files that pages describe in words
    "week.csv": "hour,rate_per_day,importance\n" + "".join(f"{hour},{1 + hour % 24},1\n" for hour in range(168)),
    "ei.csv": "source,start,finish\na,0,3\nb,2,5\na,6,9\n",
    "rates.csv": "source,rate\na,0.5\nb,0.1\n",
    "budget.csv": "chronon,probes\n" + "".join(f"{chronon},1\n" for chronon in range(10)),
    "trace.csv": "source,timestamp\n" + "".join(f"s{n % 3},{1754006400 + n * 7200}\n" for n in range(220)),
}
PREAMBLE = """CREATE DOMAIN "D" AS CLASS::RSS(channel.item.title:String, channel.item.link:URL);
CREATE PROFILE "P" AS (DOMAIN "D");
"""  # what a fragment takes as declared


def shown(language: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.language == language]


def is_offline(arguments: list[str]) -> bool:
    return arguments[0] in OFFLINE and "--from-database" not in arguments


def offline_pages() -> list[Path]:
    calls = [(block.page, arguments) for block in shown("sh") for arguments in commands(block)]
    return sorted({page for page, arguments in calls if is_offline(arguments)} - {TUTORIAL})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_picture_leads_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_links_commands_and_anchors_are_found_at_all() -> None:
    assert len([link for page in PAGES for link in links(page)]) > 40
    assert len([call for block in shown("sh") for call in commands(block)]) > 50
    assert "a-daemon-elsewhere" in anchors(ROOT / "docs" / "cli.md")


@pytest.mark.parametrize("block", shown("sh"), ids=str)
def test_every_command_that_is_shown_parses(block: Block) -> None:
    for arguments in commands(block):
        options_of(arguments)


@pytest.mark.parametrize("page", offline_pages(), ids=lambda page: page.name)
def test_what_needs_no_daemon_runs_as_it_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder with what the page has shown before, and with the tables that it describes in words."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("proxyd.lab.verbs.replay_input._MODEL_WEEKS", 5)  # of a trace that no page shows
    for name, text in SAMPLES.items():
        Path(name).write_text(text, encoding="utf-8")
    for block in blocks(page):
        if block.file is not None:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.text, encoding="utf-8")
        for arguments in commands(block) if block.language == "sh" else ():
            if is_offline(arguments):
                assert main(arguments) == 0, f"{block}: {arguments}: {capsys.readouterr()}"


def is_whole(block: Block) -> bool:
    return "CREATE DOMAIN" in block.text


@pytest.mark.parametrize("block", shown("profile"), ids=str)
def test_every_profile_that_is_shown_is_valid(block: Block) -> None:
    """A fragment is completed with what comes before it: class RSS of domain D, profile P over D, a list of feeds."""
    text = block.text if is_whole(block) else PREAMBLE + block.text
    names = [each for each in ("feeds.csv", "sites.csv") if each in block.text]
    listed = [SourceText(str(Path(str(block)).with_name(name)), "https://example.org/feed") for name in names]
    errors = [str(error) for error in check([SourceText(str(block), text), *listed], EVERYTHING).errors]
    is_wrong_on_purpose = block.page == TUTORIAL
    assert len(errors) == (1 if is_wrong_on_purpose else 0), errors


def test_no_profile_is_shown_without_being_checked() -> None:
    unmarked = [str(b) for page in PAGES for b in blocks(page) if b.language == "" and "CREATE " in b.text]
    assert unmarked == []


def test_the_architecture_page_names_modules_and_tables_that_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    decided = text.split("## Where it is decided")[1].split("\n## ")[0]
    modules = set(re.findall(r"`(proxyd(?:\.[a-z_]+)+)`", text))
    modules |= {f"proxyd.core.{name}" for name in re.findall(r"`((?!proxyd)[a-z_]+(?:\.[a-z_]+)+)`", decided)}
    assert len(modules) > 20
    assert [name for name in modules if find_spec(name) is None] == []
    named = set(re.findall(r"`([a-z_]+)`", text.split("## What is stored")[1].split("\n## ")[0]))
    assert set(metadata.tables) <= named
