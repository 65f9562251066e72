"""The verbs about budgets: what other budgets would capture, and how predictions compare with what was found."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from proxyd.cli.printed_answers import IN_TIME, about, amount, ask, print_json, print_lines
from proxyd.terminal.text_tables import print_table
from proxyd.terminal.verbs import ASKING, argument, verb, whole

if TYPE_CHECKING:
    from proxyd.client.types import AdviceShown, Day, ModelOff, PromiseShown


@verb("advise", "proxyd advise", takes=ASKING)
def advise(options: argparse.Namespace) -> int:
    """Show what other budgets would achieve, and which rules miss events."""
    answer = ask(options, lambda client: client.advice())
    if options.json:
        print_json(answer)
        return 0
    if answer["silent_planners"]:
        print(f"Without the sources of {', '.join(answer['silent_planners'])}, which did not answer.")
    _print_budget(answer)
    _print_shares(answer)
    _print_trade(answer)
    print_lines(_target_lines(answer))
    print_lines(_interval_lines(answer))
    return 0


def _print_budget(answer: AdviceShown) -> None:
    allowed, planned = amount(answer["budget_per_hour"]), answer["planned_per_hour"]
    if not planned:
        print(f"The budget allows {allowed} probes an hour. What others would achieve is known after the first plan,")
        print("minutes after the first probes (an eighth of the setting plan_every).")
        return
    print(f"The budget allows {allowed} probes an hour; the plan looks for new items with {amount(planned)} of them.")
    if answer["two_points_per_day"] is not None:
        print(f"For 2 points more in time: {amount(answer['two_points_per_day'])} more probes a day.")


def _print_trade(answer: AdviceShown) -> None:
    """Print what other numbers of probes buy if all are made where they save most waiting, whatever rules ask for."""
    allowed, planned = answer["budget_per_hour"], answer["planned_per_hour"]
    if not planned:
        return
    rows = []
    for point in answer["trade"]:
        is_present = abs(point["probes_per_hour"] / planned - 1) < 0.01
        note = "now" if is_present else "over the budget" if point["probes_per_hour"] > allowed else ""
        rows.append([amount(point["probes_per_hour"]), about(point["delay_s"]), f"{point['completeness']:.1%}", note])
    print("\nIf all of them went where they save most waiting:")
    print_table(["probes/h", "mean delay", "before the next", ""], rows)


_HIGHEST_SHARE = 0.99  # of those that the daemon tries


def _print_shares(answer: AdviceShown) -> None:
    """Print what each share in time takes, if rules have targets."""
    if not answer["shares"]:
        return
    print("\nIf every rule asked for one share of its items in time:")
    rows = [
        [f"{each['share']:.0%}", amount(each["probes_per_hour"]), f"{each['expected']:.1%}", about(each["delay_s"])]
        for each in answer["shares"]
    ]
    print_table(["share", "probes/h", "expected", "mean delay"], rows)
    if answer["shares"][-1]["share"] < _HIGHEST_SHARE:
        print("No budget gives a higher share: sources are probed as often as their spacing allows.")


_REMEDIES = {
    "budget": "raise budget",
    "host politeness": "lower host_spacing or raise host_budget",
    "source politeness": "lower source_spacing, or let the POLITENESS of its sources allow more",
}


def _target_lines(answer: AdviceShown) -> Iterator[str]:
    missed = [each for each in answer["targets"] if each["limit"] is not None]
    if not answer["targets"]:
        return
    yield ""
    met = len(answer["targets"]) - len(missed)
    yield f"Rules that are expected to meet their target: {met} of {len(answer['targets'])}"
    for each in missed:
        limit = each["limit"] or ""
        made, needed = each["probes_per_hour"], each["needed_per_hour"]
        probes = f"; {needed:g} probes an hour would do, {made:g} are made" if needed > made * 1.01 else ""
        remedy = f"; {_REMEDIES[limit]}" if limit in _REMEDIES else ""
        shares = f"{each['expected'] * 100:.3g}% instead of {each['share'] * 100:.3g}%"
        yield f"  {each['rule']}: {shares}, because of {limit}{probes}{remedy}"


def _interval_lines(answer: AdviceShown) -> Iterator[str]:
    if not answer["rules"]:
        return
    yield ""
    yield f"Events that rules expect in the next {about(answer['intervals_over_s'])}:"
    for rule in answer["rules"]:
        missed = sum(rule["unmet"].values())
        why = ", ".join(f"{count} because of {constraint}" for constraint, count in sorted(rule["unmet"].items()))
        yield f"  {rule['rule']}: {rule['intervals']}" + (f", {missed} not in time: {why}" if missed else "")
    if answer["pareto"]:
        points = ", ".join(f"{p['captured']} after {about(p['delay_s'])}" for p in answer["pareto"])
        yield f"  within the budget: {points} on average"
    if answer["needed_per_hour"] is not None:
        yield f"  catching all of these needs an even {answer['needed_per_hour']:g} probes an hour"


_HEAD = ["day", "probes", "items", "predicted", "mean delay", "predicted", "in time", "predicted", ""]


@verb(
    "report",
    "proxyd report --days 7",
    takes=[argument("--days", "the last N days (default 14)", type=whole(1, 3660), default=14, metavar="N"), *ASKING],
)
def report(options: argparse.Namespace) -> int:
    """Compare delay and the share in time with the predictions, by day, and list poor forecasts."""
    answer = ask(options, lambda client: client.report(days=options.days))
    if options.json:
        print_json(answer)
        return 0
    if answer["days"]:
        print_table(_HEAD, [_row(day) for day in answer["days"]], notes=[IN_TIME])
    else:
        print("Nothing to compare yet: predictions begin with the second probe of a source.")
    if answer["promises"]:
        print("\nShare of the items that rules saw within the time they are promised today, week by week:")
        print_table(
            ["week from", "rule", "promised", "kept", "items", ""], [_kept(each) for each in answer["promises"]]
        )
    if answer["promises_left_out"]:
        print(f"{answer['promises_left_out']:,} more fell less short than these.")
    print_lines(_off_lines(answer["off"]))
    return 0


def _kept(promise: PromiseShown) -> list[str]:
    shares = [f"{promise[name]:.1%}" for name in ("promised", "kept")]
    return [promise["week"], promise["rule"], *shares, str(promise["intervals"]), _off(promise["off"])]


def _row(day: Day) -> list[str]:
    counts = [str(day["probes"]), str(day["items"]), f"{day['predicted_items']:.1f}"]
    delays = [_shown(day[name], about) for name in ("mean_delay_s", "predicted_mean_delay_s")]
    shares = [_shown(day[name], "{:.1%}".format) for name in ("completeness", "predicted_completeness")]
    return [day["day"], *counts, *delays, *shares, _off(day["off"])]


def _off(is_off: bool) -> str:
    return "fewer than expected" if is_off else ""


def _shown(value: float | None, say: Callable[[float], str]) -> str:
    return "-" if value is None else say(value)


def _off_lines(off: list[ModelOff]) -> Iterator[str]:
    yield ""
    yield "Sources with poor forecasts:" if off else "No source has a poor forecast."
    for source in off:
        yield from (f"  {source['source']}: {line}" for line in source["summary"])
