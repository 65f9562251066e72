"""The settings, each with its default and its meaning."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from proxyd.config.setting_values import (
    POSTGRESQL,
    BudgetSetting,
    Network,
    Port,
    PositiveSeconds,
    Seconds,
    ShareSetting,
    TargetSetting,
    check_advertise,
    check_browser,
    check_collector,
    check_hosts,
    check_listen,
    check_mail_address,
    check_networks,
    check_proxy,
    check_public_url,
    check_server,
    check_servers,
    check_window,
    check_zone,
    hidden,
    host_alone,
    parse_window,
    read_database,
    read_list,
    without_credentials,
)
from proxyd.core.errors import ConfigError
from proxyd.core.model.budget import Budget
from proxyd.core.model.target import DEFAULT_TARGET


class Settings(BaseModel):
    """All settings of the daemon; durations are held in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True)

    profiles: Path = Field(Path("profiles"), description="folder of the `*.profile` files")
    database: Annotated[str, AfterValidator(read_database), PlainSerializer(without_credentials)] = Field(
        "data/proxyd.db",
        repr=False,
        description="path of the SQLite database, or `postgresql+asyncpg://user@host/name`. Give a password only with "
        "`PROXYD_DATABASE_FILE` or `PROXYD_DATABASE`",
    )
    nats: Annotated[
        list[str],
        BeforeValidator(read_list),
        AfterValidator(check_servers),
        PlainSerializer(lambda each: [without_credentials(url) for url in each]),
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
    lease: Annotated[PositiveSeconds, Field(ge=1)] = Field(
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
    listen: Annotated[str, AfterValidator(check_listen)] = Field(
        "127.0.0.1:8080", description="`host:port` of the REST API, the dashboard and the metrics"
    )
    advertise: Annotated[str, AfterValidator(check_advertise)] = Field(
        "",
        description="with several machines: `host:port` at which the others reach the listener of this one. If not "
        "set: the address from which it reaches the database, and the port of `listen`",
    )
    hosts: Annotated[list[str], BeforeValidator(read_list), AfterValidator(check_hosts)] = Field(
        default_factory=list,
        description="names under which clients and a reverse proxy reach the listener, for example "
        "`proxyd.example.org`. IP addresses, `localhost` and the hosts of `listen` and `public_url` are always allowed",
    )
    chronon: Annotated[Seconds, Field(ge=0.1, le=3600)] = Field(10.0, description="smallest time step of the plan")
    budget: BudgetSetting = Field(
        Budget(1.0),
        description="number of probes that all sources together may get: `60/min`, or by hour `08-18 30/min, 60/min`",
    )
    budget_zone: Annotated[str, AfterValidator(check_zone)] = Field(
        "UTC", description="time zone of the budget's hours"
    )
    objective: Literal["satisfy", "spend"] = Field(
        "satisfy",
        description="`satisfy`: as few probes as meet the targets of the rules. `spend`: use the whole budget; rules "
        "that name `UNIFORM`, `DOE`, `SUP` or `FBSUP` get no additional probes",
    )
    default_share: ShareSetting = Field(
        0.9, description="share of the items to be seen in time, for rules that set a life but no target"
    )
    default_target: TargetSetting = Field(
        DEFAULT_TARGET, description="share of the items to be seen within a time, for rules without a life"
    )
    probe_price: Annotated[float, Field(gt=0)] | None = Field(
        None, description="item-hours of delay that a probe must save. If set, it replaces the targets"
    )
    plan_every: PositiveSeconds = Field(
        3600.0,
        description="how often proxyd computes prices and week shapes. Right after the start it does so more often",
    )
    cycle: PositiveSeconds = Field(
        604800.0,
        description="period that repeats in the sources' rates: a week. Shorter periods are for tests and "
        "demonstrations only",
    )
    epoch: PositiveSeconds = Field(604800.0, description="how far ahead the rolling plan looks")
    first_day: Seconds = Field(
        86400.0,
        description="how long a new source is probed every quarter to half an hour with what is left of the budget, "
        "unless it shows two new items before. `0s`: not at all",
    )
    source_spacing: PositiveSeconds = Field(300.0, description="minimum time between two probes of a source")
    host_spacing: Seconds = Field(1.0, description="minimum time between two requests to a host")
    host_concurrency: Annotated[int, Field(ge=1, le=64)] = Field(
        1, description="maximum number of requests to a host at once"
    )
    host_budget: Annotated[str, AfterValidator(check_window)] = Field(
        "",
        description="maximum number of probes of a host in a period, for example `30/min`. Empty: as many as its "
        "spacing allows",
    )
    throttle_scope: Literal["host", "domain"] = Field(
        "host",
        description="what a 429, or a 503 with Retry-After, silences: its `host`, or all of its registrable `domain`",
    )
    throttle_groups: Annotated[list[str], BeforeValidator(read_list)] = Field(
        default_factory=list, description="hosts that are throttled together, for example `a.example|b.example`"
    )
    probe_timeout: PositiveSeconds = Field(30.0, description="total time of one probe")
    max_body_bytes: Annotated[int, Field(ge=1024)] = Field(
        10 * 1024 * 1024, description="maximum size of a decoded body"
    )
    parser_processes: Annotated[int, Field(ge=1, le=64)] = Field(
        2, description="number of processes that parse documents"
    )
    contact: str = Field("", description="address for operators of sources, sent in `User-Agent`")
    allow_networks: Annotated[list[str], BeforeValidator(read_list), AfterValidator(check_networks)] = Field(
        default_factory=list, description="private networks that proxyd may connect to, for example `127.0.0.0/8`"
    )
    allow_ports: Annotated[list[Port], BeforeValidator(read_list)] = Field(
        default_factory=list,
        description="the only ports that proxyd may connect to. Empty: all except those of other protocols",
    )
    proxy: Annotated[str, AfterValidator(check_proxy), PlainSerializer(without_credentials)] = Field(
        "",
        repr=False,
        description="`http://` address of a proxy for all requests. Give user and password only with "
        "`PROXYD_PROXY_FILE` or `PROXYD_PROXY`. The proxy looks names up again, so only it can refuse a "
        "name that was rebound after our check",
    )
    browser: Annotated[str, AfterValidator(check_browser), PlainSerializer(host_alone)] = Field(
        "",
        repr=False,
        description="DevTools address of the Chromium that renders the pages of `FETCH BROWSER`, for example "
        "`http://127.0.0.1:9222`; needs proxyd with `[browser]`. Empty: such pages are not read",
    )
    public_url: Annotated[str, AfterValidator(check_public_url)] = Field(
        "",
        description="address at which WebSub hubs reach this daemon's `/websub/`, for example "
        "`https://proxyd.example.org`",
    )
    secrets: Path | None = Field(None, description="folder for `SECRET FILE`")
    delivery_timeout: PositiveSeconds = Field(15.0, description="total time of one delivery attempt")
    delivery_hold: Seconds = Field(600.0, description="time for which a failing notification holds back the next ones")
    endpoint_concurrency: Annotated[int, Field(ge=1)] = Field(8, description="maximum number of these at one endpoint")
    endpoint_rate: Annotated[str, AfterValidator(check_window)] = Field(
        "", description="maximum number of attempts at one endpoint in a period, for example `60/min`. Empty: no limit"
    )
    api_rate: Annotated[str, AfterValidator(check_window)] = Field(
        "1200/min", description="maximum number of requests with one token in a period. Empty: no limit"
    )
    ping_webhooks: bool = Field(
        True, description="whether a new webhook must accept a ping before it gets notifications"
    )
    smtp: Annotated[str, AfterValidator(check_server)] = Field(
        "", description="`host:port` of the mail server, for example `mail.example.org:587`. Empty: no mail"
    )
    smtp_tls: Literal["starttls", "tls", "none"] = Field(
        "starttls",
        description="`starttls`: upgrade the connection (port 587). `tls`: TLS from the start (port 465). `none`: "
        "unencrypted",
    )
    smtp_user: str = Field("", description="user at the mail server. Empty: no login")
    smtp_password: Annotated[str, PlainSerializer(hidden)] = Field(
        "",
        repr=False,
        description="password of that user, only with `PROXYD_SMTP_PASSWORD_FILE` or `PROXYD_SMTP_PASSWORD`",
    )
    mail_from: Annotated[str, AfterValidator(check_mail_address)] = Field(
        "", description="sender address of mail, for example `proxyd@example.org`"
    )
    channel_schemes: Annotated[list[str], BeforeValidator(read_list)] = Field(
        default_factory=lambda: ["discord", "pover", "slack", "tgram"],
        description="schemes that `CHANNEL` may use. A server of one's own (`ntfy`, `gotify`, `json`) in a private "
        "network must be in `allow_networks`",
    )
    retention: PositiveSeconds = Field(90 * 86400.0, description="how long items, intervals and notifications are kept")
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
    backup: Path | None = Field(None, description="folder for a nightly copy of the database")
    backup_copies: Annotated[int, Field(ge=1, le=1000)] = Field(
        7, description="number of nightly copies that are kept; older ones are deleted"
    )
    drain_timeout: Seconds = Field(10.0, description="how long SIGTERM waits for running probes, deliveries and chores")
    traces: Annotated[str, AfterValidator(check_collector)] = Field(
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
        return None if self.database.startswith(POSTGRESQL) else Path(self.database)

    @property
    def database_shown(self) -> str:
        """The database for people, without its password."""
        return without_credentials(self.database)

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
    def networks(self) -> tuple[Network, ...]:
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
        """Host and port of ``smtp``; the host is empty if it is not set."""
        host, _, port = self.smtp.rpartition(":")
        return host.strip("[]"), int(port or 0)

    @property
    def groups(self) -> list[list[str]]:
        """``throttle_groups``, each as a list of hosts."""
        return [[host.strip().lower() for host in group.split("|") if host.strip()] for group in self.throttle_groups]

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
