"""`proxyd init`: what it writes is right, whoever has something already keeps it, and systemd accepts the unit."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from proxyd.cli.first_files import unit_text
from proxyd.cli.main import main
from proxyd.config.loading import load
from proxyd.config.settings import Settings
from tests.pages import options_of

ODD_FOLDER = 'a folder \u2603 of 100% $HOME "quotes" and \\ more'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bin/proxyd")])
    return folder


def begun(folder: Path, *options: str) -> Path:
    assert main(["init", str(folder), *options]) == 0
    return folder


@pytest.mark.parametrize("name", ["proxyd", ODD_FOLDER])
def test_its_settings_and_its_profile_are_right(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = begun(tmp_path / name)
    settings = load(folder / "proxyd.toml", environ={})
    assert settings == Settings(profiles=folder / "profiles", database=str(folder / "data/proxyd.db"))
    assert main(["--config", str(folder / "proxyd.toml"), "check", str(folder / "profiles")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 file, 1 profile, 1 rule, 1 source"


def test_what_its_comments_offer_is_right_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = begun(tmp_path / "proxyd")
    settings, profile = folder / "proxyd.toml", folder / "profiles/first.profile"
    offered = re.sub(r"^# (?=\w+ = )", "", settings.read_text(encoding="utf-8"), flags=re.MULTILINE)
    settings.write_text(offered, encoding="utf-8")
    assert len(load(settings, environ={}).model_fields_set) == len(tomllib.loads(offered)) > 10
    profile.write_text(profile.read_text(encoding="utf-8").replace("-- WATCH", "WATCH"), encoding="utf-8")
    assert main(["--config", str(settings), "check", str(folder / "profiles")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 file, 1 profile, 4 rules, 4 sources"


def test_its_folder_may_be_moved(tmp_path: Path) -> None:
    moved = begun(tmp_path / "one").rename(tmp_path / "other")
    assert load(moved / "proxyd.toml", environ={}).database == str(moved / "data/proxyd.db")


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/mine.profile").touch()
    (tmp_path / "proxyd.toml").write_text("# mine\n", encoding="utf-8")
    begun(tmp_path, "--json")
    assert json.loads(capsys.readouterr().out) == {"written": [], "kept": [str(tmp_path / "proxyd.toml")]}
    assert (tmp_path / "proxyd.toml").read_text(encoding="utf-8") == "# mine\n"
    assert [each.name for each in (tmp_path / "profiles").iterdir()] == ["mine.profile"]


def test_what_comes_next_depends_on_where_it_is_and_on_who_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def next_steps(*options: str) -> list[str]:
        begun(tmp_path, *options)
        lines = capsys.readouterr().out.splitlines()
        return [shlex.join(shlex.split(line, comments=True)) for line in lines[lines.index("next:") + 1 :]]

    by_name = f"export PROXYD_CONFIG={tmp_path / 'proxyd.toml'}"
    assert next_steps() == [by_name, "proxyd serve", "proxyd add ADDRESS"]
    monkeypatch.chdir(tmp_path)
    assert next_steps() == ["proxyd serve", "proxyd add ADDRESS"]
    assert next_steps("--systemd") == [
        "systemctl --user enable --now proxyd",
        "loginctl enable-linger",
        by_name,
        "proxyd person invite admin --scope admin",
        "proxyd add ADDRESS",
    ]
    options_of(["person", "invite", "admin", "--scope", "admin"])


def test_settings_that_are_missing_or_wrong_elsewhere_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proxyd.toml").write_text("wrong\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    begun(tmp_path / "one")
    monkeypatch.setenv("PROXYD_CONFIG", str(tmp_path / "none.toml"))
    begun(tmp_path / "two")


def test_the_unit_of_another_folder_stays(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun(tmp_path / "one", "--systemd")
    begun(tmp_path / "one", "--systemd")
    unit = home / ".config/systemd/user/proxyd.service"
    before = unit.read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["init", str(tmp_path / "other"), "--systemd"]) == 1
    assert f"{unit} exists already and is another one" in capsys.readouterr().err
    assert unit.read_text(encoding="utf-8") == before
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("options", [[], ["--systemd"]], ids=["files", "unit"])
@pytest.mark.parametrize("name", ["a\nExecStart=b", "a\tb", "a\udcff", "a\x9b", "end ", "end\\"], ids=ascii)
def test_a_folder_that_a_unit_cannot_name_is_refused(
    name: str, options: list[str], tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / name), *options]) == 1
    assert "cannot be written into files and commands: rename the folder" in capsys.readouterr().err
    assert (home.exists(), (tmp_path / name).exists()) == (False, False)


@pytest.mark.parametrize("body", [b"\xff\xfe", b"# another\n"], ids=["no UTF-8", "text"])
def test_another_unit_stays_whatever_it_holds(
    body: bytes, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = home / ".config/systemd/user/proxyd.service"
    unit.parent.mkdir(parents=True)
    unit.write_bytes(body)
    assert main(["init", str(tmp_path / "one"), "--systemd"]) == 1
    assert f"{unit} exists already and is another one" in capsys.readouterr().err
    assert unit.read_bytes() == body


def test_a_folder_that_may_not_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["init", str(tmp_path / "file")]) == 1
    assert f"{tmp_path / 'file/proxyd.toml'} cannot be written (File exists)" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize(
    "name", ["proxyd", ODD_FOLDER, ' it\'s; "a" \\x20 %h ${HOME} #1', "a\u00a0b \u202e"], ids=ascii
)
def test_systemd_finds_nothing_wrong_with_the_unit(name: str, tmp_path: Path) -> None:
    program, unit = Path("opt/of 100% $HOME \u2603/bin/proxyd"), Path("etc/systemd/system/proxyd.service")
    for each in (program, Path("bin/kill")):
        (tmp_path / each).parent.mkdir(parents=True)
        (tmp_path / each).write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / each).chmod(0o755)
    (tmp_path / unit).parent.mkdir(parents=True)
    (tmp_path / unit).write_text(unit_text(Path("/home/me") / name, [f"/{program}"]), encoding="utf-8")
    asked = ["systemd-analyze", "--no-pager", "verify", f"--root={tmp_path}", "--man=no", "--recursive-errors=no"]
    done = subprocess.run([*asked, unit.name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
