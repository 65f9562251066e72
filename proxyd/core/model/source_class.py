"""What rules can read of a source itself, and of the probe that found an event."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from proxyd.core.model.profile import Field, FieldType, PageClass

BUILT_IN_NAME = "built-in"
"""The domain of the classes that need no declaration."""

SOURCE_CLASS = PageClass(
    "SOURCE",
    BUILT_IN_NAME,
    (
        Field("source.name", FieldType.STRING),
        Field("source.url", FieldType.URL),
        Field("source.status", FieldType.INTEGER),
        Field("source.latency", FieldType.DECIMAL),
        Field("source.error", FieldType.STRING),
        Field("source.since", FieldType.TIMESTAMP),
        Field("source.moved", FieldType.URL),
        Field("source.silent", FieldType.STRING),
        Field("source.trouble", FieldType.STRING),
    ),
)
"""The class of the sources themselves: its events are failures, recoveries, moves, empty documents and probes."""

PROBE_FIELDS: Mapping[str, Field] = MappingProxyType(
    {
        "probe.status": Field("probe.status", FieldType.INTEGER),
        "probe.latency": Field("probe.latency", FieldType.DECIMAL),
    }
)
"""What every other class can read of the probe that found an event, by path: the status, and the seconds it took."""
