"""Records the first minutes of the README: ``python deploy/site/record.py`` writes docs/images/first-minutes.svg.

It runs the real commands in an empty folder, with a feed on loopback that has something new every five seconds, and
writes what the terminal showed as an asciicast; ``svg-term-cli`` (npm) draws it. Pauses are cut to two seconds.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import DEVNULL
from threading import Thread

ROOT = Path(__file__).resolve().parents[2]
FEED, LISTEN = "http://127.0.0.1:8000/trains.rss", "127.0.0.1:8088"
WIDTH, HEIGHT = 96, 30
_EVERY_S, _LONGEST_PAUSE_S = 5.0, 2.0
_SAID = (
    "Line 2 is back on time",
    "Line 7 waits for a signal",
    "A train of line 4 is cancelled",
    "Line 9 stops at the zoo",
)


class Trains(BaseHTTPRequestHandler):
    """A feed with something new every five seconds."""

    def do_GET(self) -> None:
        """Answer with the newest dozen."""
        newest = int(datetime.now(UTC).timestamp() / _EVERY_S)
        items = "".join(
            f"<item><guid>{number}</guid><title>{_SAID[number % len(_SAID)]}</title>"
            f"<pubDate>{format_datetime(datetime.fromtimestamp(number * _EVERY_S, UTC))}</pubDate></item>"
            for number in range(newest, newest - 12, -1)
        )
        body = f'<rss version="2.0"><channel><title>Trains</title>{items}</channel></rss>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/rss+xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


def run(command: Sequence[str], folder: Path, longest_s: float, until: str = "") -> Iterator[tuple[float, str]]:
    """Yield what a command writes to a terminal, with the seconds since it began; end it after ``until``."""
    began, (ours, theirs) = time.perf_counter(), pty.openpty()
    size = [f"COLUMNS={WIDTH}", f"LINES={HEIGHT}", "TERM=xterm-256color"]
    process = subprocess.Popen(["env", *size, *command], cwd=folder, stdout=theirs, stderr=theirs)
    os.close(theirs)
    while time.perf_counter() - began < longest_s:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                text = os.read(ours, 65536).decode(errors="replace")
            except OSError:  # its other end is closed
                break
            yield time.perf_counter() - began, text
            if until and until in text:
                break
    process.terminate()
    process.wait()
    os.close(ours)


def record(folder: Path) -> Iterator[tuple[float, str]]:
    """Yield the seconds and the texts of the recording."""
    now_s = 0.0

    def type_(command: str) -> Iterator[tuple[float, str]]:
        nonlocal now_s
        yield now_s, "\x1b[1;36m$\x1b[0m "
        for letter in command:
            now_s += 0.04
            yield now_s, letter
        now_s += 0.4
        yield now_s, "\r\n"

    def show(texts: Iterator[tuple[float, str]]) -> Iterator[tuple[float, str]]:
        nonlocal now_s
        before_s = 0.0
        for at_s, text in texts:
            now_s += min(at_s - before_s, _LONGEST_PAUSE_S)
            before_s = at_s
            yield now_s, text.replace(str(folder), "~/proxyd")
        now_s += 1.5

    def shown(command: str, longest_s: float = 30.0, until: str = "") -> Iterator[tuple[float, str]]:
        yield from type_(command)
        yield from show(run(command.split(), folder, longest_s, until))

    yield from shown("proxyd init")
    settings = folder / "proxyd.toml"
    text = re.sub(r"(?m)^# allow_networks = .*", 'allow_networks = ["127.0.0.0/8"]', settings.read_text())
    settings.write_text(re.sub(r"(?m)^# listen = .*", f'listen = "{LISTEN}"', text))
    (folder / "profiles/first.profile").unlink()
    yield from type_("proxyd serve &")
    with subprocess.Popen(["proxyd", "serve"], cwd=folder, stdout=DEVNULL, stderr=DEVNULL) as serving:
        ready = ["proxyd", "healthcheck"]
        while serving.poll() is None and subprocess.run(ready, cwd=folder, stdout=DEVNULL, stderr=DEVNULL).returncode:
            time.sleep(0.2)
        yield from shown(f"proxyd add {FEED} --match line --name Trains")
        yield from shown("proxyd notifications --follow", 120.0, until="\n")
        yield from shown("proxyd explain 127.0.0.1:8000/trains.rss")
        serving.terminate()


def main() -> None:
    """Record, and draw."""
    server = ThreadingHTTPServer(("127.0.0.1", 8000), Trains)
    Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        lines = [json.dumps({"version": 2, "width": WIDTH, "height": HEIGHT})]
        (Path(folder) / "work").mkdir()
        for at_s, text in record(Path(folder) / "work"):
            lines.append(json.dumps([round(at_s, 3), "o", text]))
            sys.stdout.write(text)
            sys.stdout.flush()
        lines.append(json.dumps([json.loads(lines[-1])[0] + 5, "o", ""]))
        cast = Path(folder) / "first.cast"
        cast.write_text("\n".join(lines) + "\n")
        drawn = ROOT / "docs/images/first-minutes.svg"
        draw = ["npx", "--yes", "svg-term-cli@2.1.1", "--in", str(cast), "--out", str(drawn), "--window", "--no-cursor"]
        subprocess.run(draw, check=True)


if __name__ == "__main__":
    main()
