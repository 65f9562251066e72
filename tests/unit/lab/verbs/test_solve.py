"""The verb solve, as it is typed: fields of JSON, tables, and what it says of bad input."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from proxyd.cli.main import main
from proxyd.lab.papers.politeness_paper import DBWORLD

WEEK = "hour,rate_per_day,importance\n" + "".join(
    f"{hour},{rate},1\n" for hour, rate in enumerate(DBWORLD.intensity(1).values)
)
DISJOINT = "source,start,finish,weight\na,0,3,1\nb,0,0,2\nc,0,1,3\nd,1,1,1\na,5,9,4\n"
OVERLAPPING = "source,start,finish\na,0,3\na,2,5\nb,2,2\nc,3,9\n"
RATES = "source,rate\nx,4\ny,1\nz,1\n"


class Files:
    """Writes files and runs the verb on them."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys

    def write(self, name: str, text: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = main(["solve", *arguments])
        out, err = self._capsys.readouterr()
        return code, out, err

    def json(self, *arguments: str) -> Any:
        code, out, err = self.run(*arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    def week(self, policy: str, *arguments: str, text: str = WEEK) -> Any:
        return self.json(policy, "--week", self.write("week.csv", text), *arguments)

    def refused(self, *arguments: str) -> str:
        code, out, err = self.run(*arguments)
        assert (code, out) == (1, "")
        assert err.startswith("proxyd: ")
        return err.removeprefix("proxyd: ").replace(str(self.folder) + "/", "").strip()


@pytest.fixture
def files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Files:
    return Files(tmp_path, capsys)


def test_doe_has_the_cost_and_the_times_of_the_paper(files: Files) -> None:
    found = files.week("doe", "--weeks", "4", "--probes", "28")
    assert found["policy"] == "doe"
    assert found["probes"] == len(found["times_h"]) == 28
    assert found["expected_cost"] == pytest.approx(46.7536, abs=1e-4)
    assert (found["times_h"][0], found["times_h"][-1], found["exact"]) == (18.0, 672.0, True)


@pytest.mark.parametrize(
    ("policy", "cost"), [("threshold", 51.0604), ("first-arrival", 60.1258), ("uniform", 59.81875)]
)
def test_baselines_with_as_many_probes(files: Files, policy: str, cost: float) -> None:
    found = files.week(policy, "--weeks", "4", "--probes", "28")
    assert (found["probes"], found["times_h"][-1]) == (28, 672.0)
    assert found["expected_cost"] == pytest.approx(cost, abs=1e-4)
    assert not found["exact"]


def test_finer_slots_and_moves_off_them_cost_less(files: Files) -> None:
    costs = [
        files.week("doe", "--weeks", "4", "--probes", "28", *more)["expected_cost"]
        for more in ([], ["--slot", "15m"], ["--improve", "mu"], ["--slot", "15m", "--improve", "exact"])
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == pytest.approx(46.7478, abs=1e-4)


def test_the_price_of_doe_is_weighed_exactly(files: Files) -> None:
    curve = files.week("doe", "--probes", "168", "--curve")["curve"]
    for price in (0.01, 0.5, 3.0, 1e6):
        found = files.week("doe", "--price", str(price))
        best = min(point["expected_cost"] + price * point["probes"] for point in curve)
        assert found["expected_cost"] + price * found["probes"] == pytest.approx(best)


def test_the_curve_has_every_number_of_probes_and_falls(files: Files) -> None:
    found = files.week("doe", "--probes", "9", "--curve")
    costs = [point["expected_cost"] for point in found["curve"]]
    assert [point["probes"] for point in found["curve"]] == list(range(1, 10))
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == pytest.approx(found["expected_cost"])


def test_parameters_of_the_baselines(files: Files) -> None:
    by_number = files.week("threshold", "--probes", "7")
    assert files.week("threshold", "--price", str(by_number["threshold"] + 1e-9))["probes"] == 7
    found = files.week("first-arrival", "--price", "0.9")
    assert (found["probability"], found["probes"] > 7) == (0.9, True)


def test_spacing_is_kept(files: Files) -> None:
    for improve in ("exact", "mu"):
        found = files.week("doe", "--probes", "40", "--spacing", "6h", "--improve", improve)
        times = [0.0, *found["times_h"]]
        assert min(b - a for a, b in pairwise(times)) >= 6 - 1e-6


def test_as_many_probes_as_asked_for_where_nothing_comes(files: Files) -> None:
    night = "hour,rate_per_day,importance\n" + "".join(f"{h},{float(h < 3)},1\n" for h in range(168))
    assert files.week("doe", "--probes", "12", text=night)["probes"] == 12
    assert files.week("doe", "--probes", "500", text=night)["probes"] == 168


def test_a_slot_that_does_not_divide_the_period_ends_with_it(files: Files) -> None:
    times = files.week("doe", "--probes", "4", "--slot", "50h")["times_h"]
    assert times == pytest.approx([50.0, 100.0, 150.0, 168.0])


def test_the_table_of_one_source(files: Files) -> None:
    week = files.write("week.csv", WEEK)
    code, out, _ = files.run("doe", "--week", week, "--weeks", "4", "--probes", "28")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "doe: 28 probes, expected cost 46.7536 item-days x importance"
    assert lines[1].split() == ["probe", "time", "h", "moment", "expected", "cost"]
    assert lines[2] == "    1   18.000  week 1 Mon 18:00         1.4830"
    assert lines[-1] == "optimal on slots of 1.0000 h"
    assert len({len(line) for line in lines[1:-1]}) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "week.csv:1: the file is empty; begin it with the header hour,rate_per_day,importance"),
        (
            "hour,rate\n",
            "week.csv:1: the header lacks rate_per_day, importance; it must be hour,rate_per_day,importance",
        ),
        (
            WEEK.replace("\n3,5.96,", "\n3,much,"),
            "week.csv:5: rate_per_day: 'much' is not a number; write one such as 2.5",
        ),
        (
            WEEK.replace("\n3,5.96,1", "\n3,5.96,-1"),
            "week.csv:5: importance: -1 is out of range; it must be 0 or more, not below 1e-09 and at most 1e+12",
        ),
        (
            WEEK.replace("\n3,5.96,", "\n3.5,5.96,"),
            "week.csv:5: hour: '3.5' is not a whole number; write one such as 12",
        ),
        (WEEK.replace("\n3,", "\n168,"), "week.csv:5: hour: 168 is out of range; a week has the hours 0 to 167"),
        (WEEK.replace("\n3,", "\n2,"), "week.csv:5: hour: 2 is given already, in line 4; leave one of them out"),
        (
            WEEK.replace("\n3,5.96,1", "\n3,5.96"),
            "week.csv:5: expected 3 fields (hour,rate_per_day,importance), found 2",
        ),
        (
            "\n".join(WEEK.splitlines()[:-1]),
            "week.csv:168: expected 168 rows, one for each hour of a week; 1 are missing, the first is hour 167",
        ),
    ],
)
def test_bad_weeks_are_refused_with_line_and_field(files: Files, text: str, message: str) -> None:
    assert files.refused("doe", "--week", files.write("week.csv", text), "--probes", "3") == message


def test_files_that_cannot_be_read(files: Files) -> None:
    missing = str(files.folder / "none.csv")
    assert files.refused("doe", "--week", missing, "--probes", "3") == (
        "none.csv: no such file or directory; name a CSV file"
    )
    latin = files.write("latin.csv", b"source,rate\ncaf\xe9,1\n")
    assert files.refused("frequencies", "--rates", latin, "--objective", "robot") == (
        "latin.csv:2: it is not UTF-8 text; save the file as UTF-8"
    )
    quoted = files.write("quoted.csv", 'source,rate\n"a"b,1\n')
    assert files.refused("frequencies", "--rates", quoted, "--objective", "robot").startswith(
        "quoted.csv:2: it is not CSV ("
    )


@pytest.mark.parametrize(
    ("policy", "arguments", "message"),
    [
        ("doe", ["--probes", "0"], "--probes 0: at least 1, the one at the end of the period"),
        ("doe", ["--price", "-1"], "--price -1: it is a cost in item-days for each probe, 0 or more"),
        ("doe", ["--probes", "2", "--weeks", "0"], "--weeks 0: it must lie between 1 and 10000"),
        (
            "doe",
            ["--probes", "2", "--slot", "0s"],
            "--slot must be longer than 0 and no longer than the period; write 1h",
        ),
        ("doe", ["--probes", "2", "--slot", "10ms"], "--slot makes more than 2000000 slots; make it longer"),
        (
            "doe",
            ["--probes", "2", "--spacing", "9d"],
            "no slot can be reached: every one is closed or closer than the spacing",
        ),
        ("threshold", ["--price", "0"], "--price 0: for threshold it is a cost in item-days, greater than 0"),
        (
            "first-arrival",
            ["--price", "1"],
            "--price 1: for first-arrival it is a probability, between 0 and 1",
        ),
    ],
)
def test_bad_numbers_are_refused(files: Files, policy: str, arguments: list[str], message: str) -> None:
    assert files.refused(policy, "--week", files.write("week.csv", WEEK), *arguments) == message


def test_sup_takes_fewest_probes_and_then_least_delay(files: Files) -> None:
    found = files.json("sup", "--intervals", files.write("ei.csv", OVERLAPPING))
    assert found["schedule"] == [
        {"source": "a", "chronon": 2},
        {"source": "b", "chronon": 2},
        {"source": "c", "chronon": 3},
    ]
    assert (found["probes"], found["captured"], found["delay"], found["exact"]) == (3, 4, 2, True)
    assert not files.json("sup", "--intervals", files.write("ei.csv", OVERLAPPING), "--budget", "1")["within_budget"]


def test_edf_captures_most_weight_where_weights_differ(files: Files) -> None:
    weighted = files.json("edf", "--intervals", files.write("ei.csv", DISJOINT), "--budget", "1")
    assert (weighted["captured"], weighted["weight"], weighted["exact"]) == (4, 10.0, True)
    equal = DISJOINT.replace(",weight", "").replace(",4\n", "\n")
    equal = "\n".join(",".join(line.split(",")[:3]) for line in equal.splitlines())
    assert files.json("edf", "--intervals", files.write("ei.csv", equal), "--budget", "1")["captured"] == 4


def test_edf_of_overlapping_intervals_says_what_it_can_prove(files: Files) -> None:
    intervals = files.write("ei.csv", OVERLAPPING)
    budget = files.write("budget.csv", "chronon,probes\n2,1\n3,1\n4,1\n99,7\n")
    found = files.json("edf", "--intervals", intervals, "--budget", budget)
    assert (found["captured"], found["exact"], found["within_budget"]) == (4, True, True)
    none = files.json("edf", "--intervals", intervals, "--budget", "0")
    assert (none["probes"], none["captured"], none["exact"]) == (0, 0, True)


def test_the_front_and_its_cover(files: Files) -> None:
    intervals = files.write("ei.csv", "source,start,finish\n" + "".join(f"s{n},0,9\n" for n in range(10)))
    front = files.json("pareto", "--intervals", intervals, "--budget", "1")
    assert front["front"][:3] == [
        {"captured": 1, "delay": 0},
        {"captured": 2, "delay": 1},
        {"captured": 3, "delay": 3},
    ]
    assert (len(front["front"]), front["exact"]) == (10, True)
    assert len(files.json("pareto", "--intervals", intervals, "--budget", "1", "--epsilon", "0.5")["front"]) == 4


def test_tables_of_captures(files: Files) -> None:
    intervals = files.write("ei.csv", DISJOINT)
    code, out, _ = files.run("sup", "--intervals", intervals, "--budget", "1")
    assert code == 0
    assert out.splitlines()[:3] == [
        "sup: 5 probes capture 5 of 5 intervals",
        "total delay 0 chronons, 0.00 for each captured",
        "probe  source  chronon",
    ]
    assert out.splitlines()[-2:] == [
        "exact: no schedule does better",
        "it does not fit the budget; `proxyd solve edf` keeps to one",
    ]
    _, out, _ = files.run("pareto", "--intervals", intervals, "--budget", "1")
    assert out.splitlines()[-1] == "every point that no schedule improves"


@pytest.mark.parametrize(
    ("text", "budget", "message"),
    [
        ("source,start,finish\n", "1", "ei.csv:2: there are no intervals; add lines such as feed1,0,5"),
        (
            "source,start,finish\na,4,3\n",
            "1",
            "ei.csv:2: finish: 3 lies before start 4; both ends belong to the interval",
        ),
        ("source,start,finish\n,4,5\n", "1", "ei.csv:2: source is empty; write a name"),
        (
            "source,start,finish,colour\na,4,5,red\n",
            "1",
            "ei.csv:1: the header has the unknown column 'colour'; it must be source,start,finish[,weight]",
        ),
        (
            "source,start,finish,weight\na,4,5,nan\n",
            "1",
            "ei.csv:2: weight: 'nan' is not a number; write one such as 1",
        ),
        (OVERLAPPING, "-1", "--budget -1: it must be 0 or more probes a chronon"),
        (
            OVERLAPPING,
            "1.5",
            "--budget 1.5: it is neither a whole number nor a file with the columns chronon,probes",
        ),
        (
            "source,start,finish\na,0,999999999\n",
            "1",
            "the intervals span 1000000000 chronons; use longer ones, at most 20000000",
        ),
    ],
)
def test_bad_intervals_and_budgets_are_refused(files: Files, text: str, budget: str, message: str) -> None:
    path = files.write("ei.csv", text)
    assert files.refused("edf", "--intervals", path, f"--budget={budget}") == message


def test_a_bad_budget_file_is_refused(files: Files) -> None:
    intervals = files.write("ei.csv", OVERLAPPING)
    budget = files.write("budget.csv", "chronon,probes\n2,1\n2,3\n")
    assert files.refused("edf", "--intervals", intervals, "--budget", budget) == (
        "budget.csv:3: chronon: 2 is given already, in line 2; leave one of them out"
    )
    assert files.refused("pareto", "--intervals", intervals, "--budget", "1", "--epsilon", "-1") == (
        "--epsilon -1: it must be 0, for the whole front, or greater"
    )


def test_frequencies_of_detection(files: Files) -> None:
    rates = files.write("rates.csv", RATES)
    found = files.json("frequencies", "--rates", rates, "--objective", "detection", "--budget", "2")
    assert [(f["source"], f["frequency"]) for f in found["frequencies"]] == [("x", 1.0), ("y", 0.5), ("z", 0.5)]
    assert (found["value"], found["bounds"]) == (7.0, {"tight": 7.0, "paper": 6.0})


@pytest.mark.parametrize("objective", ["robot", "randomised"])
def test_frequencies_of_a_robot_name_the_access_times(files: Files, objective: str) -> None:
    rates = files.write("rates.csv", RATES)
    found = files.json("frequencies", "--rates", rates, "--objective", objective, "--budget", "2")
    assert found["access"] == {"distribution": "exponential", "mean": 0.5}
    assert sum(f["share"] for f in found["frequencies"]) == pytest.approx(1.0)
    assert sum(f["frequency"] for f in found["frequencies"]) == pytest.approx(2.0)
    assert found["value"] >= found["bounds"]["even"] - 1e-12
    constant = files.json("frequencies", "--rates", rates, "--objective", objective, "--access", "constant")
    assert constant["access"] == {"distribution": "constant", "mean": 1.0}


def test_weights_draw_probes(files: Files) -> None:
    rates = files.write("rates.csv", "source,rate,weight\nx,1,9\ny,1,1\n")
    for objective in ("detection", "robot", "randomised"):
        x, y = files.json("frequencies", "--rates", rates, "--objective", objective)["frequencies"]
        assert x["share"] > y["share"]


@pytest.mark.parametrize("objective", ["robot", "detection", "randomised"])
@pytest.mark.parametrize("method", ["golden", "powers", "powers-improved"])
def test_cycles_keep_above_their_bound(files: Files, objective: str, method: str) -> None:
    rates = files.write("rates.csv", RATES)
    found = files.json("cycle", "--rates", rates, "--objective", objective, "--method", method)
    assert found["length"] == len(found["cycle"])
    assert {"x", "y", "z"} <= set(found["cycle"]) <= {"x", "y", "z", None}
    assert 1 - 1e-12 <= found["ratio"] == pytest.approx(found["cost"] / found["bound"])
    assert found["ratio"] < 1.125


def test_the_golden_cycle_of_the_paper(files: Files) -> None:
    rates = files.write("rates.csv", "source,rate\n1,2\n2,3\n3,3\n4,5\n")
    arguments = ["cycle", "--rates", rates, "--objective", "robot", "--access", "constant", "--length", "13"]
    assert "".join(files.json(*arguments)["cycle"]) == "4241342413423"
    code, out, _ = files.run(*arguments)
    assert code == 0
    assert out.splitlines()[0].startswith("cycle of 13 places: cost ")


def test_the_table_of_frequencies(files: Files) -> None:
    rates = files.write("rates.csv", "source,rate\nx,4\ny,0\n")
    _, out, _ = files.run("frequencies", "--rates", rates, "--objective", "detection")
    assert out.splitlines() == [
        "detection: at best 4.0000 items undiscovered on average (the tight bound)",
        "source      rate  probes a step  every (steps)",
        "x       4.000000       1.000000           1.00",
        "y       0.000000       0.000000          never",
    ]


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (
            "source,rate\nx,0\n",
            ["--objective", "robot"],
            "rates.csv:2: rate: 0 is out of range; it must be greater than 0, not below 1e-09 and at most 1e+12",
        ),
        (
            "source,rate\nx,0\n",
            ["--objective", "detection"],
            "rates.csv:2: there is no source with a rate and a weight greater than 0; add lines such as feed1,0.25",
        ),
        (
            "source,rate\nx,1\nx,2\n",
            ["--objective", "detection"],
            "rates.csv:3: source: 'x' is given already, in line 2; leave one of them out",
        ),
        (
            RATES,
            ["--objective", "detection", "--budget", "0"],
            "--budget 0: there must be more than 0 probes a step, at most 1e9",
        ),
        (
            RATES,
            ["--objective", "detection", "--budget", "1.5"],
            "--budget 1.5: a cycle needs a whole number of probes a step",
        ),
        (RATES, ["--objective", "robot", "--length", "2"], "--length 2 is less than the 3 sources probed"),
    ],
)
def test_bad_rates_are_refused(files: Files, text: str, arguments: list[str], message: str) -> None:
    assert files.refused("cycle", "--rates", files.write("rates.csv", text), *arguments) == message


def documented_commands() -> list[str]:
    page = (Path(__file__).resolve().parents[4] / "docs" / "algorithms.md").read_text(encoding="utf-8")
    return [line for line in page.splitlines() if line.startswith("proxyd solve ")]


@pytest.mark.parametrize("command", documented_commands())
def test_the_commands_of_the_page_run(files: Files, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    files.write("week.csv", WEEK)
    files.write("ei.csv", DISJOINT)
    files.write("rates.csv", RATES)
    files.write("budget.csv", "chronon,probes\n0,2\n5,1\n")
    monkeypatch.chdir(files.folder)
    code, out, err = files.run(*command.split()[2:])
    assert (code, err) == (0, "")
    assert out


def test_equal_weights_count_in_the_bound_too(files: Files) -> None:
    path = files.write("equal.csv", "source,start,finish,weight\na,0,1,5\nb,0,1,5\nc,0,1,5\n")
    found = files.json("edf", "--intervals", path, "--budget", "1")
    assert (found["captured"], found["weight"], found["bound"]) == (2, 10.0, 10.0)


def test_too_many_even_probes_are_refused(files: Files) -> None:
    path = files.write("week.csv", WEEK)
    code, _, err = files.run("uniform", "--week", path, "--probes", "2000000000")
    assert code != 0
    assert "too many" in err


def test_without_a_budget_a_chronon_has_one_probe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ei.csv"
    path.write_text("source,start,finish\na,0,0\nb,0,0\n")
    assert main(["solve", "edf", "--intervals", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["captured"] == 1
