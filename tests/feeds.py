"""Feeds that change from probe to probe, as bytes, and what their rules tell of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from html import escape

from proxyd.core.model.field_values import iso_time
from proxyd.probing.document_parser import parse_document
from tests.fleets import Drive, changed, decider, declaration, rule, source

T0 = 1_772_366_400.0  # 2026-03-01 12:00
HOUR_S = 3600.0


@dataclass(frozen=True)
class Post:
    """An item of a feed; what is ``None`` is left out."""

    title: str | None
    link: str | None = None
    guid: str | None = None
    at_s: float | None = None
    text: str | None = None

    def xml(self, kind: str) -> str:
        """Return the item of a feed of that kind."""
        if kind == "atom":
            parts = [f"<link href='{escape(self.link)}'/>"] if self.link else []
            times = [f"<updated>{iso_time(self.at_s)}</updated>"] if self.at_s is not None else []
            names = {"id": self.guid, "title": self.title, "summary": self.text}
        else:
            parts, names = [], {"guid": self.guid, "title": self.title, "link": self.link, "description": self.text}
            times = [f"<pubDate>{formatdate(self.at_s)}</pubDate>"] if self.at_s is not None else []
        texts = [f"<{name}>{escape(value)}</{name}>" for name, value in names.items() if value is not None]
        element = "entry" if kind == "atom" else "item"
        return f"<{element}>{''.join([*texts, *parts, *times])}</{element}>"


def posts(*numbers: int, dated: bool = True) -> list[Post]:
    """Return posts, the n-th of which came n hours after the first of March."""
    return [
        Post(
            f"Post {n}",
            f"http://x.example/{n}",
            f"http://x.example/?p={n}",
            T0 - HOUR_S * (100 - n) if dated else None,
            f"text {n}",
        )
        for n in numbers
    ]


def feed_bytes(items: Iterable[Post], kind: str = "rss") -> bytes:
    """Return the document."""
    body = "".join(item.xml(kind) for item in items)
    if kind == "atom":
        return f"<feed xmlns='http://www.w3.org/2005/Atom'><title>Blog</title>{body}</feed>".encode()
    return f"<rss version='2.0'><channel><title>Blog</title>{body}</channel></rss>".encode()


@dataclass
class Reader:
    """A rule on a feed, which is declared at ``T0`` and probed every hour."""

    trigger: str = "INSERT"
    now_s: float = T0
    drive: Drive = field(init=False)

    def __post_init__(self) -> None:
        text = rule("r").replace("ON INSERT", f"ON {self.trigger}")
        self.drive = Drive(decider(declaration(source("s"), text), now_s=T0))

    async def shows(self, items: Iterable[Post], kind: str = "rss", *, is_redirected: bool = False) -> list[str]:
        """Let a probe find these items, and return the titles that are told."""
        return await self.reads(feed_bytes(items, kind), is_redirected=is_redirected)

    async def reads(self, document: bytes, *, is_redirected: bool = False) -> list[str]:
        """Let a probe find a document, and return the titles that are told."""
        self.now_s += HOUR_S
        read = parse_document(document, "application/xml", "http://x.example/feed")
        outcome = replace(changed("s", read.items, self.now_s), is_redirected=is_redirected)
        observation = await self.drive.see(outcome)
        assert observation.rules.failures == ()
        bodies = [json.loads(each.body)["data"] for each in observation.rules.notifications]
        return [row["channel.item.title"] for body in bodies for row in body["items"]]
