"""What a token of some profiles declares belongs to these: others neither see nor change it, nor reach its sources."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from proxyd.api.auth import new_token
from proxyd.api.passwords import invite
from proxyd.base.doers import OwnerLimits
from proxyd.client import Client
from proxyd.store.api_rows import Scope
from tests.fleets import changed, item
from tests.integration.api_world import T0, Running, running_api
from tests.integration.dashboard_world import Browser
from tests.integration.test_people import choose

EVERY_FEED = (
    'INSERT NOTIFICATION "{name}" INTO "{profile}" SET QUERY "SELECT title FROM FEED" '
    'SET TRIGGER "ON INSERT TO FEED" SET DELIVERY NONE;'
)


@dataclass
class Owner:
    """Somebody who writes one profile, or all."""

    running: Running
    headers: dict[str, str]

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        sent: dict[str, Any] = {} if body is None else {"json": body}
        if isinstance(body, str):
            sent = {"data": body, "headers": {"Content-Type": "text/plain"}}
        headers = self.headers | sent.pop("headers", {})
        async with self.running.client.request(method, f"/api/v1{path}", headers=headers, **sent) as answer:
            text = await answer.text()
            return answer.status, json.loads(text)

    async def declare(self, text: str) -> Any:
        status, made = await self.ask("POST", "/profiles", text)
        assert status == 201, made
        return made

    async def names(self, what: str, member: str = "name") -> set[str]:
        status, found = await self.ask("GET", f"/{what}")
        assert status == 200, found
        return {each[member] for each in found["items"]}


@dataclass
class World:
    running: Running
    ann: Owner
    ben: Owner
    admin: Owner


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running_api(tmp_path, declared=False) as running:

        async def owner(name: str) -> Owner:
            token, shown = new_token(name, "write", now_s=T0, expires_in_s=None, profiles=[name])
            await running.control.queries.access.add_token(token)
            return Owner(running, {"Authorization": f"Bearer {shown}"})

        admin = Owner(running, await running.token("admin"))
        yield World(running, await owner("Ann"), await owner("Ben"), admin)


async def test_two_owners_watch_under_one_name_and_each_sees_the_own_only(world: World) -> None:
    for owner, address in ((world.ann, "ann"), (world.ben, "ben")):
        made = await owner.declare(f"WATCH 'https://{address}.example/feed' AS \"news\";")
        assert made["added"] == ["news"]
        assert await owner.names("profiles") == {address.title()}
        assert await owner.names("rules") == {"news"}
        assert await owner.names("sources", "source") == {f"{address}.example/feed"}
    assert await world.admin.names("rules") == {"Ann⋮news", "Ben⋮news"}
    status, rule = await world.ann.ask("GET", "/rules/news")
    assert (status, rule["profiles"], rule["sources"]) == (200, ["Ann"], ["ann.example/feed"])
    text = (await world.ben.ask("GET", "/profiles/Ben"))[1]["text"]
    assert "ben.example" in text
    assert "⋮" not in text


async def test_a_text_that_an_owner_has_read_can_be_sent_again(world: World) -> None:
    await world.ann.declare("WATCH 'https://ann.example/feed' AS \"news\"; CREATE PROFILE \"Ann\" DELIVER TO LOG 'a';")
    read = (await world.ann.ask("GET", "/profiles/Ann"))[1]["text"]
    assert (await world.ann.declare(read))["added"] == []
    assert (await world.ann.ask("GET", "/profiles/Ann"))[1]["text"] == read


async def test_a_rule_reaches_what_its_profile_owns_and_what_shared_rules_read_there(world: World) -> None:
    await world.ann.declare("WATCH 'https://ann.example/feed';")
    await world.ben.declare("WATCH 'https://ben.example/feed';")
    await world.admin.declare(
        'WATCH \'https://apart.example/feed\' INTO "Others"; WATCH \'https://both.example/feed\' AS "both" INTO "Ann", '
        '"Others";' + EVERY_FEED.format(name="all", profile="Others")
    )
    await world.ann.declare(EVERY_FEED.format(name="mine", profile="Ann"))
    assert (await world.ann.ask("GET", "/rules/mine"))[1]["sources"] == ["both.example/feed", "ann.example/feed"]
    shared = (await world.admin.ask("GET", "/rules/all"))[1]["sources"]
    assert sorted(shared) == ["apart.example/feed", "both.example/feed"]
    for name in ("ben.example/feed", "Ben⋮ben.example/feed", "apart.example/feed", "nothing"):
        named = EVERY_FEED.format(name="named", profile="Ann").replace("SET QUERY", f'FROM SOURCES "{name}" SET QUERY')
        status, refused = await world.ann.ask("POST", "/profiles", named)
        said = refused["errors"][0]["detail"].replace(" Did you mean ann.example/feed?", "")
        assert (status, said) == (422, f"there is no source {name!r}.")
    status, rule = await world.ann.ask("GET", "/rules/both")
    assert (status, rule["profiles"]) == (200, ["Ann"])


async def test_trouble_of_a_profile_watches_nothing_of_others(world: World) -> None:
    await world.admin.declare("WATCH 'https://apart.example/feed' INTO \"Others\";")
    made = await world.ann.declare("CREATE PROFILE \"Ann\" ON TROUBLE TELL LOG 'x';")
    assert "apart" not in json.dumps(made)
    assert (await world.ann.ask("GET", "/rules/Ann%3A%20trouble"))[1]["sources"] == []
    await world.ann.declare("WATCH 'https://ann.example/feed';")
    assert (await world.ann.ask("GET", "/rules/Ann%3A%20trouble"))[1]["sources"] == ["ann.example/feed"]


@pytest.mark.parametrize(
    "text",
    [
        "WATCH 'https://x.example/feed' INTO \"Ben\";",
        'CREATE PROFILE "Ben";',
        'DROP PROFILE "Ben";',
        EVERY_FEED.format(name="x", profile="Ben"),
        EVERY_FEED.format(name="x", profile="Ann").replace('INTO "Ann"', 'INTO "Ann", "Ben"'),
        "CREATE SOURCE \"s\" OF FEED AT 'https://x.example/' AUTH BEARER SECRET ENV 'SECRET_A';",
        "WATCH 'https://x.example/feed' TELL WEBHOOK 'https://ann.example/' SECRET ENV 'SECRET_TEAM';",
        "CREATE RECEIVER \"r\" AS WEBHOOK 'https://ann.example/' SECRET ENV 'SECRET_TEAM';",
        "CREATE PROFILE \"Ann\" DELIVER TO WEBHOOK 'https://ann.example/' SECRET ENV 'SECRET_TEAM';",
        "CREATE PROFILE \"Ann\" ON TROUBLE TELL WEBHOOK 'https://ann.example/' SECRET ENV 'SECRET_TEAM';",
    ],
)
async def test_what_is_not_in_the_own_profiles_is_refused_at_its_place(world: World, text: str) -> None:
    await world.ben.declare("WATCH 'https://ben.example/feed' AS \"news\";")
    before = await world.admin.names("rules"), await world.admin.names("profiles")
    status, refused = await world.ann.ask("POST", "/profiles", text)
    assert (status, refused["errors"][0]["line"]) == (422, 1), refused
    assert (await world.admin.names("rules"), await world.admin.names("profiles")) == before


async def test_a_webhook_that_is_signed_for_an_owner_stays_in_what_they_change(world: World) -> None:
    told = "TELL WEBHOOK 'https://team.example/' SECRET ENV 'SECRET_TEAM'"
    await world.admin.declare(f'CREATE PROFILE "Ann"; WATCH \'https://x.example/feed\' INTO "Ann" AS "news" {told};')
    changed = f"WATCH 'https://x.example/feed' INTO \"Ann\" AS \"news\" WHERE title <> '' {told};"
    assert (await world.ann.ask("POST", "/profiles", changed))[0] == 201
    elsewhere = changed.replace("team.example", "ann.example")
    assert (await world.ann.ask("POST", "/profiles", elsewhere))[0] == 422


async def test_of_others_and_of_nothing_the_same_is_said_to_who_changes_it(world: World) -> None:
    await world.ben.declare("WATCH 'https://ben.example/feed' AS \"news\";")
    await world.ann.declare("WATCH 'https://ann.example/feed' AS \"other\";")
    for path, member, name in (
        *(("/mute", "name", each) for each in ("news", "Ben⋮news", "Ben", "nothing")),
        *(("/pause", "source", each) for each in ("ben.example/feed", "Ben⋮ben.example/feed", "nothing")),
        *(("/probe", "name", each) for each in ("ben.example/feed", "news", "Ben", "nothing")),
        *(("/resume", "name", each) for each in ("news", "nothing")),
        *(("/deliveries/test", "rule", each) for each in ("news", "Ben⋮news", "nothing")),
    ):
        status, refused = await world.ann.ask("POST", path, {member: name})
        assert (status, refused["detail"].partition(repr(name))[2]) == (404, ""), refused
    for text in ('DROP NOTIFICATION "news";', 'DROP SOURCE "ben.example/feed";', 'DROP NOTIFICATION "nothing";'):
        assert (await world.ann.ask("POST", "/profiles", text))[0] == 404
    assert (await world.ann.ask("DELETE", "/profiles/Ben"))[0] == 404
    assert await world.admin.names("suspensions") == set()


async def test_an_owner_mutes_pauses_tests_and_removes_what_is_theirs(world: World) -> None:
    await world.ben.declare("WATCH 'https://ben.example/feed' AS \"news\" TELL LOG 'b';")
    await world.ann.declare("WATCH 'https://ann.example/feed' AS \"news\" TELL LOG 'a';")
    for path, body in (
        ("/mute", {"name": "news"}),
        ("/pause", {"source": "ann.example/feed"}),
        ("/resume", {"source": "ann.example/feed"}),
        ("/probe", {"name": "news"}),
        ("/deliveries/test", {"rule": "news"}),
    ):
        status, answer = await world.ann.ask("POST", path, body)
        assert status == 200, answer
        assert "⋮" not in json.dumps(answer, ensure_ascii=False)
    assert await world.ann.names("suspensions") == {"news"}
    assert await world.ben.names("suspensions") == set()
    assert await world.admin.names("suspensions") == {"Ann⋮news"}
    assert (await world.ann.ask("POST", "/mute", {"name": "all", "subject": "all"}))[0] in {404, 422}
    assert (await world.ann.declare('DROP NOTIFICATION "news";'))["removed"] == ["news"]
    assert await world.admin.names("rules") == {"Ben⋮news"}
    await world.ann.declare('WATCH \'https://ann.example/feed\' AS "news"; CREATE DOMAIN "D" AS CLASS::X;')
    assert (await world.ann.ask("DELETE", "/profiles/Ann"))[0] == 200
    assert await world.admin.names("sources", "source") == {"Ben⋮ben.example/feed"}
    assert await world.admin.names("domains") == {"built-in"}


async def test_a_shared_rule_of_the_own_profile_alone_is_changed_and_of_others_too_it_is_not(world: World) -> None:
    await world.admin.declare('WATCH \'https://a.example/feed\' AS "one" INTO "Ann";')
    await world.admin.declare('WATCH \'https://b.example/feed\' AS "two" INTO "Ann", "Ben";')
    for text in ("WATCH 'https://b.example/feed' AS \"two\";", 'DROP NOTIFICATION "two";'):
        assert (await world.ann.ask("POST", "/profiles", text))[0] == 409
    assert (await world.ann.ask("POST", "/mute", {"name": "two"}))[0] == 409
    assert (await world.ann.ask("POST", "/pause", {"source": "a.example/feed"}))[0] == 409
    assert (await world.ann.ask("POST", "/mute", {"name": "one"}))[0] == 200
    await world.ann.declare("WATCH 'https://a.example/feed' AS \"one\" TELL LOG 'mine';")
    assert await world.admin.names("rules") == {"Ann⋮one", "two"}


async def test_messages_and_feeds_of_what_is_owned_have_the_names_that_the_owner_wrote(world: World) -> None:
    await world.ann.declare("WATCH 'https://ann.example/feed' AS \"news\";")
    found = changed("Ann⋮ann.example/feed", [item("an item", T0 + 1.0)], T0 + 10.0)
    assert await world.running.control.loops.observer.take_in(found)
    (told,) = (await world.ann.ask("GET", "/notifications"))[1]["items"]
    assert (told["rule"], told["source"]) == ("news", "ann.example/feed")
    body = json.dumps(told["body"], ensure_ascii=False)
    assert ("news" in body, "⋮" in body) == (True, False)
    assert (await world.ben.ask("GET", "/notifications"))[1]["items"] == []
    assert (await world.ben.ask("GET", f"/notifications/{told['id']}"))[0] == 404
    assert (await world.ben.ask("POST", f"/notifications/{told['id']}/replay"))[0] == 404
    async with world.running.client.get("/api/v1/profiles/Ann/feed.atom", headers=world.ann.headers) as answer:
        read = await answer.text()
    assert ("an item" in read, "⋮" in read) == (True, False)


async def test_owners_use_classes_and_receivers_of_their_own_and_shared_ones(world: World) -> None:
    shared = (
        "CREATE DOMAIN \"D\" AS CLASS::STOCK (name: String FROM CSS 'h1'); CREATE RECEIVER \"team\" AS LOG 'shared';"
    )
    await world.admin.declare(shared)
    await world.ben.declare("CREATE DOMAIN \"E\" AS CLASS::STOCK (name: String FROM CSS 'h2');")
    own = "CREATE RECEIVER \"me\" AS LOG 'me'; CREATE DOMAIN \"E\" AS CLASS::OWN (price: Decimal FROM CSS 'b');"
    watches = "WATCH 'https://ann.example/1' OF STOCK TELL \"team\"; WATCH 'https://ann.example/2' OF OWN TELL \"me\";"
    await world.ann.declare(own + watches)
    found = {each["source"]: each["class"] for each in (await world.ann.ask("GET", "/sources"))[1]["items"]}
    assert found == {"ann.example/1": "STOCK", "ann.example/2": "OWN"}
    assert await world.ann.names("domains") == {"built-in", "D", "E"} - {"built-in"}
    assert await world.ann.names("receivers") == {"me"}
    assert await world.ann.names("sources?domain=E", "source") == {"ann.example/2"}
    assert await world.ben.names("sources?domain=E", "source") == set()
    status, refused = await world.ben.ask("POST", "/profiles", "WATCH 'https://b.example/' OF PAGE TELL \"me\";")
    assert (status, "there is no receiver 'me'" in refused["errors"][0]["detail"]) == (422, True)


@pytest.mark.parametrize(
    "text",
    [
        EVERY_FEED.format(name="r", profile="Ann"),
        "WATCH 'https://x.example/' TELL \"Ann tem\";",
        "WATCH 'https://x.example/' OF Ann_STOK;",
        'CREATE PROFILE "Ann" AS (DOMAIN "Ann dmain");',
        'CREATE SOURCE "s" OF "Ann dmain".X AT \'https://x.example/\';',
    ],
)
async def test_no_error_suggests_a_name_of_others(world: World, text: str) -> None:
    await world.admin.declare(
        'CREATE PROFILE "Anna"; CREATE RECEIVER "Ann team" AS LOG \'x\'; CREATE DOMAIN "Ann domain" AS '
        "CLASS::Ann_STOCK (name: String FROM CSS 'h1');"
    )
    status, refused = await world.ann.ask("POST", "/profiles", text)
    assert (status, "Did you mean" in json.dumps(refused)) == (422, False), refused


async def test_what_is_owned_is_so_after_a_restart_and_an_admin_may_change_it(world: World) -> None:
    await world.ann.declare("CREATE PROFILE \"Ann\" DELIVER TO LOG 'x';" + EVERY_FEED.format(name="r", profile="Ann"))
    await world.running.control.declarations.reload()
    await world.admin.declare("WATCH 'https://apart.example/feed' INTO \"Others\";")
    assert (await world.ann.ask("GET", "/rules/r"))[1]["sources"] == []
    text = (await world.admin.ask("GET", "/profiles/Ann"))[1]["text"]
    assert 'NOTIFICATION "Ann⋮r"' in text
    await world.admin.declare(text.replace("title", "link"))
    assert (await world.ann.ask("GET", "/rules/r"))[1]["sources"] == []
    assert "link" in (await world.ann.ask("GET", "/profiles/Ann"))[1]["text"]


async def test_a_dry_run_tells_nothing_of_what_others_ask_for(world: World) -> None:
    await world.ben.declare("WATCH 'https://ben.example/feed' WITHIN 10 SECONDS FOR 99 %;")
    status, made = await world.ann.ask("POST", "/profiles?dry_run=true", "WATCH 'https://ann.example/feed';")
    assert (status, made["added"]) == (200, ["ann.example/feed"])
    assert made["cost"]["asked_per_hour_before"] == 0.0
    assert "ben" not in json.dumps(made)


@pytest.mark.parametrize(
    ("limit", "text", "said"),
    [
        ({"sources": 2}, "WATCH 'https://3.example/feed';", "2 sources: you have 2, and with this you would have 3"),
        ({"rules": 2}, "WATCH 'https://3.example/feed';", "2 rules: you have 2, and with this you would have 3"),
        (
            {"receivers": 0},
            "CREATE RECEIVER \"r\" AS LOG 'x';",
            "0 receivers: you have 0, and with this you would have 1",
        ),
        (
            {"probes": 20, "sources": 9},
            "WATCH 'https://3.example/feed' EVERY 1 MINUTE;",
            "20 probes an hour: you have 2, and with this you would have 62",
        ),
    ],
)
async def test_more_than_a_limit_is_refused_with_what_is_used(
    world: World, limit: dict[str, int], text: str, said: str
) -> None:
    await world.admin.declare("WATCH 'https://shared.example/feed' INTO \"Others\";")
    await world.ben.declare("WATCH 'https://ben.example/feed';")
    await world.ann.declare("WATCH 'https://1.example/feed'; WATCH 'https://2.example/feed';")
    body = {"name": "limited", "scope": "write", "profiles": ["Ann"], "limits": limit}
    status, made = await world.admin.ask("POST", "/tokens", body)
    assert status == 201, made
    limited = Owner(world.running, {"Authorization": f"Bearer {made['token']}"})
    for path in ("/profiles", "/profiles?dry_run=true"):
        status, refused = await limited.ask("POST", path, text)
        assert (status, refused["detail"]) == (409, f"your limit is {said}")
    assert (await limited.declare("WATCH 'https://2.example/feed' TELL LOG 'x';"))["added"] == []
    assert (await limited.declare('DROP NOTIFICATION "1.example/feed";'))["removed"] == ["1.example/feed"]


async def test_a_person_is_limited_from_now_on_and_so_are_their_tokens(world: World) -> None:
    body = {"name": "ann", "scope": "write", "profiles": ["Ann"], "limits": {"sources": 1}}
    assert (await world.admin.ask("POST", "/people", body))[0] == 201
    status, made = await world.admin.ask(
        "POST",
        "/tokens",
        {"name": "t", "scope": "write", "person": "ann", "profiles": ["Ann"], "limits": {"sources": 9}},
    )
    assert status == 201, made
    ann = Owner(world.running, {"Authorization": f"Bearer {made['token']}"})
    await ann.declare("WATCH 'https://1.example/feed';")
    assert (await ann.ask("POST", "/profiles", "WATCH 'https://2.example/feed';"))[0] == 409
    assert (await world.admin.ask("POST", "/people/ann/limits", {"sources": 2}))[0] == 200
    await ann.declare("WATCH 'https://2.example/feed';")
    assert (await world.admin.ask("POST", "/people", {**body, "limits": None}))[0] == 201
    (known,) = (await world.admin.ask("GET", "/people"))[1]["items"]
    assert known["limits"] == {"sources": 2, "rules": None, "receivers": None, "probes": None}
    assert (await world.admin.ask("POST", "/people/nobody/limits", {"sources": 2}))[0] == 404
    assert (await world.admin.ask("POST", "/tokens", {"name": "x", "scope": "write", "limits": {"rules": 1}}))[0] == 400


async def test_who_removed_something_has_it_back_and_others_do_not_see_it(world: World) -> None:
    for owner in (world.ann, world.ben):
        await owner.declare("WATCH 'https://same.example/feed' AS \"news\" TELL LOG 'mine';")
    await world.ann.declare('DROP NOTIFICATION "news";')
    (removed,) = (await world.ann.ask("GET", "/removed"))[1]["items"]
    assert (removed["name"], "⋮" in removed["text"]) == ("news", False)
    assert (await world.ben.ask("GET", "/removed"))[1]["items"] == []
    assert (await world.ben.ask("POST", f"/removed/{removed['id']}/restore"))[0] == 404
    assert (await world.ann.ask("POST", f"/removed/{removed['id']}/restore"))[1]["added"] == ["news"]
    assert await world.admin.names("rules") == {"Ann⋮news", "Ben⋮news"}


async def test_a_later_token_of_the_same_name_does_not_see_what_was_removed_before(world: World) -> None:
    await world.ann.declare("WATCH 'https://a.example/feed' AS \"news\" TELL MAIL 'boss@work.example';")
    await world.ann.declare('DROP NOTIFICATION "news";')
    (removed,) = (await world.ann.ask("GET", "/removed"))[1]["items"]
    await world.admin.ask("DELETE", "/tokens/Ann")
    token, shown = new_token("Ann", "write", now_s=T0 + 1.0, expires_in_s=None, profiles=["Ben"])
    await world.running.control.queries.access.add_token(token)
    later = Owner(world.running, {"Authorization": f"Bearer {shown}"})
    assert (await later.ask("GET", "/removed"))[1]["items"] == []
    assert (await later.ask("POST", f"/removed/{removed['id']}/restore"))[0] == 404


async def test_the_form_of_sites_and_a_list_leave_alone_what_others_own(world: World) -> None:
    address = "https://shop.example"
    await world.ann.declare(f"WATCH '{address}' OF SITE AS \"Shop\" TELL LOG 'ann'; WATCH 'https://a.example/feed';")
    for profile, scope in (("", "write"), ("Ben", "write")):
        browser = Browser(world.running)
        if profile:
            world.running.client.session.cookie_jar.clear()
            await choose(browser, await invite(world.running.control.queries, "ben", "write", [profile]))
        else:
            await browser.sign_in(cast("Scope", scope))
        for form in ({"addresses": f"{address} Shop"}, {"addresses": f"{address} Store"}):
            answer, page = await browser.post("/sites", form)
            assert answer.status == 303, page
    rules = world.running.control.declarations.declaration.rules
    assert {name for name in rules if "a.example" not in name} == {"Ann⋮Shop", "Ben⋮Store", "Store"}
    assert "LOG 'ann'" in (await world.ann.ask("GET", "/profiles/Ann"))[1]["text"]
    status, made = await world.admin.ask("POST", "/import?name=All", "https://a.example/feed\n")
    assert (status, made["sources_added"], made["sources_known"]) == (201, 1, 0)


async def test_what_an_owner_declares_keeps_nobody_from_removing_what_is_shared(world: World) -> None:
    await world.admin.declare(
        'WATCH \'https://a.example/feed\' AS "a" INTO "Ann", "Others"; WATCH \'https://b.example/feed\' AS "b" INTO '
        '"Ann", "Others";'
    )
    both = EVERY_FEED.format(name="both", profile="Ann")
    await world.ann.declare(both.replace("SET QUERY", 'FROM SOURCES "a.example/feed", "b.example/feed" SET QUERY'))
    await world.admin.declare('DROP NOTIFICATION "a";')
    assert (await world.ann.ask("GET", "/rules/both"))[1]["sources"] == ["b.example/feed"]
    await world.admin.declare('DROP NOTIFICATION "b";')
    assert (await world.ann.ask("GET", "/rules/both"))[1]["sources"] == []
    status, refused = await world.ann.ask("POST", "/profiles", (await world.ann.ask("GET", "/profiles/Ann"))[1]["text"])
    assert (status, "there is no source" in json.dumps(refused["errors"])) == (422, True)
    await world.admin.declare('WATCH \'https://a.example/feed\' AS "a" INTO "Ann";')
    assert (await world.ann.ask("GET", "/rules/both"))[1]["sources"] == ["a.example/feed"]


OPML = """<opml version="2.0"><body>
<outline text="Ann"><outline text="A" xmlUrl="https://a.example/feed"/></outline>
<outline text="News"><outline text="B" xmlUrl="https://b.example/feed"/><outline text="A" xmlUrl="https://c.example/"/>
</outline></body></opml>"""


async def test_an_owner_imports_a_list_into_the_own_profile(world: World) -> None:
    await world.ben.declare("WATCH 'https://b.example/feed' AS \"B\";")
    for added, known in ((3, 0), (0, 3)):
        status, made = await world.ann.ask("POST", "/import", OPML)
        assert (status, made["sources_added"], made["sources_known"]) == (201, added, known)
    assert await world.ann.names("rules") == {"A", "B", "A 2"}
    assert await world.ben.names("rules") == {"B"}
    assert await world.admin.names("profiles") == {"Ann", "Ben"}


async def test_an_owner_imports_by_the_client_without_naming_the_profile(world: World) -> None:
    token = world.ann.headers["Authorization"].removeprefix("Bearer ")
    async with Client.over_http(str(world.running.client.make_url("")), token) as client:
        assert (await client.import_feeds("https://a.example/feed"))["sources_added"] == 1
    assert await world.admin.names("profiles") == {"Ann"}


async def test_an_owner_cannot_import_into_a_profile_of_others(world: World) -> None:
    status, refused = await world.ann.ask("POST", "/import?name=Ben", OPML)
    assert (status, refused["detail"]) == (422, "you write only the profile 'Ann', not 'Ben'")
    assert await world.ann.names("sources", "source") == set()


async def test_an_import_keeps_to_the_limits_of_its_owner(world: World) -> None:
    token, shown = new_token("Cleo", "write", now_s=T0, expires_in_s=None, profiles=["Cleo"])
    limited = replace(token, limits=OwnerLimits(sources=2))
    await world.running.control.queries.access.add_token(limited)
    cleo = Owner(world.running, {"Authorization": f"Bearer {shown}"})
    status, refused = await cleo.ask("POST", "/import", OPML)
    assert (status, refused["detail"]) == (409, "your limit is 2 sources: you have 0, and with this you would have 3")
    status, tried = await cleo.ask("POST", "/import?dry_run=true", OPML.replace("News", "Cleo"))
    assert status == 409, tried
