"""Arguments of the verbs solve, simulate and reproduce; importing this module is cheap."""

from __future__ import annotations

import argparse
from pathlib import Path

from proxyd.terminal.arguments import Verbs, add_json, add_verb, duration, whole

_ONE_SOURCE = {
    "doe": "probes at least expected delay (optimal on the slots)",
    "threshold": "a probe when the expected cost since the last one reaches a threshold",
    "first-arrival": "a probe when an item has probably come",
    "uniform": "probes spaced evenly",
}
_CAPTURE = {
    "sup": "the fewest probes that capture every interval, placed to delay least",
    "edf": "the most intervals that a budget can capture, earliest deadline first",
    "pareto": "completeness against delay: every point that no schedule betters",
}
_WEEK_HELP = "CSV of 168 rows hour,rate_per_day,importance; hour 0 is Monday 00:00"
_ONE_SOURCE_EXAMPLE = "proxyd solve {} --week week.csv --weeks 4 --slot 1h --probes 28"
_CAPTURE_EXAMPLE = "proxyd solve {} --intervals intervals.csv"
_FREQUENCIES_EXAMPLE = "proxyd solve {} --rates rates.csv --objective robot"
_SEED = whole(0, 2**63)


def add_science_verbs(verbs: Verbs) -> None:
    """Add the verbs."""
    text = "solve one of the scheduling problems, from CSV"
    solve = add_verb(verbs, "solve", None, text, _ONE_SOURCE_EXAMPLE.format("doe"))
    problems = solve.add_subparsers(required=True, metavar="PROBLEM")
    for name, text in _ONE_SOURCE.items():
        verb = add_verb(problems, name, "lab.verbs.solve.one_source", text, _ONE_SOURCE_EXAMPLE.format(name))
        _add_one_source(verb, name)
    for name, text in _CAPTURE.items():
        _add_capture(add_verb(problems, name, "lab.verbs.solve.capture", text, _CAPTURE_EXAMPLE.format(name)), name)
    for name, text in (("frequencies", "how often to probe each source"), ("cycle", "in which order to probe them")):
        verb = add_verb(problems, name, "lab.verbs.solve.frequencies", text, _FREQUENCIES_EXAMPLE.format(name))
        _add_frequencies(verb, name)
    _add_simulate(
        add_verb(
            verbs, "simulate", "lab.verbs.simulate.simulate", "replay a trace against policies",
            "proxyd simulate --trace trace.csv --test-from 2025-08-18 --probes-per-source-week 7"
            " --policies auto,uniform",
            "proxyd simulate --from-database",
        )
    )  # fmt: skip
    _add_reproduce(verbs)


def _add_reproduce(verbs: Verbs) -> None:
    text = "reproduce the papers' experiments"
    reproduce = add_verb(
        verbs, "reproduce", "lab.verbs.reproduce.reproduce", text, "proxyd reproduce detection --out results"
    )
    papers = ("robot", "politeness", "sup", "proxy-dilemma", "detection", "all")
    reproduce.add_argument("paper", nargs="?", choices=papers, default="all", help="which paper (default: all)")
    reproduce.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for tables and plots")
    reproduce.add_argument("--seed", type=_SEED, default=1, help="seed of all random numbers (default 1)")
    reproduce.add_argument("--quick", action="store_true", help="fewer repetitions: minutes become seconds")
    add_json(reproduce)


def _probability(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a probability from 0 to 1")
    return value


def _add_one_source(parser: argparse.ArgumentParser, policy: str) -> None:
    parser.set_defaults(policy=policy)
    parser.add_argument("--week", type=Path, required=True, metavar="WEEK.csv", help=_WEEK_HELP)
    parser.add_argument("--weeks", type=int, default=1, help="number of weeks in the period (default 1)")
    parser.add_argument("--slot", type=duration, default=3600.0, metavar="1h", help="length of a slot (default 1h)")
    many = parser.add_mutually_exclusive_group(required=True)
    many.add_argument("--probes", type=int, metavar="N", help="how many probes, the one at the period's end included")
    if policy != "uniform":
        price = "what a probe costs, in item-days (doe); the threshold, or the probability"
        many.add_argument("--price", type=float, metavar="P", help=price)
    if policy == "doe":
        parser.add_argument("--spacing", type=duration, default=0.0, metavar="30m", help="minimum time between probes")
        parser.add_argument("--improve", choices=("exact", "mu"), help="move the probes off the slots afterwards")
        parser.add_argument("--curve", action="store_true", help="also print the costs of 1, 2, ..., N probes")
    add_json(parser)


def _add_capture(parser: argparse.ArgumentParser, policy: str) -> None:
    parser.set_defaults(policy=policy)
    columns = "CSV source,start,finish[,weight] in chronons, both ends included"
    parser.add_argument("--intervals", type=Path, required=True, metavar="EI.csv", help=columns)
    usual = None if policy == "sup" else "1"
    budget = f"probes a chronon: a number, or a CSV chronon,probes (default: {usual or 'not limited'})"
    parser.add_argument("--budget", metavar="C|FILE", help=budget, default=usual)
    if policy == "pareto":
        parser.add_argument("--epsilon", type=float, default=0.0, help="cover the front to within this factor")
    add_json(parser)


def _add_frequencies(parser: argparse.ArgumentParser, kind: str) -> None:
    parser.set_defaults(kind=kind)
    parser.add_argument("--rates", type=Path, required=True, metavar="RATES.csv", help="CSV source,rate[,weight]")
    objectives = ("robot", "randomised", "detection")
    parser.add_argument("--objective", choices=objectives, required=True, help="what to minimise")
    parser.add_argument("--budget", type=float, default=1.0, metavar="c", help="probes a step (default 1)")
    access = "how long accesses take, for robot and randomised; their mean is 1/c (default exponential)"
    parser.add_argument("--access", choices=("exponential", "constant"), default="exponential", help=access)
    if kind == "cycle":
        methods = ("golden", "powers", "powers-improved")
        parser.add_argument("--method", choices=methods, default="golden", help="(default golden)")
        length = "of golden: the next Fibonacci number (default: until the rarest source comes once)"
        parser.add_argument("--length", type=int, metavar="N", help=length)
    add_json(parser)


def _add_simulate(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--trace", type=Path, metavar="T.csv", help="CSV source,timestamp (unix seconds)")
    models = "poisson, bursts, drift or a mix such as poisson+bursts"
    past = "what the daemon saw, from its database: this file, or that of the settings; changes nothing there"
    source.add_argument("--from-database", nargs="?", const="", metavar="PATH", help=past)
    source.add_argument("--model", metavar="MODEL", help=f"synthetic sources instead: {models}")
    parser.add_argument("--sources", type=whole(1, 100_000), default=200, help="sources of the model (default 200)")
    parser.add_argument("--seed", type=_SEED, default=1, help="seed of the model and of random policies (default 1)")
    noise = "FPN: keep each event of the test with this probability, move the others to any time of it"
    parser.add_argument("--fpn", type=_probability, metavar="Z", help=noise)
    parser.add_argument(
        "--test-from", metavar="ISO", help="start of the test; before it is history (default: the middle)"
    )
    many = parser.add_mutually_exclusive_group()
    weekly = "budget of the whole, by source and week (of --from-database: about what the daemon made)"
    many.add_argument("--probes-per-source-week", type=float, metavar="P", help=weekly)
    many.add_argument("--budget", type=float, metavar="C", help="probes a chronon")
    parser.add_argument("--chronon", type=duration, metavar="60s", help="with --budget (default 60s; else a slot)")
    parser.add_argument("--policies", default="auto,uniform,clairvoyant", help="names, separated by commas, or all")
    parser.add_argument("--slot", type=duration, default=1800.0, metavar="30m", help="slot of plans (default 30m)")
    parser.add_argument("--window", type=duration, metavar="6h", help="life of an event (default: until the next one)")
    add_json(parser)
