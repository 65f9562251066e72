"""Verbs that run a daemon or tell how it is configured, and how the command line tells of failures."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import cast

import pytest

from proxyd import __version__
from proxyd.cli.demo import make_settings
from proxyd.cli.main import main
from proxyd.cli.service import leaves, proxyd_errors
from proxyd.core.errors import ConfigError, ProfileError, ProxydError, RuleSyntaxError, StoreError, UnreachableError

FULL = StoreError("the disk is full")
NESTED = ExceptionGroup("outer", [ExceptionGroup("inner", [StoreError("the disk is full")]), FULL])


def test_the_same_error_of_several_tasks_is_told_once() -> None:
    assert [str(error) for error in leaves(cast("ExceptionGroup[ProxydError]", NESTED))] == ["the disk is full"]


def test_an_error_out_of_task_groups_comes_by_itself() -> None:
    with pytest.raises(StoreError, match="the disk is full"), proxyd_errors():
        raise NESTED


def test_a_single_error_passes() -> None:
    with pytest.raises(ProxydError, match="taken"), proxyd_errors():
        raise ConfigError(["listen: taken"])


def test_bugs_pass_as_they_are() -> None:
    with pytest.raises(ExceptionGroup, match="tasks"), proxyd_errors():
        raise ExceptionGroup("tasks", [ZeroDivisionError()])


def test_the_settings_of_the_demo_are_settings(tmp_path: Path) -> None:
    assert make_settings(tmp_path).cycle < 60.0


def serving(errors: list[ProxydError], monkeypatch: pytest.MonkeyPatch, folder: Path) -> int:
    """Return how ``proxyd serve`` ends if its daemon fails so."""

    async def fail(_settings: object) -> None:
        raise ExceptionGroup("tasks", errors)

    monkeypatch.setenv("PROXYD_DATABASE", str(folder / "p.db"))
    monkeypatch.setenv("PROXYD_LISTEN", "127.0.0.1:0")
    monkeypatch.setattr("proxyd.cli.service._serve_daemon", fail)
    monkeypatch.setattr("proxyd.base.log.configure", lambda *_: None)
    return main(["serve"])


def test_each_error_of_a_daemon_is_told_once_and_names_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = [FULL, StoreError("the disk is full"), ConfigError(["listen: taken"])]
    assert serving([*errors], monkeypatch, tmp_path) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"proxyd: the disk is full (database {tmp_path / 'p.db'})",
        "proxyd: listen: taken",
    ]


def test_an_empty_folder_gets_a_folder_for_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert serving([FULL], monkeypatch, tmp_path) == 1
    assert (tmp_path / "profiles").is_dir()
    made = f"proxyd: made the folder {tmp_path / 'profiles'} for your profiles"
    assert capsys.readouterr().err.splitlines()[0] == made
    serving([FULL], monkeypatch, tmp_path)
    assert made not in capsys.readouterr().err


def test_a_start_that_is_refused_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("PROXYD_LISTEN", f"127.0.0.1:{taken.getsockname()[1]}")
        assert main(["serve"]) == 1
    assert "the address is in use; stop the program that listens there" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("in_file", [True, False])
def test_a_folder_that_somebody_has_named_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, in_file: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    if in_file:
        (tmp_path / "proxyd.toml").write_text('profiles = "prifiles"\n')
    else:
        monkeypatch.setenv("PROXYD_PROFILES", "prifiles")
    serving([FULL], monkeypatch, tmp_path)
    assert not list(tmp_path.glob("pr*files"))


def test_where_no_daemon_answers_another_folder_is_thought_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sources"]) == 3
    assert "; if one runs in another folder, call this there or with --url; otherwise" in capsys.readouterr().err


def test_where_no_folder_can_be_made_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def refuse(_path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert serving([FULL], monkeypatch, tmp_path) == 1
    assert capsys.readouterr().err == f"proxyd: the folder {tmp_path}/profiles cannot be made (Permission denied)\n"


def test_the_journal_gets_no_text_of_a_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = RuleSyntaxError("expected a name", text="CREATE PROFILE 'secret'", start=15, stop=23, file="a.profile")
    assert serving([ProfileError([wrong])], monkeypatch, tmp_path) == 1
    said = capsys.readouterr().err
    assert "secret" not in said
    assert said.endswith("\n`proxyd check` shows the lines\n")


def test_settings_are_printed_as_the_settings_file_has_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROXYD_HOST_SPACING", "3s")
    assert main(["config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'host_spacing = "3s"' in lines
    assert "# backup is not set" in lines
    assert main(["config", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["host_spacing"] == "3s"


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": __version__}
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"proxyd {__version__}\n"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(28, "No space left on device"), 1, "proxyd: the output: No space left on device\n"),
        (PermissionError(13, "Permission denied", "/nowhere/x"), 1, "proxyd: /nowhere/x: Permission denied\n"),
        (UnreachableError("no daemon answers"), 3, "proxyd: no daemon answers\n"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 0, ""),
    ],
    ids=lambda each: type(each).__name__,
)
def test_how_a_verb_fails_is_told_by_its_code(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_options: object) -> int:
        raise error

    monkeypatch.setattr("proxyd.cli.main._run", fail)
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # a stream that failed is given up
    assert main(["version"]) == code
    assert capsys.readouterr().err == said
