"""Real update traces made from public release times, and what the planner does on them.

``python benchmarks/traces.py --make FOLDER`` writes three traces (CSV, ``source,timestamp``): the releases of the
packages that ``requirements.lock`` names (their index), the uploads in the changelogs of the Debian packages that are
installed, and the releases of JavaScript packages that a few well-known ones need. ``python benchmarks/traces.py
TRACE...`` replays the last fifth of each against what is learned from the rest, and prints the mean delay of
each policy in hours, with an interval by resampling days. Nothing is tuned on that last fifth.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from gzip import open as open_gzip
from os import environ
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

from proxyd.core.model.arrays import Floats
from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.model.schedule import delays_s
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.replay.policy_registry import DeciderPolicy
from proxyd.lab.replay.replay import ReplayPolicy, Terms, replay, split
from proxyd.lab.replay.replay_policies import LearnedIndexPolicy, UniformPolicy, due_policy
from proxyd.lab.traces import Trace, parse_trace

SLOT_S, DAY_S, HOUR_S = 1800.0, 86400.0, 3600.0
YEARS_S = 4 * 365.25 * DAY_S
POLICIES: dict[str, Callable[[Terms], ReplayPolicy]] = {
    "even": UniformPolicy,
    "square root": due_policy,
    "index": LearnedIndexPolicy,
    "proxyd": DeciderPolicy,
}
LIVES_S = {"10 min": 600.0, "1 h": 3600.0, "6 h": 21600.0}
JAVASCRIPT = ("webpack", "eslint", "jest", "express", "next", "typescript", "vite", "prettier")
_PACKAGES = 300
_MAINTAINER = re.compile(r"^ -- .*>  (.+)$", re.MULTILINE)
_ROOT = Path(__file__).parents[1]
Times = Mapping[str, Sequence[float]]


# -- making


def index_url() -> str:
    """Return the package index that pip uses."""
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    configured = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return _address(environ.get("PIP_INDEX_URL") or configured, "PIP_INDEX_URL", "the package index (simple API)")


def _address(found: str, variable: str, what: str) -> str:
    if not found:
        raise SystemExit(f"set {variable} to the address of {what}")
    return found.rstrip("/")


def read_python_releases(url: str) -> Times:
    """Return when the first file of each version was uploaded, by package; the index must tell (PEP 700)."""
    names = sorted(set(re.findall(r"^([A-Za-z0-9._-]+)==", (_ROOT / "requirements.lock").read_text(), re.MULTILINE)))

    def read(name: str) -> list[float]:
        page = _read_json(f"{url}/{name}/", "application/vnd.pypi.simple.v1+json")
        first: dict[str, float] = {}
        for file in page["files"]:
            version = _version(file["filename"])
            if "upload-time" in file:
                time_s = _unix_s(file["upload-time"])
                first[version] = min(first.get(version, time_s), time_s)
        return list(first.values())

    with ThreadPoolExecutor(4) as pool:
        return dict(zip(names, pool.map(read, names), strict=True))


def _version(filename: str) -> str:
    """Return the version in the name of a wheel or of a source distribution."""
    if filename.endswith(".whl"):
        return filename.split("-")[1]
    return re.sub(r"(\.tar\.\w+|\.zip|\.egg|\.exe)$", "", filename).rpartition("-")[2]


def read_debian_uploads(documents: Path) -> Times:
    """Return the dates in the changelogs of installed packages; packages of one source count once."""
    uploads: dict[str, list[float]] = {}
    seen: set[tuple[float, ...]] = set()
    for path in sorted(documents.glob("*/changelog.Debian.gz")):
        with open_gzip(path, "rt", encoding="utf-8", errors="replace") as file:
            times = [_mail_date_s(date) for date in _MAINTAINER.findall(file.read())]
        known = tuple(time for time in times if time > 0)
        if known and known not in seen:
            seen.add(known)
            uploads[path.parent.name] = list(known)
    return uploads


def _mail_date_s(text: str) -> float:
    try:
        return parsedate_to_datetime(text.strip()).timestamp()
    except ValueError:
        return -1.0


def read_javascript_releases(url: str) -> Times:
    """Return the times of all versions of a few packages and of what they need."""
    releases: dict[str, list[float]] = {}
    waiting = list(JAVASCRIPT)
    with ThreadPoolExecutor(4) as pool:
        while waiting and len(releases) < _PACKAGES:
            turn = waiting[: _PACKAGES - len(releases)]
            pages = list(pool.map(lambda name: _read_json(f"{url}/{name.replace('/', '%2F')}"), turn))
            needed: dict[str, None] = {}
            for name, page in zip(turn, pages, strict=True):
                times = page["time"]
                releases[name] = [_unix_s(time) for key, time in times.items() if key not in ("created", "modified")]
                latest = page["versions"].get(page["dist-tags"]["latest"], {})
                for key in ("dependencies", "devDependencies"):
                    needed |= dict.fromkeys(latest.get(key, ()))
            waiting = [name for name in needed if name not in releases]
    return releases


def _read_json(url: str, accept: str = "application/json") -> dict[str, Any]:
    with urlopen(Request(url, headers={"Accept": accept}), timeout=60) as answer:
        page: dict[str, Any] = json.load(answer)
    return page


def _unix_s(text: str) -> float:
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def write_trace(path: Path, times: Times, now_s: float) -> None:
    """Write what happened in the last years, without sources that did nothing."""
    rows = sorted((round(time), name) for name, all_s in times.items() for time in all_s if 0 < now_s - time < YEARS_S)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("source", "timestamp"))
        writer.writerows((name, time) for time, name in rows)


def make(folder: Path) -> None:
    """Write the three traces."""
    folder.mkdir(parents=True, exist_ok=True)
    now_s = datetime.now(UTC).timestamp()
    script = _address(environ.get("NPM_CONFIG_REGISTRY", ""), "NPM_CONFIG_REGISTRY", "the JavaScript registry")
    write_trace(folder / "python_releases.csv", read_python_releases(index_url()), now_s)
    write_trace(folder / "debian_uploads.csv", read_debian_uploads(Path("/usr/share/doc")), now_s)
    write_trace(folder / "javascript_releases.csv", read_javascript_releases(script), now_s)


# -- measuring


def terms_of(
    trace: Trace, probes_a_week: float, test: float, life_s: float | None = None
) -> tuple[Terms, list[Floats]]:
    """Return the terms of a replay of the last part of a trace, and the events of that part."""
    grid = ChrononGrid(SLOT_S)
    start = grid.chronon_at(trace.stop_s - test * (trace.stop_s - trace.start_s))
    epoch = Epoch(start, grid.chronon_at(trace.stop_s))
    start_s, stop_s = grid.start_s(epoch.start), grid.start_s(epoch.stop)
    before, after = split(trace, start_s)
    events = [times[times < stop_s] for times in after]
    probes = round(probes_a_week * len(before) * (stop_s - start_s) / WEEK_S)
    in_time = life_s is not None
    return Terms(grid, epoch, probes, before, trace.start_s, SLOT_S, life_s=life_s, in_time=in_time), events


def measure(path: Path, probes_a_week: float, test: float, life_s: float | None) -> list[dict[str, object]]:
    """Return a line for each policy: its mean delay, the part found in time, and its delay over that of proxyd."""
    with path.open() as file:
        terms, events = terms_of(parse_trace(file, name=str(path)), probes_a_week, test, life_s)
    at_s = np.concatenate(events)
    days = ((at_s - terms.start_s) // DAY_S).astype(np.int64)
    waits: dict[str, Floats] = {}
    seconds: dict[str, float] = {}
    for name, policy in POLICIES.items():
        began = process_time()
        made = replay(events, policy(terms), terms).of_each(terms.sources)
        probes_s = [terms.grid.length_s * chronons.astype(np.float64) for chronons in made]
        pairs = zip(events, probes_s, strict=True)
        waits[name] = np.concatenate([delays_s(times, probes, end_s=terms.stop_s) for times, probes in pairs])
        seconds[name] = process_time() - began
    ours = waits["proxyd"]
    draws = np.random.Generator(np.random.PCG64(1)).integers(0, days.max() + 1, (1000, days.max() + 1))
    by_day = {name: np.bincount(days, delays, days.max() + 1) for name, delays in waits.items()}
    lines: list[dict[str, object]] = []
    for name, delays in waits.items():
        ratios = by_day["proxyd"][draws].sum(axis=1) / by_day[name][draws].sum(axis=1)
        low, high = np.quantile(ratios, (0.025, 0.975))
        lines.append(
            {
                "trace": path.stem,
                "policy": name,
                "sources": terms.sources,
                "events": len(at_s),
                "probes_a_week": probes_a_week,
                "delay_h": float(delays.mean()) / HOUR_S,
                "ratio": float(ours.sum() / delays.sum()),
                "seconds": seconds[name],
                "low": float(low),
                "high": float(high),
                "in_time": None if life_s is None else float((delays <= life_s).mean()),
            }
        )
    return lines


def _quick_trace(folder: Path) -> Path:
    """Write a small trace, for a test that this still runs."""
    rng, now_s = np.random.Generator(np.random.PCG64(1)), 1_700_000_000.0
    times = {f"source {number}": (now_s - rng.uniform(0, 28 * DAY_S, 40)).tolist() for number in range(6)}
    write_trace(folder / "quick.csv", times, now_s)
    return folder / "quick.csv"


def main() -> None:
    """Make or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path, nargs="*")
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="write the three traces there")
    parser.add_argument("--probes-a-week", type=float, default=7.0)
    parser.add_argument("--test", type=float, default=0.2, help="the part at the end that is replayed")
    parser.add_argument("--within", choices=list(LIVES_S), help="plan to find each event within this time")
    parser.add_argument("--quick", action="store_true", help="a small trace, for a test that it still runs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.make:
        make(options.make)
    with TemporaryDirectory() as folder:
        traces = [_quick_trace(Path(folder))] if options.quick else options.traces
        lines = [
            line
            for path in traces
            for line in measure(path, options.probes_a_week, options.test, LIVES_S.get(options.within))
        ]
    if options.json:
        print(json.dumps(lines))
        return
    for line in lines:
        shown = "" if line["in_time"] is None else f"  in time {line['in_time']:.3f}"
        print(
            f"{line['trace']:20}{line['sources']:>5} sources{line['events']:>7} events  {line['policy']:12}"
            f"{line['delay_h']:8.2f} h  proxyd / it {line['ratio']:.3f} [{line['low']:.3f}, {line['high']:.3f}]{shown}"
        )


if __name__ == "__main__":
    main()
