"""Values of fields as rules read them; made where parsers can use them without the engine."""

from __future__ import annotations

from proxyd.model.values import TIMESTAMP_PATHS, coerce, iso_time, parse_iso

__all__ = ["TIMESTAMP_PATHS", "coerce", "iso_time", "parse_iso"]
