"""Completion scripts: made for each shell, and bash completes with one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from proxyd.cli.main import main


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_a_script_knows_every_verb(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = script(shell, capsys)
    for verb in ("healthcheck", "notifications", "declare", "reproduce"):
        assert verb in found


def completed(folder: Path, script: str, *words: str) -> set[str]:
    """Return what bash offers where the last of the words is being typed."""
    line = " ".join(words)
    typed = " ".join(f"'{word}'" for word in words)
    asked = f"""{script}
COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'; COMP_POINT={len(line)}
function_name=$(complete -p proxyd | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
"$function_name" proxyd '{words[-1]}' '{words[-2]}' 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "--noprofile"],
        input=asked,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return set(done.stdout.split())


def test_bash_completes_verbs_their_verbs_options_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = script("bash", capsys)
    (tmp_path / "mine.profile").touch()
    assert completed(tmp_path, found, "proxyd", "heal") == {"healthcheck"}
    assert completed(tmp_path, found, "proxyd", "webhook", "re") == {"replay"}
    assert completed(tmp_path, found, "proxyd", "plan", "--li") == {"--limit"}
    assert completed(tmp_path, found, "proxyd", "solve", "cycle", "--objective", "rob") == {"robot"}
    assert "mine.profile" in completed(tmp_path, found, "proxyd", "check", "mi")
    assert completed(tmp_path, found, "proxyd", "nothing-like-it") == set()
