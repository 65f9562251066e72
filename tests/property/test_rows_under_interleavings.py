"""Probes, slow probes, pushes, failures, restarts in any order: what is known of a page is there, and told once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.item import EventKind
from proxyd.core.rules.known.context import StoreQuery
from tests.examples import examples
from tests.worlds import World, declared

TEXT = """CREATE DOMAIN "D" AS CLASS::ROW EACH CSS 'tr' KEY id (id:String FROM CSS 'td', n:Integer FROM CSS 'td.n');
CREATE SOURCE "s" OF ROW AT 'https://example.org/page';
CREATE PROFILE "P" AS (DOMAIN "D");
"""
RULES = "".join(
    f'INSERT NOTIFICATION "{kind}" INTO "P" SET QUERY "SELECT id FROM ROW" SET TRIGGER "ON {kind} TO ROW"\n'
    "START NOW END NEVER SET UTILITY STRICT;\n"
    for kind in ("INSERT", "UPDATE", "DELETE")
)
HAPPENINGS = ["probe", "slow", "end slow", "push", "404", "304", "restart", "cut"]
operations = st.one_of(
    st.tuples(st.just("set"), st.sampled_from("abc"), st.integers(0, 2)),
    st.tuples(st.just("drop"), st.sampled_from("abc"), st.just(0)),
    st.tuples(st.sampled_from(HAPPENINGS), st.just(""), st.just(0)),
)


@given(st.lists(operations, max_size=25))
@examples(300)
async def test_what_is_known_of_a_page_is_what_is_there(steps: list[tuple[str, str, int]]) -> None:
    world = World(declared(TEXT + RULES))
    for what, name, number in steps:
        if what == "set":
            world.page[name] = {"id": name, "n": number}
        elif what == "drop":
            world.page.pop(name, None)
        elif what != "404" or not world.page:
            await world.do(what)
    for _ in range(2):  # the first that finds no rows must be confirmed
        await world.do("probe")
    known = await world.memory.known("s", StoreQuery(None, fields=True))
    assert {name: item.fields for name, item in known.items.items()} == world.page
    told: dict[str, EventKind] = {}
    for observation in world.memory.observations:
        for event in observation.found.events:
            before = told.get(event.item.item_id)
            is_there = before in {EventKind.INSERT, EventKind.UPDATE}
            assert is_there == (event.kind is not EventKind.INSERT)
            told[event.item.item_id] = event.kind
    ids = [sent.notification_id for o in world.memory.observations for sent in o.rules.notifications]
    assert len(ids) == len(set(ids))
    events = [event for o in world.memory.observations for event in o.found.events if not event.seed]
    assert len(ids) == len(events)
    seqs = [event.seq for o in world.memory.observations for event in o.found.events]
    assert seqs == sorted(set(seqs))
