"""The reader: lists of items by folder and source, one item with its content, and the marks of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from aiohttp import web
from markupsafe import Markup
from yarl import URL

from proxyd.api import wire
from proxyd.api.auth import reader_of
from proxyd.api.endpoint import read_query
from proxyd.api.listings import Listings
from proxyd.api.problems import BadRequestError
from proxyd.api.queries import Queries
from proxyd.api.query_readers import parse_position
from proxyd.api.web.page_gate import local_path, read_form
from proxyd.api.web.rendering import Renderer
from proxyd.core.model.profile import found_name
from proxyd.daemon.reading import Folders, ItemReader
from proxyd.store.item_rows import MOST_COUNTED, UnreadCounts, View

_NOT_A_POSITION = "an item's position is a number"
_MOST_MARKED = 500


class _Asked(wire.ListWindow):
    """Which items the reader shows."""

    view: Literal["unread", "today", "all", "starred"] = "unread"
    profile: str | None = None
    source: str | None = None

    def place(self, path: str = "/read", **others: str | None) -> str:
        """Return the address of a page that shows the same items, or others."""
        chosen = {"view": self.view, "profile": self.profile, "source": self.source} | others
        kept = {name: value for name, value in chosen.items() if value and (name, value) != ("view", "unread")}
        return str(URL.build(path=path, query=kept))


@dataclass(frozen=True, slots=True)
class _Count:
    """A number of unread items as it is shown."""

    number: int
    is_more: bool = False

    def __str__(self) -> str:
        most = MOST_COUNTED - 1
        return f"{min(self.number, most):,}{'+' if self.is_more or self.number > most else ''}"

    def __bool__(self) -> bool:
        return self.number > 0 or self.is_more


class ReaderPages:
    """Handlers of the reader's pages and of its forms."""

    def __init__(self, queries: Queries, listings: Listings, renderer: Renderer) -> None:
        self._reading = queries.reading
        self._profiles = queries.profiles
        self._items = listings.items
        self._history = queries.history
        self._render = renderer.page

    async def items(self, request: web.Request) -> web.Response:
        """List the items of a view."""
        asked = read_query(request, _Asked)
        window = wire.ItemsWindow(**asked.model_dump())
        reader = reader_of(request)
        found = await self._items.find(window, reader)
        folders = await self._reading.folders(reader)
        return self._render(
            request,
            "read.html",
            asked=asked,
            found=found,
            folders=folders,
            counted=_Count,
            views=[each.value for each in View],
            unread=await self._count_unread(asked, folders, reader),
            newest=max((each.position for each in found.items), default=0),
        )

    async def article(self, request: web.Request) -> web.Response:
        """Show an item, and mark it as read."""
        position = parse_position(request.match_info["position"], _NOT_A_POSITION)
        asked, reader = read_query(request, _Asked), reader_of(request)
        shown = await self._items.show(position, reader)
        if not shown.read and _is_opened(request):
            await self._reading.mark([position], reader, read=True)
        shelf = await self._reading.shelf(View(asked.view), reader, profile=asked.profile, source=asked.source)
        kept = View.STARRED if shelf.view is View.STARRED else View.ALL
        newer = await self._reading.shelf(kept, reader, profile=asked.profile, source=asked.source)
        older = await self._reading.stored.find(shelf, before=position, limit=1)
        event = await self._history.event(shown.source, shown.event)  # that of a starred change is not kept with it
        return self._render(
            request,
            "article.html",
            asked=asked,
            found=shown,
            is_known=event is not None,
            content=Markup(shown.content),
            newer=await self._reading.stored.newer(newer, position),
            older=older.items[0].position if older.items else None,
        )

    async def fetch(self, request: web.Request) -> web.StreamResponse:
        """Fetch the page of an item again, after a failure."""
        position = parse_position(request.match_info["position"], _NOT_A_POSITION)
        form = await read_form(request)
        await self._reading.full_article(position, reader_of(request), again=True)
        raise web.HTTPSeeOther(URL(local_path(form.get("back", "/read")), encoded=True))

    async def mark(self, request: web.Request) -> web.StreamResponse:
        """Mark an item as read, unread, starred or not."""
        position = parse_position(request.match_info["position"], _NOT_A_POSITION)
        form = await read_form(request)
        read, starred = _truth(form, "read"), _truth(form, "starred")
        await self._reading.mark([position], reader_of(request), read=read, starred=starred)
        raise web.HTTPSeeOther(URL(local_path(form.get("back", "/read")), encoded=True))

    async def mark_many(self, request: web.Request) -> web.StreamResponse:
        """Mark the items of a page as read, or everything up to the newest item that the page showed."""
        form = await read_form(request)
        if "items" in form:
            positions = [parse_position(each, _NOT_A_POSITION) for each in form["items"].split(",") if each]
            if len(positions) > _MOST_MARKED:
                raise BadRequestError(f"mark at most {_MOST_MARKED} items at once")
            await self._reading.mark(positions, reader_of(request), read=True)
        else:
            up_to = parse_position(form.get("up_to", ""), _NOT_A_POSITION)
            reader, profile, source = reader_of(request), form.get("profile") or None, form.get("source") or None
            source = source and found_name(source, self._profiles.shown.sources, reader.profiles)
            await self._reading.mark_up_to(up_to, reader, profile=profile, source=source)
        raise web.HTTPSeeOther(URL(local_path(form.get("back", "/read")), encoded=True))

    async def _count_unread(self, asked: _Asked, folders: Folders, reader: ItemReader) -> _Count:
        if asked.profile is None and asked.source is None:
            return _Count(folders.unread, folders.is_more)
        shelf = await self._reading.shelf(View.UNREAD, reader, profile=asked.profile, source=asked.source)
        counts: UnreadCounts = await self._reading.stored.count(shelf)
        return _Count(counts.total, counts.is_more)


def _is_opened(request: web.Request) -> bool:
    """Return whether somebody opens a page, not a picture of another article, and not a browser ahead of its reader."""
    is_ahead = "prefetch" in request.headers.get("Sec-Purpose", "") + request.headers.get("Purpose", "")
    is_page = request.headers.get("Sec-Fetch-Dest", "document") == "document"
    return is_page and not is_ahead and "text/html" in request.headers.get("Accept", "")


def _truth(form: dict[str, str], name: str) -> bool | None:
    """Return what a form says of a mark; ``None`` if it says nothing."""
    if name not in form:
        return None
    if form[name] not in {"true", "false"}:
        raise BadRequestError(f"{name} is true or false")
    return form[name] == "true"
