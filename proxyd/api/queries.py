"""What requests ask for in their queries."""

from __future__ import annotations

from aiohttp import web

from proxyd.api.problems import BadRequestError
from proxyd.errors import BusyError, NotFoundError
from proxyd.model.profile import Declaration
from proxyd.model.values import parse_iso
from proxyd.ports import Control, Wanted

_LARGEST = 2**63 - 1


def position(text: str, complaint: str) -> int:
    """Return a position; raises with ``complaint`` where ``text`` is none."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        raise BadRequestError(complaint)
    return min(int(text), _LARGEST)


def wanted(request: web.Request, control: Control) -> Wanted:
    """Return which notifications a request is about: ``rule``, ``profile``, ``source``, ``since``."""
    query = request.query
    since, since_s = query.get("since"), None
    if since is not None:
        since_s = parse_iso(since)
        if since_s is None:
            raise BadRequestError("since is not a time such as 2026-01-31T12:00:00Z")
    rules = wanted_rules(control, query.get("profile"), query.get("rule"))
    return Wanted(rules, query.get("source"), since_s)


def wanted_rules(control: Control, profile: str | None, rule: str | None) -> frozenset[str] | None:
    """Return the rules of a profile as it is declared now, or the one rule, or ``None`` for all of them.

    A rule need not be declared any more: its notifications are still there.
    """
    if profile is None:
        return None if rule is None else frozenset([rule])
    declaration = known_declaration(control)
    if profile not in declaration.profiles:
        raise NotFoundError(f"there is no profile {profile!r}")
    its = frozenset(name for name, each in declaration.rules.items() if profile in each.profiles)
    return its if rule is None else its & {rule}


def known_declaration(control: Control) -> Declaration:
    """Return the declaration to look up names in; raises ``BusyError`` while the daemon starts and knows none."""
    if not control.has_started:
        raise BusyError("the daemon is starting")
    return control.declaration
