"""The price that a page states for programs: in JSON-LD, in microdata or for OpenGraph, in this order. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from urllib.parse import parse_qsl, urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

from proxyd.core.model.numbers import currency_in
from proxyd.core.model.profile import FieldType
from proxyd.probing.documents.document_texts import Json
from proxyd.probing.pages.linked_data import json_ld_documents, meta_view
from proxyd.probing.pages.page_values import PageRow, Raw, text_blocks

_MOST_NODES = 20_000  # JSON objects and lists of a page
_MOST_OFFERS = 100  # members of one list
_MOST_NODES_OF_A_VALUE = 1_000  # elements may stand in each other, so a longer one would be read many times
_LONGEST_ADDRESS = 2_048
_ELSEWHERE = 1  # the distance of an offer whose address is not that of the page, or that has none
_PRICES = ("price", "lowPrice", "minPrice")
_OFFERS = frozenset({"Offer", "AggregateOffer"})
_NOT_OFFERED = frozenset(
    {"@graph", "isRelatedTo", "isSimilarTo", "isAccessoryOrSparePartFor", "isConsumableFor", "itemListElement"}
)
"""Keys that lead to products other than the page's own. Nodes of a graph are documents of their own already."""
_FORMER = ("ListPrice", "StrikethroughPrice", "SRP", "MSRP", "RegularPrice")
_OPEN_GRAPH = {
    "price": ("product:price:amount", "og:price:amount"),
    "currency": ("product:price:currency", "og:price:currency"),
    "name": ("og:title",),
    "availability": ("product:availability", "og:availability"),
}

_Node = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class _Product:
    """The facts that a page states of its product; each is ``None`` if it does not."""

    price: Raw = None
    currency: Raw = None
    name: Raw = None
    availability: Raw = None

    @property
    def is_found(self) -> bool:
        """Whether a page states more than a name and a currency."""
        return self.price is not None or self.availability is not None


@dataclass(frozen=True, slots=True)
class _ProductRow:
    product: _Product
    node: LexborNode
    owner: LexborHTMLParser  # keeps the document alive

    def rows(self, _selector: str) -> list[PageRow]:
        return [self]

    def value(self, selector: str, _field_type: FieldType) -> Raw:
        value: Raw = getattr(self.product, selector.lower(), None)
        return value

    def outer(self) -> tuple[str, str]:
        return self.node.tag or "", self.node.html or ""


def price_view(text: str, _tag: str = "html", url: str = "") -> PageRow | None:
    """Return an element for the PRICE reader; of several offers it takes the one whose address is that of the page."""
    owner = LexborHTMLParser(text)
    return None if owner.root is None else _ProductRow(_product(owner.root, text, url), owner.root, owner)


def _product(root: LexborNode, text: str, url: str) -> _Product:
    """Return the product by the first notation that states a price; the others fill in missing facts."""
    notations = (_of_linked_data(json_ld_documents(root), url), _of_microdata(root), _of_open_graph(text))
    if not any(each.is_found for each in notations):
        return _Product()
    found = sorted(notations, key=lambda each: each.price is None)
    values = {
        each.name: next((value for one in found if (value := getattr(one, each.name)) is not None), None)
        for each in fields(_Product)
    }
    if values["currency"] is None and isinstance(values["price"], str):
        values["currency"] = currency_in(values["price"])
    return _Product(**values)


# ---- JSON-LD


def _of_linked_data(documents: Sequence[Json], url: str) -> _Product:
    pairs = list(_offers(documents))
    distances = _distances(pairs, url)
    nearest = min(distances, default=_ELSEWHERE)
    shown = [_offer(*pair) for pair, distance in zip(pairs, distances, strict=True) if distance == nearest]
    known = next((each for each in shown if each.price is not None), None)
    return known or next((each for each in shown if each.is_found), _Product())


def _distances(pairs: Sequence[tuple[_Node, _Node]], url: str) -> list[int]:
    """Return how far the address that each offer states is from that of the page; variants differ in path or query."""
    page, found = _address(url, url), dict[Raw, int]()
    stated = [_first(pair, "url") for pair in pairs]
    for each in dict.fromkeys(stated):
        own = _address(str(each), url) if each is not None else None
        is_shown = own is not None and page is not None and own[0] == page[0] and own[1] <= page[1]
        found[each] = -len(own[1]) if own is not None and is_shown else _ELSEWHERE
    return [found[each] for each in stated]


def _address(stated: str, url: str) -> tuple[tuple[str, str], set[tuple[str, str]]] | None:
    """Return the host and the path of an address, and its parameters; ``None`` if it is none, or too long."""
    if len(stated) > _LONGEST_ADDRESS:
        return None
    try:
        parts = urlsplit(urljoin(url, stated))
    except ValueError:
        return None
    host = (parts.hostname or "").removeprefix("www.")
    return (host, parts.path.rstrip("/")), set(parse_qsl(parts.query))


def _offers(documents: Sequence[Json]) -> Iterator[tuple[_Node, _Node]]:
    """Yield the offers of products with what names them, those that are nested least first; then other offers."""
    nodes = list(_nodes(documents))
    for node in nodes:
        for offer in _dicts(node.get("offers")):
            yield offer, node
    for node in nodes:
        types = node.get("@type")
        if _OFFERS.intersection(each for each in _list_offers(types) if isinstance(each, str)):
            yield node, next(_dicts(node.get("itemOffered")), node)


def _nodes(documents: Sequence[Json]) -> Iterator[_Node]:
    """Yield the objects in documents, those that are nested least first."""
    waiting: deque[Json] = deque(documents)
    for _ in range(_MOST_NODES):
        if not waiting:
            return
        value = waiting.popleft()
        if isinstance(value, dict):
            yield value
            value = [each for key, each in value.items() if key not in _NOT_OFFERED]
        if isinstance(value, list):
            waiting.extend(each for each in value if isinstance(each, dict | list))


def _offer(offer: _Node, named: _Node) -> _Product:
    """Return what an offer states; the name of the product is that of ``named``."""
    nested = list(_dicts(offer.get("offers")))
    stated = [each for each in _dicts(offer.get("priceSpecification")) if not _is_former(each)]
    priced = [offer, *stated, *nested]
    return _Product(
        _first(priced, *_PRICES),
        _first(priced, "priceCurrency"),
        _first([named], "name"),
        _last_part(_first([offer, *nested], "availability")),
    )


def _last_part(availability: Raw) -> str | None:
    """Return ``InStock`` of ``https://schema.org/InStock``."""
    return availability.rstrip("/").rpartition("/")[2] or None if isinstance(availability, str) else None


def _is_former(specification: _Node) -> bool:
    """Return whether a price is the one that is crossed out."""
    return str(specification.get("priceType", "")).endswith(_FORMER)


def _first(nodes: Sequence[_Node], *keys: str) -> Raw:
    """Return the first single value that one of the nodes has under one of the keys."""
    for node in nodes:
        for key in keys:
            for value in _list_offers(node.get(key)):
                if isinstance(value, int | float) or (isinstance(value, str) and value.strip()):
                    return value
    return None


def _list_offers(value: Json) -> Sequence[Json]:
    return value[:_MOST_OFFERS] if isinstance(value, list) else [value]


def _dicts(value: Json) -> Iterator[_Node]:
    return (each for each in _list_offers(value) if isinstance(each, dict))


# ---- microdata and OpenGraph


def _of_microdata(root: LexborNode) -> _Product:
    nodes = (node for name in _PRICES for node in _properties(root, name)[:_MOST_OFFERS])
    priced = next((node for node in nodes if _text(node) is not None), None)
    if priced is None:
        return _Product()
    offer = next(_scopes(priced), root)
    product = next((each for each in _scopes(priced) if _is_product(each)), None)
    return _Product(
        _text(priced),
        _property(offer, "priceCurrency"),
        None if product is None else _property(product, "name"),
        _last_part(_property(offer, "availability")),
    )


def _properties(node: LexborNode, name: str) -> list[LexborNode]:
    return node.css(f'[itemprop~="{name}"]')


def _property(scope: LexborNode, name: str) -> str | None:
    """Return a property of an item, or, if it does not have the property itself, of the items in it."""
    found = [each for each in _properties(scope, name)[:_MOST_OFFERS] if _text(each)]
    own = [each for each in found if next(_scopes(each), scope).mem_id == scope.mem_id]
    return next((_text(each) for each in [*own, *found]), None)


def _scopes(node: LexborNode) -> Iterator[LexborNode]:
    """Yield the items that an element belongs to, the innermost first."""
    parent = node.parent
    while parent is not None:
        if parent.is_element_node and "itemscope" in parent.attrs:
            yield parent
        parent = parent.parent


def _is_product(scope: LexborNode) -> bool:
    return "Product" in (scope.attributes.get("itemtype") or "")


def _text(node: LexborNode) -> str | None:
    """Return the value of an element of microdata: its ``content``, its link, or its text."""
    attributes = node.attributes
    for name in ("content", "value", "href"):
        if (attributes.get(name) or "").strip():
            return attributes[name]
    return "\n".join(text_blocks(node, _MOST_NODES_OF_A_VALUE)) or None


def _of_open_graph(text: str) -> _Product:
    view = meta_view(text)
    if view is None:
        return _Product()
    return _Product(
        **{
            name: next((value for each in names if (value := view.value(each, FieldType.STRING)) is not None), None)
            for name, names in _OPEN_GRAPH.items()
        }
    )
