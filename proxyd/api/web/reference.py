"""The reference of the REST API, made from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_GROUPS = (
    ("Profiles and rules", ("/api/v1/profiles", "/api/v1/rules", "/api/v1/domains", "/api/v1/reload")),
    ("Sources and plan", ("/api/v1/sources", "/api/v1/explain", "/api/v1/plan", "/api/v1/advice", "/api/v1/report")),
    ("Notifications and deliveries", ("/api/v1/notifications", "/api/v1/stream", "/api/v1/deliveries", "/api/v1/webh")),
    ("Tokens", ("/api/v1/tokens",)),
    ("The daemon", ("/",)),
)


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A parameter or a member: its name, its type, whether it is required, and its meaning."""

    name: str
    type: str
    required: bool
    said: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """A route."""

    method: str
    path: str
    scope: str
    summary: str
    description: str
    fields: tuple[SchemaField, ...]
    body: tuple[str, str] | None
    answers: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """A model of a request or a response."""

    name: str
    said: str
    fields: tuple[SchemaField, ...]


@dataclass(frozen=True, slots=True)
class Sections:
    """The whole reference."""

    groups: tuple[tuple[str, tuple[Operation, ...]], ...]
    schemas: tuple[Schema, ...]


def sections(document: Mapping[str, Any]) -> Sections:
    """Return an OpenAPI document as sections of a page."""
    grouped: dict[str, list[Operation]] = {name: [] for name, _ in _GROUPS}
    for path, operations in document["paths"].items():
        group = next(name for name, starts in _GROUPS if any(path.startswith(start) for start in starts))
        grouped[group] += [_operation(method, path, each) for method, each in operations.items()]
    schemas = [_schema(name, each) for name, each in sorted(document["components"]["schemas"].items())]
    return Sections(tuple((name, tuple(found)) for name, found in grouped.items()), tuple(schemas))


def _operation(method: str, path: str, found: Mapping[str, Any]) -> Operation:
    fields = [
        SchemaField(each["name"], type_of(each["schema"]), each.get("required", False), each.get("description", ""),
              each["in"])
        for each in found["parameters"]
    ]  # fmt: skip
    content = found.get("requestBody", {}).get("content", {})
    answers = [
        (status, each["description"], " or ".join(type_of(its["schema"]) for its in each["content"].values()))
        for status, each in found["responses"].items()
    ]
    return Operation(
        method.upper(),
        path,
        found.get("x-scope", "none"),
        found["summary"],
        found.get("description", ""),
        tuple(fields),
        (" or ".join(content), type_of(next(iter(content.values()))["schema"])) if content else None,
        tuple(answers),
    )


def _schema(name: str, found: Mapping[str, Any]) -> Schema:
    required: Sequence[str] = found.get("required", ())
    fields = [
        SchemaField(member, type_of(each), member in required, each.get("description", ""))
        for member, each in found.get("properties", {}).items()
    ]
    return Schema(name, found.get("description", ""), tuple(fields))


def type_of(schema: Mapping[str, Any]) -> str:
    """Return a JSON schema in a word or two.

    >>> type_of({"type": "array", "items": {"$ref": "#/components/schemas/Day"}})
    'list of Day'
    >>> type_of({"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]})
    'number ≥ 0 or null'
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(type_of(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " or ".join(repr(each) for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    bounds = [f"{sign} {schema[key]:g}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in schema]
    return " ".join([str(schema.get("type", "any")), *bounds, *_format_of(schema)])


def _format_of(schema: Mapping[str, Any]) -> list[str]:
    return [f"({schema['format']})"] if "format" in schema else []
