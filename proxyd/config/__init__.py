"""The settings; only this package reads settings files, secrets and environment variables.

Values come from, in this order: keyword arguments (the command line), ``PROXYD_<KEY>``, ``PROXYD_<KEY>_FILE`` (a file
that contains the value), the TOML file, the default. An unknown key or ``PROXYD_`` variable is an error.
"""

from proxyd.config.loading import PREFIX, TOKEN, SecretStore, Supervision, api_token, load, socket_address, supervision
from proxyd.config.settings import Settings, format_budget, format_duration, parse_budget, parse_duration

__all__ = [
    "PREFIX",
    "TOKEN",
    "SecretStore",
    "Settings",
    "Supervision",
    "api_token",
    "format_budget",
    "format_duration",
    "load",
    "parse_budget",
    "parse_duration",
    "socket_address",
    "supervision",
]
