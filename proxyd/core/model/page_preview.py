"""The class that reads a page to show it: its structure and texts as markup that does nothing."""

from __future__ import annotations

from proxyd.core.model.profile import Field, FieldType, PageClass

PREVIEW_FIELD = "html"
PREVIEW = PageClass("PREVIEW", "", (Field(PREVIEW_FIELD, FieldType.STRING),))
"""Only the dashboard uses it: no declaration can name it."""
