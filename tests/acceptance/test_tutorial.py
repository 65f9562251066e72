"""The tutorial, run as it is shown: its blocks in order, in one shell; only ports and folders are others."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from tests.acceptance.support import PATIENCE_S, SECRET
from tests.pages import ROOT, Block, blocks
from tests.servers import free_port

PAGE = ROOT / "docs" / "tutorial.md"
_AGAIN_S = 0.3


class Shell:
    """A shell that takes one block after the other, as a terminal does."""

    def __init__(self, folder: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not re.match("PROXYD_|SECRET_", name)}
        self._process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=kept | {"HOME": str(folder), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def run(self, text: str) -> str:
        """Return what a block prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        mark = secrets.token_hex(8)
        self._process.stdin.write(f"{{\n{text}\n}} < /dev/null\necho {mark}\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.strip() == mark:
                return "".join(lines)
            lines.append(line)
        raise AssertionError("the shell ended:\n" + "".join(lines))


def is_shown(printed: str, shown: str) -> bool:
    """Return whether something was printed as shown.

    ``...`` stands for anything, on a line of its own for any number of lines, blanks for any number of them.
    """
    pieces = [re.sub(r"(\\\s)+", r"\\s+", re.escape(piece)) for piece in re.split(r"(?:\n\s*)?\.\.\.", shown.strip())]
    *others, last = (f".*?{piece}" if place else piece for place, piece in enumerate(pieces))
    pattern = "".join(f"(?>{piece})" for piece in others) + last  # atomic: what is not as shown is seen at once
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


@pytest.mark.parametrize(
    ("printed", "shown", "expected"),
    [
        ("1 feed,  2\nitems", "1 feed, 2 items", True),
        ("1 feed, 2 items", "1 feed, 2 item", False),
        ("made 2 of 3 in 4 s, 0 lost", "made ... in ... s, 0 lost", True),
        ("made 2 of 3 in 4 s, 10 lost", "made ... in ... s, 0 lost", False),
        ("made 2 of 3 in 4 s, 0 lost", "made ...", True),
        ("made 2\nlost 0", "made 2\n...\nlost 0", True),
        ("made 2\nsent 2\nlost 0", "made 2\n...\nlost 0", True),
        ("made 2\nsent 2\nlost 10", "made 2\n...\nlost 0", False),
        ("a " * 5000 + "b", "a ... " * 50 + "c", False),
    ],
)
def test_what_is_shown_is_found(printed: str, shown: str, expected: bool) -> None:
    assert is_shown(printed, shown) == expected


def repeat(shell: Shell, block: Block, shown: Block) -> None:
    """Run a block until it prints what the page shows: who is too quick for the daemon looks again."""
    until_s = time.monotonic() + PATIENCE_S
    while not is_shown(printed := shell.run(block.text), shown.text):
        assert time.monotonic() < until_s, f"{block} does not print what {shown} shows, but:\n{printed}"
        time.sleep(_AGAIN_S)


def follow(shell: Shell, shown: list[Block], folder: Path) -> str:
    """Do what the page says and return what those blocks printed whose output it does not show."""
    printed = []
    for block, following in zip(shown, [*shown[1:], None], strict=True):
        if block.file is not None:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "sh" and following is not None and following.language == "text":
            repeat(shell, block, following)
        elif block.language == "sh":
            printed.append(shell.run(block.text))
    return "".join(printed)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a folder in which ``make setup`` has been done."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy2(ROOT / name, tmp_path)
    (tmp_path / ".venv").mkdir()
    for path in Path(sys.prefix).iterdir():
        (tmp_path / ".venv" / path.name).symlink_to(path)
    (tmp_path / ".venv" / ".ready").unlink(missing_ok=True)
    (tmp_path / ".venv" / ".ready").touch()
    return tmp_path


def substituted(page: Path, ports: dict[str, str]) -> Iterator[Block]:
    """Yield the blocks of a page with other ports."""
    for block in blocks(page):
        yield replace(block, text=re.sub("|".join(ports), lambda found: ports[found[0]], block.text))


@pytest.mark.long
def test_the_tutorial_runs_as_it_is_shown(repository: Path) -> None:
    ports = {name: str(free_port()) for name in ("8001", "8002", "8090")}
    folder = repository / "proxyd-tutorial"
    with Shell(repository) as shell:
        printed = follow(shell, list(substituted(PAGE, ports)), folder)
    assert "proxyd: " not in printed, printed
    assert re.search(r"urgent +Mine +1 +1 ", printed), printed  # of `proxyd rules`
    assert "local-news" in printed  # of `proxyd plan`
    assert list((folder / "data").glob("proxyd.db"))


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[str]:
    """Run the tutorial's receiver and return its port."""
    port = free_port()
    (code,) = [block.text for block in blocks(PAGE) if block.file == "receiver.py"]
    script = tmp_path / "receiver.py"
    script.write_text(code.replace("8002", str(port)), encoding="utf-8")
    process = subprocess.Popen([sys.executable, script], env=os.environ | {"SECRET_HOOK": SECRET})
    until_s = time.monotonic() + PATIENCE_S
    while not is_listening(port):
        assert time.monotonic() < until_s
        time.sleep(_AGAIN_S)
    yield str(port)
    process.kill()
    process.wait()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_message_signed_by_hand_is_accepted_and_a_changed_one_is_not(receiver: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "how-to.md").read_text(encoding="utf-8").split("## Verify a signature by hand")[1]
    make, sign, send = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[:3]
    with Shell(tmp_path) as shell:
        shell.run(f"export SECRET_HOOK='{SECRET}'")
        assert shell.run(make) == ""
        assert shell.run(sign).startswith("v1,")
        assert shell.run(send.replace("8002", receiver)) == "204\n"
        shell.run("echo >> body.json")
        assert shell.run(send.replace("8002", receiver)) == "401\n"
