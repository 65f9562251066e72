"""The settings, each with its default and its meaning, and how their values are read."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from math import inf
from pathlib import Path
from typing import Annotated, Literal, TypeAlias
from urllib.parse import SplitResult, parse_qsl, urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from proxyd.core.errors import ConfigError
from proxyd.core.model.chronon import DEFAULT_TARGET, Budget, BudgetHours, Target, zone_names

_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
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
_Network: TypeAlias = IPv4Network | IPv6Network
_POSTGRESQL = ("postgresql://", "postgresql+asyncpg://")
_DATABASE_USER = re.compile("^([^/]*//)[^:/]*(?::[^@]*)?@")  # a password may hold characters that end the host
_SECRETS_IN_QUERIES = {"password", "passfile", "dsn"}


def parse_duration(value: object) -> float:
    """Return the seconds of ``200ms``, ``10s``, ``5m``, ``1h30m`` or ``4w``; a plain number is in seconds already.

    A text without a unit is refused, except 0: ``90`` could mean days.

    >>> [parse_duration(each) for each in ("200ms", "1h30m", "2 min", "0", 5)]
    [0.2, 5400.0, 120.0, 0.0, 5.0]
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
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(ms|min|[smhdw])", text)
    if not parts or "".join(n + u for n, u in parts) != re.sub(r"\s", "", text):
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


def _parse_rate(text: str) -> float:
    """Return a rate such as ``60/min`` in events per second.

    >>> _parse_rate("60/min"), _parse_rate("0.5/s")
    (1.0, 0.5)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*/\s*([a-z]+)\s*", text)
    if match is None or match[2] not in _RATE_PERIODS:
        raise ValueError(f"{text.strip()!r} is not a rate; write it like 60/min, 5/s or 1000/h")
    per_s = float(match[1]) / _RATE_PERIODS[match[2]]
    if per_s > _MOST_PER_S:
        raise ValueError(f"{text.strip()!r} is too high a rate; the most is {_MOST_PER_S:.0f}/s")
    return per_s


def _parse_window(text: str) -> tuple[int, float]:
    """Return the number and the seconds of ``30/min``: a limit for any period of that length.

    >>> _parse_window("30/min")
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
            default = _parse_rate(part)
        elif int(match[1]) > 23 or int(match[2]) > 24 or int(match[1]) == int(match[2]):
            raise ValueError(f"{part!r}: hours run from 00 to 24, for example 08-18 30/min")
        else:
            hours.append(BudgetHours(int(match[1]), int(match[2]), _parse_rate(match[3])))
    if default is None:
        raise ValueError("a budget needs a rate for the hours that are not named, for example 08-18 30/min, 60/min")
    return Budget(default, tuple(hours))


def format_budget(budget: Budget) -> str:
    """Return the text that ``parse_budget`` reads as ``budget``.

    >>> format_budget(parse_budget("08-18 30/min, 0.5/s")), format_budget(parse_budget("1/day"))
    ('08-18 30/min, 30/min', '1/day')
    """
    parts = [f"{h.start:02d}-{h.stop:02d} {_format_rate(h.per_s)}" for h in budget.hours]
    return ", ".join([*parts, _format_rate(budget.per_s)])


def _format_rate(per_s: float) -> str:
    """Return a rate in minutes, or in the longer period in which it is at least 1."""
    amounts = ((unit, per_s * _RATE_PERIODS[unit]) for unit in ("min", "h", "day"))
    unit, amount = next(((unit, each) for unit, each in amounts if not 0 < each < 1 - 1e-9), ("day", per_s * 86400.0))
    return f"{amount:.9f}".rstrip("0").rstrip(".") + f"/{unit}"


def _parse_share(value: object) -> float:
    """Return a share from 0.01 to 0.999 that is written in percent.

    >>> _parse_share("95 %"), _parse_share(0.9)
    (0.95, 0.9)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", str(value))
    share = float(match[1]) / 100 if match else value
    if not isinstance(share, float) or not _LEAST_SHARE <= share <= _MOST_SHARE:
        raise ValueError(f"{value!r} is not a share such as 90 %, between 1 and 99.9 %")
    return share


def _format_share(share: float) -> str:
    """Return the text that ``_parse_share`` reads as ``share``.

    >>> _format_share(0.95)
    '95 %'
    """
    return f"{round(share * 100, 9):g} %"


def _parse_target(value: object) -> Target:
    """Return the target of ``90 % within 3h``.

    >>> _parse_target("90 % within 3h")
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
    return Target(_parse_share(share), ((within_s, 1.0),))


def _format_target(target: Target) -> str:
    """Return the text that ``_parse_target`` reads as ``target``.

    >>> _format_target(_parse_target("90 % within 3h"))
    '90 % within 3h'
    """
    return f"{_format_share(target.share)} within {format_duration(target.parts[0][0])}"


def _read_list(value: object) -> object:
    """Return the parts of a comma-separated text; return a list unchanged."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _check_networks(values: list[str]) -> list[str]:
    """Return the networks; raise if one is invalid."""
    for value in values:
        try:
            ip_network(value)
        except ValueError as error:
            raise ValueError(f"{value!r} is not a network such as {_network_of(value)}") from error
    return values


def _check_issuer(value: str) -> str:
    """Return the address of a provider, or nothing; raises ``ValueError`` for plain http to another machine."""
    address = urlsplit(value)
    is_here = address.scheme == "http" and (address.hostname or "") in {"localhost", "127.0.0.1", "::1"}
    if value and not is_here and (address.scheme != "https" or not address.hostname):
        raise ValueError("it starts with https://; plain http is for a provider on this machine")
    return value


def _check_header(value: str) -> str:
    """Return the name of a header; raise if it cannot be one."""
    if value and re.fullmatch(r"[A-Za-z0-9-]+", value) is None:
        raise ValueError(f"{value!r} is not the name of a header such as Remote-User")
    return value


def _check_hosts(values: list[str]) -> list[str]:
    """Return host names in lower case; raise if one is anything else, such as a URL.

    >>> _check_hosts(["Proxyd.Example."])
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
    """Return the parts of a host's URL without a query, or ``None`` if it is invalid."""
    # Callers raise without the value: it may hold a secret, and so may the library's message
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


def _check_proxy(value: str) -> str:
    """Return the URL of a proxy; raise if it is invalid."""
    if not value:
        return value
    parts = _address(value, {"http"})
    if parts is None or parts.path not in {"", "/"}:
        raise ValueError("this is not an address such as http://proxy.example:3128")  # the value may be secret
    return value


def _without_credentials(url: str) -> str:
    """Return a URL for people, without credentials.

    >>> _without_credentials("http://me:secret@proxy.example:3128")
    'http://[hidden]@proxy.example:3128'
    """
    return re.sub(r"(?s)//.*@", "//[hidden]@", url)


def _check_browser(value: str) -> str:
    """Return the DevTools address of a browser; raise if it is invalid."""
    parts = _split(value)
    if value and (parts is None or parts.scheme not in {"http", "https", "ws", "wss"} or not parts.hostname):
        raise ValueError("this is not an address such as http://127.0.0.1:9222")  # the value may be secret
    return value


def _host_alone(url: str) -> str:
    """Return a URL for people, without credentials, path and query, which may hold a token.

    >>> _host_alone("wss://me:secret@browser.example:9222/devtools?token=x")
    'wss://browser.example:9222'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if url else ""


def _check_collector(value: str) -> str:
    """Return the URL of a collector; raise if it is invalid."""
    return _check_plain(value, "http://collector.example:4318")


def _check_plain(value: str, example: str) -> str:
    parts = _address(value, {"http", "https"})
    if value and (parts is None or parts.username is not None):
        raise ValueError(f"this is not an address such as {example}, without user and query")
    return value


def _check_window(value: str) -> str:
    """Return a number per time, or an empty text; raise if it is invalid."""
    if value:
        _parse_window(value)
    return value


def _check_rdap_url(value: str) -> str:
    """Return an address of http or https, or nothing; raises ``ValueError``."""
    if value and not value.startswith(("https://", "http://")):
        raise ValueError("it starts with https:// or http://")
    return value


def _check_status_pages(value: list[str]) -> list[str]:
    """Return status pages; raises ``ValueError`` for one without a name of letters, digits and hyphens, or sites."""
    for each in value:
        name, _, sites = each.partition(":")
        if re.fullmatch(r"[A-Za-z0-9-]{1,60}", name.strip()) is None or not any(map(str.strip, sites.split("|"))):
            raise ValueError(f"{each!r} is no page; write it like 'public: shop.example.org | blog.example.org'")
    return value


def _check_public_url(value: str) -> str:
    """Return a URL that others can reach, or an empty text; raise if it is invalid."""
    return _check_plain(value, "https://proxyd.example.org")


def _check_server(value: str) -> str:
    """Return host:port of a mail server, or an empty text; raise if it is invalid, without a password that it holds."""
    if "@" in value:
        raise ValueError(
            "a user or a password does not belong here: set smtp_user, and the password with PROXYD_SMTP_PASSWORD_FILE "
            "or PROXYD_SMTP_PASSWORD"
        )
    if "/" in value:
        raise ValueError("this is not host:port, such as mail.example.org:587, without smtp://")
    return _check_host_and_port(value, "mail.example.org:587") if value else value


def _check_mail_address(value: str) -> str:
    """Return a mail address, or an empty text; raise if it is invalid."""
    if value and not re.fullmatch(r"[^@\s<>]+@[^@\s<>]+", value):
        raise ValueError(f"{value!r} is not an address such as proxyd@example.org")
    return value


def _hidden(value: str) -> str:
    """Return a placeholder for a secret."""
    return "[hidden]" if value else value


def _check_zone(value: str) -> str:
    """Return a time zone; raise if it does not exist."""
    if value not in zone_names():
        raise ValueError(f"{value!r} is not a time zone such as Europe/Berlin")
    return value


def _check_time_zone(value: str) -> str:
    """Return a time zone, or an empty text; raise if it does not exist."""
    return _check_zone(value) if value else value


def _check_listen(value: str) -> str:
    """Return host:port; raise if it is invalid."""
    return _check_host_and_port(value, "127.0.0.1:8080")


def _check_advertise(value: str) -> str:
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


def _read_database(value: str) -> str:
    """Return the path of a file or the URL of a database; raise if it is neither."""
    path = value.removeprefix("sqlite+aiosqlite:///").removeprefix("sqlite:///")
    if "://" not in path:
        return path
    server, _, query = _DATABASE_USER.sub(r"\1", path).partition("?")
    parts = _split(server) if path.startswith(_POSTGRESQL) else None
    if parts is None or not parts.path.strip("/"):
        raise ValueError("give the path of a file, or an address such as postgresql+asyncpg://proxyd@db.example/proxyd")
    if {key for key, _ in parse_qsl(query)} & _SECRETS_IN_QUERIES:
        raise ValueError("a password goes before the host, user:password@, in the file that PROXYD_DATABASE_FILE names")
    return path


def _check_servers(value: list[str]) -> list[str]:
    """Return NATS URLs; raise if one is invalid."""
    for each in value:
        if _address(each, {"nats", "tls"}) is None:
            raise ValueError("not all are addresses such as nats://nats.example:4222")  # they may hold secrets
    return value


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("must be longer than 0")
    return value


_Port = Annotated[int, Field(ge=1, le=65535)]
_Seconds = Annotated[float, BeforeValidator(parse_duration), PlainSerializer(format_duration)]
_PositiveSeconds = Annotated[_Seconds, AfterValidator(_positive)]
_ShareSetting = Annotated[float, BeforeValidator(_parse_share), PlainSerializer(_format_share)]
_TargetSetting = Annotated[Target, BeforeValidator(_parse_target), PlainSerializer(_format_target)]
_BudgetSetting = Annotated[Budget, BeforeValidator(parse_budget), PlainSerializer(format_budget)]


CHATS = (
    *("discord", "form", "forms", "gotify", "gotifys", "json", "jsons", "matrix", "matrixs", "mmost", "mmosts"),
    *("ntfy", "ntfys", "pover", "slack", "tgram", "workflow", "workflows"),
)
"""The schemes of channels that are sent to without apprise."""


class Settings(BaseModel):
    """All settings of the daemon; durations are held in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True)

    profiles: Path = Field(Path("profiles"), description="folder of the `*.profile` files")
    database: Annotated[str, AfterValidator(_read_database), PlainSerializer(_without_credentials)] = Field(
        "data/proxyd.db",
        repr=False,
        description="path of the SQLite database, or `postgresql+asyncpg://user@host/name`. Give a password only with "
        "`PROXYD_DATABASE_FILE` or `PROXYD_DATABASE`",
    )
    nats: Annotated[
        list[str],
        BeforeValidator(_read_list),
        AfterValidator(_check_servers),
        PlainSerializer(lambda each: [_without_credentials(url) for url in each]),
    ] = Field(
        default_factory=list,
        repr=False,
        description="NATS servers through which several machines share the work, for example "
        "`nats://nats.example:4222`. Empty: one machine. Give credentials (the part before `@`) only with "
        "`PROXYD_NATS_FILE` or `PROXYD_NATS`",
    )
    role: Literal["all", "planner", "prober", "notifier"] = Field(
        "all",
        description="role of this machine: `all`, `planner`, `prober` or `notifier`. Machines of a role share its work",
    )
    lease: Annotated[_PositiveSeconds, Field(ge=1)] = Field(
        30.0,
        description="time after which another machine takes over from one that no longer answers; a silent prober "
        "keeps its batches for 0.4 of the planner's",
    )
    planners: Annotated[int, Field(ge=1, le=64)] = Field(
        1,
        description="number of processes on this machine that plan a share of the sources each, on a core of their "
        "own, and without NATS also probe it. More than one need PostgreSQL. They listen at the port of `listen` and "
        "those after it",
    )
    prober_hosts: Annotated[int, Field(ge=1, le=256)] = Field(
        64, description="maximum number of hosts that one prober in a cluster asks at once"
    )
    socket: Path | None = Field(
        None,
        description="Unix socket of the daemon, which commands use to find it. If not set: next to the database file, "
        "or with PostgreSQL `data/proxyd.sock` in the working directory",
    )
    listen: Annotated[str, AfterValidator(_check_listen)] = Field(
        "127.0.0.1:8080",
        description="`host:port` of the REST API, the dashboard and the metrics; `*:8080`: at every address",
    )
    advertise: Annotated[str, AfterValidator(_check_advertise)] = Field(
        "",
        description="with several machines: `host:port` at which the others reach the listener of this one. If not "
        "set: the address from which it reaches the database, and the port of `listen`",
    )
    hosts: Annotated[list[str], BeforeValidator(_read_list), AfterValidator(_check_hosts)] = Field(
        default_factory=list,
        description="names under which clients and a reverse proxy reach the listener, for example "
        "`proxyd.example.org`. IP addresses, `localhost` and the hosts of `listen` and `public_url` are always allowed",
    )
    sign_in_header: Annotated[str, AfterValidator(_check_header)] = Field(
        "",
        description="header in which a reverse proxy that checks who asks names the person, for example "
        "`Remote-User`; it is believed only from the addresses in `sign_in_proxies`. Empty: none",
    )
    sign_in_proxies: Annotated[list[str], BeforeValidator(_read_list), AfterValidator(_check_networks)] = Field(
        default_factory=list, description="addresses of that reverse proxy, for example `127.0.0.1/32`"
    )
    oidc_issuer: Annotated[str, AfterValidator(_check_issuer)] = Field(
        "",
        description="OpenID Connect provider with whom people sign in, for example `https://login.example.org`; "
        "needs `proxyd[oidc]`. One in a private network must be in `allow_networks`. Empty: none",
    )
    oidc_client: str = Field("proxyd", description="what the provider knows proxyd by (client id)")
    oidc_secret: Annotated[str, PlainSerializer(_hidden)] = Field(
        "",
        repr=False,
        description="secret that it shares with proxyd, only with `PROXYD_OIDC_SECRET_FILE` or `PROXYD_OIDC_SECRET`",
    )
    oidc_claim: str = Field(
        "preferred_username", description="claim of the provider that is the name of a person, for example `email`"
    )
    fever: bool = Field(
        False, description="whether readers on phones may ask by the Fever API, whose keys are unsalted MD5 sums"
    )
    chronon: Annotated[_Seconds, Field(ge=0.1, le=3600)] = Field(10.0, description="smallest time step of the plan")
    budget: _BudgetSetting = Field(
        Budget(1.0),
        description="number of probes that all sources together may get: `60/min`, or by hour `08-18 30/min, 60/min`",
    )
    time_zone: Annotated[str, AfterValidator(_check_time_zone)] = Field(
        "",
        description="time zone of the times in messages, pages and tables, and of `mute --until 07:00`, for example "
        "`Europe/Berlin`. Empty: that of this machine",
    )
    budget_zone: Annotated[str, AfterValidator(_check_zone)] = Field(
        "UTC", description="time zone of the budget's hours"
    )
    objective: Literal["satisfy", "spend"] = Field(
        "satisfy",
        description="`satisfy`: just the probes that the rules' targets take. `spend`: use the whole budget; rules "
        "that name `UNIFORM`, `DOE`, `SUP` or `FBSUP` get no additional probes",
    )
    default_share: _ShareSetting = Field(
        0.9, description="share of the items to be seen in time, for rules that set a life but no target"
    )
    default_target: _TargetSetting = Field(
        DEFAULT_TARGET, description="share of the items to be seen within a time, for rules without a life"
    )
    probe_price: Annotated[float, Field(gt=0)] | None = Field(
        None, description="item-hours of delay that a probe must save. If set, it replaces the targets"
    )
    plan_every: _PositiveSeconds = Field(
        3600.0,
        description="how often proxyd computes prices and week shapes. Right after the start it does so more often",
    )
    cycle: _PositiveSeconds = Field(
        604800.0,
        description="period that repeats in the sources' rates: a week. Shorter periods are for tests and "
        "demonstrations only",
    )
    epoch: _PositiveSeconds = Field(604800.0, description="how far ahead the rolling plan looks")
    first_day: _Seconds = Field(
        86400.0,
        description="how long a new source is probed every 20 minutes with what is left of the budget, "
        "after an hour only until it has shown two new items. `0s`: not at all",
    )
    source_spacing: _PositiveSeconds = Field(300.0, description="minimum time between two probes of a source")
    host_spacing: _Seconds = Field(1.0, description="minimum time between two requests to a host")
    host_concurrency: Annotated[int, Field(ge=1, le=64)] = Field(
        1, description="maximum number of requests to a host at once"
    )
    host_budget: Annotated[str, AfterValidator(_check_window)] = Field(
        "",
        description="maximum number of probes of a host in a period, for example `30/min`. Empty: as many as its "
        "spacing allows",
    )
    throttle_scope: Literal["host", "domain"] = Field(
        "host",
        description="what a 429, or a 503 with Retry-After, silences: its `host`, or all of its registrable `domain`",
    )
    throttle_groups: Annotated[list[str], BeforeValidator(_read_list)] = Field(
        default_factory=list, description="hosts that are throttled together, for example `a.example|b.example`"
    )
    probe_timeout: _PositiveSeconds = Field(30.0, description="total time of one probe")
    max_body_bytes: Annotated[int, Field(ge=1024)] = Field(
        10 * 1024 * 1024, description="maximum size of a decoded body"
    )
    parser_processes: Annotated[int, Field(ge=1, le=64)] = Field(
        2, description="number of processes that parse documents"
    )
    contact: str = Field("", description="address for operators of sources, sent in `User-Agent`")
    allow_networks: Annotated[list[str], BeforeValidator(_read_list), AfterValidator(_check_networks)] = Field(
        default_factory=list, description="private networks that proxyd may connect to, for example `127.0.0.0/8`"
    )
    allow_ports: Annotated[list[_Port], BeforeValidator(_read_list)] = Field(
        default_factory=list,
        description="the only ports that proxyd may connect to. Empty: all, and HTTP to none of other protocols",
    )
    proxy: Annotated[str, AfterValidator(_check_proxy), PlainSerializer(_without_credentials)] = Field(
        "",
        repr=False,
        description="`http://` address of a proxy for all requests. Give user and password only with "
        "`PROXYD_PROXY_FILE` or `PROXYD_PROXY`. The proxy looks names up again, so only it can refuse a "
        "name that was rebound after our check",
    )
    browser: Annotated[str, AfterValidator(_check_browser), PlainSerializer(_host_alone)] = Field(
        "",
        repr=False,
        description="DevTools address of the Chromium that renders the pages of `FETCH BROWSER`, for example "
        "`http://127.0.0.1:9222`; needs proxyd with `[browser]`. Empty: such pages are not read",
    )
    rdap_url: Annotated[str, AfterValidator(_check_rdap_url)] = Field(
        "https://rdap.org/domain/",
        description="address that says when the domain of a site expires, once a day for each; the domain follows it. "
        "Empty: none is asked",
    )
    status_pages: Annotated[list[str], BeforeValidator(_read_list), AfterValidator(_check_status_pages)] = Field(
        default_factory=list,
        description="pages that show sites to everybody, without a sign-in, at `/status/NAME`: a name and its sites, "
        "for example `public: shop.example.org | blog.example.org`",
    )
    public_url: Annotated[str, AfterValidator(_check_public_url)] = Field(
        "",
        description="address at which WebSub hubs, and followers of feeds of profiles, reach this daemon's `/websub/`, "
        "for example `https://proxyd.example.org`",
    )
    secrets: Path | None = Field(None, description="folder for `SECRET FILE`")
    delivery_timeout: _PositiveSeconds = Field(15.0, description="total time of one delivery attempt")
    delivery_hold: _Seconds = Field(600.0, description="time for which a failing notification holds back the next ones")
    endpoint_concurrency: Annotated[int, Field(ge=1)] = Field(8, description="maximum number of these at one endpoint")
    endpoint_rate: Annotated[str, AfterValidator(_check_window)] = Field(
        "", description="maximum number of attempts at one endpoint in a period, for example `60/min`. Empty: no limit"
    )
    api_rate: Annotated[str, AfterValidator(_check_window)] = Field(
        "1200/min", description="maximum number of requests with one token in a period. Empty: no limit"
    )
    ping_webhooks: bool = Field(
        True, description="whether a new webhook must accept a ping before it gets notifications"
    )
    smtp: Annotated[str, AfterValidator(_check_server)] = Field(
        "", description="`host:port` of the mail server, for example `mail.example.org:587`. Empty: no mail"
    )
    smtp_tls: Literal["starttls", "tls", "none"] = Field(
        "starttls",
        description="`starttls`: upgrade the connection (port 587). `tls`: TLS from the start (port 465). `none`: "
        "unencrypted",
    )
    smtp_user: str = Field("", description="user at the mail server. Empty: no login")
    smtp_password: Annotated[str, PlainSerializer(_hidden)] = Field(
        "",
        repr=False,
        description="password of that user, only with `PROXYD_SMTP_PASSWORD_FILE` or `PROXYD_SMTP_PASSWORD`",
    )
    mail_from: Annotated[str, AfterValidator(_check_mail_address)] = Field(
        "", description="sender address of mail, for example `proxyd@example.org`"
    )
    channel_schemes: Annotated[list[str], BeforeValidator(_read_list)] = Field(
        default_factory=lambda: list(CHATS),
        description="schemes that `CHANNEL` may use; others than these need `proxyd[apprise]`. A server of one's own "
        "in a private network must be in `allow_networks`",
    )
    retention: _PositiveSeconds = Field(
        90 * 86400.0, description="how long items, intervals and notifications are kept"
    )
    items_bytes: Annotated[int, Field(ge=0)] = Field(
        10 * 2**30,
        description="maximum size of all stored items and their updates, approximately. Looked at every hour: the "
        "oldest days are deleted first, but never what a source still shows",
    )
    pictures_bytes: Annotated[int, Field(ge=0)] = Field(
        2**30,
        description="maximum size of all pictures of `SET SCREENSHOT` together. Looked at every hour: the oldest are "
        "deleted first, and their notifications stay without them",
    )
    backup: Path | None = Field(
        None,
        description="folder for a nightly copy of the database; `off` or empty: none. Not set: the folder `backups` "
        "beside a database file, none for PostgreSQL",
    )
    backup_copies: Annotated[int, Field(ge=1, le=1000)] = Field(
        7, description="number of nightly copies that are kept; older ones are deleted"
    )
    drain_timeout: _Seconds = Field(
        10.0, description="how long SIGTERM waits for running probes, deliveries and chores"
    )
    traces: Annotated[str, AfterValidator(_check_collector)] = Field(
        "",
        description="address of an OTLP/HTTP collector, for example `http://collector.example:4318`. Empty: no traces",
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="`console`, `json`, or `auto`: `console` on a terminal, `json` elsewhere"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="lowest level that is logged")

    @property
    def database_path(self) -> Path | None:
        """Path of the database file; ``None`` if the database is not a file."""
        return None if self.database.startswith(_POSTGRESQL) else Path(self.database)

    @property
    def backup_folder(self) -> Path | None:
        """The folder of the nightly copies of the database; ``None`` if none are made."""
        if self.backup is not None:
            return None if str(self.backup) in {"", ".", "off"} else self.backup
        return None if self.database_path is None else self.database_path.parent / "backups"

    @property
    def database_shown(self) -> str:
        """The database for people, without its password."""
        return _without_credentials(self.database)

    @property
    def socket_path(self) -> Path:
        """Unix socket of the daemon."""
        database = self.database_path or Path("data/proxyd.db")
        return self.socket or database.with_suffix(".sock")

    def check_roles(self) -> None:
        """Raise ``ConfigError`` if a daemon cannot run with these roles; its clients may leave settings out."""
        if self.nats and self.database_path is not None and self.role != "prober":
            raise ConfigError(["several machines (nats) need a database that all reach: set database to PostgreSQL"])
        if not self.nats and self.role != "all":
            raise ConfigError([f"role {self.role} needs other machines: set nats to the servers that they share"])
        if self.planners > 1 and (self.role in {"prober", "notifier"} or self.database_path is not None):
            raise ConfigError(["planners: more than one share a PostgreSQL database, where the role is all or planner"])

    @property
    def dashboard(self) -> str:
        """Address of the dashboard for people: ``public_url`` or, without one, that of the listener."""
        host, port = self.listen_address
        host = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return self.public_url.rstrip("/") or f"http://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def proxies(self) -> tuple[_Network, ...]:
        """``sign_in_proxies``, parsed."""
        return tuple(ip_network(value) for value in self.sign_in_proxies)

    @property
    def networks(self) -> tuple[_Network, ...]:
        """``allow_networks``, parsed."""
        return tuple(ip_network(value) for value in self.allow_networks)

    @property
    def commit_wait_s(self) -> float:
        """For how long a probe that found nothing may wait for a commit with others, in seconds."""
        return min(1.0, self.chronon / 10)

    @property
    def host_window(self) -> tuple[int | None, float]:
        """``host_budget``: a number of probes and seconds."""
        return _parse_window(self.host_budget) if self.host_budget else (None, 0.0)

    @property
    def endpoint_window(self) -> tuple[int | None, float]:
        """``endpoint_rate``: a number of attempts and seconds."""
        return _parse_window(self.endpoint_rate) if self.endpoint_rate else (None, 0.0)

    @property
    def api_window(self) -> tuple[int | None, float]:
        """``api_rate``: a number of requests and seconds."""
        return _parse_window(self.api_rate) if self.api_rate else (None, 0.0)

    @property
    def zone(self) -> ZoneInfo | None:
        """The time zone of ``time_zone``; ``None`` for that of this machine."""
        return ZoneInfo(self.time_zone) if self.time_zone else None

    @property
    def smtp_address(self) -> tuple[str, int]:
        """Host and port of ``smtp``; the host is empty if it is not set."""
        host, _, port = self.smtp.rpartition(":")
        return host.strip("[]"), int(port or 0)

    @property
    def groups(self) -> list[list[str]]:
        """``throttle_groups``, each as a list of hosts."""
        return [[host.strip().lower() for host in group.split("|") if host.strip()] for group in self.throttle_groups]

    @property
    def sites_of_status_pages(self) -> dict[str, list[str]]:
        """``status_pages``, as the names of the sites of each page."""
        pages = (each.partition(":") for each in self.status_pages)
        return {name.strip(): [site.strip() for site in sites.split("|") if site.strip()] for name, _, sites in pages}

    @property
    def listen_address(self) -> tuple[str, int]:
        """Host and port of ``listen``."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def own_hosts(self) -> frozenset[str]:
        """``hosts`` with the hosts of ``listen``, ``advertise`` and ``public_url``."""
        listening = self.listen_address[0].lower()
        named = (urlsplit(self.public_url).hostname, urlsplit(f"//{self.advertise}").hostname)
        return frozenset({*self.hosts, listening, "localhost", *(host for host in named if host)})

    def describe(self) -> dict[str, object]:
        """Return every setting as a file or variable would spell it, without passwords."""
        return self.model_dump(mode="json")
