"""Reads the settings from the command line, the environment, secret files and the TOML file, and secrets by name."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from proxyd.config.bounded_files import read_at_most
from proxyd.config.settings import Settings
from proxyd.core.errors import ConfigError, suggest
from proxyd.core.model.delivery import SECRET_PREFIX, SecretRef

PREFIX = "PROXYD_"
TOKEN = PREFIX + "TOKEN"
_NO_SETTINGS = frozenset({PREFIX + "CONFIG", TOKEN, TOKEN + "_FILE"})
_ONLY_SECRETS = ("smtp_password", "oidc_secret")
_SECRETS_OF = {"proxy": "@", "nats": "@", "database": "//[^@?]*:[^@?]*@"}  # the database user's name is not secret
_PLAIN = {
    "bool_parsing": "must be true or false",
    "int_parsing": "must be a whole number",
    "float_parsing": "must be a number",
}
_TIMES = {key for key, field in Settings.model_fields.items() if field.annotation is float}
_DEFAULT_FILE = Path("proxyd.toml")
_MOST_BYTES = 2**20  # of settings, and of a secret
_GONE = frozenset(  # in 1.0
    {
        "crawl_delay_cap",
        "delivery_concurrency",
        "freshness_cap",
        "overflow",
        "parser_timeout",
        "reload_interval",
        "secret_env_prefix",
        "trace_share",
        "websub_safety",
    }
)
_PATHS = ("profiles", "database", "socket", "secrets", "backup")


def load(
    file: Path | None = None, *, text: str | None = None, environ: Mapping[str, str] | None = None, **overrides: Any
) -> Settings:
    """Return the settings from ``overrides``, the environment and a TOML file, or the ``text`` that is to be in it.

    Raises ``ConfigError``: lists every problem, each with its key.
    """
    env = os.environ if environ is None else environ  # noqa: TID251 - this is the one place
    problems: list[str] = []
    path = settings_file(file, environ)
    is_named = file is not None or PREFIX + "CONFIG" in env
    from_file = _from_file(path, text, problems, is_named=is_named)
    from_environment = _from_environment(env, problems)
    given = {key: value for key, value in overrides.items() if value is not None}
    places = {key: f"{path}: {key}" for key in from_file}
    places |= {key: _variable(key, env) for key in from_environment} | {key: key for key in given}
    try:
        settings = Settings.model_validate(from_file | from_environment | given)
    except ValidationError as error:
        problems += [_describe(dict(item), places) for item in error.errors()]
        raise ConfigError(problems) from error
    if problems:
        raise ConfigError(problems)
    if settings.database_path is not None and settings.database_path.resolve() == path.resolve():
        raise ConfigError([f"{places.get('database', 'database')}: this is the settings file; name another one"])
    return settings


def settings_file(file: Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the TOML file: ``file``, the one that ``PROXYD_CONFIG`` names, or the one in this folder.

    >>> settings_file(environ={"PROXYD_CONFIG": "/etc/proxyd/proxyd.toml"}), settings_file(environ={})
    (PosixPath('/etc/proxyd/proxyd.toml'), PosixPath('proxyd.toml'))
    """
    env = os.environ if environ is None else environ  # noqa: TID251 - this is the one place
    return file or Path(env.get(PREFIX + "CONFIG", _DEFAULT_FILE))


def paths_elsewhere(text: str, folder: Path) -> list[str]:
    """Return the paths in the text of a settings file that lead out of its folder, each with its key.

    >>> paths_elsewhere('database = "/etc/p.db"; profiles = "p"'.replace("; ", chr(10)), Path("/srv"))
    ['database = /etc/p.db']
    """
    values, inside = tomllib.loads(text), folder.resolve()
    named = {key: value for key in _PATHS if isinstance(value := values.get(key), str)}
    # A URL is taken for a path too: it stays inside unless it is made to lead out
    return [f"{key} = {value}" for key, value in named.items() if not (inside / value).resolve().is_relative_to(inside)]


def _variable(key: str, env: Mapping[str, str]) -> str:
    name = PREFIX + key.upper()
    return name if name in env else f"{name}_FILE"


def _describe(item: Mapping[str, Any], places: Mapping[str, str]) -> str:
    """Return where a value was given and what is wrong with it, without the value, which may be secret."""
    key, *within = (str(part) for part in item["loc"]) if item["loc"] else ("settings",)
    where = ".".join([places.get(key, key), *within])
    if item["type"] == "extra_forbidden":
        return f"{where}: {_hint_for(key, Settings.model_fields)}"
    said = _PLAIN.get(item["type"]) or item["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{where}: {said}"


def _hint_for(name: str, known: Iterable[str]) -> str:
    if name.removeprefix(PREFIX).lower() in _GONE:
        return "version 1.0 has no such setting any more: remove it"
    close = suggest(name, known)
    return f"no such setting; did you mean {close}?" if close else "no such setting; `proxyd config` lists them"


def _from_file(path: Path, text: str | None, problems: list[str], *, is_named: bool) -> dict[str, Any]:
    """Return the values of a settings file, or of its text; durations as texts, so that they need a unit.

    Relative paths count from the file's folder: whoever names the file stands elsewhere.
    """
    try:
        values = tomllib.loads(_read_text(path) if text is None else text)
    except FileNotFoundError:
        if is_named:
            problems.append(f"{path}: no such settings file; name another one with --config")
        return {}
    except OSError as error:
        problems.append(f"{path}: it cannot be read ({error.strerror or error})")
        return {}
    except ConfigError as error:
        problems += error.problems
        return {}
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        problems.append(f"{path}: {error}")
        return {}
    texts = {key: value for key, value in values.items() if isinstance(value, str)}
    problems += [f"{path}: {key}: it holds a NUL" for key, value in texts.items() if "\0" in value]
    for key, secret in _SECRETS_OF.items():
        if re.search(secret, str(values.get(key, ""))):
            name = PREFIX + key.upper()
            problems.append(f"{path}: {key}: credentials belong in {name} or {name}_FILE, not in the settings file")
    for key in _ONLY_SECRETS:
        if values.get(key):
            name = PREFIX + key.upper()
            problems.append(f"{path}: {key}: it belongs in {name} or {name}_FILE, not here")
    values |= {key: _from_folder(path.parent, values[key]) for key in _PATHS if isinstance(values.get(key), str)}
    return {
        key: str(value) if key in _TIMES and type(value) in {int, float} else value for key, value in values.items()
    }


def _read_text(path: Path) -> str:
    """Return the text of a file; a password manager may write it into a pipe."""
    return read_at_most(path, _MOST_BYTES, may_be_pipe=True).decode("utf-8").replace("\r\n", "\n")


def _from_folder(folder: Path, value: str) -> str:
    """Return a path that a settings file in a folder names; what is no path (a URL, off, nothing) is returned as it is.

    >>> _from_folder(Path("/home/me/proxyd"), "profiles"), _from_folder(Path("/home/me/proxyd"), "off")
    ('/home/me/proxyd/profiles', 'off')
    """
    is_path = "://" not in value and value not in {"", "off"}
    return str(folder / value) if is_path else value


def _from_environment(env: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in env.items():
        if not name.startswith(PREFIX) or name in _NO_SETTINGS:
            continue
        key = name.removeprefix(PREFIX).lower()
        if key.endswith("_file") and key.removesuffix("_file") in Settings.model_fields:
            if not value:
                continue
            try:
                values.setdefault(key.removesuffix("_file"), _read_text(Path(value)).strip())
            except ConfigError as error:
                problems += [f"{name}: {each}" for each in error.problems]
            except OSError as error:
                problems.append(f"{name}: {value} cannot be read ({error.strerror or error})")
            except UnicodeDecodeError as error:
                problems.append(f"{name}: {value}: {error}")
        elif key in Settings.model_fields:
            values[key] = value
        else:
            problems.append(f"{name}: {_hint_for(name, (PREFIX + key.upper() for key in Settings.model_fields))}")
    return values


def api_token(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the token for asking a daemon elsewhere, from ``PROXYD_TOKEN`` or its file.

    >>> api_token({"PROXYD_TOKEN": "pxd_1_2"}), api_token({})
    ('pxd_1_2', None)
    """
    env = os.environ if environ is None else environ  # noqa: TID251 - this is the one place
    if TOKEN + "_FILE" in env:
        try:
            return _read_text(Path(env[TOKEN + "_FILE"])).strip() or None
        except (ConfigError, OSError, UnicodeDecodeError) as error:
            raise ConfigError([f"{TOKEN}_FILE: {error}"]) from error
    return env.get(TOKEN, "").strip() or None


@dataclass(frozen=True, slots=True)
class Supervision:
    """The supervisor's address, and the interval within which its watchdog must be fed, if it has one."""

    address: str
    watchdog_s: float | None


def supervision(environ: Mapping[str, str] | None = None) -> Supervision | None:
    """Return systemd's settings in a service's environment, or ``None`` without a supervisor.

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
    """Return a spelling of a Unix socket's path within the kernel's limit of 107 bytes.

    A longer path goes through its open folder, which stays open for the life of the process.
    """
    if len(os.fsencode(path)) < 104:
        return str(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{folder}/{path.name}"


class SecretStore:
    """Resolves ``SECRET ENV`` and ``SECRET FILE``; values are never logged or kept."""

    def __init__(self, settings: Settings, environ: Mapping[str, str] | None = None) -> None:
        self._folder = settings.secrets
        self._env = os.environ if environ is None else environ  # noqa: TID251 - this is the one place

    def resolve(self, ref: SecretRef) -> bytes | None:
        """Return the secret, or ``None`` if it is not set, empty or unreadable."""
        if ref.kind == "env":
            value = self._env.get(ref.name) if ref.name.startswith(SECRET_PREFIX) else None
            return os.fsencode(value) if value else None
        if self._folder is None or Path(ref.name).name != ref.name:
            return None
        try:
            return read_at_most(self._folder / ref.name, _MOST_BYTES).strip() or None
        except (ConfigError, OSError):
            return None
