"""What those may read and change who are bound to some profiles, over the API and on pages.

A route that does not say how its requests are bound refuses them. What they see of the declaration is decided where its
answers ask for it (``proxyd.daemon.parts``); here the names in requests are looked up there, and are left out of what
is of others. Answers show names as their owner writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from html import escape
from urllib.parse import quote

from aiohttp import web

from proxyd.api.problems import Handler, problem, problems
from proxyd.api.queries import Queries
from proxyd.api.query_readers import parse_position
from proxyd.core.language import no_such, profiles_in_words
from proxyd.core.model.profile import MARK, Declaration, found_name
from proxyd.core.model.suspension import Subject
from proxyd.daemon.delivery_queries import no_notification
from proxyd.daemon.reading import no_such_item


class Within(Enum):
    """How a request says what it is about."""

    PART = "not in its path: its handler answers from what of the declaration is shown to whoever asks"
    PROFILE = "the name of a profile in its path"
    RULE = "the name of a rule in its path"
    SOURCE = "the name of a source in its path"
    ITEM = "the position of an item in its path"
    NOTIFICATION = "the id of a notification in its path"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How the requests of a route are bound: ``within`` is ``None`` if it refuses whoever is bound to some profiles."""

    within: Within | None = None
    is_to_change: bool = False  # whether what is named must belong to them alone


_NAMED = {Within.PROFILE: "profile", Within.RULE: "rule", Within.SOURCE: "source"}


async def answer_bound(
    request: web.Request, bounds: Bounds, profiles: tuple[str, ...], queries: Queries, handler: Handler
) -> web.StreamResponse:
    """Return what a handler answers to somebody who is bound to some profiles, or a refusal."""

    async def admit(request: web.Request) -> web.StreamResponse:
        found = await look_up(request, bounds, profiles, queries)
        return await handler(found) if isinstance(found, web.Request) else found

    return answer_with_plain_names(await problems(request, admit), profiles)


async def look_up(
    request: web.Request, bounds: Bounds, profiles: tuple[str, ...], queries: Queries
) -> web.Request | web.Response:
    """Return a request with the full names of what it names, or a refusal.

    Raises ``NotFoundError`` for what is of others, in the words for what does not exist, and ``ConflictError`` for what
    others have, too, and cannot be changed.
    """
    if bounds.within is None:
        return problem(403, "Forbidden", f"you have only {profiles_in_words(profiles)} here; this needs all")
    return await _look_up_names(request, bounds, profiles, await queries.profiles.prepare(), queries)


def answer_with_plain_names(answer: web.StreamResponse, profiles: Sequence[str]) -> web.StreamResponse:
    """Return an answer, unless it is a stream or a picture, with names as ``with_plain_names`` does."""
    if isinstance(answer, web.Response) and isinstance(answer.body, bytes) and answer.content_type[:6] != "image/":
        answer.body = with_plain_names(answer.body, profiles)
    return answer


async def _look_up_names(
    request: web.Request, bounds: Bounds, profiles: Sequence[str], part: Declaration, queries: Queries
) -> web.Request:
    within = bounds.within
    kinds: dict[str, Mapping[str, object]] = {"profile": part.profiles, "rule": part.rules, "source": part.sources}
    if within is not None and (kind := _NAMED.get(within)) is not None:
        name = found_name(request.match_info["name"], kinds[kind], profiles)
        if name not in kinds[kind]:
            raise no_such(kind, name, part.profiles if kind == "profile" else ())
        queries.profiles.full_name_of(name, Subject(kind), to_change=bounds.is_to_change)
        request.match_info["name"] = name
    elif within is Within.ITEM:
        position = parse_position(request.match_info["position"], "an item's position is a number")
        if not await queries.reading.stored.articles([position], sources=part.sources):
            raise no_such_item()
    elif within is Within.NOTIFICATION:
        rule = await queries.history.is_of(request.match_info["id"], part.rules)
        if rule is None:
            raise no_notification(request.match_info["id"])
        queries.profiles.full_name_of(rule, Subject.RULE, to_change=bounds.is_to_change)
    kinds["domain"] = part.domains
    named = {each: found_name(request.query[each], kinds[each], profiles) for each in kinds if each in request.query}
    for kind, name in named.items():
        # a source or a domain of others has nothing, like one that is not there
        if kind in {"profile", "rule"} and name not in kinds[kind]:
            raise no_such(kind, name, part.profiles if kind == "profile" else ())
    different = {each: name for each, name in named.items() if name != request.query[each]}
    return request.clone(rel_url=request.rel_url.update_query(different)) if different else request


def with_plain_names(body: bytes, profiles: Sequence[str]) -> bytes:
    """Return an answer with the names of what some profiles own as these write them.

    >>> with_plain_names('<a href="/rules/a%26b%E2%8B%AEx">a&amp;b⋮x</a>'.encode(), ["a&b"])
    b'<a href="/rules/x">x</a>'
    """
    # once for each mark, and not for each profile: of a hundred profiles, 2 MB held the loop for a second
    for mark, owners in _spellings(tuple(profiles)).items():
        *parts, last = body.split(mark)
        body = b"".join([_without_owner(part, mark, owners) for part in parts]) + last if parts else body
    return body


def _without_owner(part: bytes, mark: bytes, owners: Mapping[int, frozenset[bytes]]) -> bytes:
    """Return what stands before a mark, without the owner at its end, or with the mark if there is none of these."""
    length = next((length for length, its in owners.items() if part[-length:] in its), None)
    return part + mark if length is None else part[:-length]


@lru_cache(1000)
def _spellings(profiles: tuple[str, ...]) -> Mapping[bytes, Mapping[int, frozenset[bytes]]]:
    """Return the owners as texts, JSON, HTML, XML and addresses have them, by the mark after them and their length."""
    found: dict[bytes, set[bytes]] = {}
    for owner, mark in ((_forms_of(each), _forms_of(MARK)) for each in profiles):
        for spelled, its in zip(owner, mark, strict=True):
            found.setdefault(its, set()).add(spelled)
    return {mark: _by_length(its) for mark, its in found.items()}


def _by_length(owners: Iterable[bytes]) -> Mapping[int, frozenset[bytes]]:
    lengths = sorted({len(each) for each in owners}, reverse=True)  # the longest is taken: "ab", not "b"
    return {length: frozenset(each for each in owners if len(each) == length) for length in lengths}


def _forms_of(text: str) -> tuple[bytes, ...]:
    """Return each way in which an answer writes a text."""
    html = escape(text), escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")
    found = [escape(text, quote=False).encode(), quote(text, safe="").encode(), quote(text).encode()]
    for each in (text, *html):
        found += [each.encode(), json.dumps(each, ensure_ascii=False)[1:-1].encode()]
        found += [json.dumps(each)[1:-1].encode(), each.encode("ascii", "xmlcharrefreplace")]
    return tuple(found)
