"""The path of every outgoing connection: the guard, the session and the host tokens."""

from proxyd.net.guard import (
    Guard,
    GuardedConnections,
    GuardedResolver,
    RefusedConnectionError,
    guard_calls,
    refusal,
    refusal_in,
)
from proxyd.net.host_turns import HostTokens, ThrottleScopes, Turn
from proxyd.net.http_values import (
    Link,
    absolute,
    describe,
    fresh_for_s,
    http_date_s,
    read_links,
    read_some,
    read_url,
    retry_after_s,
    without_path,
)
from proxyd.net.session import (
    SessionLimits,
    certificate_of_refusal,
    make_session,
    raise_open_files,
    room_for_connections,
    user_agent,
)

__all__ = [
    "Guard",
    "GuardedConnections",
    "GuardedResolver",
    "HostTokens",
    "Link",
    "RefusedConnectionError",
    "SessionLimits",
    "ThrottleScopes",
    "Turn",
    "absolute",
    "certificate_of_refusal",
    "describe",
    "fresh_for_s",
    "guard_calls",
    "http_date_s",
    "make_session",
    "raise_open_files",
    "read_links",
    "read_some",
    "read_url",
    "refusal",
    "refusal_in",
    "retry_after_s",
    "room_for_connections",
    "user_agent",
    "without_path",
]
