"""`proxyd init`: the files that somebody begins with, and what to do next. It never overwrites one."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from shlex import quote
from textwrap import wrap

from proxyd.cli.printed_answers import print_json, print_lines
from proxyd.core.errors import ProxydError
from proxyd.terminal.verbs import JSON, argument, flag, verb

_SETTINGS, _PROFILE = Path("proxyd.toml"), Path("profiles/first.profile")
# A line break, what is no UTF-8, and an end that systemd drops or takes for a line that goes on
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]|[ \\]\Z")
_MOST_BYTES = 2**20  # of a unit
_UNIT = Path(".config/systemd/user/proxyd.service")
_OFFERED: dict[str, object] = {  # what many change, with what they may write
    "listen": "127.0.0.1:8080",
    "budget": "60/min",
    "default_target": "90 % within 3h",
    "time_zone": "Europe/Berlin",
    "contact": "me@example.org",
    "allow_networks": ["192.168.0.0/16"],
    "smtp": "mail.example.org:587",
    "smtp_user": "me@example.org",
    "mail_from": "me@example.org",
    "retention": "90d",
}
_FIRST_PROFILE = """\
-- What is watched, and who is told. The daemon takes changes of this file over within seconds, and
-- `proxyd check profiles` says what is wrong in it. Two dashes begin a comment.

-- The releases of Python, without those before a final one. Without TELL they are on the dashboard alone.
WATCH 'https://github.com/python/cpython/releases.atom' AS "Python"
  WHERE title NOT REGEXP '(a|b|rc)[0-9]+$';

-- WATCH 'https://example.org/blog' TELL CHANNEL 'ntfy://ntfy.sh/a-topic-of-mine';
-- WATCH 'https://shop.example/lamp' OF PRICE WHERE NEW.price < OLD.price TELL MAIL 'me@example.org';
-- WATCH 'https://example.org' OF SITE TELL MAIL 'me@example.org';
"""


@verb(
    "init",
    "proxyd init",
    "proxyd init ~/proxyd --systemd",
    takes=[
        argument("folder", "where (default: this folder)", nargs="?", default=Path(), type=Path, metavar="DIR"),
        flag("--systemd", "also write a user unit, with which systemd runs the daemon from now on"),
        JSON,
    ],
)
def init(options: argparse.Namespace) -> int:
    """Write settings with comments and a first profile, and say what to do next."""
    from proxyd.config.bounded_files import read_at_most

    folder = options.folder.expanduser().absolute()
    if wrong := [each for each in (str(folder), *_program()) if _UNSAFE.search(each)]:
        raise ProxydError(f"{wrong[0]!r} cannot be written into files and commands: rename the folder")
    files = {folder / _SETTINGS: settings_text()}
    if not list((folder / "profiles").glob("*.profile")):
        files[folder / _PROFILE] = _FIRST_PROFILE
    unit = Path.home() / _UNIT
    if options.systemd:
        files[unit] = unit_text(folder, _program())
    if unit in files and unit.exists() and read_at_most(unit, _MOST_BYTES) != files[unit].encode():
        raise ProxydError(f"{unit} exists already and is another one: delete it, or leave out --systemd")
    written = [path for path, text in files.items() if _write(path, text)]
    kept = [path for path in files if path not in written]
    lines = [f"wrote {path}" for path in written] + [f"kept {path}, which was there" for path in kept]
    if options.json:
        print_json({"written": [*map(str, written)], "kept": [*map(str, kept)]})
    else:  # no settings are read here: there may be none yet, or wrong ones
        print_lines(lines + _next_steps(folder, is_unit=options.systemd))
    return 0


def _write(path: Path, text: str) -> bool:
    """Write a new file, and return whether there was none; raises ``ProxydError``."""
    try:
        if path.exists():
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ProxydError(f"{path} cannot be written ({error.strerror or error})") from error
    return True


def settings_text() -> str:
    """Return a settings file with what many change, as comments that say what each means."""
    from proxyd.config.settings import Settings

    known = Settings.model_fields
    lines = ["# The settings of proxyd. `proxyd config` prints all that are in force; without # they count.", ""]
    lines += [f"{key} = {json.dumps(str(known[key].default))}" for key in ("profiles", "database")]
    for key, example in _OFFERED.items():
        meaning = known[key].description or ""
        lines += ["", *wrap(meaning, 100, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)]
        lines += [f"# {key} = {json.dumps(example)}"]
    return "\n".join([*lines, ""])


def unit_text(folder: Path, program: list[str]) -> str:
    """Return a unit of systemd that runs the daemon of a folder for its user."""
    executable, *words = program  # whose variables systemd leaves alone
    arguments = [each.replace("$", "$$") for each in (*words, "--config", str(folder / _SETTINGS), "serve")]
    command = " ".join(map(_unit_word, [executable, *arguments]))
    return f"""\
# Made by `proxyd init --systemd`.
[Unit]
Description=proxyd, a monitoring proxy

[Service]
Type=notify
WorkingDirectory={_unit_text(str(folder))}
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=5s
TimeoutStartSec=30min
TimeoutStopSec=90s
WatchdogSec=3min
KillMode=mixed
UMask=0077
NoNewPrivileges=yes
# Passwords and secrets that profiles name: PROXYD_SMTP_PASSWORD=..., SECRET_HOOK=...
EnvironmentFile=-{_unit_text(str(folder / "environment"))}

[Install]
WantedBy=default.target
"""


def _unit_word(word: str) -> str:
    """Return a word of a command as systemd reads it."""
    return '"' + _unit_text(word.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _unit_text(text: str) -> str:
    return text.replace("%", "%%")


def _program() -> list[str]:
    """Return the command that runs this program; by its own path, which stays when the package is replaced."""
    own = Path(sys.argv[0]).absolute()
    return [str(own)] if own.name == "proxyd" else [sys.executable, "-m", "proxyd"]


def _next_steps(folder: Path, *, is_unit: bool) -> list[str]:
    settings = folder / _SETTINGS
    is_here = folder == Path.cwd()
    lines = ["next:"]
    if is_unit:
        lines += [
            "  systemctl --user enable --now proxyd    # run it, also after a restart of the machine",
            "  loginctl enable-linger                  # and while you are not logged in",
        ]
    if not is_here or is_unit:
        lines += [f"  export PROXYD_CONFIG={quote(str(settings))}    # so that commands find it from every folder"]
    if is_unit:
        lines += ["  proxyd person invite admin --scope admin    # a link to the dashboard"]
    else:
        lines += ["  proxyd serve    # run it; it prints a link to the dashboard; go on in another terminal"]
    return [*lines, "  proxyd add ADDRESS    # watch a feed or a page"]
