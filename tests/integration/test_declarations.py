"""Declarations that come at once, half written, or while probes and the start are under way."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from proxyd.base.metrics import Metrics
from proxyd.core.errors import BusyError, ConflictError, NotFoundError, ProfileError
from proxyd.core.language import Checked, CheckSettings, check_parsed, give_owners, parse
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.item import EventKind
from proxyd.core.rules.answers.advice import Trial
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.compiled import Swap
from proxyd.core.rules.known.context import StoredContext, StoreQuery
from proxyd.daemon import Declarations
from proxyd.daemon.declared_texts import OnlyIf
from proxyd.daemon.past_queries import PastQueries
from proxyd.daemon.plan_queries import PlanQueries
from proxyd.store.backups import open_store
from proxyd.store.listed_rows import Wanted
from proxyd.store.sql_store import SqlStore
from tests.databases import migrated_file
from tests.fakes import FakeClock
from tests.fleets import DOMAIN, WEBHOOK, changed, decider, declaration, item, rule, source, stream_recall

T0 = 1_000_000_000.0


@dataclass
class World:
    folder: Path
    store: SqlStore
    clock: FakeClock
    rung: list[float] = field(default_factory=list)

    def fresh(self) -> tuple[Declarations, Decider]:
        """Return what a process that starts now has."""
        found = decider(declaration(), now_s=T0)
        recall = stream_recall(found, self.store)
        recall.news.listen(lambda: self.rung.append(self.clock.time_s()))
        return Declarations(self.folder, recall, self.clock, CheckSettings(), Metrics(), lambda ref: b"s"), found


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    (tmp_path / "a.profile").write_text(DOMAIN + source("s") + rule("r", when="COUNT(*) % 3 = 0"))
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
        yield World(tmp_path, store, FakeClock(T0))


def profile(name: str) -> str:
    return f'CREATE PROFILE "{name}" AS (DOMAIN "D", USER "u");'


async def see(store: SqlStore, found: Decider, *names: str, at_s: float) -> None:
    outcome = changed("s", [item(name, at_s - 1) for name in names], at_s)
    known = await store.known("s", StoreQuery(names, fields=False))
    observation = found.observe(outcome, known)
    assert observation is not None
    await store.record(observation)
    found.outcomes.finish(outcome, observation)


async def test_two_texts_sent_at_once_are_both_declared(world: World) -> None:
    declarations, _ = world.fresh()
    await declarations.start()
    await asyncio.gather(declarations.declare(profile("A")), declarations.declare(profile("B")))
    assert {"A", "B"} <= set(declarations.declaration.profiles)


async def test_rules_are_compiled_in_another_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    declarations, found = world.fresh()
    threads: list[threading.Thread] = []
    compile_rules = Decider.compile

    def compiled(*values: Any, **options: Any) -> Swap:
        threads.append(threading.current_thread())
        return compile_rules(*values, **options)

    monkeypatch.setattr(Decider, "compile", compiled)
    await declarations.start()
    await declarations.declare(profile("A"))
    assert "A" in found.known.compiled.declaration.profiles
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_a_condition_on_a_profile_needs_a_text_of_exactly_one(world: World) -> None:
    declarations, _ = world.fresh()
    await declarations.start()
    with pytest.raises(ConflictError, match="exactly one"):
        await declarations.declare(profile("A") + profile("B"), only_if=OnlyIf(lambda text: True))
    with pytest.raises(ProfileError, match="lacks"):
        await declarations.declare("INSERT NOTIFICATION n", only_if=OnlyIf(lambda text: True))


async def test_a_text_sent_during_the_start_waits_and_keeps_counts_and_now(world: World) -> None:
    first, found = world.fresh()
    await first.start()
    await see(world.store, found, at_s=T0 + 10)
    await see(world.store, found, "x", at_s=T0 + 20)
    await world.clock.advance(1000.0)
    second, again = world.fresh()
    await asyncio.gather(second.declare(profile("A")), second.start())
    assert "A" in second.declaration.profiles
    assert again.known.streams["r", "s"].count == 1
    assert [event.item.item_id for event in again.known.streams["r", "s"].pending] == ["x"]
    assert again.known.compiled.programs["r"].accepted_s == T0


async def test_a_file_that_is_still_being_written_is_not_taken(world: World) -> None:
    declarations, _ = world.fresh()
    await declarations.start()
    file = world.folder / "a.profile"
    text = file.read_text()
    file.write_text("")
    await declarations.reload_if_changed()
    file.write_text(text + profile("New"))
    await declarations.reload_if_changed()
    assert set(declarations.declaration.profiles) == {"P"}
    await declarations.reload_if_changed()
    assert set(declarations.declaration.profiles) == {"P", "New"}
    assert set(declarations.declaration.rules) == {"r"}


async def test_a_list_beside_the_profile_is_followed(world: World) -> None:
    profiles, found = world.fresh()
    (world.folder / "many.profile").write_text("CREATE SOURCES \"many/\" OF FEED FROM FILE 'many.csv';")
    (world.folder / "many.csv").write_text("https://example.org/a\n")
    (world.folder / "other.csv").write_text("of something else\n")
    await profiles.start()
    assert profiles.declaration.sources["many/example.org/a"].url == "https://example.org/a"
    assert found.known.compiled.declaration is profiles.declaration
    (world.folder / "many.csv").write_text("https://example.org/a\nhttps://example.org/b\n")
    await profiles.reload_if_changed()  # it may still be being written
    assert "many/example.org/b" not in profiles.declaration.sources
    await profiles.reload_if_changed()
    assert "many/example.org/b" in profiles.declaration.sources
    address = profiles.texts.address_of("many/example.org/b")
    assert address is not None
    assert (address.text.file, address.line) == (str(world.folder / "many.csv"), 2)
    with pytest.raises(ConflictError, match=r"declared in .*many\.csv; change it there"):
        await profiles.declare('DROP SOURCE "many/example.org/a";')
    (world.folder / "many.csv").unlink()
    assert "beside this profile; create it" in "".join(await profiles.reload())
    again, _ = world.fresh()
    await again.start()  # on the last good declaration
    assert list(again.declaration.sources) == list(profiles.declaration.sources)


async def test_lists_are_for_files_only(world: World) -> None:
    profiles, _ = world.fresh()
    await profiles.start()
    with pytest.raises(ProfileError, match="CREATE SOURCES is for files of the profiles directory"):
        await profiles.declare("CREATE SOURCES \"many/\" OF FEED FROM FILE 'many.csv';")


async def test_an_edit_keeps_the_counters_that_stay_even_of_an_observation_under_way(world: World) -> None:
    declarations, found = world.fresh()
    await declarations.start()
    await see(world.store, found, at_s=T0 + 10)
    await see(world.store, found, "x", at_s=T0 + 20)
    old = found.observe(changed("s", [item("y", T0 + 25)], T0 + 30), StoredContext({"x": item("x", T0 + 20)}))
    assert old is not None
    recorded = asyncio.create_task(world.store.record(old))
    (world.folder / "a.profile").write_text(
        DOMAIN + source("s") + rule("r", when="COUNT(*) % 3 = 0 AND COUNT(*) FILTER (WHERE title = 'x') > 0")
    )
    await declarations.reload()
    await recorded
    second, again = world.fresh()
    await second.start()
    for running in (found, again):
        assert [total.count for total in running.known.streams["r", "s"].totals] == [2, 2, 0]
        assert running.known.compiled.programs["r"].accepted_s == T0
    await see(world.store, again, "z", at_s=T0 + 90)
    assert [total.count for total in again.known.streams["r", "s"].totals] == [3, 3, 0]


EDITS = {
    "another count": ({"when": "COUNT(*) % 5 = 0"}, [2, 2], {}),
    "another counter": ({"when": "COUNT(DISTINCT title) = 3"}, [2, 0], {"r": ("COUNT(DISTINCT channel.item.title)",)}),
    "one more counter": (
        {"when": "COUNT(*) % 3 = 0 AND MAX(title) > 'z'"},
        [2, 2, 0],
        {"r": ("MAX(channel.item.title)",)},
    ),
    "another query": ({"when": "COUNT(*) % 3 = 0", "query": "SELECT link FROM RSS"}, [2, 2], {}),
    "a WHERE": ({"where": "title <> 'a'", "when": "COUNT(*) % 3 = 0"}, [0, 0], {"r": ("COUNT(*)",)}),
    "named sources": ({"when": "COUNT(*) % 3 = 0", "clauses": 'FROM SOURCES "s"'}, [0, 0], {"r": ("COUNT(*)",)}),
}


@pytest.mark.parametrize(
    ("change", "counts", "restarted", "is_running"),
    [
        pytest.param(*edit, is_running, id=f"{name}-{how}", marks=[pytest.mark.long] * (how == "down" and n > 2))
        for n, (name, edit) in enumerate(EDITS.items())
        for how, is_running in (("running", True), ("down", False))
    ],
)
async def test_an_edit_starts_only_the_counters_again_that_count_something_else(
    world: World, change: dict[str, str], counts: list[int], restarted: dict[str, tuple[str, ...]], *, is_running: bool
) -> None:
    declarations, found = world.fresh()
    await declarations.start()
    await see(world.store, found, at_s=T0 + 10)
    await see(world.store, found, "a", "b", at_s=T0 + 20)
    edited = DOMAIN + source("s") + rule("r", **change)
    (world.folder / "a.profile").write_text(edited)
    if is_running:
        with structlog.testing.capture_logs() as logged:
            await declarations.reload()
        assert [entry["restarted"] for entry in logged if entry["event"] == "profiles loaded"] == [restarted]
    else:
        declarations, found = world.fresh()
        await declarations.start()
    stream = found.known.streams["r", "s"]
    assert [total.count for total in stream.totals] == counts
    assert found.known.compiled.programs["r"].accepted_s == T0
    assert len(stream.pending) == (0 if counts[0] == 0 else 2)
    await see(world.store, found, "c", at_s=T0 + 40)
    second, again = world.fresh()
    await second.start()
    assert again.known.streams["r", "s"].count == counts[0] + 1


async def test_an_edited_query_reads_what_waits_since_before_the_edit(world: World) -> None:
    declarations, found = world.fresh()
    await declarations.start()
    await see(world.store, found, at_s=T0 + 10)
    await see(world.store, found, "a", "b", at_s=T0 + 20)
    edited = rule("r", when="COUNT(*) % 3 = 0", query="SELECT title, pubDate FROM RSS")
    (world.folder / "a.profile").write_text(DOMAIN + source("s") + edited)
    assert await declarations.reload() == ()
    await see(world.store, found, "c", at_s=T0 + 40)
    (sent,) = (await world.store.history.find_notifications(Wanted(), before=None, limit=9)).rows
    rows = json.loads(sent.body)["data"]["items"]
    assert {row["channel.item.title"] for row in rows} == {"a", "b", "c"}
    assert all(row["channel.item.pubDate"] for row in rows)


async def test_what_was_sent_before_an_edit_is_not_sent_again(world: World) -> None:
    def write(sources: str) -> None:
        text = rule("r", start='NOW - "1 DAY"', clauses=f"FROM SOURCES {sources}")
        (world.folder / "a.profile").write_text(DOMAIN + source("s") + source("t") + text)

    write('"s"')
    declarations, found = world.fresh()
    await declarations.start()
    await see(world.store, found, at_s=T0 + 10)
    await see(world.store, found, "a", at_s=T0 + 20)
    for sources in ('"t"', '"s", "t"'):
        write(sources)
        assert await declarations.reload() == ()
    await see(world.store, found, "b", at_s=T0 + 60)
    listed = (await world.store.history.find_notifications(Wanted(), before=None, limit=9)).rows
    assert [json.loads(each.body)["data"]["items"] for each in listed] == [
        [{"channel.item.title": "b"}],
        [{"channel.item.title": "a"}],
    ]


async def test_history_that_comes_in_while_it_is_replayed_fires_once(world: World) -> None:
    declarations, found = world.fresh()
    await declarations.start()
    await see(world.store, found, "a", "b", at_s=T0 + 10)
    load = world.store.load_events

    async def load_late(source_id: str, since_s: float, *, kind: EventKind):  # type: ignore[no-untyped-def]
        await see(world.store, found, "c", at_s=T0 + 60)
        return await load(source_id, since_s, kind=kind)

    world.store.load_events = load_late  # type: ignore[method-assign]
    (world.folder / "b.profile").write_text(rule("early").replace("START NOW", 'START NOW - "1 HOUR"'))
    assert await declarations.reload() == ()
    listed = (
        await world.store.history.find_notifications(Wanted(rules=frozenset({"early"})), before=None, limit=9)
    ).rows
    assert len(listed) == len({row.notification_id for row in listed}) == 3
    assert world.rung == [T0]


@pytest.mark.parametrize("refused", ["iterdir", "is_dir", "glob"], ids=["it", "its parent", "the files"])
async def test_a_directory_that_may_not_be_read_any_more_is_not_an_empty_one(
    world: World, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    declarations, found = world.fresh()
    await declarations.start()
    with monkeypatch.context() as patch:
        patch.setattr(Path, refused, _refuse)  # root, as whom tests may run, may read everything
        if refused == "glob":
            await declarations.reload_if_changed()
        else:
            assert await declarations.reload() == (f"profiles: {world.folder} cannot be read (Permission denied)",)
        assert list(found.known.compiled.declaration.rules) == ["r"]
    assert await declarations.reload() == ()


def _refuse(folder: Path, *_: object) -> Iterator[Path]:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


async def test_files_with_errors_at_the_start_leave_the_last_good_ones_running(world: World) -> None:
    first, _ = world.fresh()
    await first.start()
    await first.declare(profile("Sent"))
    (world.folder / "a.profile").write_text("CREATE PROFIL")
    second, found = world.fresh()
    with structlog.testing.capture_logs() as logged:
        await second.start()
    assert set(second.declaration.profiles) == {"P", "Sent"}
    assert found.known.compiled.programs.keys() == {"r"}
    assert [each["event"] for each in logged if each["log_level"] == "error"] == [
        "profiles have errors; running on the last good declaration"
    ]


async def test_more_streams_than_fit_are_refused_through_the_api(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxyd.daemon.declarations.MOST_STREAMS", 3)
    declarations, _ = world.fresh()
    await declarations.start()
    sources = "".join(source(f"s{number}") for number in range(4))
    with pytest.raises(ConflictError, match=r"lead to 4 pairs .* at most 3 are allowed"):
        await declarations.declare(sources)
    with pytest.raises(ConflictError, match="FROM SOURCES"):
        await declarations.try_out(sources)
    (world.folder / "b.profile").write_text(sources)
    await declarations.reload()
    await declarations.declare(source("t0"))  # files may declare more, and do not count
    await declarations.declare(source("t1"), source("t2"))
    with pytest.raises(ConflictError, match="lead to 4 pairs"):
        await declarations.declare(source("t3"))
    monkeypatch.setattr("proxyd.daemon.declarations.MOST_STREAMS", 1)
    await declarations.declare(profile("A"), 'DROP SOURCE "t2";')  # what adds none is no more refused than before
    assert ("A" in declarations.declaration.profiles, "t1" in declarations.declaration.sources) == (True, True)


async def test_of_a_large_fleet_only_what_changes_is_tried(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    declarations, _ = world.fresh()
    await declarations.start()
    await declarations.declare(*(source(f"s{number}") for number in range(9)))
    changes, whole = await declarations.try_out(source("t0"), source("t1"))
    monkeypatch.setattr("proxyd.core.rules.answers.advice._SMALL_FLEET", 5)
    tried: list[int] = []
    monkeypatch.setattr(Trial, "of", lambda *_: tried.append(1))
    again, quick = await declarations.try_out(source("t0"), source("t1"))
    assert (again, replace(quick, after_per_s=whole.after_per_s)) == (changes, whole)
    assert quick.after_per_s == pytest.approx(whole.after_per_s)
    assert (whole.added, tried) == (2, [])


async def test_a_profile_that_nobody_declared_cannot_be_dropped(world: World) -> None:
    declarations, _ = world.fresh()
    await declarations.start()
    await declarations.declare(profile("Mine"))
    with pytest.raises(NotFoundError, match=r"there is no profile 'Min'\. Did you mean Mine\?"):
        await declarations.drop_profile("Min")
    await declarations.drop_profile("Mine")
    assert set(declarations.declaration.profiles) == {"P"}


async def test_a_webhook_without_its_secret_is_warned_of_once_declared(world: World) -> None:
    (world.folder / "a.profile").write_text(DOMAIN + source("s") + rule("r", clauses=WEBHOOK))
    declarations = Declarations(
        world.folder,
        stream_recall(decider(declaration(), now_s=T0), world.store),
        world.clock,
        CheckSettings(),
        Metrics(),
        lambda _: None,
    )
    with structlog.testing.capture_logs() as logged:
        await declarations.start()
    (warning,) = [each for each in logged if each["event"] == "a webhook's secret is not set"]
    assert (warning["rule"], warning["secret"]) == ("r", "SECRET_A")


@pytest.mark.parametrize("when", ["COUNT(*) ACROSS SOURCES = 2", "COUNT(*) OVER 24 HOURS >= 2"])
async def test_what_a_rule_counted_before_a_restart_is_in_the_notification_after_it(world: World, when: str) -> None:
    (world.folder / "a.profile").write_text(DOMAIN + source("s") + rule("r", when=when))
    first, found = world.fresh()
    await first.start()
    await see(world.store, found, at_s=T0 + 10)
    await see(world.store, found, "x", at_s=T0 + 20)
    second, again = world.fresh()
    await second.start()
    await see(world.store, again, "x", "y", at_s=T0 + 30)
    (sent,) = (await world.store.history.find_notifications(Wanted(), before=None, limit=9)).rows
    assert [each["channel.item.title"] for each in json.loads(sent.body)["data"]["items"]] == ["x", "y"]


async def test_until_the_declarations_are_read_the_daemon_says_that_it_starts(world: World) -> None:
    declarations, found = world.fresh()
    past = PastQueries(found, declarations, world.store.history, world.clock)
    with pytest.raises(BusyError, match="the daemon is starting; try again in a few seconds"):
        await past.intervals("r", days=1.0, limit=9)
    await declarations.start()
    assert await past.intervals("r", days=1.0, limit=9) == []
    with pytest.raises(NotFoundError, match="there is no rule 'q'"):
        await past.intervals("q", days=1.0, limit=9)


async def test_advice_is_kept_for_a_minute_of_one_declaration(world: World) -> None:
    declarations, found = world.fresh()
    await declarations.start()
    plans = PlanQueries(found, declarations, world.clock)
    first, second = await asyncio.gather(plans.advise(), plans.advise())
    assert first is second
    await world.clock.advance(59.0)
    assert await plans.advise() is first
    await world.clock.advance(2.0)
    later = await plans.advise()
    assert later is not first
    await declarations.declare(profile("A"))
    assert await plans.advise() is not later


async def test_a_probe_that_is_asked_for_waits_for_room_in_the_budget(world: World) -> None:
    declarations, found = world.fresh()
    await declarations.start()
    plans = PlanQueries(found, declarations, world.clock)
    (asked,) = plans.ask("s")
    assert (asked.at_s, asked.waits_for) == (world.clock.time_s(), None)
    found.planner.settings = replace(found.planner.settings, budget=Budget(1.0 / 86400.0))
    (asked,) = plans.ask("s")
    assert world.clock.time_s() < asked.at_s <= world.clock.time_s() + 86400.0
    assert asked.waits_for == "budget"
    assert found.planner.settings.capacity(found.settings.grid.chronon_at(asked.at_s)) == 1


async def test_a_query_over_the_past_reads_what_was_stored(world: World) -> None:
    (world.folder / "a.profile").write_text(DOMAIN + source("s") + rule("r", query="SELECT title FROM RSS OVER 7 DAYS"))
    declarations, found = world.fresh()
    await declarations.start()
    await see(world.store, found, at_s=T0 + 10)
    await see(world.store, found, "x", at_s=T0 + 20)
    outcome = changed("s", [item("x", T0 + 19), item("y", T0 + 29)], T0 + 30)
    needed = found.outcomes.query_for(outcome)
    assert needed is not None
    observation = found.observe(outcome, await world.store.known("s", needed))
    assert observation is not None
    (sent,) = observation.rules.notifications
    assert sorted(each["channel.item.title"] for each in json.loads(sent.body)["data"]["items"]) == ["x", "y"]


WATCHED = "WATCH 'https://x.example/a';"
AS_PAGE = "WATCH 'https://x.example/a' OF PAGE AS \"page\";"
AS_PRICE = "WATCH 'https://x.example/a' OF PRICE AS \"price\";"


def read_as(declarations: Declarations) -> dict[str, str]:
    return {name: each.page_class for name, each in declarations.declaration.sources.items() if name != "s"}


async def test_what_is_read_in_one_way_keeps_its_name_beside_what_is_written_before_it(world: World) -> None:
    last, first = world.folder / "z.profile", world.folder / "b.profile"
    last.write_text(AS_PAGE)
    declarations, _ = world.fresh()
    await declarations.start()
    assert read_as(declarations) == {"x.example/a": "PAGE"}
    first.write_text(WATCHED)
    assert await declarations.reload() == ()
    kept = {"x.example/a": "PAGE", "x.example/a (FEED)": "FEED"}
    assert read_as(declarations) == kept
    await declarations.declare(AS_PRICE)
    kept["x.example/a (PRICE)"] = "PRICE"
    assert read_as(declarations) == kept
    again, _ = world.fresh()
    await again.start()
    assert read_as(again) == kept
    last.unlink()
    await again.reload()
    assert "x.example/a" not in read_as(again)
    last.write_text(AS_PAGE)
    await again.reload()
    assert read_as(again) == kept


async def test_what_was_written_while_the_daemon_was_stopped_takes_no_name_either(world: World) -> None:
    (world.folder / "z.profile").write_text(AS_PAGE)
    declarations, _ = world.fresh()
    await declarations.start()
    (world.folder / "b.profile").write_text(WATCHED)
    for _ in range(2):
        again, _ = world.fresh()
        await again.start()
        assert read_as(again) == {"x.example/a": "PAGE", "x.example/a (FEED)": "FEED"}


async def test_who_is_read_in_another_way_from_now_on_keeps_the_name(world: World) -> None:
    (world.folder / "z.profile").write_text(AS_PAGE)
    declarations, _ = world.fresh()
    await declarations.start()
    (world.folder / "z.profile").write_text(AS_PRICE)
    await declarations.reload()
    assert read_as(declarations) == {"x.example/a": "PRICE"}


BOTH_SCHEMES = f"{AS_PAGE} WATCH 'http://x.example/a' OF PAGE AS \"plain\";"
VALUES = """CREATE DOMAIN "one" AS CLASS::VALUE(value: Decimal FROM CSS 'b');
CREATE DOMAIN "two" AS CLASS::VALUE(value: Decimal FROM CSS 'i');
WATCH 'https://x.example/a' OF "one".VALUE AS "one";"""
OTHER_VALUE = 'WATCH \'https://x.example/a\' OF "two".VALUE AS "two";'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BOTH_SCHEMES, BOTH_SCHEMES),
        (f"{WATCHED} {BOTH_SCHEMES}", f"{BOTH_SCHEMES} {WATCHED}"),
        (VALUES, f"{VALUES} {OTHER_VALUE}"),
        (VALUES, f"{OTHER_VALUE} {VALUES}"),
    ],
)
async def test_a_restart_renames_nothing(world: World, before: str, after: str) -> None:
    (world.folder / "z.profile").write_text(before)
    declarations, _ = world.fresh()
    await declarations.start()
    (world.folder / "z.profile").write_text(after)
    await declarations.reload()
    kept = {name: (each.url, each.domain, each.page_class) for name, each in declarations.declaration.sources.items()}
    again, _ = world.fresh()
    await again.start()
    sources = again.declaration.sources
    assert {name: (each.url, each.domain, each.page_class) for name, each in sources.items()} == kept


@pytest.mark.parametrize("other", ["FEED", "PAGE"])
def test_a_class_of_ones_own_domain_keeps_the_name_of_its_source(other: str) -> None:
    domain = 'CREATE PROFILE "ann"; CREATE DOMAIN "Shop" AS CLASS::COST(price: Decimal FROM CSS \'b\');'
    watch = "WATCH 'https://x.example/a' OF {} INTO ann AS \"{}\";"
    first = f"{domain} {watch.format('COST', 'cost')}"

    def check(text: str, before: Checked | None) -> Checked:
        owned = give_owners(parse(text), ["ann"], lambda _kind, _name: False, ())
        return check_parsed([owned], before=before)

    before = check(first, None)
    after = check(first.replace("WATCH", f"{watch.format(other, 'other')} WATCH"), before)
    assert after.declaration is not None
    assert {name: each.page_class for name, each in after.declaration.sources.items()} == {
        "ann⋮x.example/a": "COST",
        f"ann⋮x.example/a ({other})": other,
    }
