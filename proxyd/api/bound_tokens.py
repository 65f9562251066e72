"""What a token that is bound to some profiles may read: what an endpoint does not allow to it, it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from aiohttp import web

from proxyd.api.problems import problem
from proxyd.api.queries import Queries
from proxyd.api.query_readers import parse_position
from proxyd.core.language import no_such
from proxyd.daemon.reading import no_such_item


class Within(Enum):
    """How a request says which profile it reads."""

    PROFILE = "the name of a profile in its path"
    RULE = "the name of a rule in its path"
    SOURCE = "the name of a source in its path"
    ITEM = "the position of an item in its path"
    QUERY = "its parameter `profile`"


def in_only_profile(request: web.Request, within: Within | None, profiles: Sequence[str]) -> web.Request:
    """Return a request that asks for the only profile of its token, if it names none."""
    if within is not Within.QUERY or len(profiles) != 1 or "profile" in request.query:
        return request
    return request.clone(rel_url=request.rel_url.update_query(profile=profiles[0]))


async def check_bounds(
    request: web.Request, within: Within | None, profiles: Sequence[str], queries: Queries
) -> web.Response | None:
    """Return the refusal of a request whose token is bound to some profiles, or ``None`` if it reads only those.

    Raises ``NotFoundError``, with the same words for what is in other profiles and for what does not exist.
    """
    if within is None:
        return problem(403, "Forbidden", f"this token reads only {_named(profiles)}; this needs one that reads all")
    if within is Within.ITEM or within is Within.SOURCE:
        await _check_source(request, within, profiles, queries)
        return None
    if within is Within.RULE:
        if not _is_rule_of(name := request.match_info["name"], profiles, queries):
            raise no_such("rule", name, ())
        return None
    name = request.match_info["name"] if within is Within.PROFILE else request.query.get("profile", "")
    if not name:
        return problem(403, "Forbidden", f"this token reads only {_named(profiles)}: add ?profile=NAME")
    known = set(profiles) & set(queries.profiles.ready().profiles)
    if name not in known:
        raise no_such("profile", name, known)
    rule = request.query.get("rule")
    if rule is not None and not _is_rule_of(rule, profiles, queries):  # or the handler would name others that are alike
        raise no_such("rule", rule, ())
    return None


def _is_rule_of(name: str, profiles: Sequence[str], queries: Queries) -> bool:
    rules = queries.profiles.ready().rules
    return name in rules and bool(set(rules[name].profiles) & set(profiles))


async def _check_source(request: web.Request, within: Within, profiles: Sequence[str], queries: Queries) -> None:
    """Raise ``NotFoundError`` if a source, or that of an item, is not one that the rules of some profiles are about."""
    its = await queries.reading.sources_by_profile()
    if within is Within.SOURCE:
        name = request.match_info["name"]
    else:
        position = parse_position(request.match_info["position"], "an item's position is a number")
        name = (await queries.reading.article(position)).item.source_id
    if not any(name in its.get(each, ()) for each in profiles):
        raise no_such("source", name, ()) if within is Within.SOURCE else no_such_item()


def _named(profiles: Sequence[str]) -> str:
    """Return profiles for people.

    >>> _named(["news"]), _named(["a", "b"])
    ("the profile 'news'", "the profiles 'a', 'b'")
    """
    return f"the profile{'s' * (len(profiles) > 1)} {', '.join(map(repr, profiles))}"
