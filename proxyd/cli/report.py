"""The verb that holds what was found against what was predicted."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from proxyd.cli.asking import ask
from proxyd.cli.printing import about, print_json, print_lines
from proxyd.cli.tables import print_table
from proxyd.client.types import Day, ModelOff

_HEAD = ["day", "probes", "items", "predicted", "mean delay", "predicted", "completeness", "predicted"]


def report(options: argparse.Namespace) -> int:
    """Print delay and completeness beside what was predicted, day by day, and the sources whose models are off."""
    answer = ask(options, lambda client: client.report(days=options.days))
    if options.json:
        print_json(answer)
        return 0
    if answer["days"]:
        print_table(_HEAD, [_row(day) for day in answer["days"]])
    else:
        print("Nothing to compare yet: predictions begin with the second probe of a source.")
    print_lines(_off_lines(answer["off"]))
    return 0


def _row(day: Day) -> list[str]:
    counts = [str(day["probes"]), str(day["items"]), f"{day['predicted_items']:.1f}"]
    delays = [_shown(day[name], about) for name in ("mean_delay_s", "predicted_mean_delay_s")]
    shares = [_shown(day[name], "{:.1%}".format) for name in ("completeness", "predicted_completeness")]
    return [day["day"], *counts, *delays, *shares]


def _shown(value: float | None, say: Callable[[float], str]) -> str:
    return "-" if value is None else say(value)


def _off_lines(off: list[ModelOff]) -> Iterator[str]:
    yield ""
    yield "Sources whose model is off:" if off else "No source's model is off."
    for source in off:
        yield from (f"  {source['source']}: {line}" for line in source["summary"])
