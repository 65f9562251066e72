"""WATCH 'page' OF PRICE: from the HTML that a shop sends to the words that people get."""

from __future__ import annotations

import json
import pickle

import pytest

from proxyd.core.language import SourceText, check
from proxyd.core.model.decimal_marks import Languages
from proxyd.core.model.item import EventKind, Item, UpdateEvent
from proxyd.core.rules.programs.rule_program import compile_rule
from proxyd.probing.document_parser import parse_document
from proxyd.probing.documents.probe_failures import UnreadableDocumentError
from tests.fleets import Drive, changed, decider
from tests.golden.documents.shops import linked, offer, product, shop

T0 = 1_000_000_000.0
NAME = "shop.example/lamp"
CHEAPER = f"WATCH 'https://{NAME}' OF PRICE WHERE NEW.price < OLD.price"


class Shop:
    """A page whose price is watched, and the titles of what was told of it."""

    def __init__(self, text: str) -> None:
        declared = check([SourceText("t", text)]).declaration
        assert declared is not None
        self.drive = Drive(decider(declared, now_s=T0))
        self._at_s = T0

    async def shows(self, head: str, body: str = "", *, lang: str = "en") -> None:
        request = self.drive.decider.request(NAME, self._at_s)
        assert request is not None
        page = shop("now", head, body, lang=lang)
        read = parse_document(page.body, page.content_type, request.url, request.page_class, Languages(request.locale))
        await self.drive.see(changed(NAME, list(read.items), self._at_s))
        self._at_s += 60.0

    def told(self) -> list[str]:
        seen = [told for each in self.drive.memory.observations for told in each.rules.notifications]
        return [json.loads(each.body)["data"]["message"]["title"] for each in seen]


async def test_a_price_that_falls_is_told_with_the_old_and_the_new_one() -> None:
    page = Shop(CHEAPER)
    for price in ("1,299.00", "1,350.00", "1,199.50", "1,199.50", "1,250.00"):
        await page.shows(linked(product(offer(price))))
    assert page.told() == ["Desk lamp: price: 1350 → 1199.5"]


async def test_the_notation_may_change_with_the_shop_and_is_no_news() -> None:
    page = Shop(CHEAPER)
    await page.shows(linked(product(offer(1299.0))), lang="de")
    await page.shows(linked(product(offer("1.299,00"))), lang="de")
    await page.shows("", 'Nur <b itemprop="price">1.299 €</b>', lang="de")
    currency = '<meta property="product:price:currency" content="€">'
    await page.shows(f'<meta property="product:price:amount" content="999,00">{currency}', lang="de")
    assert page.told() == ["Desk lamp | Shop: price: 1299 → 999"]


async def test_a_price_that_falls_while_it_is_missing_is_told_once_it_is_back() -> None:
    page = Shop(CHEAPER)
    sold_out = linked(product({"@type": "Offer", "availability": "https://schema.org/OutOfStock"}))
    await page.shows(linked(product(offer("49.90"))))
    await page.shows(sold_out)
    assert page.told() == []
    await page.shows(linked(product(offer("49.90"))))
    assert page.told() == []
    await page.shows(sold_out)
    await page.shows(linked(product(offer("39.90"))))
    assert page.told() == ["Desk lamp: price: 49.9 → 39.9, availability: OutOfStock → InStock"]


async def test_a_page_without_a_price_is_a_failure_that_says_so() -> None:
    with pytest.raises(UnreadableDocumentError, match="states no price"):
        await Shop(CHEAPER).shows("", "<p>49.90</p>")


async def test_a_locale_settles_what_the_page_leaves_open() -> None:
    page = Shop(f"{CHEAPER} LOCALE 'de' MESSAGE '{{OLD.price}} > {{NEW.price}} {{currency}}'")
    await page.shows("", '<b itemprop="price">1.299</b> <i itemprop="priceCurrency">EUR</i>')
    await page.shows("", '<b itemprop="price">1.199</b> <i itemprop="priceCurrency">EUR</i>')
    assert page.told() == ["1299 > 1199 EUR"]


def test_number_and_cast_follow_the_locale_that_the_sources_of_a_rule_share() -> None:
    pages = [f"CREATE SOURCE \"{n}\" OF PAGE AT 'https://a.example/{n}' {{}};" for n in (1, 2)]
    rule = 'CREATE PROFILE "P"; INSERT NOTIFICATION "r" INTO "P" SET QUERY "SELECT NUMBER(text) FROM PAGE" '
    rule += 'SET TRIGGER "ON UPDATE TO PAGE WHERE CAST(text AS DECIMAL) = 1299";'
    event = UpdateEvent("1", 1, EventKind.UPDATE, Item("page", {"text": "1.299"}, None, ""), T0, T0, exact=True)
    for locales, passes in ((("de", "fr"), True), (("de", "en"), False), (("de", None), False), ((None, None), False)):
        options = ["" if each is None else f"LOCALE '{each}'" for each in locales]
        text = "".join(page.format(option) for page, option in zip(pages, options, strict=True)) + rule
        declared = check([SourceText("t", text)]).declaration
        assert declared is not None
        program = compile_rule(declared.rules["r"], declared, accepted_s=T0, chronon_s=10.0)
        elsewhere = pickle.loads(pickle.dumps(program))
        assert program.trigger.passes(event) is elsewhere.trigger.passes(event) is passes


async def test_after_another_locale_the_source_counts_as_new() -> None:
    page = Shop(CHEAPER)
    await page.shows("", '<b itemprop="price">1.299</b>')
    declared = check([SourceText("t", f"{CHEAPER} LOCALE 'de'")]).declaration
    assert declared is not None
    page.drive.decider.declare(declared, {NAME: T0}, T0 + 30)
    await page.shows("", '<b itemprop="price">1.199</b>')
    await page.shows("", '<b itemprop="price">1.099</b>')
    assert page.told() == ["Desk lamp | Shop: price: 1199 → 1099"]
