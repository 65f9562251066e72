"""What people read: the items of a folder or a source, what is unread of them, and what they mark."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from proxyd.base.ports import Clock, Prober
from proxyd.core.errors import NotFoundError
from proxyd.core.language import find_named
from proxyd.core.model.field_values import local_time
from proxyd.core.model.item import Value
from proxyd.core.model.outcome import ProbeRequest
from proxyd.core.model.profile import ARTICLE, PREVIEW_FIELD, Declaration
from proxyd.core.model.text_blocks import readable
from proxyd.core.rules.answers.shown_events import OF_ITEMS
from proxyd.core.texts.safe_text import is_web
from proxyd.daemon.declarations import Declarations
from proxyd.store.api_rows import ME
from proxyd.store.item_rows import FullText, Shelf, SqlReading, StoredArticle, UnreadCounts, View

_MOST_FOLDERS, _MOST_NAMED = 200, 50
_AGAIN_S = 3600.0
_MOST_AT_ONCE, _MOST_WAIT_S, _MOST_REASON = 4, 15.0, 300
_TEASER = 1_500  # characters of a text; longer ones are whole articles


@dataclass(frozen=True, slots=True)
class _Folder:
    """A profile as people read it, with those of its sources that have unread items, those with most first."""

    name: str
    unread: int
    sources: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders, by name; ``is_more`` if their counts leave something out."""

    all: Sequence[_Folder]
    unread: int
    is_more: bool


@dataclass(frozen=True, slots=True)
class ItemReader:
    """Who reads: the name under which marks are stored, and the only profiles that are read, if not all."""

    marks_as: str = ME
    profiles: tuple[str, ...] = ()


NOBODY = ItemReader()


def no_such_item() -> NotFoundError:
    """Return the error for an item that does not exist, or not for whoever asks."""
    return NotFoundError("there is no such item; items are deleted when they are older than `retention`")


class Reading:
    """Answers what people read; a folder is a profile, and holds the sources that its rules are about."""

    def __init__(
        self, declarations: Declarations, stored: SqlReading, prober: Prober, clock: Clock, zone: tzinfo | None
    ) -> None:
        self.stored = stored
        self._prober = prober
        self._fetching: set[int] = set()
        self._declarations = declarations
        self._clock = clock
        self._zone = zone
        self._sources_of: tuple[Declaration | None, Mapping[str, frozenset[str]]] = (None, {})

    async def shelf(
        self, view: View, reader: ItemReader, *, profile: str | None = None, source: str | None = None
    ) -> Shelf:
        """Return which items a view shows to somebody; raises ``NotFoundError`` for a profile that they do not read."""
        sources = await self.sources_of(reader)
        if source is not None:
            sources = frozenset([source]) if sources is None else sources & {source}
        if profile is not None:
            its = find_named("profile", profile, await self.folders_of(reader))
            sources = its if sources is None else sources & its
        return Shelf(view, sources, since_s=self._midnight_s(), person=reader.marks_as)

    async def folders_of(self, reader: ItemReader) -> Mapping[str, frozenset[str]]:
        """Return the sources of each profile that somebody reads."""
        known = await self.sources_by_profile()
        return {name: known[name] for name in reader.profiles if name in known} if reader.profiles else known

    async def sources_of(self, reader: ItemReader) -> frozenset[str] | None:
        """Return the sources that somebody reads, or ``None`` for all."""
        if not reader.profiles:
            return None
        return frozenset[str]().union(*(await self.folders_of(reader)).values())

    async def folders(self, reader: ItemReader) -> Folders:
        """Return the folders, with what somebody has not read in each."""
        counts = await self.stored.count(await self.shelf(View.UNREAD, reader))
        return await asyncio.to_thread(_folders, await self.folders_of(reader), counts)

    async def article(self, position: int, reader: ItemReader = NOBODY) -> StoredArticle:
        """Return an item as somebody has marked it; raises ``NotFoundError``, also if it is not for them."""
        found = await self.articles([position], reader)
        if not found:
            raise no_such_item()
        return found[0]

    async def articles(self, positions: Sequence[int], reader: ItemReader) -> list[StoredArticle]:
        """Return the items at some positions, at most a few hundred, that somebody reads, newest first."""
        return await self.stored.articles(positions, reader.marks_as, await self.sources_of(reader))

    async def full_article(self, position: int, reader: ItemReader = NOBODY, *, again: bool = False) -> StoredArticle:
        """Return an item with the text of its page, if its source has FULL ARTICLES and its feed only a teaser.

        The page is fetched once; after a failure again when ``again`` is set, or an hour later.
        """
        found = await self.article(position, reader)
        source = self._declarations.declaration.sources.get(found.item.source_id)
        link = found.item.link or ""
        if source is None or not source.full_articles or not is_web(link) or not _is_teaser(found.fields):
            return found
        if found.full is not None and (found.full.html or not (again or self._is_long_ago(found.full))):
            return found
        return replace(found, full=await self._fetch(position, link))

    def _is_long_ago(self, full: FullText) -> bool:
        return self._clock.time_s() - full.fetched_s >= _AGAIN_S

    async def _fetch(self, position: int, url: str) -> FullText:
        """Fetch the page of an item as a probe does: guarded, within the limits of its host, obeying robots.txt."""
        now_s = self._clock.time_s()
        if position in self._fetching or len(self._fetching) >= _MOST_AT_ONCE:
            return FullText("", "other articles are being fetched; try again in a few seconds", now_s)
        self._fetching.add(position)
        try:
            async with asyncio.timeout(_MOST_WAIT_S):
                read = await self._prober.probe(ProbeRequest(url, url, page_class=ARTICLE, obeys_robots=True))
            is_read = read.kind.is_success and bool(read.items)
            html = str(read.items[0].fields[PREVIEW_FIELD]) if is_read else ""
            full = FullText(html, "" if is_read else f"{read.kind.value}: {read.detail}"[:_MOST_REASON], now_s)
        except TimeoutError:
            full = FullText("", f"the page did not come within {_MOST_WAIT_S:g} s", now_s)
        finally:
            self._fetching.discard(position)
        await self.stored.keep_full(position, full)
        return full

    async def mark(
        self, positions: Sequence[int], reader: ItemReader, *, read: bool | None = None, starred: bool | None = None
    ) -> int:
        """Mark items for somebody, of those that they read; return how many of them there are."""
        if reader.profiles:
            positions = [each.item.position for each in await self.articles(positions, reader)]
        now_s = self._clock.time_s()
        return await self.stored.mark(positions, now_s=now_s, read=read, starred=starred, person=reader.marks_as)

    async def mark_up_to(
        self, position: int, reader: ItemReader, *, profile: str | None = None, source: str | None = None
    ) -> None:
        """Mark all items up to a position as read, of all sources, or of those of a profile, or of one."""
        shelf = await self.shelf(View.ALL, reader, profile=profile, source=source)
        await self.stored.mark_up_to(position, shelf.sources, reader.marks_as)

    def _midnight_s(self) -> float:
        now = local_time(self._clock.time_s(), self._zone)
        return now.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()

    async def sources_by_profile(self) -> Mapping[str, frozenset[str]]:
        """Return the sources of each profile; computed once for each declaration, because there may be many rules."""
        declaration = self._declarations.declaration
        if self._sources_of[0] is not declaration:
            self._sources_of = declaration, await asyncio.to_thread(_sources_by_profile, declaration)
        return self._sources_of[1]


def _is_teaser(fields: Mapping[str, Value]) -> bool:
    """Return whether a feed has only the beginning of an article.

    >>> _is_teaser({"channel.item.description": "<p>It began</p>"}), _is_teaser({"channel.item.content": "word " * 999})
    (True, False)
    """
    return all(len(readable(fields.get(f"{OF_ITEMS}{name}"))) < _TEASER for name in ("content", "description"))


def _sources_by_profile(declaration: Declaration) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for rule in declaration.rules.values():
        for profile in rule.profiles:
            found[profile].update(rule.source_ids)
    return {name: frozenset(found[name]) for name in sorted(declaration.profiles)}


def _folders(sources_of: Mapping[str, frozenset[str]], counts: UnreadCounts) -> Folders:
    """Return the folders, of many those with unread items first."""
    found = [_folder(name, sources, counts.by_source) for name, sources in sources_of.items()]
    if len(found) > _MOST_FOLDERS:
        found = sorted(found, key=lambda each: -each.unread)[:_MOST_FOLDERS]
    return Folders(sorted(found, key=lambda each: each.name), counts.total, counts.is_more)


def _folder(name: str, sources: Iterable[str], unread: Mapping[str, int]) -> _Folder:
    known = frozenset(sources)
    its = Counter({source: count for source, count in unread.items() if source in known})
    return _Folder(name, its.total(), its.most_common(_MOST_NAMED))
