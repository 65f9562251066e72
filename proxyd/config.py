"""The settings, and the only place that reads settings files, secrets and environment variables.

Values are looked for in this order: keyword arguments (the command line), ``PROXYD_<KEY>``, ``PROXYD_<KEY>_FILE`` (the
value is the content of that file), the TOML file, the default. An unknown key or ``PROXYD_`` variable is an error.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from proxyd.errors import ConfigError
from proxyd.model.profile import SecretRef
from proxyd.scheduling.budget import Budget, BudgetHours

PREFIX = "PROXYD_"
TOKEN = PREFIX + "TOKEN"
_NO_SETTINGS = frozenset({PREFIX + "CONFIG", TOKEN, TOKEN + "_FILE"})
DEFAULT_FILE = Path("proxyd.toml")
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
_Network: TypeAlias = IPv4Network | IPv6Network
_POSTGRESQL = ("postgresql://", "postgresql+asyncpg://")


def parse_duration(value: object) -> float:
    """Return seconds of ``200ms``, ``10s``, ``5m``, ``1h30m``, ``4w`` or a bare number of seconds.

    >>> parse_duration("200ms"), parse_duration("1h30m"), parse_duration(5)
    (0.2, 5400.0, 5.0)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value < inf:
            raise ValueError(f"{value} is not a duration")
        return float(value)
    text = str(value).strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhdw])", text)
    if not parts or "".join(n + u for n, u in parts) != text:
        raise ValueError(f"{text!r} is not a duration; write it like 200ms, 10s, 5m, 2h or 4w")
    return sum(float(amount) * _DURATION_UNITS[unit] for amount, unit in parts)


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
    return float(match[1]) / _RATE_PERIODS[match[2]]


def parse_window(text: str) -> tuple[int, float]:
    """Return the number and the seconds of ``30/min``: at most so many in any such time.

    >>> parse_window("30/min")
    (30, 60.0)
    """
    match = re.fullmatch(r"\s*(\d{1,9})\s*/\s*([a-z]+)\s*", text)
    if match is None or match[2] not in _RATE_PERIODS or int(match[1]) < 1:
        raise ValueError(f"{text.strip()!r} is not a budget such as 30/min, 1/s or 600/h")
    return int(match[1]), _RATE_PERIODS[match[2]]


def parse_budget(value: object) -> Budget:
    """Return a budget from ``60/min`` or by hour of day from ``08-18 30/min, 60/min``.

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


def _split_list(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _networks(values: list[str]) -> list[str]:
    for value in values:
        try:
            ip_network(value)
        except ValueError as error:
            raise ValueError(f"{value!r} is not a network such as 10.0.0.0/8 or ::1/128") from error
    return values


def _proxy(value: str) -> str:
    if not value:
        return value
    try:
        parts = urlsplit(value)
        is_proxy = parts.scheme == "http" and bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:
        is_proxy = False
    if not is_proxy or parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise ValueError("this is no address such as http://proxy.example:3128")  # without the value: it may be secret
    return value


def _without_credentials(url: str) -> str:
    """Return an address for people.

    >>> _without_credentials("http://me:secret@proxy.example:3128")
    'http://[hidden]@proxy.example:3128'
    """
    return re.sub(r"//.*@", "//[hidden]@", url)


def _collector(value: str) -> str:
    try:
        parts = urlsplit(value)
        is_plain = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.username is None
    except ValueError:
        is_plain = False
    if value and (not is_plain or parts.query or parts.fragment):
        raise ValueError("this is no address such as http://collector.example:4318, without user and query")
    return value


def _window(value: str) -> str:
    if value:
        parse_window(value)
    return value


def _public_url(value: str) -> str:
    parts = urlsplit(value)
    if value and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment):
        raise ValueError(f"{value!r} is no address such as https://proxyd.example.org")
    return value


def _server(value: str) -> str:
    return _listen(value) if value else value


def _mail_address(value: str) -> str:
    if value and not re.fullmatch(r"[^@\s<>]+@[^@\s<>]+", value):
        raise ValueError(f"{value!r} is no address such as proxyd@example.org")
    return value


def _hidden(value: str) -> str:
    return "[hidden]" if value else value


def _zone(value: str) -> str:
    if value not in available_timezones():
        raise ValueError(f"{value!r} is not a time zone such as Europe/Berlin")
    return value


def _listen(value: str) -> str:
    match = re.fullmatch(r"(.+):(\d{1,5})", value)
    if match is None or int(match[2]) > 65535:
        raise ValueError(f"{value!r} is not host:port, such as 127.0.0.1:8080")
    return value


def _database(value: str) -> str:
    path = value.removeprefix("sqlite+aiosqlite:///").removeprefix("sqlite:///")
    if "://" in path and not (path.startswith(_POSTGRESQL) and urlsplit(path).path.strip("/")):
        raise ValueError("give the path of a file, or an address such as postgresql+asyncpg://proxyd@db.example/proxyd")
    return path


def _servers(value: list[str]) -> list[str]:
    for each in value:
        if urlsplit(each).scheme not in {"nats", "tls"} or not urlsplit(each).hostname:
            raise ValueError("not all are addresses such as nats://nats.example:4222")  # they may hold secrets
    return value


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("must be longer than 0")
    return value


Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, BeforeValidator(parse_duration), PlainSerializer(format_duration)]
PositiveSeconds = Annotated[Seconds, AfterValidator(_positive)]
BudgetSetting = Annotated[Budget, BeforeValidator(parse_budget), PlainSerializer(format_budget)]


class Settings(BaseModel):
    """All settings of the daemon; durations are held in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True)

    profiles: Path = Field(Path("profiles"), description="directory of *.profile files")
    database: Annotated[str, AfterValidator(_database), PlainSerializer(_without_credentials)] = Field(
        "data/proxyd.db",
        repr=False,
        description="path of the SQLite database, or postgresql+asyncpg://user@host/name; a password only by "
        "PROXYD_DATABASE_FILE or PROXYD_DATABASE",
    )
    nats: Annotated[
        list[str],
        BeforeValidator(_split_list),
        AfterValidator(_servers),
        PlainSerializer(lambda each: [_without_credentials(url) for url in each]),
    ] = Field(
        default_factory=list,
        repr=False,
        description="servers of NATS through which several machines share the work, e.g. nats://nats.example:4222; "
        "empty: one machine; a password only by PROXYD_NATS_FILE or PROXYD_NATS",
    )
    role: Literal["all", "planner", "prober", "notifier"] = Field(
        "all", description="what this machine does; planner and notifier stand by while another one leads"
    )
    lease: Annotated[PositiveSeconds, Field(ge=1)] = Field(
        30.0, description="time after which another machine takes over from one that is not heard of (PostgreSQL, NATS)"
    )
    prober_hosts: Annotated[int, Field(ge=1, le=256)] = Field(
        64, description="most hosts that one prober of several asks at once"
    )
    socket: Path | None = Field(None, description="Unix socket of the daemon; where not set, beside the database file")
    listen: Annotated[str, AfterValidator(_listen)] = Field(
        "127.0.0.1:8080", description="host:port of the REST API and the metrics"
    )
    chronon: Annotated[Seconds, Field(ge=0.1, le=3600)] = Field(10.0, description="smallest time step of the plan")
    budget: BudgetSetting = Field(Budget(1.0), description="probing budget: 60/min, or 08-18 30/min, 60/min")
    budget_zone: Annotated[str, AfterValidator(_zone)] = Field("UTC", description="time zone of the budget's hours")
    objective: Literal["satisfy", "spend"] = Field(
        "satisfy", description="satisfy: fewest probes that serve the rules; spend: the whole budget"
    )
    probe_price: Annotated[float, Field(gt=0)] = Field(
        0.1, description="item-hours of delay that a detection probe must save"
    )
    plan_every: PositiveSeconds = Field(
        3600.0, description="how often prices and week shapes are found anew; more often at first"
    )
    cycle: PositiveSeconds = Field(
        604800.0, description="what repeats in the sources' rates: the week; shorter only in tests and demonstrations"
    )
    epoch: PositiveSeconds = Field(604800.0, description="how far the rolling plan looks ahead")
    overflow: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.01, description="probability that items slide off a feed unseen before its next probe"
    )
    source_spacing: PositiveSeconds = Field(300.0, description="least time between two probes of a source")
    host_spacing: Seconds = Field(1.0, description="least time between two requests to a host")
    host_concurrency: Annotated[int, Field(ge=1, le=64)] = Field(1, description="most requests to a host at once")
    crawl_delay_cap: Seconds = Field(60.0, description="longest Crawl-delay of a robots.txt that is kept to")
    host_budget: Annotated[str, AfterValidator(_window)] = Field(
        "", description="most probes of a host in any such time, e.g. 30/min; empty: as many as its spacing allows"
    )
    throttle_scope: Literal["host", "domain"] = Field(
        "host", description="what a 429 or 503 silences: the host, or all hosts of its registrable domain"
    )
    throttle_groups: Annotated[list[str], BeforeValidator(_split_list)] = Field(
        default_factory=list, description="hosts that are throttled together, e.g. a.example|b.example"
    )
    freshness_cap: Seconds = Field(
        21600.0, description="longest time for which max-age, Expires, ttl and updatePeriod put off a probe; 0: ignore"
    )
    probe_timeout: PositiveSeconds = Field(30.0, description="total time of one probe")
    max_body_bytes: Annotated[int, Field(ge=1024)] = Field(10 * 1024 * 1024, description="largest decoded body")
    parser_processes: Annotated[int, Field(ge=1, le=64)] = Field(2, description="processes that parse feeds")
    parser_timeout: PositiveSeconds = Field(10.0, description="time after which a parser is killed")
    contact: str = Field("", description="address for operators of sources, sent in User-Agent")
    allow_networks: Annotated[list[str], BeforeValidator(_split_list), AfterValidator(_networks)] = Field(
        default_factory=list, description="private networks that may be connected to, e.g. 127.0.0.0/8"
    )
    allow_ports: Annotated[list[Port], BeforeValidator(_split_list)] = Field(
        default_factory=list, description="the only ports that are asked; empty: all but those of other protocols"
    )
    proxy: Annotated[str, AfterValidator(_proxy), PlainSerializer(_without_credentials)] = Field(
        "",
        repr=False,
        description="http:// address of a proxy for all requests, with user and password only by PROXYD_PROXY_FILE or "
        "PROXYD_PROXY; the proxy looks names up again, so only it can refuse one that was rebound since the check",
    )
    public_url: Annotated[str, AfterValidator(_public_url)] = Field(
        "", description="address under which WebSub hubs reach this daemon's /websub/, e.g. https://proxyd.example.org"
    )
    websub_safety: PositiveSeconds = Field(
        21600.0, description="time between two probes of a source whose hub pushes, to see that it pushes everything"
    )
    secret_env_prefix: Annotated[str, Field(min_length=1)] = Field(
        "SECRET_", description="environment variables that profiles may name as secrets start with this"
    )
    secrets: Path | None = Field(None, description="folder for SECRET FILE")
    delivery_timeout: PositiveSeconds = Field(15.0, description="total time of one attempt to deliver")
    delivery_hold: Seconds = Field(600.0, description="how long a failing notification holds back the next ones")
    delivery_concurrency: Annotated[int, Field(ge=1)] = Field(64, description="attempts to deliver under way at once")
    endpoint_concurrency: Annotated[int, Field(ge=1)] = Field(8, description="of these, most at one endpoint")
    endpoint_rate: Annotated[str, AfterValidator(_window)] = Field(
        "", description="most attempts at one endpoint in any such time, e.g. 60/min; empty: no limit"
    )
    api_rate: Annotated[str, AfterValidator(_window)] = Field(
        "1200/min", description="most requests with one token in any such time; empty: no limit"
    )
    ping_webhooks: bool = Field(True, description="whether a new webhook must accept a ping before it gets anything")
    smtp: Annotated[str, AfterValidator(_server)] = Field(
        "", description="host:port of the server that takes mail, e.g. mail.example.org:587; empty: no mail"
    )
    smtp_tls: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="starttls: upgrade (port 587); tls: from the start (port 465); none: in the clear"
    )
    smtp_user: str = Field("", description="user at that server; empty: none is asked for")
    smtp_password: Annotated[str, PlainSerializer(_hidden)] = Field(
        "", repr=False, description="its password, only by PROXYD_SMTP_PASSWORD_FILE or PROXYD_SMTP_PASSWORD"
    )
    mail_from: Annotated[str, AfterValidator(_mail_address)] = Field(
        "", description="address that mail comes from, e.g. proxyd@example.org"
    )
    channel_schemes: Annotated[list[str], BeforeValidator(_split_list)] = Field(
        default_factory=lambda: ["discord", "pover", "slack", "tgram"],
        description="schemes that CHANNEL may use; one with a server of one's own (ntfy, gotify, json) reaches any "
        "address, for channels do not pass the network guard",
    )
    retention: PositiveSeconds = Field(90 * 86400.0, description="how long items, intervals and notifications are kept")
    backup: Path | None = Field(None, description="folder for a nightly copy of the database")
    reload_interval: PositiveSeconds = Field(1.0, description="how often the profiles directory is looked at")
    drain_timeout: Seconds = Field(10.0, description="how long SIGTERM waits for probes and deliveries under way")
    traces: Annotated[str, AfterValidator(_collector)] = Field(
        "", description="address of an OTLP/HTTP collector, e.g. http://collector.example:4318; empty: no traces"
    )
    trace_share: Annotated[float, Field(ge=0, le=1)] = Field(1.0, description="share of the probes that are traced")
    log_format: Literal["auto", "console", "json"] = Field("auto", description="auto: console on a terminal, else json")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least level logged")

    @property
    def database_path(self) -> Path | None:
        """Path of the database file; ``None`` where it is no file."""
        return None if self.database.startswith(_POSTGRESQL) else Path(self.database)

    @property
    def database_shown(self) -> str:
        """The database for people: without a password."""
        return _without_credentials(self.database)

    @property
    def socket_path(self) -> Path:
        """Unix socket of the daemon."""
        beside = self.database_path or Path("data/proxyd.db")
        return self.socket or beside.with_suffix(".sock")

    @model_validator(mode="after")
    def _roles_fit(self) -> Settings:
        if self.nats and self.database_path is not None and self.role != "prober":
            raise ValueError("several machines (nats) need a database that all reach: set database to PostgreSQL's")
        if not self.nats and self.role != "all":
            raise ValueError(f"role {self.role} is a part of several machines: set nats to the servers they share")
        return self

    @property
    def networks(self) -> tuple[_Network, ...]:
        """``allow_networks``, parsed."""
        return tuple(ip_network(value) for value in self.allow_networks)

    @property
    def host_window(self) -> tuple[int | None, float]:
        """``host_budget``: a number of probes and seconds."""
        return parse_window(self.host_budget) if self.host_budget else (None, 0.0)

    @property
    def endpoint_window(self) -> tuple[int | None, float]:
        """``endpoint_rate``: a number of attempts and seconds."""
        return parse_window(self.endpoint_rate) if self.endpoint_rate else (None, 0.0)

    @property
    def api_window(self) -> tuple[int | None, float]:
        """``api_rate``: a number of requests and seconds."""
        return parse_window(self.api_rate) if self.api_rate else (None, 0.0)

    @property
    def smtp_address(self) -> tuple[str, int]:
        """Host and port of ``smtp``; an empty host where there is none."""
        host, _, port = self.smtp.rpartition(":")
        return host.strip("[]"), int(port or 0)

    @property
    def groups(self) -> list[list[str]]:
        """``throttle_groups``, each as its hosts."""
        return [[host.strip().lower() for host in group.split("|") if host.strip()] for group in self.throttle_groups]

    @property
    def listen_address(self) -> tuple[str, int]:
        """Host and port of ``listen``."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)

    def describe(self) -> dict[str, object]:
        """Return every setting as a file or variable would spell it, without passwords."""
        return self.model_dump(mode="json")


def load(file: Path | None = None, *, environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Return the settings from ``overrides``, the environment and a TOML file.

    Raises
    ------
    ConfigError
        With every problem at once, each with its key.
    """
    env = os.environ if environ is None else environ  # noqa: TID251 - this is the one place
    problems: list[str] = []
    values = _from_file(file, env, problems)
    values |= _from_environment(env, problems)
    values |= {key: value for key, value in overrides.items() if value is not None}
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        problems += [_describe(dict(item)) for item in error.errors()]
        raise ConfigError(problems) from error
    if problems:
        raise ConfigError(problems)
    return settings


def _describe(item: Mapping[str, Any]) -> str:
    key = ".".join(str(part) for part in item["loc"]) or "settings"
    if item["type"] == "extra_forbidden":
        return f"{key}: no such setting; `proxyd config` lists them"
    return f"{key}: {item['msg'].removeprefix('Value error, ')}"


def _from_file(file: Path | None, env: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    named = file or (Path(env[PREFIX + "CONFIG"]) if PREFIX + "CONFIG" in env else None)
    path = named or DEFAULT_FILE
    if not path.exists():
        if named is not None:
            problems.append(f"{path}: no such settings file")
        return {}
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        problems.append(f"{path}: {error}")
        return {}
    if "@" in str(values.get("proxy", "")):
        problems.append("proxy: credentials belong in PROXYD_PROXY or PROXYD_PROXY_FILE, not in the settings file")
    for key in ("database", "nats"):
        if re.search(r"//[^/@]*:[^/@]*@", str(values.get(key, ""))):
            name = PREFIX + key.upper()
            problems.append(f"{key}: a password belongs in {name} or {name}_FILE, not in the settings file")
    if values.get("smtp_password"):
        problems.append("smtp_password: it belongs in PROXYD_SMTP_PASSWORD or PROXYD_SMTP_PASSWORD_FILE, not here")
    return values


def _from_environment(env: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in env.items():
        if not name.startswith(PREFIX) or name in _NO_SETTINGS:
            continue
        key = name.removeprefix(PREFIX).lower()
        if key.endswith("_file") and key.removesuffix("_file") in Settings.model_fields:
            try:
                values.setdefault(key.removesuffix("_file"), Path(value).read_text(encoding="utf-8").strip())
            except (OSError, UnicodeDecodeError) as error:
                problems.append(f"{name}: {error}")
        elif key in Settings.model_fields:
            values[key] = value
        else:
            problems.append(f"{name}: no such setting; `proxyd config` lists them")
    return values


def api_token(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the token with which the command line asks a daemon elsewhere: ``PROXYD_TOKEN``, or what its file holds.

    >>> api_token({"PROXYD_TOKEN": "pxd_1_2"}), api_token({})
    ('pxd_1_2', None)
    """
    env = os.environ if environ is None else environ  # noqa: TID251 - this is the one place
    if TOKEN + "_FILE" in env:
        try:
            return Path(env[TOKEN + "_FILE"]).read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError([f"{TOKEN}_FILE: {error}"]) from error
    return env.get(TOKEN, "").strip() or None


@dataclass(frozen=True, slots=True)
class Supervision:
    """Where the supervisor that started us listens, and within what time it must hear of us, where it must."""

    address: str
    watchdog_s: float | None


def supervision(environ: Mapping[str, str] | None = None) -> Supervision | None:
    """Return what systemd says of itself in the environment of a service, ``None`` where nobody listens.

    >>> supervision({"NOTIFY_SOCKET": "/run/systemd/notify", "WATCHDOG_USEC": "30000000"})
    Supervision(address='/run/systemd/notify', watchdog_s=30.0)
    """
    env = os.environ if environ is None else environ  # noqa: TID251 - this is the one place
    address, watchdog = env.get("NOTIFY_SOCKET", ""), env.get("WATCHDOG_USEC", "")
    if not address.startswith(("/", "@")):
        return None
    is_ours = env.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    watchdog_s = int(watchdog) / 1e6 if is_ours and watchdog.isdecimal() and int(watchdog) else None
    return Supervision(address.replace("@", "\0", 1) if address[0] == "@" else address, watchdog_s)


def socket_address(path: Path) -> str:
    """Return a spelling of a Unix socket's path that the kernel takes, which allows 107 bytes.

    A longer path is spelled through its open folder, which stays open for the life of the process.
    """
    if len(os.fsencode(path)) < 104:
        return str(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{folder}/{path.name}"


class SecretStore:
    """Resolves ``SECRET ENV`` and ``SECRET FILE``; values are never logged or kept."""

    def __init__(self, settings: Settings, environ: Mapping[str, str] | None = None) -> None:
        self._prefix = settings.secret_env_prefix
        self._folder = settings.secrets
        self._env = os.environ if environ is None else environ  # noqa: TID251 - this is the one place

    def resolve(self, ref: SecretRef) -> bytes | None:
        """Return the secret, or ``None`` where it is not set, empty or may not be read."""
        if ref.kind == "env":
            value = self._env.get(ref.name) if ref.name.startswith(self._prefix) else None
            return os.fsencode(value) if value else None
        if self._folder is None or Path(ref.name).name != ref.name:
            return None
        try:
            return (self._folder / ref.name).read_bytes().strip() or None
        except OSError:
            return None
