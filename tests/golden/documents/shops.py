"""Pages of shops: prices in JSON-LD, microdata and OpenGraph, and numbers in the language of a page."""

from __future__ import annotations

import json

from proxyd.core.language import BUILT_IN
from proxyd.core.model.decimal_marks import NO_LANGUAGES, Languages
from proxyd.core.model.profile import PageClass
from tests.golden.documents.case import Case
from tests.golden.documents.pages import page_class

PRICE = BUILT_IN.classes["PRICE"]
_SHOP = """<!doctype html><html lang="{lang}"><head><title>{title} | Shop</title>
<meta property="og:title" content="{title} | Shop"><meta property="og:type" content="product">
{head}</head><body><nav><a href="/">Home</a></nav><main><h1>{title}</h1>{body}</main>
<footer>(c) Shop</footer></body></html>"""
_CONTEXT = "https://schema.org"


def shop(
    name: str,
    head: str = "",
    body: str = "",
    *,
    lang: str = "en",
    title: str = "Desk lamp",
    reads: PageClass = PRICE,
    languages: Languages = NO_LANGUAGES,
) -> Case:
    page = _SHOP.format(lang=lang, title=title, head=head, body=body)
    return Case(name, page.encode(), "text/html; charset=utf-8", reads, languages)


def linked(*documents: object) -> str:
    texts = (each if isinstance(each, str) else json.dumps(each) for each in documents)
    return "".join(f'<script type="application/ld+json">{text}</script>' for text in texts)


def product(offers: object, **more: object) -> dict[str, object]:
    return {"@context": _CONTEXT, "@type": "Product", "name": "Desk lamp", "sku": "L-1", "offers": offers, **more}


def offer(price: object, **more: object) -> dict[str, object]:
    return {
        "@type": "Offer",
        "price": price,
        "priceCurrency": "EUR",
        "availability": "https://schema.org/InStock",
        **more,
    }


_CRUMBS = {"@context": _CONTEXT, "@type": "BreadcrumbList", "itemListElement": [{"@type": "ListItem", "name": "Lamps"}]}
_RELATED = [product(offer("5.00"), name="Bulb")]
_SPECIFIED = [
    {"@type": "UnitPriceSpecification", "price": "59.00", "priceCurrency": "EUR", "priceType": "ListPrice"},
    {"@type": "UnitPriceSpecification", "price": "49.00", "priceCurrency": "EUR"},
]
_GRAPH = {"@context": _CONTEXT, "@graph": [_CRUMBS, {"@type": "WebPage", "name": "x"}, product(offer("49.90"))]}
_VARIANTS = {
    "@context": _CONTEXT,
    "@type": "ProductGroup",
    "name": "Desk lamps",
    "hasVariant": [product(offer(49), name="Desk lamp, red"), product(offer(59), name="Desk lamp, blue")],
}
LINKED = [
    shop("an offer", linked(product(offer("49.90")))),
    shop("a price as a number", linked(product(offer(49.9)))),
    shop("a price in the notation of the page", linked(product(offer("1.299,00"))), lang="de"),
    shop("a price with groups alone", linked(product(offer("12.990"))), lang="es-CL"),
    shop("a list of offers", linked(product([offer(""), offer("49.90"), offer("39.90")]))),
    shop(
        "the lowest of many offers", linked(product({"@type": "AggregateOffer", "lowPrice": "39.90", "highPrice": 60}))
    ),
    shop(
        "offers within an offer",
        linked(product({"@type": "AggregateOffer", "offers": [offer("39.90"), offer("49.90")]})),
    ),
    shop("a price that was crossed out", linked(product({"@type": "Offer", "priceSpecification": _SPECIFIED}))),
    shop("a graph", linked(_GRAPH)),
    shop("a list of documents", linked([_CRUMBS, product(offer("49.90"))])),
    shop("another script before it", linked(_CRUMBS, product(offer("49.90"), isRelatedTo=_RELATED))),
    shop("a related product alone", linked({"@type": "WebPage", "name": "x", "isRelatedTo": _RELATED})),
    shop("variants of a product", linked(_VARIANTS)),
    shop("the main entity of a page", linked({"@type": "WebPage", "mainEntity": product(offer("49.90"))})),
    shop("an offer by itself", linked(offer("49.90", itemOffered={"@type": "Product", "name": "Desk lamp"}))),
    shop("an offer of several types", linked({"@type": ["Thing", "Offer"], "name": "Lamp", "price": 5})),
    shop(
        "sold out without a price", linked(product({"@type": "Offer", "availability": "http://schema.org/OutOfStock"}))
    ),
    shop("a script that is broken", linked("{not json", product(offer("49.90")))),
    shop(
        "a script with line ends in its texts",
        linked('{"@type":"Product","name":"Desk\nlamp","offers":{"price":"5"}};'),
    ),
    shop("a script in a comment", linked("<!--\n" + json.dumps(product(offer("49.90"))) + "\n-->")),
    shop("a script that is nested deeply", linked("[" * 100_000)),
    shop("a word as price", linked(product(offer("on request")))),
]

_SCOPE = '<div itemscope itemtype="https://schema.org/Product"><span itemprop="name">Desk lamp</span>{}</div>'
_OFFER = '<div itemprop="offers" itemscope itemtype="https://schema.org/Offer">{}</div>'
_BRAND = '<div itemprop="brand" itemscope><span itemprop="name">Acme</span></div>'
_STOCK = '<link itemprop="availability" href="https://schema.org/InStock">'
_MICRODATA = _SCOPE.format(
    _BRAND
    + _OFFER.format(
        '<span itemprop="price" content="49.90">49,90</span><b itemprop="priceCurrency" content="EUR">€</b>'
    )
)
_OPEN_GRAPH = (
    '<meta property="product:price:amount" content="1,299.00"><meta property="product:price:currency" content="USD">'
)
OTHERS = [
    shop("microdata with contents", body=_MICRODATA),
    shop(
        "microdata as text", body=_SCOPE.format(_OFFER.format(f'<p itemprop="price">1.299,- €</p>{_STOCK}')), lang="de"
    ),
    shop("microdata without an item", body='Only <span itemprop="price">$49.90</span>'),
    shop(
        "the lowest price in microdata",
        body=_SCOPE.format(_OFFER.format('<data itemprop="lowPrice" value="39.9">ab 39,90</data>')),
    ),
    shop("opengraph", _OPEN_GRAPH),
    shop(
        "the older names of opengraph",
        '<meta property="og:price:amount" content="1.299"><meta name="og:availability" content="instock">',
        lang="de",
    ),
    shop("json-ld before microdata and opengraph", linked(product(offer("49.90"))) + _OPEN_GRAPH, _MICRODATA),
    shop("a currency in opengraph alone", linked(product({"price": 49.9})) + _OPEN_GRAPH),
    shop("none", body="<p class=price>49,90 €</p>"),
    Case("a feed", b"<rss version='2.0'><channel><item><title>x</title></item></channel></rss>", None, PRICE),
    Case("json", b'{"price": 5}', "application/json", PRICE),
]

_BY_JSONLD = page_class(price="Decimal JSONLD $.offers.price", all="String JSONLD $.offers", name="String CSS h1")
_EVENTS = [{"@type": "Event", "url": f"/{n}", "name": f"Event {n}", "seats": n} for n in (1, 2)]
_EACH = page_class("JSONLD $[?@['@type']=='Event']", "url", url="URL JSONLD $.url", seats="Integer JSONLD $.seats")
SELECTED = [
    shop("a value by its path", linked(_CRUMBS, product(offer("49.90"))), reads=_BY_JSONLD),
    shop("a value in a graph", linked(_GRAPH), reads=_BY_JSONLD),
    shop(
        "a latitude on a german page",
        linked({"geo": {"lat": "48.137"}}),
        lang="de",
        reads=page_class(v="Decimal JSONLD $.geo.lat"),
    ),
    shop("nothing at the path", linked(_CRUMBS), reads=_BY_JSONLD),
    shop("rows", linked(_EVENTS), reads=_EACH),
    shop(
        "a price and a field of one's own",
        linked(product(offer(5))),
        reads=page_class(p="Decimal PRICE price", h="String CSS h1"),
    ),
]

_FACTS = (
    "<p class=sku>SKU: L-1</p><h2>Acme</h2><dl><dt>Weight</dt><dd>2 kg</dd><dt>Stock</dt><dd>\n 12\n left </dd></dl>"
    "<a rel=next href=/2>more</a>"
)
_CUT = [  # the examples of docs/language.md
    ("an attribute by xpath", "//a[@rel='next']/@href"),
    ("what follows some words", "substring-after(//p[@class='sku'], 'SKU: ')"),
    ("what precedes a mark", "substring-before(//title, ' |')"),
    ("the value next to a label", "normalize-space(//dt[.='Stock']/following-sibling::dd[1])"),
    ("several texts as one", "concat(//h1, ' by ', //h2)"),
]
XPATH = [shop(name, body=_FACTS, reads=page_class(v=f"String XPATH {path}")) for name, path in _CUT]

_SHOWN = page_class(v="Decimal CSS b")
_STATED = page_class(v="Decimal META price")
_FEED = """<rss version="2.0"><channel><title>t</title><language>{}</language>
<item><guid>1</guid><title>1.299 €</title></item><item><guid>2</guid><title>7</title></item>
<item><guid>3</guid><title>sold out</title></item></channel></rss>"""
_TITLES = page_class(**{"channel.item.title": "Decimal"})


def shown(name: str, lang: str, text: str = "1.299", header: str | None = None, locale: str | None = None) -> Case:
    return shop(name, body=f"<b>{text}</b>", lang=lang, reads=_SHOWN, languages=Languages(locale, header))


NUMBERS = [
    shown("in english", "en"),
    shown("in german", "de"),
    shown("in swiss german", "de-CH"),
    shown("in a language that is not known", "xx"),
    shown("by the header", "", header="fr-FR, en"),
    shown("by the page before the header", "en-GB", header="fr"),
    shown("by the locale before the page", "en", locale="de"),
    shown("a range", "en", "from $5 to $9"),
    shown("a percentage", "en", "-12.5 %"),
    shop("data in the words of a program", '<meta name="price" content="1.299">', lang="de", reads=_STATED),
    shop("data by the locale", '<meta name="price" content="1.299">', reads=_STATED, languages=Languages("de")),
    Case(
        "json by the locale",
        b'{"a": "1.299", "b": 1.299}',
        None,
        page_class(a="Decimal JSON $.a", b="Decimal JSON $.b"),
        Languages("de", "de"),
    ),
    Case("json by the header", b'{"a": "1.299"}', None, page_class(a="Decimal JSON $.a"), Languages(None, "de")),
    Case("a feed in german", _FEED.format("de").encode(), None, _TITLES),
    Case("a feed in english", _FEED.format("en-us").encode(), None, _TITLES),
    Case("a feed by the locale", _FEED.format("en").encode(), None, _TITLES, Languages("de")),
]

GROUPS = {"json_ld": LINKED, "prices": OTHERS, "json_ld_paths": SELECTED, "xpath_texts": XPATH, "numbers": NUMBERS}
