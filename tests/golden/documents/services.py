"""Pages and feeds with the markup that widespread software makes: shops, status pages, releases, forums and news."""

from __future__ import annotations

import json

from proxyd.core.language import BUILT_IN
from proxyd.core.model.decimal_marks import NO_LANGUAGES, Languages
from proxyd.core.model.profile import PageClass
from tests.golden.documents.case import Case, text_case
from tests.golden.documents.pages import PAGE, page_class

_ATOM = "application/atom+xml; charset=utf-8"
_RSS = "application/rss+xml; charset=utf-8"
PRICE = BUILT_IN.classes["PRICE"]


def _html(name: str, text: str, reads: PageClass, languages: Languages = NO_LANGUAGES) -> Case:
    return Case(name, text.encode(), "text/html; charset=utf-8", reads, languages)


def _json(name: str, value: object, reads: PageClass) -> Case:
    return Case(name, json.dumps(value).encode(), "application/json; charset=utf-8", reads)


_SHOPIFY = """<!doctype html><html class="no-js" lang="en"><head><title>Walnut tray &ndash; Northwood</title>
<meta property="og:site_name" content="Northwood"><meta property="og:type" content="product">
<meta property="og:title" content="Walnut tray"><meta property="og:price:amount" content="1,249.00">
<meta property="og:price:currency" content="USD">
<script type="application/ld+json">{"@context":"http://schema.org/","@type":"Product","name":"Walnut tray",
"url":"https:\\/\\/northwood.example\\/products\\/tray","brand":{"@type":"Brand","name":"Northwood"},
"offers":[{"@type":"Offer","sku":"TR-1","availability":"http://schema.org/InStock","price":1249.0,
"priceCurrency":"USD","url":"https:\\/\\/northwood.example\\/products\\/tray?variant=1"},
{"@type":"Offer","sku":"TR-2","availability":"http://schema.org/OutOfStock","price":1349.0,"priceCurrency":"USD"}]}
</script></head><body><main id="MainContent"><div class="price price--on-sale">
<s class="price-item price-item--regular">
$1,399.00</s><span class="price-item price-item--sale">$1,249.00 USD</span></div></main></body></html>"""
_WOOCOMMERCE = """<!doctype html><html lang="de-DE"><head><title>Teekanne - Laden</title>
<script type="application/ld+json">{"@context":"https:\\/\\/schema.org\\/","@graph":[{"@type":"BreadcrumbList",
"itemListElement":[]},{"@type":"Product","@id":"https:\\/\\/laden.example\\/teekanne\\/#product","name":"Teekanne",
"offers":[{"@type":"Offer","priceSpecification":[{"@type":"UnitPriceSpecification","price":"59.90",
"priceCurrency":"EUR","valueAddedTaxIncluded":true}],"availability":"https:\\/\\/schema.org\\/InStock"}]}]}</script>
</head><body class="product"><p class="price"><span class="woocommerce-Price-amount amount"><bdi>59,90&nbsp;
<span class="woocommerce-Price-currencySymbol">&euro;</span></bdi></span></p></body></html>"""
_MAGENTO = """<!doctype html><html lang="fr"><head><title>Lampe</title></head><body><div class="product-info-price">
<span class="price-container" itemprop="offers" itemscope itemtype="http://schema.org/Offer">
<span id="product-price-7" data-price-amount="1249.5" class="price-wrapper"><span class="price">1 249,50 €</span></span>
<meta itemprop="price" content="1249.5"><meta itemprop="priceCurrency" content="EUR"></span></div></body></html>"""
_AMOUNT = page_class(price="Decimal CSS .woocommerce-Price-amount bdi", name="String META og:title")

_INCIDENT = "https://status.example/incidents/7xk2"
_STATUSPAGE_ATOM = f"""<?xml version="1.0" encoding="UTF-8"?>
<feed xml:lang="en-US" xmlns="http://www.w3.org/2005/Atom"><id>tag:status.example,2005:/history</id>
<link rel="alternate" type="text/html" href="https://status.example"/>
<link rel="self" type="application/atom+xml" href="https://status.example/history.atom"/>
<title>Example Status - Incident History</title><updated>2026-11-24T10:42:10Z</updated>
<author><name>Example</name></author><entry><id>tag:status.example,2005:Incident/2801</id>
<published>2026-11-24T10:42:10Z</published><updated>2026-11-24T10:42:10Z</updated>
<link rel="alternate" type="text/html" href="{_INCIDENT}"/><title>Slow uploads</title>
<content type="html">&lt;p&gt;&lt;small&gt;Nov &lt;var data-var='date'&gt;24&lt;/var&gt;,
&lt;var data-var='time'&gt;10:42&lt;/var&gt; UTC&lt;/small&gt;&lt;br&gt;&lt;strong&gt;Resolved&lt;/strong&gt; -
Uploads are as fast as before.&lt;/p&gt;</content></entry></feed>"""
_STATUSPAGE_HTML = """<!doctype html><html><head><title>Example Status</title></head><body class="status index">
<div class="page-status status-none"><span class="status font-large">All Systems Operational</span></div>
<div class="components-container one-column"><div class="component-container border-color">
<div data-component-id="a1" class="component-inner-container status-green" data-component-status="operational">
<span class="name">API</span><span class="component-status" title="">Operational</span></div></div>
<div class="component-container"><div data-component-id="b2" class="component-inner-container status-orange"
data-component-status="partial_outage"><span class="name">Uploads</span><span class="component-status">Partial Outage
</span></div></div></div></body></html>"""
_COMPONENTS = page_class(
    "CSS .component-inner-container",
    "name",
    name="String CSS .name",
    status="String CSS ::attr(data-component-status)",
)
_UPTIME = {
    "page": {"id": "kctbh9vrtdwd", "name": "Example", "updated_at": "2026-11-24T10:42:10.100Z"},
    "components": [
        {"id": "a1", "name": "API", "status": "operational", "updated_at": "2026-11-20T08:00:00.000Z"},
        {"id": "b2", "name": "Uploads", "status": "major_outage", "updated_at": "2026-11-24T10:40:00.000Z"},
    ],
}
_PARTS = page_class(
    "JSON $.components[*]",
    "id",
    id="String JSON $.id",
    name="String JSON $.name",
    status="String JSON $.status",
    changed="Timestamp JSON $.updated_at",
)

_RELEASES_ATOM = """<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:media="http://search.yahoo.com/mrss/" xml:lang="en-US">
<id>tag:github.com,2008:https://github.com/example/tool/releases</id>
<link type="text/html" rel="alternate" href="https://github.com/example/tool/releases"/>
<title>Release notes from tool</title><updated>2026-11-23T09:12:00Z</updated><entry>
<id>tag:github.com,2008:Repository/4242/v2.4.0</id><updated>2026-11-23T09:15:21Z</updated>
<link rel="alternate" type="text/html" href="https://github.com/example/tool/releases/tag/v2.4.0"/>
<title>2.4.0</title><content type="html">&lt;h2&gt;Fixed&lt;/h2&gt;
&lt;ul&gt;&lt;li&gt;Reads long lines.&lt;/li&gt;&lt;/ul&gt;
</content><author><name>maintainer</name></author><media:thumbnail height="30" width="30" url="https://a.example/u/1"/>
</entry><entry><id>tag:github.com,2008:Repository/4242/v2.4.0-rc.1</id><updated>2026-11-20T18:00:00Z</updated>
<link rel="alternate" type="text/html" href="https://github.com/example/tool/releases/tag/v2.4.0-rc.1"/>
<title>v2.4.0-rc.1</title><content>No content.</content><author><name>maintainer</name></author></entry></feed>"""
_RELEASES = [
    {"id": 91, "tag_name": "v2.4.0", "name": "2.4.0", "prerelease": False, "published_at": "2026-11-23T09:15:21Z"},
    {"id": 90, "tag_name": "v2.4.0-rc.1", "name": "", "prerelease": True, "published_at": "2026-11-20T18:00:00Z"},
]
_TAGS = page_class(
    "JSON $[*]",
    "tag",
    tag="String JSON $.tag_name",
    trial="Boolean JSON $.prerelease",
    at="Timestamp JSON $.published_at",
)
_PYPI_RSS = """<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"><channel>
<title>PyPI recent updates for tool</title><link>https://pypi.org/project/tool/</link>
<description>Recent updates to the Python Package Index for tool</description><language>en</language><item>
<title>2.4.0</title><link>https://pypi.org/project/tool/2.4.0/</link><description>A tool</description>
<pubDate>Mon, 23 Nov 2026 09:20:11 GMT</pubDate></item></channel></rss>"""

_DISCOURSE_RSS = """<?xml version="1.0" encoding="UTF-8" ?><rss version="2.0" xmlns:discourse="http://www.discourse.org/"
xmlns:atom="http://www.w3.org/2005/Atom" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel>
<title>Forum - Latest topics</title><link>https://forum.example/latest</link><description>Latest topics</description>
<lastBuildDate>Tue, 24 Nov 2026 11:02:55 +0000</lastBuildDate>
<atom:link href="https://forum.example/latest.rss" rel="self" type="application/rss+xml"/><item>
<title>How do I read two sensors?</title><dc:creator><![CDATA[kim]]></dc:creator><category>Questions</category>
<description><![CDATA[<p>I have two of them on one bus.</p><p><a href="https://forum.example/t/4411">Read full topic</a>
</p>]]></description><link>https://forum.example/t/how-do-i-read-two-sensors/4411</link>
<pubDate>Tue, 24 Nov 2026 11:02:55 +0000</pubDate><discourse:topicPinned>No</discourse:topicPinned>
<guid isPermaLink="false">forum.example-topic-4411</guid><source url="https://forum.example/t/4411.rss">How do I
</source></item></channel></rss>"""
_DISCOURSE_HTML = """<!doctype html><html lang="en"><body class="crawler"><table class='topic-list'>
<tbody><tr class="topic-list-item category-questions" id="topic-list-item-4411"><td class="main-link"
itemprop="itemListElement"
itemscope itemtype='http://schema.org/ListItem'><meta itemprop='position' content='1'><span class="link-top-line">
<a itemprop='url' href='https://forum.example/t/two-sensors/4411' class='title raw-link raw-topic-link'>
How do I read two sensors?</a></span></td><td class="replies"><span class='posts' title='posts'>3</span></td>
<td class="views"><span class='views' title='views'>1,208</span></td><td>November 24, 2026</td></tr></tbody></table>
</body></html>"""
_TOPICS = page_class(
    "CSS tr.topic-list-item",
    "link",
    link="URL CSS a.title",
    title="String CSS a.title",
    replies="Integer CSS .posts",
    views="Integer CSS .views",
)
_PHPBB_ATOM = """<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en-gb"><link rel="self" type="application/atom+xml"
href="https://board.example/feed" /><title>Board</title><link href="https://board.example/index.php" />
<updated>2026-11-24T09:00:00+01:00</updated><author><name><![CDATA[Board]]></name></author>
<id>https://board.example/feed</id><entry><author><name><![CDATA[sam]]></name></author>
<updated>2026-11-24T09:00:00+01:00</updated><published>2026-11-24T09:00:00+01:00</published>
<id>https://board.example/viewtopic.php?p=88#p88</id><link href="https://board.example/viewtopic.php?p=88#p88"/>
<title type="html"><![CDATA[News &bull; Re: A new board]]></title><category term="News" scheme="https://board.example/f=1"/>
<content type="html"><![CDATA[It works here.<p>Statistics: Posted by sam</p><hr />]]></content></entry></feed>"""

_WORDPRESS_RSS = """<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"
xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:wfw="http://wellformedweb.org/CommentAPI/"
xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:slash="http://purl.org/rss/1.0/modules/slash/"><channel>
<title>The Gazette</title><link>https://gazette.example</link><description></description>
<lastBuildDate>Tue, 24 Nov 2026 06:30:00 +0000</lastBuildDate><language>en-GB</language>
<generator>https://wordpress.org/?v=6.8</generator><item><title>Bridge opens &#8216;early&#8217;</title>
<link>https://gazette.example/2026/11/bridge/</link><comments>https://gazette.example/2026/11/bridge/#comments</comments>
<dc:creator><![CDATA[A. Writer]]></dc:creator><pubDate>Tue, 24 Nov 2026 06:30:00 +0000</pubDate>
<category><![CDATA[Town]]></category><guid isPermaLink="false">https://gazette.example/?p=1021</guid>
<description><![CDATA[<p>The bridge is open. [&#8230;]</p>]]></description>
<content:encoded><![CDATA[<p>The bridge is open to all from today.</p>]]></content:encoded>
<slash:comments>4</slash:comments></item></channel></rss>"""
_NEWS_HTML = """<!doctype html><html lang="en"><head><title>Bridge opens early - The Gazette</title>
<meta property="article:published_time" content="2026-11-24T06:30:00+00:00">
<meta property="article:modified_time" content="2026-11-24T07:05:00+00:00">
<meta property="og:title" content="Bridge opens early">
<script type="application/ld+json">{"@context":"https://schema.org","@type":"NewsArticle",
"headline":"Bridge opens early",
"datePublished":"2026-11-24T06:30:00Z","dateModified":"2026-11-24T07:05:00Z",
"author":[{"@type":"Person","name":"A. Writer"}]}
</script></head><body>
<header><nav><ul><li><a href="/">Home</a></li><li><a href="/town">Town</a></li></ul></nav></header>
<main><article><h1>Bridge opens early</h1><p>The bridge is open to all from today.</p><p>It was to open in May.</p>
<aside><h2>More</h2><ul><li><a href="/x">Market moves</a></li></ul></aside></article></main>
<footer>Imprint</footer><script>window.x=1</script></body></html>"""
_ARTICLE = page_class(
    headline="String JSONLD $.headline",
    changed="Timestamp JSONLD $.dateModified",
    published="Timestamp META article:published_time",
    author="String JSONLD $.author[0].name",
)

GROUPS: dict[str, list[Case]] = {
    "shops": [
        _html("a product of Shopify", _SHOPIFY, PRICE),
        _html("a product of WooCommerce", _WOOCOMMERCE, PRICE),
        _html("the amount that WooCommerce shows", _WOOCOMMERCE, _AMOUNT),
        _html("a product of Magento", _MAGENTO, PRICE),
    ],
    "status_pages": [
        text_case("the history of Statuspage", _STATUSPAGE_ATOM, _ATOM),
        _html("the components of Statuspage", _STATUSPAGE_HTML, _COMPONENTS),
        _json("the summary of Statuspage", _UPTIME, _PARTS),
    ],
    "releases": [
        text_case("the releases of a repository", _RELEASES_ATOM, _ATOM),
        _json("the releases of a repository by its interface", _RELEASES, _TAGS),
        text_case("the versions of a package", _PYPI_RSS, _RSS),
    ],
    "forums": [
        text_case("the topics of Discourse", _DISCOURSE_RSS, _RSS),
        _html("the topics of Discourse as a page", _DISCOURSE_HTML, _TOPICS),
        text_case("the posts of phpBB", _PHPBB_ATOM, _ATOM),
    ],
    "news": [
        text_case("the articles of WordPress", _WORDPRESS_RSS, _RSS),
        _html("the facts of an article", _NEWS_HTML, _ARTICLE),
        _html("the text of an article", _NEWS_HTML, PAGE),
    ],
}
