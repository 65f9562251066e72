"""The programs that are compared: each as it is installed from a package index, set up as its documentation says."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from socket import socket
from typing import TypeVar

from aiohttp import ClientError, ClientSession

_T = TypeVar("_T")
_CALLS = Path(__file__).parent / "calls"
_HERE = str(Path(__file__).parents[2])


@dataclass(frozen=True, slots=True)
class Setup:
    """Where a program runs, what it watches how often, whom it tells, and how long a day of the sources takes."""

    folder: Path
    python: Path  # of the environment in which it is installed
    feeds: Sequence[str]
    receiver: str
    every_s: float
    day_s: float

    @property
    def bin(self) -> Path:
        """The folder of the commands of the environment."""
        return self.python.parent

    def write(self, name: str, text: str) -> Path:
        """Write a file into the folder and return its path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def tell(self) -> str:
        """Return a command of a shell that sends its input to the receiver."""
        return f"{self.python} -S -E {_CALLS / 'tell.py'} {self.receiver}"


@dataclass(frozen=True, slots=True)
class Ready:
    """How a program that is set up is run; ``first`` runs once before, and ``add`` once it runs."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    first: Sequence[Sequence[str]] = ()
    add: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """A program: its requirement for pip, whether it is a daemon or called by cron, and how it is set up.

    One that is no package for pip is the ``command`` that a package of Debian has installed.
    """

    name: str
    requirement: str
    is_daemon: bool
    set_up: Callable[[Setup], Ready]
    command: str = ""

    @property
    def version(self) -> str:
        """What is compared, with its version; of proxyd the commit."""
        if self.command:
            said = subprocess.run([self.command, "--version"], capture_output=True, text=True, check=True).stdout
            return f"{self.name} {re.findall(r'[0-9.]+[0-9]', said)[0]}"
        if self.requirement != _HERE:
            return self.requirement.partition(" ")[0].replace("==", " ")
        asked = ["git", "-C", _HERE, "describe", "--always", "--dirty"]
        return f"{self.name} at {subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()}"

    @property
    def is_here(self) -> bool:
        """Whether it is installed, or pip can install it."""
        return not self.command or shutil.which(self.command) is not None


def _proxyd(setup: Setup) -> Ready:
    settings = {
        "listen": f"127.0.0.1:{_free_port()}",
        "allow_networks": ["127.0.0.0/8"],
        "objective": "spend",
        "budget": f"{len(setup.feeds) / setup.every_s:.4f}/s",
        # what counts in days of the sources
        "cycle": f"{7 * setup.day_s:.0f}s",
        "epoch": f"{7 * setup.day_s:.0f}s",
        "chronon": "1s",
        "plan_every": "1m",
        "first_day": f"{setup.day_s:.0f}s",
        "source_spacing": "1s",
        "host_spacing": "0s",
        "log_format": "json",
    }
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    setup.write("proxyd.toml", lines)
    watches = (
        f"WATCH '{url}' AS \"feed {number}\" TELL WEBHOOK '{setup.receiver}' SECRET ENV 'SECRET_PEERS';\n"
        for number, url in enumerate(setup.feeds)
    )
    setup.write("profiles/feeds.profile", "".join(watches))
    return Ready([str(setup.python), "-m", "proxyd", "serve"], {"SECRET_PEERS": "whsec_" + "QUJD" * 8})


def _reader(setup: Setup) -> Ready:
    script = str(_CALLS / "poll_reader.py")
    return Ready([str(setup.python), script, str(setup.folder / "db.sqlite"), setup.receiver, *setup.feeds])


def _changedetection(setup: Setup) -> Ready:
    port, data = _free_port(), setup.folder / "data"
    data.mkdir()
    environment = {"MINIMUM_SECONDS_RECHECK_TIME": "1", "ALLOW_IANA_RESTRICTED_ADDRESSES": "true"}
    environment |= {"DISABLE_VERSION_CHECK": "true", "LISTEN_HOST": "127.0.0.1"}
    watch = {
        "time_between_check": {"seconds": round(setup.every_s)},
        "time_between_check_use_default": False,
        "notification_urls": [setup.receiver.replace("http:", "json:")],
        "notification_title": "{{watch_url}}",
        "notification_body": "{{diff_added}}",
        "notification_format": "text",
    }

    async def add() -> None:
        async with ClientSession(f"http://127.0.0.1:{port}") as session:
            key = await _until(lambda: _key_of(data))
            for url in setup.feeds:
                await _until(partial(_post, session, "/api/v1/watch", {"x-api-key": key}, watch | {"url": url}))

    command = [str(setup.bin / "changedetection.io"), "-d", str(data), "-p", str(port), "-h", "127.0.0.1"]
    return Ready(command, environment, add=add)


async def _key_of(data: Path) -> str | None:
    for path in data.glob("*.json"):
        with suppress(ValueError, KeyError, OSError):
            return str(json.loads(path.read_text())["settings"]["application"]["api_access_token"])
    return None


async def _post(session: ClientSession, path: str, headers: Mapping[str, str], body: object) -> bool:
    with suppress(ClientError):
        async with session.post(path, json=body, headers=headers) as answer:
            return answer.status == 201
    return False


async def _until(ask: Callable[[], Awaitable[_T | None]]) -> _T:
    while not (found := await ask()):
        await asyncio.sleep(0.2)
    return found


def _urlwatch(setup: Setup) -> Ready:
    jobs = setup.write("urls.yaml", "---\n".join(f"url: {each}\ndiff_filter:\n- grep: ^[+]\n" for each in setup.feeds))
    told = {"enabled": True, "command": setup.tell().split()}
    quiet = {"new": False, "error": False, "unchanged": False}
    config = {"display": quiet, "report": {"stdout": {"enabled": False}, "shell": told, "text": {"details": True}}}
    options = ["--urls", str(jobs), "--config", str(setup.write("config.yaml", json.dumps(config)))]
    options += ["--cache", str(setup.folder / "cache.db"), "--hooks", str(setup.write("hooks.py", ""))]
    return Ready([str(setup.bin / "urlwatch"), *options])


def _webchanges(setup: Setup) -> Ready:
    jobs = setup.write("jobs.yaml", "---\n".join(f"url: {each}\nadditions_only: true\n" for each in setup.feeds))
    quiet = {"new": False, "error": False, "unchanged": False}
    report = {"stdout": {"enabled": False}, "webhook": {"enabled": True, "webhook_url": setup.receiver}}
    options = [
        "--jobs",
        str(jobs),
        "--config",
        str(setup.write("config.yaml", json.dumps({"display": quiet, "report": report}))),
    ]
    options += ["--database", str(setup.folder / "snapshots.db"), "--hooks", str(setup.write("hooks.py", ""))]
    return Ready([str(setup.bin / "webchanges"), *options])


def _rss2email(setup: Setup) -> Ready:
    sendmail = setup.write("sendmail", f"#!/bin/sh\nexec {setup.tell()}\n")
    sendmail.chmod(0o755)
    feeds = "".join(f"[feed.f{number}]\nurl = {url}\n\n" for number, url in enumerate(setup.feeds))
    head = f"[DEFAULT]\nfrom = a@example.org\nto = b@example.org\nsendmail = {sendmail}\n\n"
    config = setup.write("rss2email.cfg", head + feeds)
    command = [str(setup.bin / "r2e"), "-c", str(config), "-d", str(setup.folder / "rss2email.json"), "run"]
    return Ready(command, first=[[*command, "--no-send"]])


def _feed2exec(setup: Setup) -> Ready:
    tell = f"{setup.python} -S -E {_CALLS / 'tell.py'} {setup.receiver} {{item.title}}"
    feeds = (
        f"[f{number}]\nurl = {url}\noutput = feed2exec.plugins.exec\nargs = {tell}\n\n"
        for number, url in enumerate(setup.feeds)
    )
    config = setup.write("feed2exec.ini", "".join(feeds))
    database = str(setup.folder / "feed2exec.db")
    command = [str(setup.bin / "feed2exec"), "--config", str(config), "--database", database, "fetch", "--parallel"]
    return Ready(command, first=[[*command, "--catchup"]])


def _newsboat(setup: Setup) -> Ready:
    setup.write("urls", "\n".join(setup.feeds) + "\n")
    setup.write("config", "reload-threads 10\n")
    script = [str(setup.python), "-S", "-E", str(_CALLS / "poll_newsboat.py")]
    return Ready([*script, shutil.which("newsboat") or "newsboat", str(setup.folder), setup.receiver])


PROGRAMS = (
    Program("proxyd", _HERE, True, _proxyd),
    Program("changedetection.io", "changedetection.io==0.60.10", True, _changedetection),
    Program("reader", "reader==3.26 sgmllib3k==1.0.0", False, _reader),
    Program("urlwatch", "urlwatch==2.29", False, _urlwatch),
    Program("webchanges", "webchanges==3.37.0", False, _webchanges),
    Program("rss2email", "rss2email==3.14", False, _rss2email),
    Program("feed2exec", "feed2exec==0.23.0", False, _feed2exec),
    Program("newsboat", "", False, _newsboat, command="newsboat"),
)


def _free_port() -> int:
    with socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def install(program: Program, environments: Path, *, here: bool = False) -> Path:
    """Return the interpreter of an environment that has a program; proxyd is built anew, or ``here`` is taken."""
    is_ours = program.requirement == _HERE
    if program.command or (is_ours and here):
        return Path(sys.executable)
    folder = environments / (program.name if is_ours else program.requirement.replace("==", "-").replace(" ", "-"))
    if is_ours:
        shutil.rmtree(folder, ignore_errors=True)
    if not (folder / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = [str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*python, *program.requirement.split()], check=True)
        (folder / "done").touch()
    return folder / "bin" / "python"
