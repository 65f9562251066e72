"""Whatever owners and admins declare, share and drop: a rule reaches its owner's sources and the shared ones there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.language import CheckSettings, StatementKind
from proxyd.core.model.profile import Declaration, full_name, owner_of
from proxyd.daemon.declared_texts import NOTHING_DECLARED, check_texts, key_of, read_sent, texts_of
from proxyd.daemon.parts import part_of

PROFILES = ("Ann", "Ben", "Cem")
NAMES = ("a", "b", "Ann", "Ann⋮a", "x⋮y")
ADMIN = None
RULE = (
    'INSERT NOTIFICATION "{0}" INTO {1} {2} SET QUERY "SELECT title FROM FEED" SET TRIGGER "ON INSERT TO FEED" '
    "SET DELIVERY NONE;"
)
EVERYBODY = "".join(f'CREATE PROFILE "{each}";' for each in PROFILES)
edits = st.tuples(
    st.sampled_from([ADMIN, *PROFILES]),
    st.sampled_from(["source", "rule", "share", "drop source", "drop rule"]),
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(PROFILES), min_size=1, max_size=2, unique=True),
)


@dataclass
class Model:
    """The sources and rules, as pairs of an owner and a name; shared rules may name their sources."""

    sources: set[tuple[str | None, str]] = field(default_factory=set)
    rules: dict[tuple[str | None, str], tuple[tuple[str, ...], frozenset[str] | None]] = field(default_factory=dict)

    def reach(self, owner: str | None, named: frozenset[str] | None) -> set[tuple[str | None, str]]:
        shared = {each for each in self.sources if each[0] is ADMIN}
        if owner is ADMIN:
            return shared if named is None else {each for each in shared if each[1] in named}
        return {each for each in self.sources if each[0] == owner} | self.shared_in(owner)

    def shared_in(self, profile: str) -> set[tuple[str | None, str]]:
        found = (self.reach(o, named) for (o, _), (into, named) in self.rules.items() if o is ADMIN and profile in into)
        return set().union(*found)


@dataclass
class Texts:
    """The texts of the API, as the daemon keeps them."""

    api: dict[str, str] = field(default_factory=lambda: read_sent([EVERYBODY])[1])

    def declare(self, text: str, owner: str | None) -> None:
        self.api |= read_sent([text], () if owner is None else (owner,), self.api)[1]

    def drop(self, kind: StatementKind, name: str, owner: str | None) -> None:
        self.api.pop(key_of(kind, full_name(owner, name)), None)

    def checked(self) -> Declaration:
        return check_texts(texts_of(self.api), {}, CheckSettings(), NOTHING_DECLARED).declaration


def apply(edit: tuple[str | None, str, str, list[str]], model: Model, texts: Texts) -> None:
    """Make an edit in the model and in the texts; an admin's ``share`` names the shared sources that there are."""
    owner, what, name, into = edit
    if owner is ADMIN and owner_of(name) is not None:  # an admin names what is somebody's by its full name
        return
    plain = name.removeprefix(f"{owner}⋮")
    profiles = tuple(into) if owner is ADMIN else (owner,)
    if what == "source":
        model.sources.add((owner, plain))
        texts.declare(f"CREATE SOURCE \"{name}\" OF FEED AT 'https://{owner}.example/{NAMES.index(name)}';", owner)
    elif what == "rule" or (what == "share" and owner is not ADMIN):
        model.rules[owner, plain] = profiles, None
        texts.declare(RULE.format(name, ", ".join(f'"{each}"' for each in profiles), ""), owner)
    elif what == "share":
        named = sorted(each for o, each in model.sources if o is ADMIN)[:1]
        if named:
            model.rules[owner, plain] = profiles, frozenset(named)
            sources = f'FROM SOURCES "{named[0]}"'
            texts.declare(RULE.format(name, ", ".join(f'"{each}"' for each in profiles), sources), owner)
    elif what == "drop rule":
        model.rules.pop((owner, plain), None)
        texts.drop(StatementKind.NOTIFICATION, plain, owner)
    elif owner is not ADMIN or not any(named and name in named for _, named in model.rules.values()):
        model.sources.discard((owner, plain))
        texts.drop(StatementKind.SOURCE, plain, owner)


@given(st.lists(edits, max_size=14))
def test_rules_reach_and_owners_see_what_the_model_says(made: Sequence[tuple[str | None, str, str, list[str]]]) -> None:
    model, texts = Model(), Texts()
    for edit in made:
        apply(edit, model, texts)
    declared = texts.checked()
    expected = {
        full_name(owner, name): {full_name(*each) for each in model.reach(owner, named)}
        for (owner, name), (_, named) in model.rules.items()
    }
    assert {name: set(rule.source_ids) for name, rule in declared.rules.items()} == expected
    assert set(declared.sources) == {full_name(*each) for each in model.sources}
    for profile in PROFILES:
        part = part_of(declared, [profile])
        own = {full_name(*each) for each in model.sources if each[0] == profile}
        assert set(part.sources) == own | {full_name(*each) for each in model.shared_in(profile)}
        assert {owner_of(name) for name in part.rules} <= {None, profile}
        assert all(rule.profiles == (profile,) for rule in part.rules.values())
        assert set(part.profiles) == {profile}
