"""What `proxyd serve` says on a terminal."""

from __future__ import annotations

from datetime import datetime

from proxyd.cli.service import greeting
from proxyd.core.model.schedule import Probe, Reason
from proxyd.core.planning.queue.probe_slots import PlannedProbe

ADDRESS = "http://127.0.0.1:8080/"


def test_the_greeting_says_what_is_watched_when_the_first_probe_comes_and_where_to_look() -> None:
    start_s = datetime(2026, 3, 1, 14, 5, 7).astimezone().timestamp()
    coming = PlannedProbe(Probe("news", 3, Reason.FIRST_CONTACT, "r", 1.0), start_s)
    lines = list(greeting(sources=1, rules=2, coming=coming, dashboard=ADDRESS))
    assert lines[0] == "proxyd runs, and watches 1 source for 2 rules"
    assert lines[1].startswith("the first probe is that of news, at 14:05:07;")
    assert lines[2].startswith(f"dashboard: {ADDRESS} (who has no password gets a link: `proxyd")
    assert lines[3] == "Ctrl-C ends it; it waits for probes and messages under way, 10 s at most, or until Ctrl-C again"


def test_the_greeting_of_an_empty_daemon_says_how_to_begin() -> None:
    lines = list(greeting(sources=0, rules=0, coming=None, dashboard=ADDRESS))
    assert lines[0] == "proxyd runs, and watches nothing yet"
    assert "`proxyd add ADDRESS`" in lines[1]
    assert len(lines) == 4


def test_the_greeting_gives_a_link_to_the_first_who_signs_in() -> None:
    lines = list(greeting(sources=0, rules=0, coming=None, dashboard=ADDRESS, link=f"{ADDRESS}welcome/secret"))
    assert lines[2].startswith(f"dashboard: {ADDRESS}welcome/secret ")
