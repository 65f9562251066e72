"""proxyd beside the programs that people use otherwise: the same sources, the same number of requests, real programs.

Run ``python benchmarks/peers/run.py`` (it installs each program in an environment of its own, proxyd as its wheel
without extras); ``--programs proxyd reader``, ``--mixes uneven``, ``--quick``. A day of the sources takes ``--day``
seconds. Programs that are called are called every ``--every`` seconds, which is what proxyd's budget allows too.
newsboat takes part if it is installed. ``--trace`` adds the updates of real sources, as ``source,timestamp``. Needs
Linux: it reads /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import shutil
import statistics
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from mixes import DAY_S, Item, Mix, mixes
from processes import Running, Used
from programs import PROGRAMS, Program, Setup, install
from report import tables, write
from servers import Run, serving

LIVES_S = {"10 min": 600.0, "1 h": 3600.0, "6 h": 21_600.0}


async def run_one(program: Program, mix: Mix, python: Path, folder: Path, every_s: float) -> dict[str, Any]:
    """Run a program over a mix and return what was measured."""
    run = Run(mix)
    async with serving(run) as (feeds, receiver):
        ready = program.set_up(Setup(folder, python, feeds, receiver, every_s, mix.day_s))
        running = Running(ready.command, ready.environment, folder, 0.0 if program.is_daemon else every_s, mix.kills)
        for command in ready.first:
            await (await asyncio.create_subprocess_exec(*command, cwd=folder, stdin=asyncio.subprocess.DEVNULL)).wait()
        run.begin()
        adding = asyncio.ensure_future(asyncio.sleep(0) if ready.add is None else ready.add())
        await running.run(mix.length_s)
        if not adding.done():
            adding.cancel()
            raise RuntimeError(f"{program.name} did not take its feeds during the run")
        await adding
    said = {"program": program.name, "mix": mix.name, "command": shlex.join(ready.command)}
    return said | figures(run, running.used, every_s)


def figures(run: Run, used: Used, every_s: float) -> dict[str, Any]:
    """Return the figures of a run; delays are in seconds of the run."""
    mix, scale = run.mix, DAY_S / run.mix.day_s
    warm_s, last_s = 2.0 * every_s, mix.length_s - 3.0 * every_s
    news = {word: item for word, item in mix.news().items() if warm_s <= item.at_s <= last_s}
    told = {word: run.told[word] - item.at_s for word, item in news.items() if word in run.told}
    noticed = [run.noticed[word] - item.at_s for word, item in news.items() if word in run.noticed]
    late = [delay for word, delay in told.items() if news[word].at_s > mix.length_s / 2.0]
    first = [delay for word, delay in told.items() if news[word].at_s <= mix.length_s / 4.0]
    outage_ends = max((end_s for _, end_s in mix.receiver_outages), default=None)
    old = sum(count for word, count in run.messages.items() if word not in mix.news())
    return {
        "news": len(news),
        "requests": sum(run.requests.values()),
        "not modified": run.requests[304],
        "inside a Retry-After": run.too_early,
        "notice mean": _mean(noticed),
        "mean": _mean(list(told.values())),
        "median": statistics.median(told.values()) if told else None,
        "p95": float(np.quantile(list(told.values()), 0.95)) if told else None,
        "mean of the first quarter": _mean(first),
        "mean of the second half": _mean(late),
        **{f"within {life}": sum(d <= s / scale for d in told.values()) / len(news) for life, s in LIVES_S.items()},
        "lost": len(news) - len(told),
        "doubled": sum(run.messages[word] > 1 for word in news),
        "old told": old,
        "last told after the receiver's return": None if outage_ends is None else _after(run, news, outage_ends),
        "processor s": used.processor_s,
        "memory MiB": max(used.memory, default=0) / 2**20,
        "written MiB": used.written / 2**20,
        "first request after": run.first_request_s,
        "starts": used.starts,
    }


def _after(run: Run, news: Mapping[str, Item], end_s: float) -> float | None:
    """Return for how long after a time the last item came that had been noticed, and not told, before it."""
    waiting = [at_s for word, at_s in run.told.items() if word in news and run.noticed[word] < end_s <= at_s]
    return max(waiting) - end_s if waiting else None


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="*", choices=[each.name for each in PROGRAMS])
    parser.add_argument("--mixes", nargs="*")
    parser.add_argument("--feeds", type=int, default=40)
    parser.add_argument("--length", type=float, default=600.0)
    parser.add_argument("--day", type=float, default=240.0)
    parser.add_argument("--every", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1, help="with as many seeds, of which medians are shown")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--quick", action="store_true", help="few sources and a minute, to see that it runs")
    parser.add_argument("--keep", action="store_true", help="keep what each program wrote")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--here", action="store_true", help="take proxyd from this environment, whatever extras it has")
    parser.add_argument("--write", type=Path, help="a page, between whose marks the tables are put")
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache" / "proxyd-peers")
    asked = parser.parse_args()
    if asked.quick:
        asked.feeds, asked.length, asked.every, asked.day = 10, 60.0, 5.0, 40.0
    programs = [each for each in PROGRAMS if (each.name in asked.programs if asked.programs else each.is_here)]
    known = [mix.name for mix in mixes(asked.feeds, asked.length, asked.day, asked.seed, asked.trace)]
    if unknown := set(asked.mixes or known) - set(known):
        parser.error(f"there is no mix {min(unknown)}: they are {', '.join(known)}")
    pythons = {each.name: install(each, asked.environments, here=asked.here) for each in programs}
    found: list[dict[str, Any]] = []
    for seed in range(asked.seed, asked.seed + asked.runs):
        for mix in mixes(asked.feeds, asked.length, asked.day, seed, asked.trace):
            if mix.name in (asked.mixes or known):
                found += asyncio.run(run_mix(programs, mix, pythons, asked))
    text = f"{describe(asked, programs)}\n\n{tables(found)}"
    commands = "\n".join(f"* {name}: `{command}`" for name, command in dict(map(_command, found)).items())
    print(json.dumps(found) if asked.json else f"{text}\n{commands}")
    if asked.write is not None:
        write(asked.write, text)


def _command(run: Mapping[str, Any]) -> tuple[str, str]:
    return run["program"], textwrap.shorten(run["command"], 200)


def describe(asked: argparse.Namespace, programs: Sequence[Program]) -> str:
    """Return what was run, and when and where, in a sentence or two."""
    runs = f"{asked.runs} runs" if asked.runs > 1 else "a run"
    seeds = f"seeds {asked.seed} to {asked.seed + asked.runs - 1}" if asked.runs > 1 else f"seed {asked.seed}"
    today = f"{datetime.now(tz=UTC):%d %B %Y}"
    return textwrap.fill(
        f"Measured on {today} on {os.cpu_count()} cores: {runs} of {asked.length:g} s ({seeds}), "
        f"{asked.feeds} feeds, {asked.length / asked.day:.1f} days of theirs, a call every {asked.every:g} s. "
        f"Programs: {', '.join(each.version for each in programs)}.",
        width=120,
    )


async def run_mix(
    programs: Sequence[Program], mix: Mix, pythons: Mapping[str, Path], asked: argparse.Namespace
) -> list[dict[str, Any]]:
    """Run the programs over a mix, side by side: each has sources and a receiver of its own."""
    folders = [Path(tempfile.mkdtemp(prefix=f"peer-{each.name}-")) for each in programs]
    runs = (
        run_one(each, mix, pythons[each.name], folder, asked.every)
        for each, folder in zip(programs, folders, strict=True)
    )
    found = await asyncio.gather(*runs)
    for folder in folders:
        if not asked.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return found


if __name__ == "__main__":
    main()
