"""Fields that fall silent in any order of probes, errors and restarts: each fall and each restock is told once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.item import Value
from proxyd.core.rules.stages.observation import Observation
from tests.examples import examples
from tests.worlds import STEP_S, World, declared

FIELDS = (
    "id:String FROM CSS '.id', price:Decimal FROM CSS '.p', stock:String FROM CSS '.s', "
    "sale:Decimal OR NULL FROM CSS '.x'"
)
CLASSES = {"page": f"CLASS::SHOP({FIELDS})", "rows": f"CLASS::SHOP EACH CSS 'tr' KEY id ({FIELDS})"}
WHERE = {
    "fall": "WHERE NEW.price < OLD.price",
    "restock": "WHERE NEW.stock = 'InStock' AND OLD.stock = 'OutOfStock'",
    "speaks": "WHERE OLD.price IS NULL AND NEW.price IS NOT NULL",
    "sale": "WHERE NEW.sale < OLD.sale",
    "any": "",
}
TEXT = """CREATE SOURCE "s" OF SHOP AT 'https://shop.example/lamp';
CREATE PROFILE "P" AS (DOMAIN "D");
"""
RULES = "".join(
    f'INSERT NOTIFICATION "{name}" INTO "P" SET QUERY "SELECT id, price, stock, sale FROM SHOP"\n'
    f'SET TRIGGER "ON UPDATE TO SHOP {where}" START NOW END NEVER SET UTILITY STRICT;\n'
    for name, where in WHERE.items()
)
DECLARED = {shape: declared(f'CREATE DOMAIN "D" AS {text};\n{TEXT}{RULES}') for shape, text in CLASSES.items()}
PRICES = st.none() | st.sampled_from([9.0, 14.9, 19.9])
HAPPENINGS = ["probe", "probe", "probe", "probe", "nothing", "304", "404", "500", "restart", "go"]
STEPS = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {"price": PRICES, "stock": st.sampled_from([None, "InStock", "OutOfStock"]), "sale": PRICES}
        ),
        st.sampled_from("aab"),
        st.booleans(),
        st.sampled_from(HAPPENINGS),
    ),
    max_size=15,
)
Told = tuple[str, Value, Value, Value, Value]


@dataclass(slots=True)
class Reference:
    """What one item showed at the last probe that read it, and the last value of each field that was not missing."""

    shown: Mapping[str, Value]
    spoken: dict[str, Value] = field(default_factory=dict)

    def rules_of(self, now: Mapping[str, Value]) -> Iterator[str]:
        """Yield the rules that tell what an item shows now."""
        before = self.shown
        if _is_lower(now["price"], self.spoken.get("price")):
            yield "fall"
        if now["stock"] == "InStock" and self.spoken.get("stock") == "OutOfStock":
            yield "restock"
        if before["price"] is None and now["price"] is not None:
            yield "speaks"
        if _is_lower(now["sale"], before["sale"]):
            yield "sale"
        if now["sale"] != before["sale"] or any(self.is_news(path, now[path]) for path in ("price", "stock")):
            yield "any"

    def is_news(self, path: str, value: Value) -> bool:
        """Whether a field shows another value than the last one, or is missing for the first time since."""
        return self.shown[path] is not None if value is None else value != self.spoken.get(path)

    def read(self, now: Mapping[str, Value]) -> None:
        """Take in what an item shows now."""
        self.shown = dict(now)
        self.spoken |= {path: value for path, value in now.items() if value is not None}


def _is_lower(new: Value, old: Value) -> bool:
    return isinstance(new, float) and isinstance(old, float) and new < old


@dataclass(slots=True)
class Expectation:
    """The references of all items of a page."""

    known: dict[str, Reference] = field(default_factory=dict)

    def read(self, page: Mapping[str, Mapping[str, Value]]) -> list[Told]:
        """Take in a page; return what must be told of it."""
        told = [
            (rule, now["id"], now["price"], now["stock"], now["sale"])
            for name, now in page.items()
            if name in self.known
            for rule in self.known[name].rules_of(now)
        ]
        self.known = {name: self.known.get(name, Reference(now)) for name, now in page.items()}
        for name, now in page.items():
            self.known[name].read(now)
        return sorted(told, key=repr)


def told_by(observation: Observation) -> list[Told]:
    """Return each rule that told something, with the row that it told."""
    sent = [(each.rule, json.loads(each.body)["data"]) for each in observation.rules.notifications]
    assert all(len(data["items"]) == 1 for _, data in sent)
    return sorted(((rule, *data["items"][0].values()) for rule, data in sent), key=repr)


@pytest.mark.parametrize("shape", CLASSES)
@given(steps=STEPS)
@examples(400)
async def test_any_interleaving_of_silences_keeps_falls_and_restocks(
    shape: str, steps: list[tuple[Mapping[str, Value], str, bool, str]]
) -> None:
    world, expected = World(DECLARED[shape]), Expectation()
    world.page["a"] = {"id": "a", "price": None, "stock": None, "sale": None}  # stays, so that no list is empty
    is_missing = False
    for shows, name, is_noisy, what in steps:
        item_id = name if shape == "rows" else "a"
        world.page[item_id] = {"id": item_id, **shows}
        world.noise += is_noisy
        if what == "go":
            world.page.pop("b", None)
        elif what == "probe":
            world.now_s += STEP_S
            observation, is_missing = await world.probe(), False
            assert told_by(observation) == expected.read(world.page)
        elif what != "404" or not is_missing:  # a page that is missing for long is gone
            is_missing |= what == "404"
            before = len(world.memory.observations)
            await world.do(what)
            assert not any(each.rules.notifications for each in world.memory.observations[before:])
