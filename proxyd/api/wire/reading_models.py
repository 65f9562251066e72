"""The models of items as people read them, and of what they mark."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from proxyd.api.wire.base_models import Count, ListWindow, RowShown, Time, WireModel

Position = Annotated[int, Field(ge=0, lt=2**63)]


class ItemsWindow(ListWindow):
    """The items that are asked for, and the page of the list.

    `q` searches: all words must be there. `"so and so"` are words that follow each other, `word*` is the beginning of a
    word, and `-word` must not be there. Without it, `view` and `profile` say which items are listed.
    """

    q: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    source: str | None = None
    profile: str | None = Field(default=None, description="only of sources that its rules are about")
    view: Literal["unread", "today", "all", "starred"] = "all"


class ItemFound(RowShown):
    """An item that a search found or a list shows, as it is now."""

    position: int = Field(description="its number among all items: one that was seen later has a greater one")
    source: str
    event: int = Field(description="its number among the events of its source")
    id: str
    title: str
    text: str = Field(description="the beginning of its other texts, without markup")
    link: str | None = Field(description="null if it has no link to the web")
    came: Time | None = Field(description="its own time; null if it gives none")
    seen: Time
    gone: bool = Field(description="whether its source has removed it")
    update: bool = Field(description="whether it tells of a change of a watched page or of one of its rows")
    read: bool
    starred: bool


class EnclosureShown(WireModel):
    """A file that belongs to an item."""

    url: str
    kind: Literal["audio", "video", "image", "file"] = Field(description="by the name of the file")


class ItemShown(ItemFound):
    """An item with its content."""

    author: str | None
    content: str = Field(description="HTML without scripts, styles and forms; empty for an item of a page")
    full: bool = Field(description="whether the content is that of its page, because its feed has only a teaser")
    full_failure: str | None = Field(description="why the page of a teaser could not be read")
    values: dict[str, Any] = Field(description="the fields of an item of a page; empty for a feed")
    enclosures: list[EnclosureShown]


class MarksWanted(WireModel):
    """Items to mark, or what to mark as read up to a position: all, or a profile's or a source's items."""

    items: Annotated[list[Position], Field(min_length=1, max_length=500)] | None = Field(
        default=None, description="positions of items"
    )
    read: bool | None = None
    starred: bool | None = None
    up_to: Position | None = Field(default=None, description="the position of the newest item to mark as read")
    profile: str | None = None
    source: str | None = None


class MarksMade(WireModel):
    """How many items were marked; null if all were marked up to a position."""

    items: Count | None
