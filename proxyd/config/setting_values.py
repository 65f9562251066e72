"""Parsers of setting values: durations, rates, budgets, addresses; each error says what is valid."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from math import inf
from typing import Annotated, TypeAlias
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from proxyd.core.model.budget import Budget, BudgetHours
from proxyd.core.model.target import Target
from proxyd.core.model.wall_time import zone_names

_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_RATE_PERIODS = {
    "s": 1.0,
    "sec": 1.0,
    "min": 60.0,
    "m": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
}
_SHORTEST_S, _LONGEST_S = 1e-3, 36500 * 86400.0
_MOST_PER_S = 1e9
_LEAST_SHARE, _MOST_SHARE = 0.01, 0.999  # as for the target of a rule
Network: TypeAlias = IPv4Network | IPv6Network
POSTGRESQL = ("postgresql://", "postgresql+asyncpg://")
_DATABASE_USER = re.compile("^([^/]*//)[^:/]*(?::[^@]*)?@")  # a password may hold characters that end the host
_SECRETS_IN_QUERIES = {"password", "passfile", "dsn"}


def parse_duration(value: object) -> float:
    """Return the seconds of ``200ms``, ``10s``, ``5m``, ``1h30m`` or ``4w``; a plain number is in seconds already.

    A text without a unit is refused, except 0: ``90`` could mean days.

    >>> parse_duration("200ms"), parse_duration("1h30m"), parse_duration("0"), parse_duration(5)
    (0.2, 5400.0, 0.0, 5.0)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value < inf:
            raise ValueError(f"{value} is not a duration")
        return float(value)
    text = str(value).strip()
    if re.fullmatch(r"0+(\.0+)?", text):
        return 0.0
    if re.fullmatch(r"\d+(\.\d+)?", text):
        raise ValueError(
            f"{text!r} is not a duration: it lacks a unit, such as in {text}s, {text}m, {text}h or {text}d"
        )
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhdw])", text)
    if not parts or "".join(n + u for n, u in parts) != text:
        raise ValueError(f"{text!r} is not a duration; write it like 200ms, 10s, 5m, 2h or 4w")
    seconds = sum(float(amount) * _DURATION_UNITS[unit] for amount, unit in parts)
    if not (seconds == 0.0 or _SHORTEST_S <= seconds <= _LONGEST_S):
        raise ValueError(f"{text!r} is not a duration: it must be 0, or lie between 1ms and 36500d")
    return seconds


def format_duration(seconds: float) -> str:
    """Return the shortest text that ``parse_duration`` reads as ``seconds``.

    >>> format_duration(0.2), format_duration(300.0), format_duration(5400.0)
    ('200ms', '5m', '90m')
    """
    for unit, length in sorted(_DURATION_UNITS.items(), key=lambda pair: -pair[1]):
        amount = seconds / length
        if seconds >= length and abs(amount - round(amount)) < 1e-9:
            return f"{round(amount)}{unit}"
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


def parse_rate(text: str) -> float:
    """Return a rate such as ``60/min`` in events per second.

    >>> parse_rate("60/min"), parse_rate("0.5/s")
    (1.0, 0.5)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*/\s*([a-z]+)\s*", text)
    if match is None or match[2] not in _RATE_PERIODS:
        raise ValueError(f"{text.strip()!r} is not a rate; write it like 60/min, 5/s or 1000/h")
    per_s = float(match[1]) / _RATE_PERIODS[match[2]]
    if per_s > _MOST_PER_S:
        raise ValueError(f"{text.strip()!r} is too high a rate; the most is {_MOST_PER_S:.0f}/s")
    return per_s


def parse_window(text: str) -> tuple[int, float]:
    """Return the number and the seconds of ``30/min``: a limit for any period of that length.

    >>> parse_window("30/min")
    (30, 60.0)
    """
    match = re.fullmatch(r"\s*(\d{1,9})\s*/\s*([a-z]+)\s*", text)
    if match is None or match[2] not in _RATE_PERIODS or int(match[1]) < 1:
        raise ValueError(f"{text.strip()!r} is not a budget such as 30/min, 1/s or 600/h")
    return int(match[1]), _RATE_PERIODS[match[2]]


def parse_budget(value: object) -> Budget:
    """Return a budget from ``60/min``, or by hour of day from ``08-18 30/min, 60/min``.

    >>> parse_budget("08-18 30/min, 60/min").rate_per_s(9 * 3600.0)
    0.5
    """
    if isinstance(value, Budget):
        return value
    parts = [part.strip() for part in str(value).split(",") if part.strip()]
    default: float | None = None
    hours: list[BudgetHours] = []
    for part in parts:
        match = re.fullmatch(r"(\d{1,2})-(\d{1,2})\s+(.+)", part)
        if match is None:
            default = parse_rate(part)
        elif int(match[1]) > 23 or int(match[2]) > 24 or int(match[1]) == int(match[2]):
            raise ValueError(f"{part!r}: hours run from 00 to 24, for example 08-18 30/min")
        else:
            hours.append(BudgetHours(int(match[1]), int(match[2]), parse_rate(match[3])))
    if default is None:
        raise ValueError("a budget needs a rate for the hours that are not named, for example 08-18 30/min, 60/min")
    return Budget(default, tuple(hours))


def format_budget(budget: Budget) -> str:
    """Return the text that ``parse_budget`` reads as ``budget``."""
    parts = [f"{h.start:02d}-{h.stop:02d} {h.per_s * 60:g}/min" for h in budget.hours]
    return ", ".join([*parts, f"{budget.per_s * 60:g}/min"])


def parse_share(value: object) -> float:
    """Return a share from 0.01 to 0.999 that is written in percent.

    >>> parse_share("95 %"), parse_share(0.9)
    (0.95, 0.9)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", str(value))
    share = float(match[1]) / 100 if match else value
    if not isinstance(share, float) or not _LEAST_SHARE <= share <= _MOST_SHARE:
        raise ValueError(f"{value!r} is not a share such as 90 %, between 1 and 99.9 %")
    return share


def format_share(share: float) -> str:
    """Return the text that ``parse_share`` reads as ``share``.

    >>> format_share(0.95)
    '95 %'
    """
    return f"{round(share * 100, 9):g} %"


def parse_target(value: object) -> Target:
    """Return the target of ``90 % within 3h``.

    >>> parse_target("90 % within 3h")
    Target(share=0.9, parts=((10800.0, 1.0),))
    """
    if isinstance(value, Target):
        return value
    share, word, time = str(value).partition(" within ")
    if not word:
        raise ValueError(f"{value!r} is not a target; write it like 90 % within 3h")
    within_s = parse_duration(time)
    if not within_s > 0:
        raise ValueError(f"{value!r} is not a target: the time must be longer than 0")
    return Target(parse_share(share), ((within_s, 1.0),))


def format_target(target: Target) -> str:
    """Return the text that ``parse_target`` reads as ``target``.

    >>> format_target(parse_target("90 % within 3h"))
    '90 % within 3h'
    """
    return f"{format_share(target.share)} within {format_duration(target.parts[0][0])}"


def read_list(value: object) -> object:
    """Return the parts of a comma-separated text; return a list unchanged."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def check_networks(values: list[str]) -> list[str]:
    """Return the networks; raise if one is invalid."""
    for value in values:
        try:
            ip_network(value)
        except ValueError as error:
            raise ValueError(f"{value!r} is not a network such as {_network_of(value)}") from error
    return values


def check_hosts(values: list[str]) -> list[str]:
    """Return host names in lower case; raise if one is anything else, such as a URL.

    >>> check_hosts(["Proxyd.Example."])
    ['proxyd.example']
    """
    for value in values:
        if re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?", value) is None:
            raise ValueError(f"{value!r} is not a host name such as proxyd.example.org; without https:// or a port")
    return [value.lower().removesuffix(".") for value in values]


def _network_of(value: str) -> str:
    """Return the network that an address with a mask lies in, otherwise two examples.

    >>> _network_of("10.1.2.3/8"), _network_of("home")
    ('10.0.0.0/8', '10.0.0.0/8 or ::1/128')
    """
    try:
        return str(ip_network(value, strict=False))
    except ValueError:
        return "10.0.0.0/8 or ::1/128"


def _address(value: str, schemes: set[str]) -> SplitResult | None:
    """Return the parts of a host's URL without a query, or ``None`` if it is invalid.

    Callers raise without the value: it may hold a secret, and so may the library's message.
    """
    parts = _split(value)
    if parts is None or parts.scheme not in schemes or not parts.hostname or parts.query or parts.fragment:
        return None
    return parts


def _split(value: str) -> SplitResult | None:
    """Return the parts of a URL, or ``None`` if it is invalid or its port is not a number from 1 to 65535."""
    try:
        parts = urlsplit(value)
        is_right = parts.port != 0
    except ValueError:
        return None
    return parts if is_right else None


def check_proxy(value: str) -> str:
    """Return the URL of a proxy; raise if it is invalid."""
    if not value:
        return value
    parts = _address(value, {"http"})
    if parts is None or parts.path not in {"", "/"}:
        raise ValueError("this is not an address such as http://proxy.example:3128")  # the value may be secret
    return value


def without_credentials(url: str) -> str:
    """Return a URL for people, without credentials.

    >>> without_credentials("http://me:secret@proxy.example:3128")
    'http://[hidden]@proxy.example:3128'
    """
    return re.sub(r"(?s)//.*@", "//[hidden]@", url)


def check_browser(value: str) -> str:
    """Return the DevTools address of a browser; raise if it is invalid."""
    parts = _split(value)
    if value and (parts is None or parts.scheme not in {"http", "https", "ws", "wss"} or not parts.hostname):
        raise ValueError("this is not an address such as http://127.0.0.1:9222")  # the value may be secret
    return value


def host_alone(url: str) -> str:
    """Return a URL for people, without credentials, path and query, which may hold a token.

    >>> host_alone("wss://me:secret@browser.example:9222/devtools?token=x")
    'wss://browser.example:9222'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if url else ""


def check_collector(value: str) -> str:
    """Return the URL of a collector; raise if it is invalid."""
    return _check_plain(value, "http://collector.example:4318")


def _check_plain(value: str, example: str) -> str:
    parts = _address(value, {"http", "https"})
    if value and (parts is None or parts.username is not None):
        raise ValueError(f"this is not an address such as {example}, without user and query")
    return value


def check_window(value: str) -> str:
    """Return a number per time, or an empty text; raise if it is invalid."""
    if value:
        parse_window(value)
    return value


def check_public_url(value: str) -> str:
    """Return a URL that others can reach, or an empty text; raise if it is invalid."""
    return _check_plain(value, "https://proxyd.example.org")


def check_server(value: str) -> str:
    """Return host:port of a mail server, or an empty text; raise if it is invalid, without a password that it holds."""
    if "@" in value:
        raise ValueError(
            "a user or a password does not belong here: set smtp_user, and the password with PROXYD_SMTP_PASSWORD_FILE "
            "or PROXYD_SMTP_PASSWORD"
        )
    if "/" in value:
        raise ValueError("this is not host:port, such as mail.example.org:587, without smtp://")
    return _check_host_and_port(value, "mail.example.org:587") if value else value


def check_mail_address(value: str) -> str:
    """Return a mail address, or an empty text; raise if it is invalid."""
    if value and not re.fullmatch(r"[^@\s<>]+@[^@\s<>]+", value):
        raise ValueError(f"{value!r} is not an address such as proxyd@example.org")
    return value


def hidden(value: str) -> str:
    """Return a placeholder for a secret."""
    return "[hidden]" if value else value


def check_zone(value: str) -> str:
    """Return a time zone; raise if it does not exist."""
    if value not in zone_names():
        raise ValueError(f"{value!r} is not a time zone such as Europe/Berlin")
    return value


def check_listen(value: str) -> str:
    """Return host:port; raise if it is invalid."""
    return _check_host_and_port(value, "127.0.0.1:8080")


def check_advertise(value: str) -> str:
    """Return host:port or an empty text; raise if it is neither."""
    if value and re.fullmatch(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d+", value) is None:
        raise ValueError(f"{value!r} is not host:port, such as 10.0.0.5:8080 or [fd00::5]:8080")
    labels = [] if value.startswith("[") else value.rpartition(":")[0].removesuffix(".").split(".")
    if value and not all(0 < len(label) < 64 for label in labels):
        raise ValueError(f"{value!r} names no host: each part between dots has 1 to 63 characters")
    return _check_host_and_port(value, "10.0.0.5:8080") if value else value


def _check_host_and_port(value: str, example: str) -> str:
    match = re.fullmatch(r"(.+):(\d{1,5})", value)
    if match is None or int(match[2]) > 65535:
        raise ValueError(f"{value!r} is not host:port, such as {example}")
    return value


def read_database(value: str) -> str:
    """Return the path of a file or the URL of a database; raise if it is neither."""
    path = value.removeprefix("sqlite+aiosqlite:///").removeprefix("sqlite:///")
    if "://" not in path:
        return path
    server, _, query = _DATABASE_USER.sub(r"\1", path).partition("?")
    parts = _split(server) if path.startswith(POSTGRESQL) else None
    if parts is None or not parts.path.strip("/"):
        raise ValueError("give the path of a file, or an address such as postgresql+asyncpg://proxyd@db.example/proxyd")
    if {key for key, _ in parse_qsl(query)} & _SECRETS_IN_QUERIES:
        raise ValueError("a password goes before the host, user:password@, in the file that PROXYD_DATABASE_FILE names")
    return path


def check_servers(value: list[str]) -> list[str]:
    """Return NATS URLs; raise if one is invalid."""
    for each in value:
        if _address(each, {"nats", "tls"}) is None:
            raise ValueError("not all are addresses such as nats://nats.example:4222")  # they may hold secrets
    return value


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("must be longer than 0")
    return value


Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, BeforeValidator(parse_duration), PlainSerializer(format_duration)]
PositiveSeconds = Annotated[Seconds, AfterValidator(_positive)]
ShareSetting = Annotated[float, BeforeValidator(parse_share), PlainSerializer(format_share)]
TargetSetting = Annotated[Target, BeforeValidator(parse_target), PlainSerializer(format_target)]
BudgetSetting = Annotated[Budget, BeforeValidator(parse_budget), PlainSerializer(format_budget)]
