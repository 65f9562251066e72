"""The path of every outgoing connection: the guard, the session and the host tokens."""

from proxyd.net.guard import Guard, GuardedResolver, RefusedConnectionError, refusal, refusal_in
from proxyd.net.host_turns import HostTokens, Turn
from proxyd.net.http_values import describe, fresh_for_s, http_date_s, read_some, retry_after_s
from proxyd.net.links import Link, absolute, read_links, read_url, without_path
from proxyd.net.safe_text import for_xml, one_line, visible, visible_line
from proxyd.net.session import SessionLimits, make_session, raise_open_files, room_for_connections, user_agent
from proxyd.net.throttle_scopes import ThrottleScopes

__all__ = [
    "Guard",
    "GuardedResolver",
    "HostTokens",
    "Link",
    "RefusedConnectionError",
    "SessionLimits",
    "ThrottleScopes",
    "Turn",
    "absolute",
    "describe",
    "for_xml",
    "fresh_for_s",
    "http_date_s",
    "make_session",
    "one_line",
    "raise_open_files",
    "read_links",
    "read_some",
    "read_url",
    "refusal",
    "refusal_in",
    "retry_after_s",
    "room_for_connections",
    "user_agent",
    "visible",
    "visible_line",
    "without_path",
]
