"""Reads the settings from the command line, the environment, secret files and the TOML file."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from proxyd.config.settings import Settings
from proxyd.errors import ConfigError

PREFIX = "PROXYD_"
TOKEN = PREFIX + "TOKEN"
_NO_SETTINGS = frozenset({PREFIX + "CONFIG", TOKEN, TOKEN + "_FILE"})
_SECRETS_OF = {"proxy": "@", "nats": "@", "database": "//[^@]*:[^@]*@"}  # who the database knows us as is no secret
DEFAULT_FILE = Path("proxyd.toml")


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
    for key, secret in _SECRETS_OF.items():
        if re.search(secret, str(values.get(key, ""))):
            name = PREFIX + key.upper()
            problems.append(f"{key}: credentials belong in {name} or {name}_FILE, not in the settings file")
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
