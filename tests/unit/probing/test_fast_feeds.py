from __future__ import annotations

import pytest

from proxyd.probing.feeds.fast_feeds import parse_clean_feed
from proxyd.probing.feeds.feed_parser import parse_any_feed, parse_feed

URL = "https://example.org/blog/feed.xml"
_DC = 'xmlns:dc="http://purl.org/dc/elements/1.1/"'
_CONTENT = 'xmlns:content="http://purl.org/rss/1.0/modules/content/"'
_ATOM = 'xmlns:atom="http://www.w3.org/2005/Atom"'
_MEDIA = 'xmlns:media="http://search.yahoo.com/mrss/"'
_ITUNES = 'xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"'
_DECLARED = '<?xml version="1.0" encoding="UTF-8"?>'

WORDPRESS = f"""{_DECLARED}<rss version="2.0" {_CONTENT} xmlns:wfw="http://wellformedweb.org/CommentAPI/" {_DC} {_ATOM}
 xmlns:sy="http://purl.org/rss/1.0/modules/syndication/" xmlns:slash="http://purl.org/rss/1.0/modules/slash/" {_MEDIA}>
<channel><title>Blog</title>
<atom:link href="https://example.org/feed/" rel="self" type="application/rss+xml" />
<link>https://example.org</link><description>Just &#038; so</description>
<lastBuildDate>Sun, 01 Mar 2026 12:00:00 +0000</lastBuildDate><language>en-US</language>
<sy:updatePeriod>
hourly	</sy:updatePeriod><sy:updateFrequency>
1	</sy:updateFrequency><generator>https://wordpress.org/?v=6.9</generator>
<image><url>https://example.org/i.png</url><title>Blog</title><link>https://example.org</link><width>32</width>
<height>32</height></image>
<atom:link rel="hub" href="https://pubsubhubbub.appspot.com"/>
<item><title>It&#8217;s one</title><link>https://example.org/one/</link>
<comments>https://example.org/one/#respond</comments><dc:creator><![CDATA[ann]]></dc:creator>
<pubDate>Sun, 01 Mar 2026 12:00:00 +0000</pubDate><category><![CDATA[News]]></category>
<category><![CDATA[Art]]></category><guid isPermaLink="false">https://example.org/?p=1</guid>
<description><![CDATA[<p>Short&#8230;</p>]]></description><content:encoded><![CDATA[<p>Long</p>]]></content:encoded>
<wfw:commentRss>https://example.org/one/feed/</wfw:commentRss><slash:comments>3</slash:comments>
<post-id xmlns="com-wordpress:feed-additions:1">1</post-id>
<media:content url="https://gravatar.example/a" medium="image">
<media:title type="html">ann</media:title></media:content>
</item></channel></rss>"""

GHOST = f"""{_DECLARED}<rss {_DC} {_CONTENT} {_ATOM} version="2.0" {_MEDIA}><channel><title><![CDATA[Ghost]]></title>
<description><![CDATA[Thoughts]]></description><link>https://example.org/</link>
<image><url>https://example.org/favicon.png</url><title>Ghost</title><link>https://example.org/</link></image>
<generator>Ghost 5.1</generator><lastBuildDate>Sun, 01 Mar 2026 12:00:00 GMT</lastBuildDate>
<atom:link href="https://example.org/rss/" rel="self" type="application/rss+xml"/><ttl>60</ttl>
<item><title><![CDATA[One]]></title><description><![CDATA[Short]]></description><link>https://example.org/one/</link>
<guid isPermaLink="false">65f</guid><category><![CDATA[News]]></category><dc:creator><![CDATA[Ann]]></dc:creator>
<pubDate>Sun, 01 Mar 2026 12:00:00 GMT</pubDate><media:content url="https://example.org/a.jpg" medium="image"/>
<content:encoded><![CDATA[<p>Long</p>]]></content:encoded></item></channel></rss>"""

HUGO = f"""<?xml version="1.0" encoding="utf-8" standalone="yes"?>
<rss version="2.0" {_ATOM}><channel><title>Hugo</title><link>https://example.org/</link>
<description>Recent content</description><generator>Hugo</generator><language>en</language>
<lastBuildDate>Sun, 01 Mar 2026 12:00:00 +0000</lastBuildDate>
<atom:link href="https://example.org/index.xml" rel="self" type="application/rss+xml"/>
<item><title>One</title><link>https://example.org/one/</link><pubDate>Sun, 01 Mar 2026 12:00:00 +0000</pubDate>
<guid>https://example.org/one/</guid>
<description>&lt;p&gt;Text &amp;amp; more&lt;/p&gt;</description></item></channel></rss>"""

JEKYLL = """<?xml version="1.0" encoding="utf-8"?><feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en">
<generator uri="https://jekyllrb.com/" version="4.3">Jekyll</generator>
<link href="https://example.org/feed.xml" rel="self" type="application/atom+xml" />
<link href="https://example.org/" rel="alternate" type="text/html" hreflang="en" />
<updated>2026-03-01T12:00:00+00:00</updated><id>https://example.org/feed.xml</id><title type="html">Jekyll</title>
<subtitle>Sub</subtitle><author><name>Ann</name></author>
<entry><title type="html">One</title>
<link href="https://example.org/one" rel="alternate" type="text/html" title="One" />
<published>2026-03-01T12:00:00+00:00</published><updated>2026-03-01T12:00:00+00:00</updated>
<id>https://example.org/one</id>
<content type="html">&lt;p&gt;Long&lt;/p&gt;</content><author><name>Ann</name></author><category term="art" />
<summary type="html"><![CDATA[Short]]></summary></entry></feed>"""

GITHUB = f"""{_DECLARED}
<feed xmlns="http://www.w3.org/2005/Atom" {_MEDIA} xml:lang="en-US">
<id>tag:github.com,2008:https://github.com/a/b/releases</id>
<link type="text/html" rel="alternate" href="https://github.com/a/b/releases"/>
<link type="application/atom+xml" rel="self" href="https://github.com/a/b/releases.atom"/>
<title>Release notes from b</title><updated>2026-03-01T12:00:00Z</updated>
<entry><id>tag:github.com,2008:Repository/1/v1</id><updated>2026-03-01T12:00:00Z</updated>
<link rel="alternate" type="text/html" href="https://github.com/a/b/releases/tag/v1"/><title>v1</title>
<content type="html">&lt;p&gt;Fixes&lt;/p&gt;</content><author><name>ann</name></author>
<media:thumbnail height="30" width="30" url="https://avatars.example/u/1?s=60&amp;v=4"/></entry></feed>"""

YOUTUBE = f"""{_DECLARED}
<feed xmlns:yt="http://www.youtube.com/xml/schemas/2015" {_MEDIA} xmlns="http://www.w3.org/2005/Atom">
<link rel="self" href="http://www.youtube.com/feeds/videos.xml?channel_id=UC1"/><id>yt:channel:UC1</id>
<yt:channelId>UC1</yt:channelId><title>Channel</title><link rel="alternate" href="https://www.youtube.com/channel/UC1"/>
<author><name>Ann</name><uri>https://www.youtube.com/channel/UC1</uri></author>
<published>2020-01-01T00:00:00+00:00</published>
<entry><id>yt:video:1</id><yt:videoId>1</yt:videoId><yt:channelId>UC1</yt:channelId><title>One</title>
<link rel="alternate" href="https://www.youtube.com/watch?v=1"/>
<author><name>Ann</name><uri>https://www.youtube.com/channel/UC1</uri></author>
<published>2026-03-01T12:00:00+00:00</published><updated>2026-03-02T12:00:00+00:00</updated>
<media:group><media:title>One</media:title><media:content url="https://www.youtube.com/v/1" type="x/y" width="640"/>
<media:thumbnail url="https://i.example/1.jpg" width="480" height="360"/><media:description>Words</media:description>
<media:community><media:starRating count="1" average="5.00" min="1" max="5"/>
<media:statistics views="9"/></media:community>
</media:group></entry></feed>"""

REDDIT = f"""{_DECLARED}<feed xmlns="http://www.w3.org/2005/Atom" {_MEDIA}><category term="a" label="r/a"/>
<updated>2026-03-01T12:00:00+00:00</updated><icon>https://www.redditstatic.com/icon.png/</icon><id>/r/a/.rss</id>
<link rel="self" href="https://www.reddit.com/r/a/.rss" type="application/atom+xml" />
<link rel="alternate" href="https://www.reddit.com/r/a/" type="text/html" /><title>a</title>
<entry><author><name>/u/ann</name><uri>https://www.reddit.com/user/ann</uri></author><category term="a" label="r/a"/>
<content type="html">&lt;!-- SC_OFF --&gt;&lt;div class=&quot;md&quot;&gt;&lt;p&gt;x&lt;/p&gt;&lt;/div&gt;</content>
<id>t3_1</id>
<media:thumbnail url="https://b.example/1.jpg" /><link href="https://www.reddit.com/r/a/comments/1/" />
<updated>2026-03-01T12:00:00+00:00</updated><published>2026-03-01T12:00:00+00:00</published>
<title>One</title></entry></feed>"""

MASTODON = f"""{_DECLARED}<rss version="2.0" xmlns:webfeeds="http://webfeeds.org/rss/1.0" {_MEDIA}><channel>
<title>Ann</title><description>Public posts</description><link>https://m.example/@ann</link>
<image><url>https://m.example/a.png</url><title>Ann</title><link>https://m.example/@ann</link></image>
<lastBuildDate>Sun, 01 Mar 2026 12:00:00 +0000</lastBuildDate><webfeeds:icon>https://m.example/a.png</webfeeds:icon>
<generator>Mastodon v4.3.0</generator><item><guid isPermaLink="true">https://m.example/@ann/1</guid>
<link>https://m.example/@ann/1</link><pubDate>Sun, 01 Mar 2026 12:00:00 +0000</pubDate>
<description>&lt;p&gt;Caf\u00e9 \u4e2d&lt;/p&gt;</description>
<media:content url="https://m.example/1.jpg" type="image/jpeg" fileSize="1" medium="image">
<media:rating scheme="urn:simple">nonadult</media:rating><media:description type="plain">alt</media:description>
</media:content><category>tag</category></item></channel></rss>"""

SUBSTACK = f"""{_DECLARED}<rss {_DC} {_CONTENT} {_ATOM} version="2.0" {_ITUNES}
 xmlns:googleplay="http://www.google.com/schemas/play-podcasts/1.0"><channel><title><![CDATA[Sub]]></title>
<description><![CDATA[Letters]]></description><link>https://sub.example</link><generator>Substack</generator>
<lastBuildDate>Sun, 01 Mar 2026 12:00:00 GMT</lastBuildDate>
<atom:link href="https://sub.example/feed" rel="self" type="application/rss+xml"/><copyright><![CDATA[Ann]]></copyright>
<language><![CDATA[en]]></language><webMaster><![CDATA[a@sub.example]]></webMaster>
<itunes:owner><itunes:email><![CDATA[a@sub.example]]></itunes:email><itunes:name>
<![CDATA[Ann]]></itunes:name></itunes:owner>
<itunes:author><![CDATA[Ann]]></itunes:author><googleplay:owner><![CDATA[a@sub.example]]></googleplay:owner>
<item><title><![CDATA[One]]></title><description><![CDATA[Short]]></description><link>https://sub.example/p/one</link>
<guid isPermaLink="false">https://sub.example/p/one</guid><dc:creator><![CDATA[Ann]]></dc:creator>
<pubDate>Sun, 01 Mar 2026 12:00:00 GMT</pubDate>
<enclosure url="https://sub.example/1.jpg" length="0" type="image/jpeg"/>
<content:encoded><![CDATA[<p>Long</p>]]></content:encoded></item></channel></rss>"""

BLOGGER = f"""<?xml version='1.0' encoding='UTF-8'?>
<?xml-stylesheet href="http://www.blogger.com/styles/atom.css" type="text/css"?>
<feed xmlns='http://www.w3.org/2005/Atom' xmlns:openSearch='http://a9.com/-/spec/opensearchrss/1.0/'
 xmlns:gd='http://schemas.google.com/g/2005' xmlns:thr='http://purl.org/syndication/thread/1.0'>
<id>tag:blogger.com,1999:blog-1</id><updated>2026-03-01T12:00:00.000+01:00</updated><category term="x"/>
<title type='text'>Blog</title><subtitle type='html'></subtitle>
<link rel='http://schemas.google.com/g/2005#feed' type='application/atom+xml' href='https://b.example/feeds/posts/default'/>
<link rel='alternate' type='text/html' href='https://b.example/'/>
<link rel='hub' href='http://pubsubhubbub.appspot.com/'/>
<author><name>Ann</name><email>noreply@blogger.com</email>
<gd:image rel='x' width='16' height='16' src='https://b.example/i'/></author>
<generator version='7.00' uri='http://www.blogger.com'>Blogger</generator>
<openSearch:totalResults>1</openSearch:totalResults>
<entry><id>tag:blogger.com,1999:blog-1.post-1</id><published>2026-03-01T12:00:00.000+01:00</published>
<updated>2026-03-01T12:00:00.001+01:00</updated><category scheme="http://www.blogger.com/atom/ns#" term="art"/>
<title type='text'>One</title><content type='html'>&lt;p&gt;Long&lt;/p&gt;</content>
<link rel='replies' type='text/html' href='https://b.example/one.html#comment-form' title='0 Comments'/>
<link rel='edit' type='application/atom+xml' href='https://b.example/feeds/1'/>
<link rel='alternate' type='text/html' href='https://b.example/one.html' title='One'/>
<author><name>Ann</name><uri>http://www.blogger.com/profile/1</uri><email>noreply@blogger.com</email>
<gd:image rel='x' width='16' height='16' src='https://b.example/i'/></author>
<media:thumbnail {_MEDIA} url="https://b.example/t.jpg" height="72" width="72"/>
<thr:total>0</thr:total></entry></feed>"""

MEDIUM = f"""{_DECLARED}<rss {_DC} {_CONTENT} {_ATOM} version="2.0" xmlns:cc="http://cyber.law.harvard.edu/rss/creativeCommonsRssModule.html">
<channel><title><![CDATA[Stories by Ann]]></title><description><![CDATA[Stories]]></description>
<link>https://medium.com/@ann</link>
<image><url>https://cdn.example/1.jpeg</url><title>Stories by Ann</title><link>https://medium.com/@ann</link></image>
<generator>Medium</generator><lastBuildDate>Sun, 01 Mar 2026 12:00:00 GMT</lastBuildDate>
<atom:link href="https://medium.com/@ann/feed" rel="self" type="application/rss+xml"/>
<webMaster><![CDATA[yourfriends@medium.com]]></webMaster><atom:link href="http://medium.superfeedr.com" rel="hub"/>
<item><title><![CDATA[One]]></title><link>https://medium.com/@ann/one</link>
<guid isPermaLink="false">https://medium.com/p/1</guid>
<category><![CDATA[art]]></category><dc:creator><![CDATA[Ann]]></dc:creator>
<pubDate>Sun, 01 Mar 2026 12:00:00 GMT</pubDate>
<atom:updated>2026-03-02T12:00:00.000Z</atom:updated><content:encoded>
<![CDATA[<p>Long</p>]]></content:encoded></item></channel></rss>"""

PODCAST = f"""{_DECLARED}<rss version="2.0" {_ITUNES} {_ATOM} xmlns:podcast="https://podcastindex.org/namespace/1.0">
<channel>
<title>Cast</title><link>https://p.example/</link><description>All</description><itunes:summary>All</itunes:summary>
<itunes:category text="Arts"><itunes:category text="Books"/></itunes:category><itunes:explicit>false</itunes:explicit>
<itunes:image href="https://p.example/i.jpg"/><podcast:locked owner="a@p.example">yes</podcast:locked>
<item><title>One</title><itunes:title>One</itunes:title><description>Short</description>
<itunes:summary>Other</itunes:summary>
<guid isPermaLink="false">1</guid><pubDate>Sun, 01 Mar 2026 12:00:00 GMT</pubDate><itunes:author>Ann</itunes:author>
<enclosure url="https://p.example/1.mp3?a=1&amp;b=2" length="1" type="audio/mpeg"/>
<itunes:duration>10:00</itunes:duration>
<itunes:image href="https://p.example/1.jpg"/><itunes:keywords>a, b</itunes:keywords></item></channel></rss>"""

RDF = f"""{_DECLARED}<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
 xmlns="http://purl.org/rss/1.0/" {_DC}>
<channel rdf:about="https://r.example/"><title>R</title><link>https://r.example/</link><description>d</description>
<items><rdf:Seq><rdf:li rdf:resource="https://r.example/1"/></rdf:Seq></items></channel>
<item rdf:about="https://r.example/1"><title>One</title><link>https://r.example/1</link><description>t</description>
<dc:creator>Ann</dc:creator><dc:date>2026-03-01T12:00:00+01:00</dc:date><dc:subject>art</dc:subject></item></rdf:RDF>"""

SAMPLES = {
    "wordpress": WORDPRESS,
    "ghost": GHOST,
    "hugo": HUGO,
    "jekyll": JEKYLL,
    "github": GITHUB,
    "youtube": YOUTUBE,
    "reddit": REDDIT,
    "mastodon": MASTODON,
    "substack": SUBSTACK,
    "blogger": BLOGGER,
    "medium": MEDIUM,
    "a podcast": PODCAST,
    "rdf": RDF,
}


@pytest.mark.parametrize("name", SAMPLES)
def test_feeds_of_common_generators_are_read_and_equal(name: str) -> None:
    body = SAMPLES[name].encode()
    fast = parse_clean_feed(body, "application/xml; charset=UTF-8", URL)
    assert fast is not None
    assert fast == parse_any_feed(body, "application/xml; charset=UTF-8", URL)
    assert fast.items[0].item_id


def rss(inside: str, head: str = "", root: str = 'version="2.0"') -> str:
    return f"{head}<rss {root}><channel><title>t</title><item><guid>1</guid>{inside}</item></channel></rss>"


def atom(inside: str) -> str:
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>t</title><entry><id>1</id>{inside}</entry></feed>'


DECLINED = {
    "a doctype": rss("", "<!DOCTYPE rss>"),
    "an entity": rss("<title>&a;</title>", '<!DOCTYPE rss [<!ENTITY a "b">]>'),
    "an entity nobody declares": rss("<title>&nbsp;</title>"),
    "an entity in a comment of the head": rss("", "<!-- <!ENTITY a 'b'> -->"),
    "another encoding": rss("", '<?xml version="1.0" encoding="iso-8859-1"?>'),
    "an encoding named later in the line": rss("", '<?xml version="1.0"?><?x encoding="koi8-r"?>'),
    "markup that is not escaped": rss("<description>a <b>c</b></description>"),
    "two guids": rss("<guid>2</guid>"),
    "two titles": rss("<title>a</title><title>b</title>"),
    "a media title after a source": rss(
        "<title>a</title><source>s</source><media:title>m</media:title>", root=f'version="2.0" {_MEDIA}'
    ),
    "a base in another namespace": rss('<x y:base="https://b.example/"/>', root='version="2.0" xmlns:y="urn:y"'),
    "a base that cannot be read": atom('<link href="a"/>').replace("<feed", '<feed xml:base="http://[x"'),
    "a link that feedparser corrects": rss(
        "<link>http:///a</link>", root='version="2.0" xml:base="https://b.example/"'
    ),
    "another type": rss('<title type="image/png">YQ==</title>'),
    "base64": rss('<description mode="base64">YQ==</description>'),
    "a time only feedparser reads": rss("<pubDate>2026-03-01</pubDate>"),
    "utf-8 encoded twice": rss("<title>\u00c3\u00a9</title>"),
    "references to windows-1252": rss("<title>&#146;</title>"),
    "carriage returns": rss("<title>a&#13;b</title>"),
    "a prefix that is not declared": rss("<dc:creator>a</dc:creator>"),
    "a prefix of another namespace": rss(
        "<x:creator>a</x:creator>",
        root=f'version="2.0" {_DC.replace("xmlns:dc", "xmlns:x")} {_ATOM.replace("xmlns:atom", "xmlns:dc")}',
    ),
    "two titles of the feed": rss("").replace("<item>", "<title>u</title><item>"),
    "an address in an attribute of another name": rss('<link url="https://a.example/"/>'),
    "attributes of an element without any": rss("<ttl/>").replace("<item>", '<ttl unit="h">60</ttl><item>'),
    "a link to nothing": rss('<atom:link href="" rel="self"/>', root=f'version="2.0" {_ATOM}'),
    "a description after a summary": rss("")
    .replace("<rss", f"<rss {_ITUNES}")
    .replace("<item>", "<itunes:summary>s</itunes:summary><description>d</description><item>"),
    "two summaries": rss("")
    .replace("<rss", f"<rss {_ITUNES}")
    .replace("<item>", "<itunes:summary>s</itunes:summary>" * 2 + "<item>"),
    "an author with two names": atom("<author><name>a</name><name>b</name></author>"),
    "an author after one of whom less is known": atom(
        "<author><name>a</name></author><author><email>b@example.org</email></author>"
    ),
    "an enclosure with an address of another name": rss('<enclosure href="https://a.example/1"/>'),
    "a namespace that is two words": rss("", root='version="2.0" xmlns:x="a b"'),
    "a prefix that changes its namespace": rss('<x:b xmlns:x="urn:2"/>', root='version="2.0" xmlns:x="urn:1"'),
    "an image before the channel": rss("").replace("<channel>", "<image><url>u</url></image><channel>"),
    "an end that is missing": rss("")[:-6],
    "something after the end": rss("") + "<p/>",
    "no feed": "<html><body/></html>",
    "json": '{"version": "https://jsonfeed.org/version/1"}',
    "nothing": "",
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_is_subtle_is_declined(name: str) -> None:
    assert parse_clean_feed(DECLINED[name].encode(), None, URL) is None


@pytest.mark.parametrize(
    ("inside", "root", "categories"),
    [
        ('<media:category>art</media:category><media:category scheme="urn:s">b</media:category>', _MEDIA, "art,b"),
        ("<itunes:keywords>a,, b,</itunes:keywords>", _ITUNES, "a,b"),
        ('<category xmlns="">art</category>', "", "art"),
    ],
)
def test_categories_of_other_vocabularies_are_read_and_equal(inside: str, root: str, categories: str) -> None:
    body = rss(inside, root=f'version="2.0" {root}').encode()
    fast = parse_clean_feed(body, None, URL)
    assert fast is not None
    assert fast == parse_any_feed(body, None, URL)
    assert fast.items[0].fields["channel.item.category"] == categories


_BASES = {
    "of the root": rss("<link>a</link>", root='version="2.0" xml:base="https://b.example/x/"'),
    "of the root, and a guid": rss("<guid>g</guid>", root='version="2.0" xml:base="https://b.example/x/"').replace(
        "<guid>1</guid>", ""
    ),
    "that is relative": atom('<link href="a"/>').replace("<entry", '<entry xml:base="y/"'),
    "of an element in front": rss('<x base="https://b.example/"/><link>a</link>'),
    "of one link among others": atom(
        '<link xml:base="https://b.example/" href="a"/><link rel="enclosure" href=" b "/><link href="c"/>'
    ),
    "within another": atom('<link href="a"/>')
    .replace("<feed", '<feed xml:base="https://b.example/x/"')
    .replace("<entry", '<entry xml:base="y/"'),
    "that must not be followed": atom('<link href="a"/>').replace("<feed", '<feed xml:base="javascript:x"'),
}


@pytest.mark.parametrize("name", _BASES)
def test_a_base_is_read_and_equal(name: str) -> None:
    body = _BASES[name].encode()
    fast = parse_clean_feed(body, None, URL)
    assert fast is not None
    assert fast == parse_any_feed(body, None, URL)


@pytest.mark.parametrize("blank", [" ", "\n\t", "&#10;", "&#160;"])
@pytest.mark.parametrize("form", ['<link href="{}"/>', '<link rel="enclosure" href="{}"/>', "<id>{}</id>"])
def test_blanks_around_links_and_ids_change_nothing(form: str, blank: str) -> None:
    """A feed that is read by either path in turn would show new items each time."""
    plain, padded = (
        atom(form.format(text)).replace("<id>1</id>", "").encode() for text in ("a/1", f"{blank}a/1{blank}")
    )
    fast = parse_clean_feed(padded, None, URL)
    assert fast is not None
    assert fast == parse_any_feed(padded, None, URL) == parse_any_feed(plain, None, URL)


@pytest.mark.parametrize(
    "inside", ["<ttl>60</ttl>", "<hour>1</hour><ttl/>", "<sy:updatePeriod>daily</sy:updatePeriod>"]
)
def test_a_period_within_another_element_is_read_alike(inside: str) -> None:
    root = 'version="2.0" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"'
    body = rss("", root=root).replace("<item>", f"<skipHours>{inside}</skipHours><item>").encode()
    assert parse_feed(body, None, URL) == parse_any_feed(body, None, URL)


@pytest.mark.parametrize("content_type", ["text/xml; charset=koi8-r", "text/xml; charset=us-ascii", "a/b; charset"])
def test_other_charsets_are_declined(content_type: str) -> None:
    assert parse_clean_feed(rss("").encode(), content_type, URL) is None


def test_hubs_and_the_own_address_are_read() -> None:
    links = '<atom:link rel="hub" href="/hub"/><atom:link rel="self" href="me"/><atom:link rel="hub" href="ftp://a/"/>'
    body = f'<rss version="2.0" {_ATOM}><channel>{links}{links}</channel></rss>'.encode()
    for feed in (parse_clean_feed(body, None, URL), parse_any_feed(body, None, URL)):
        assert feed is not None
        assert (feed.hubs, feed.self_url) == (("https://example.org/hub",), "https://example.org/blog/me")


def test_json_feeds_name_hubs_too() -> None:
    hubs = '[{"type": "websub", "url": "/hub"}, {"type": "rssCloud", "url": "/cloud"}, {"url": "/x"}]'
    body = f'{{"version": "https://jsonfeed.org/version/1.1", "items": [], "feed_url": "/f", "hubs": {hubs}}}'.encode()
    feed = parse_feed(body, None, URL)
    assert (feed.hubs, feed.self_url) == (("https://example.org/hub",), "https://example.org/f")


def test_a_language_of_the_header_is_left_to_feedparser() -> None:
    assert parse_feed(rss("").encode(), None, URL, "fr").items[0].fields["channel.language"] == "fr"


def test_a_link_among_many_attributes_is_read_and_equal() -> None:
    others = " ".join(f'a{number}="{number}"' for number in range(20))
    body = atom(f'<link {others} href="/l" xml:lang="de" rel="alternate"/>').encode()
    fast = parse_clean_feed(body, None, URL)
    assert fast is not None
    assert fast == parse_any_feed(body, None, URL)
    assert fast.items[0].fields["channel.item.link"] == "https://example.org/l"


def test_a_base_of_many_parts_is_not_read() -> None:
    base = "https://b.example/" + "x/" * 3_000
    body = atom('<link href="a"/>').replace("<entry", f'<entry xml:base="{base}"').encode()
    assert parse_clean_feed(body, None, URL) is None
    assert parse_any_feed(body, None, URL).items[0].fields["channel.item.link"] == "https://example.org/blog/a"
