"""Profiles are swapped in whole or not at all; a start does with what it has."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.acceptance.support import DOMAIN, PROFILE, World, eventually, rule_text, world

FIVE_ERRORS = f"""{DOMAIN}
CREATE SOURCE "a" OF RSSS AT 'http://127.0.0.1/a';
CREATE SOURCE "b" OF RSS AT 'ftp://127.0.0.1/b';
{PROFILE}
INSERT NOTIFICATION "m" INTO "wacth"
SET QUERY "SELECT channel.item.title FROM RSS" SET TRIGGER "ON INSERT TO RSS"
START NOW END NEVER SET UTILITY STRICT;
INSERT NOTIFICATION "n" INTO "watch"
SET QUERY "SELECT channel.item.titel FROM RSS"
SET TRIGGER "ON INSERT TO RSS WHEN COUNT(*) % 0 = 0"
START NOW END NEVER SET UTILITY STRICT;
"""


async def running(w: World, *, rules: dict[str, int] | None = None, text: str = "") -> None:
    """Start the daemon on one feed that it has seen."""
    w.origin.feed("feed", "atom").add(1, age_s=3600.0)
    w.daemon.declare(text or w.text(["feed"], rules or {}))
    await w.daemon.start()
    await w.daemon.knows("feed")


async def test_check_reports_all_five_errors_of_a_profile_with_their_places(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        path = w.daemon.declare(FIVE_ERRORS)
        checked = await w.daemon.cli("check", str(path))
        assert checked.code == 1
        said = checked.out + checked.err
        places = re.findall(rf"^{re.escape(str(path))}:(\d+):(\d+): \S", said, re.MULTILINE)
        assert len(places) == len(set(places)) == 5, said
        assert len(re.findall(r"^\s+\^+$", said, re.MULTILINE)) == 5
        assert said.endswith("5 errors\n")
        for place, (line, column) in zip(("RSSS", "'ftp", '"wacth', "channel.item.titel"), places, strict=False):
            assert FIVE_ERRORS.splitlines()[int(line) - 1][int(column) - 1 :].startswith(place)


async def test_a_changed_file_is_swapped_in_and_a_faulty_one_changes_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await running(w, rules={"one": 1})
        assert await w.daemon.metric("proxyd_last_reload_ok") == 1
        w.daemon.declare(w.text(["feed"], {"one": 1, "two": 1}))
        await w.daemon.metric_reaches("proxyd_rules", 2)
        feed = w.origin.feeds["feed"]
        news = feed.add(1)
        assert await w.receiver.received("two", 1) == await w.receiver.received("one", 1) == news

        path = w.daemon.declare(FIVE_ERRORS)

        async def noticed() -> bool:
            return await w.daemon.metric("proxyd_last_reload_ok") == 0

        await eventually(noticed, "the faulty file is noticed")
        assert "nothing was changed" in w.daemon.log
        assert f"{path}:" in w.daemon.log
        news += feed.add(1)
        assert await w.receiver.received("two", 2) == await w.receiver.received("one", 2) == news
        by_hand = await w.daemon.cli("reload")
        assert (by_hand.code, "nothing was changed" in by_hand.out) == (1, True)

        w.daemon.declare(w.text(["feed"], {"one": 1}))
        await w.daemon.metric_reaches("proxyd_last_reload_ok", 1)
        assert await w.daemon.metric("proxyd_rules") == 1
        news += feed.add(1)
        assert await w.receiver.received("one", 3) == news
        assert w.receiver.guids("two") == news[:2]
        w.receiver.check()


def replace_unnoticed(path: Path, text: str) -> None:
    """Write a file of the same size and age, which does not look changed."""
    before, new = path.stat(), path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    assert new.stat().st_size == before.st_size
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.replace(path)


async def test_sighup_reloads(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        whole = w.text(["feed"], {"one": 1, "two": 1, "three": 1})
        texts = [w.text(["feed"], rules).ljust(len(whole)) for rules in ({"one": 1}, {"one": 1, "two": 1})]
        await running(w, text=texts[0])
        replace_unnoticed(w.daemon.profiles / "watch.profile", texts[1])
        w.daemon.signal(signal.SIGHUP)
        await w.daemon.metric_reaches("proxyd_rules", 2)
        replace_unnoticed(w.daemon.profiles / "watch.profile", whole)
        by_hand = await w.daemon.cli("reload")
        assert (by_hand.code, by_hand.out) == (0, "reloaded\n")
        assert await w.daemon.metric("proxyd_rules") == 3


async def test_a_first_start_with_faulty_profiles_ends_with_the_errors(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        path = w.daemon.declare(FIVE_ERRORS)
        await w.daemon.spawn()
        assert await w.daemon.ended() == 1
        assert len(re.findall(rf"{re.escape(str(path))}:\d+:\d+: ", w.daemon.log)) == 5
        assert "Traceback" not in w.daemon.log


@pytest.mark.long
async def test_a_start_with_faulty_profiles_runs_on_the_last_good_declaration(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await running(w, rules={"third": 3})
        news = w.origin.feeds["feed"].add(2)
        await w.origin.was_asked("feed", times=2)
        await w.daemon.stop()
        w.daemon.declare(FIVE_ERRORS)
        await w.daemon.start()
        assert await w.daemon.metric("proxyd_last_reload_ok") == 0
        assert "running on the last good declaration" in w.daemon.log
        news += w.origin.feeds["feed"].add(1)
        assert await w.receiver.received("third", 3) == news
        # The mended file is swapped in as ever, and counts go on.
        w.daemon.declare(w.text(["feed"], {"third": 3}) + rule_text("one", 1, w.receiver.url("one")))
        await w.daemon.metric_reaches("proxyd_last_reload_ok", 1)
        assert await w.daemon.metric("proxyd_rules") == 2
        news += w.origin.feeds["feed"].add(3)
        assert await w.receiver.received("third", 6) == news
        w.receiver.check()
