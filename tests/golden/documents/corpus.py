"""Every document of the corpus, by group."""

from __future__ import annotations

from tests.golden.documents import other_feeds, pages, rss, services, shops
from tests.golden.documents.case import Case

GROUPS: dict[str, list[Case]] = {**rss.GROUPS, **other_feeds.GROUPS, **pages.GROUPS, **shops.GROUPS, **services.GROUPS}
