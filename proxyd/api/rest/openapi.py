"""The OpenAPI 3.1 document, from the endpoints and their models."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from http import HTTPStatus
from typing import Any, TypeAlias

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from proxyd.api import wire
from proxyd.api.endpoint import Endpoint
from proxyd.api.rest.idempotency import HEADER

_Model: TypeAlias = type[wire.WireModel]
_PARAMETER = re.compile(r"\{(\w+)\}")
_REF = "#/components/schemas/{model}"
_ALWAYS = (400,)
_WITH_TOKEN = (401, 403, 429)
_LIMITS = {
    "RateLimit-Policy": {"description": "requests (`q`) in a window of `w` seconds", "schema": {"type": "string"}},
    "RateLimit": {"description": "requests left (`r`) for the next `t` seconds", "schema": {"type": "string"}},
}


class ApiDocument:
    """The document of endpoints, made in a thread once somebody asks for it: a start need not wait for that."""

    def __init__(self, endpoints: Sequence[Endpoint], version: str) -> None:
        self._making = partial(document, endpoints, version)
        self._turn = asyncio.Lock()
        self._values: dict[str, Any] | None = None
        self._text = b""

    async def values(self) -> dict[str, Any]:
        """Return it as JSON values."""
        async with self._turn:
            if self._values is None:
                self._values = await asyncio.to_thread(self._making)
                self._text = await asyncio.to_thread(_written, self._values)
        return self._values

    async def text(self) -> bytes:
        """Return it as JSON."""
        await self.values()
        return self._text


def _written(values: dict[str, Any]) -> bytes:
    return json.dumps(values, indent=2).encode()


def document(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """Return the document as JSON values."""
    asked = {endpoint.body for endpoint in endpoints}
    models = dict.fromkeys(model for endpoint in endpoints for model in _models(endpoint))
    names, schemas = _schemas(tuple((each, "validation" if each in asked else "serialization") for each in models))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, names)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "proxyd",
            "version": version,
            "summary": "A monitoring proxy: it plans when to probe sources, detects changes, and notifies subscribers.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "pxd_<id>_<secret>"},
                "query": {"type": "apiKey", "in": "query", "name": "token"},
            },
        },
    }


def _models(endpoint: Endpoint) -> Iterable[_Model]:
    yield wire.Problem
    yield from (each for each in (endpoint.answer, endpoint.body) if isinstance(each, type))


@cache
def _schemas(models: tuple[tuple[_Model, JsonSchemaMode], ...]) -> tuple[Mapping[_Model, str], Mapping[str, Any]]:
    """Return the reference of each model, and the schemas by name; every application of a process has the same."""
    references, definitions = models_json_schema(models, ref_template=_REF)
    return {model: references[model, mode]["$ref"] for model, mode in models}, definitions["$defs"]


def _operation(endpoint: Endpoint, names: Mapping[_Model, str]) -> dict[str, Any]:
    said = inspect.getdoc(endpoint.handler) or ""
    summary, _, description = said.partition("\n")
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__.strip("_"),
        "summary": summary,
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint.query), *_headers(endpoint)],
        "responses": _responses(endpoint, names),
    }
    if description.strip():
        operation["description"] = inspect.cleandoc(description)
    if content := _content(endpoint, names):
        operation["requestBody"] = {"required": True, "content": content}
    if endpoint.scope is not None:
        operation["security"] = [{"bearer": []}, *([{"query": []}] if endpoint.token_in_query else [])]
        operation["x-scope"] = endpoint.scope
    return operation


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": schema} for name in _PARAMETER.findall(endpoint.path)
    ]


@cache
def _query_parameters(query: _Model | None) -> Sequence[dict[str, Any]]:
    if query is None:
        return ()
    schema = query.model_json_schema()
    found = []
    for name, each in schema["properties"].items():
        options = [option for option in each.pop("anyOf", []) if option != {"type": "null"}]
        plain = {key: value for key, value in {**each, **(options[0] if options else {})}.items() if value is not None}
        plain.pop("title", None)
        described = {"description": said} if (said := plain.pop("description", None)) else {}
        found.append({"name": name, "in": "query", **described, "schema": plain})
    return found


def _headers(endpoint: Endpoint) -> list[dict[str, Any]]:
    found = []
    if endpoint.is_keyed:
        said = "a new key for each request; a repetition with the same key gets the stored response and changes nothing"
        schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"}
        found.append({"name": HEADER, "in": "header", "description": said, "schema": schema})
    if endpoint.is_conditional:
        said = "the `ETag` of the profile as it was read, or `*` for any existing profile; 412 if it does not match"
        found.append({"name": "If-Match", "in": "header", "description": said, "schema": {"type": "string"}})
    return found


def _responses(endpoint: Endpoint, names: Mapping[_Model, str]) -> dict[str, Any]:
    if isinstance(endpoint.answer, str):
        is_text = not endpoint.answer.endswith(("json", "/*"))
        content = {endpoint.answer: {"schema": {"type": "string"} if is_text else {}}}
    else:
        content = {"application/json": {"schema": {"$ref": names[endpoint.answer]}}}
    tag = {"ETag": {"description": "tag of the profile's text, for `If-Match`", "schema": {"type": "string"}}}
    limits = {} if endpoint.scope is None else _LIMITS
    headers = {"headers": limits | (tag if endpoint.is_tagged else {})} if limits else {}
    responses: dict[str, Any] = {
        str(status): {"description": HTTPStatus(status).phrase, **headers, "content": content}
        for status in (endpoint.status, *endpoint.also)
    }
    problems = {*_ALWAYS, *endpoint.raises, *(_WITH_TOKEN if endpoint.scope is not None else ())}
    for status in sorted(problems):
        responses[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {"application/problem+json": {"schema": {"$ref": names[wire.Problem]}}},
        }
    return responses


def _content(endpoint: Endpoint, names: Mapping[_Model, str]) -> dict[str, Any]:
    content: dict[str, Any] = {media: {"schema": {"type": "string"}} for media in endpoint.texts}
    if endpoint.body is not None:
        content["application/json"] = {"schema": {"$ref": names[endpoint.body]}}
    return content
