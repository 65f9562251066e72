from __future__ import annotations

import pytest

from proxyd.core.texts.charsets import DocumentKind, decode
from proxyd.probing.document_parser import parse_document
from proxyd.probing.feeds.feed_parser import parse_any_feed
from proxyd.probing.feeds.sitemaps import parse_sitemap

WORDS = {
    "Shift_JIS": ("① ㈱ 髙﨑", "cp932"),
    "x-sjis": ("日本 ①", "cp932"),
    "Windows-31J": ("№ ①", "cp932"),
    "euc-jp": ("日本 é", "euc_jp"),
    "x-euc-jp": ("日本", "euc_jp"),
    "iso-2022-jp": ("日本語", "iso2022_jp"),
    "EUC-KR": ("똠방각하 펲시", "cp949"),
    "ks_c_5601-1987": ("힣 햏", "cp949"),
    "gb2312": ("镕 喆 朱", "gbk"),
    "cp936": ("中文", "gbk"),
    "big5": ("碁銹 啫 嘅", "big5hkscs"),
    "cp950": ("中文碁", "cp950"),
    "windows-874": ("ราคา €", "cp874"),
    "TIS-620": ("ราคา “ก”", "cp874"),
    "iso-8859-11": ("ราคา …", "cp874"),
    "cp-1251": ("Новости — «мир»", "cp1251"),
    "win1251": ("Новости", "cp1251"),
    "x-cp1250": ("Žluťoučký kůň", "cp1250"),
    "iso-8859-9": ("Şeker “güzel”", "cp1254"),
    "latin1": ("“It” 5 €", "cp1252"),
    "ISO_8859-15": ("5 €", "iso8859-15"),
    "latin-9": ("5 €", "iso8859-15"),
    "us-ascii": ("caf…", "cp1252"),
    "macintosh": ("Çé€", "mac-roman"),
    "x-mac-cyrillic": ("Новости", "mac-cyrillic"),
    "dos-866": ("Новости", "cp866"),
    "koi8_r": ("Новости", "koi8-r"),
    "utf-16le": ("Grüße", "utf-16-le"),
}


def documents(label: str, word: str, codec: str) -> list[bytes]:
    declaration = f"<?xml version='1.0' encoding='{label}'?>"
    url = f"<url><loc>http://x.example/1</loc><n:news><n:title>{word}</n:title></n:news></url>"
    texts = (
        f"{declaration}<rss version='2.0'><channel><item><guid>1</guid><title>{word}</title></item></channel></rss>",
        f"{declaration}<urlset xmlns:n='urn:n'>{url}</urlset>",
        f"<html><head><meta charset='{label}'></head><body>{word}</body></html>",
    )
    return [text.encode(codec) for text in texts]


@pytest.mark.parametrize("label", WORDS)
@pytest.mark.parametrize("header", [False, True])
def test_feeds_sitemaps_and_pages_are_read_by_the_labels_that_browsers_know(label: str, *, header: bool) -> None:
    word, codec = WORDS[label]
    content_type = f"text/xml; charset={label}" if header else None
    feed, sitemap, page = documents(label, word, codec)
    assert parse_any_feed(feed, content_type).items[0].fields["channel.item.title"] == word
    assert parse_sitemap(sitemap, content_type).items[0].fields["channel.item.title"] == word
    assert word in decode(page, content_type, DocumentKind.HTML)


@pytest.mark.parametrize(
    ("label", "data", "text"),
    [
        ("gbk", b"\x80 5", "€ 5"),
        ("gb2312", b"\xa2\xe3 \xa8\xbc", "€ ḿ"),
        ("euc-jp", b"\xad\xa1 \xfc\xe2 \xf9\xa1", "① 髙 纊"),
        ("iso-2022-jp", b"\x1b$B-!\x1b(B x", "① x"),
        ("iso-2022-jp", b"\x1b(I1\x1b(B x", "ｱ x"),
        ("big5", b"\xf9\xd6 \xa3\xe1", "碁 €"),
        ("windows-1252", b"a\x81\x8d", "a\x81\x8d"),
        ("windows-874", b"\xdb\xa1\xa1\xa1\xa1\xa1\xa1\xa1\xa1\xa1\xa1\xa1", "\ufffd" + "ก" * 11),
        ("shift_jis", b"\x93\xfa\x96\x7b" * 6 + b"\x81<b", "日本" * 6 + "\ufffd<b"),
        ("utf-8", b"Gr\xfc\xdfe", "Grüße"),
        ("utf-8", "é".encode() * 9 + b"\xff", "é" * 9 + "\ufffd"),
        ("x-user-defined", b"Gr\xfc\xdfe", "Grüße"),
        ("utf-16", b"<p>x", "<p>x"),
    ],
)
def test_what_a_charset_does_not_have_is_read_as_browsers_do(label: str, data: bytes, text: str) -> None:
    assert decode(data, f"text/html; charset={label}", DocumentKind.HTML) == text


@pytest.mark.parametrize("label", ["iso-8859-1", "windows-1251", "gbk", "shift_jis", "big5", "koi8-r", "ascii", "x"])
def test_text_that_is_utf_8_is_not_what_a_false_declaration_says(label: str) -> None:
    for body in documents(label, "Grüße, 日本 €", "utf-8"):
        for content_type in (None, f"text/html; charset={label}"):
            assert "Grüße, 日本 €" in decode(body, content_type, DocumentKind.HTML)


def test_json_follows_the_header_unless_it_is_utf_8() -> None:
    assert decode('"é"'.encode("latin-1"), "application/json; charset=latin1", DocumentKind.JSON) == '"é"'
    assert decode('"é"'.encode(), "application/json; charset=latin1", DocumentKind.JSON) == '"é"'


def test_one_new_character_does_not_turn_a_whole_feed_into_another_charset() -> None:
    def feed(title: str) -> bytes:
        items = "".join(f"<item><guid>{n}</guid><title>新着情報 {n}</title></item>" for n in range(5))
        new = f"<item><guid>new</guid><title>{title}</title></item>"
        text = f"<?xml version='1.0' encoding='Shift_JIS'?><rss version='2.0'><channel>{new}{items}</channel></rss>"
        return text.encode("cp932")

    before, after = (parse_document(feed(title)).items for title in ("x", "第①回"))
    assert before[1:] == after[1:]
    assert after[0].fields["channel.item.title"] == "第①回"
