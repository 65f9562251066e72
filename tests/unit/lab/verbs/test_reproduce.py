from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from proxyd.cli.main import main
from proxyd.lab.papers import detection_paper, politeness_paper, proxy_dilemma, robot_paper, sup_paper
from proxyd.lab.papers.figure import Figure, curves, plot
from proxyd.lab.verbs import reproduce as verb

CURVES = Figure(
    "fake-1",
    "Cost over time, in probes",
    ("policy", "t [s]", "cost"),
    (("a", 1, 2.0), ("a", 2, 300.0), ("b, or c|d", 1, 4.0)),
    x="t [s]",
    y=("cost",),
    by="policy",
    note="A note.",
)
TABLE = Figure("fake-2", "A table", ("x",), tuple((n,) for n in range(100)))


@pytest.fixture
def _faked(monkeypatch: pytest.MonkeyPatch) -> None:
    def figures(*, rng: np.random.Generator, quick: bool) -> Iterator[Figure]:
        yield CURVES if quick else TABLE
        yield Figure("fake-3", "Drawn", ("u",), ((float(rng.random()),),))

    monkeypatch.setattr(proxy_dilemma, "figures", figures)


def read(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.reader(lines))


def is_picture(path: Path) -> bool:
    """Say whether it is a PNG of some size with more on it than one colour."""
    from matplotlib.image import imread

    pixels = imread(path)
    return pixels.shape[0] > 300 and pixels.shape[1] > 500 and float(np.std(pixels[..., :3])) > 0.02


def test_a_paper_is_reproduced_into_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "results"
    assert main(["reproduce", "proxy-dilemma", "--out", str(out), "--quick", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["plots"] is True
    assert len(summary["figures"]) == 6
    for figure in summary["figures"]:
        rows = read(out / figure["files"][0])
        assert len(rows) == figure["rows"] + 1
        assert all(len(row) == len(rows[0]) for row in rows)
        assert all(is_picture(out / name) for name in figure["files"][1:])
    report = (out / "report.md").read_text(encoding="utf-8")
    assert report.count("\n### ") == 6
    assert "![Completeness against delay" in report


@pytest.mark.usefixtures("_faked")
def test_tables_plots_and_notes_are_in_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "proxy-dilemma", "--out", str(tmp_path), "--quick"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fake-1.csv", "fake-1.png", "fake-3.csv", "report.md"]
    assert read(tmp_path / "fake-1.csv")[3] == ["b, or c|d", "1", "4.0"]
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| b, or c\\|d | 1 | 4 |" in report
    assert "A note. Table: [fake-1.csv](fake-1.csv)." in report
    assert "report.md" in capsys.readouterr().out


@pytest.mark.usefixtures("_faked")
def test_a_long_table_is_cut_in_the_report_only(tmp_path: Path) -> None:
    assert main(["reproduce", "proxy-dilemma", "--out", str(tmp_path)]) == 0
    assert len(read(tmp_path / "fake-2.csv")) == 101
    assert "It has 40 rows more." in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("_faked")
def test_the_seed_decides(tmp_path: Path) -> None:
    drawn = []
    for number, seed in enumerate(("1", "1", "2")):
        out = tmp_path / str(number)
        main(["reproduce", "proxy-dilemma", "--out", str(out), "--quick", "--seed", seed])
        drawn.append(read(out / "fake-3.csv")[1])
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.usefixtures("_faked")
def test_without_matplotlib_the_tables_are_written_and_it_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "find_spec", lambda _: None)
    assert main(["reproduce", "proxy-dilemma", "--out", str(tmp_path), "--quick"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fake-1.csv", "fake-3.csv", "report.md"]
    assert capsys.readouterr().out.count("no plots: this needs proxyd[plots]") == 1


@pytest.mark.usefixtures("_faked")
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "taken"
    taken.write_text("", encoding="utf-8")
    assert main(["reproduce", "proxy-dilemma", "--out", str(taken), "--quick"]) == 1
    assert "results cannot be written" in capsys.readouterr().err


def test_columns_become_curves_where_nothing_tells_them_apart() -> None:
    figure = Figure("f", "", ("t", "a", "b"), ((1, 2, 3), (2, 4, 5)), x="t", y=("a", "b"))
    assert curves(figure) == [("a", [1, 2], [2.0, 4.0]), ("b", [1, 2], [3.0, 5.0])]
    both = Figure("f", "", ("t", "a", "b", "k"), ((1, 2, 3, "u"),), x="t", y=("a", "b"), by="k")
    assert [name for name, _, _ in curves(both)] == ["u, a", "u, b"]
    with pytest.raises(ValueError, match="table only"):
        curves(TABLE)


def test_a_figure_of_names_can_be_drawn(tmp_path: Path) -> None:
    figure = Figure("f", "", ("policy", "cost"), (("a", 2), ("b", 3)), x="policy", y=("cost",))
    plot(figure, tmp_path / "f.png")
    assert is_picture(tmp_path / "f.png")


@pytest.mark.parametrize("paper", ["robot", "politeness", "sup", "proxy-dilemma", "detection"])
def test_every_paper_can_be_reproduced(paper: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def one(*, rng: np.random.Generator, quick: bool) -> Iterator[Figure]:
        yield TABLE

    for module in (detection_paper, politeness_paper, proxy_dilemma, robot_paper, sup_paper):
        monkeypatch.setattr(module, "figures", one)
    assert main(["reproduce", paper, "--out", str(tmp_path), "--quick"]) == 0
