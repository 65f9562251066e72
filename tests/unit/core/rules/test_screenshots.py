"""Which probes are asked for a picture, and which notifications refer to it."""

from __future__ import annotations

import json
from dataclasses import replace

from proxyd.api.wire.explained import explanation
from proxyd.core.language import SourceText, check
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import Picture, ProbeOutcome
from proxyd.core.model.profile import Declaration
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.state import Notification
from tests.fleets import Drive, changed, decider

T0 = 1_000_000_000.0
PICTURE = Picture("image/png", b"picture")
OFFERS = """CREATE DOMAIN "D" AS CLASS::OFFER EACH CSS 'li' KEY title (title:String FROM CSS 'a')
CLASS::STOCK EACH CSS 'li' KEY title (title:String FROM CSS 'a');
CREATE SOURCE "offers" OF OFFER AT 'https://shop.example/offers' FETCH BROWSER;
CREATE SOURCE "stock" OF STOCK AT 'https://shop.example/stock' FETCH BROWSER;
CREATE PROFILE "P" AS (DOMAIN "D");
"""
ALL = OFFERS.replace(" FETCH BROWSER", "", 1)


def offers(name: str, clauses: str = "", page_class: str = "OFFER", query: str = "SELECT title FROM OFFER") -> str:
    return (
        f'INSERT NOTIFICATION "{name}" INTO "P" SET QUERY "{query}" SET TRIGGER "ON INSERT TO {page_class}"\n'
        f"START NOW END NEVER SET UTILITY STRICT {clauses};\n"
    )


def declared(*texts: str) -> Declaration:
    checked = check([SourceText("t", "".join(texts))])
    assert checked.declaration is not None, [str(each) for each in checked.errors]
    return checked.declaration


def shown(source: str, titles: str, at_s: float) -> ProbeOutcome:
    items = [Item(title, {"title": title}, None, title) for title in titles]
    return replace(changed(source, items, at_s), picture=PICTURE)


async def told(found: Decider, *outcomes: ProbeOutcome) -> list[Notification]:
    drive = Drive(found)
    seen = [await drive.see(each) for each in outcomes]
    return [each for observation in seen for each in observation.rules.notifications]


def test_a_picture_is_asked_for_where_a_rule_keeps_it_and_a_browser_opens_the_page() -> None:
    kept = offers("kept", "SET SCREENSHOT")
    for texts, wanted in (((OFFERS, kept), True), ((OFFERS, offers("plain")), False), ((ALL, kept), False)):
        request = decider(declared(*texts), now_s=T0).request("offers", T0)
        assert request is not None
        assert request.wants_picture is wanted


def test_a_picture_is_no_other_reading() -> None:
    asked = [
        decider(declared(OFFERS, offers("r", clauses)), now_s=T0).request("offers", T0)
        for clauses in ("", "SET SCREENSHOT")
    ]
    assert len({each.reading for each in asked if each is not None}) == 1


def test_an_explanation_names_the_rules_that_keep_screenshots() -> None:
    found = decider(declared(OFFERS, offers("kept", "SET SCREENSHOT"), offers("plain")), now_s=T0)
    told = Explainer.of(found).explain("offers", int(T0 // 10))
    assert told is not None
    assert [line for line in explanation(told).summary if "screenshot" in line] == ["rule kept keeps screenshots"]


async def test_only_the_notifications_of_rules_that_ask_have_the_picture_of_their_probe() -> None:
    found = decider(declared(OFFERS, offers("kept", "SET SCREENSHOT"), offers("plain")), now_s=T0)
    made = await told(found, shown("offers", "", T0 + 10.0), shown("offers", "ab", T0 + 60.0))
    pictures = {(each.rule, each.picture) for each in made}
    assert (len(made), pictures) == (4, {("kept", PICTURE.sha256), ("plain", None)})
    bodies = {each.notification_id: json.loads(each.body)["data"].get("screenshot") for each in made}
    paths = {name: f"/api/v1/notifications/{name}/screenshot" for name in bodies}
    assert bodies == {each.notification_id: paths[each.notification_id] if each.picture else None for each in made}


async def test_a_notification_of_a_probe_without_a_picture_has_none() -> None:
    found = decider(declared(OFFERS, offers("kept", "SET SCREENSHOT")), now_s=T0)
    without = replace(shown("offers", "a", T0 + 60.0), picture=None)
    (made,) = await told(found, shown("offers", "", T0 + 10.0), without)
    assert made.picture is None
    assert b"screenshot" not in made.body


async def test_a_rule_on_several_sources_has_the_picture_of_the_probe_that_completed_it() -> None:
    query = "SELECT o.title FROM OFFER o JOIN STOCK s ON s.title = o.title"
    rule = offers("kept", "SET LIFE WINDOW(30) SET SCREENSHOT", query=query)
    found = decider(declared(OFFERS, rule), now_s=T0)
    last = replace(shown("stock", "a", T0 + 90.0), picture=Picture("image/png", b"stock"))
    first = [shown("offers", "", T0 + 10.0), shown("stock", "", T0 + 20.0), shown("offers", "a", T0 + 60.0)]
    (made,) = await told(found, *first, last)
    assert last.picture is not None
    assert made.picture == last.picture.sha256
