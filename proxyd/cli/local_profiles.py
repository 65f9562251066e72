"""Verbs that read profiles without a daemon."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from proxyd.cli.asking import socket_of
from proxyd.cli.printing import counted, print_json, print_lines, print_text
from proxyd.client import Client
from proxyd.config import Settings, load
from proxyd.config.profile_files import check_settings, read_directory, read_text
from proxyd.core.language import Checked, SourceText, format_parsed, parse
from proxyd.core.language import check as check_texts
from proxyd.core.model.profile import Declaration
from proxyd.errors import ConfigError, ProfileError, ProxydError, RuleError
from proxyd.safe_text import visible


def check(options: argparse.Namespace) -> int:
    """Check profiles as one declaration and print every error with its position."""
    texts, settings = _texts(options.paths), load(options.config)
    checked = check_texts(texts, check_settings(settings))
    declared = checked.declaration
    restarting = [] if declared is None else asyncio.run(_restarting(declared, settings))
    if options.json:
        print_json(_as_json(checked, len(texts), restarting))
    else:
        _print(checked, len(texts), restarting)
    return 1 if declared is None else 0


def _print(checked: Checked, files: int, restarting: list[str]) -> None:
    for error in checked.errors:
        print(visible(str(error)))
    for warning in checked.warnings:
        print(visible(f"warning: {warning}"))
    if checked.declaration is None:
        print(counted(len(checked.errors), "error"))
        return
    if not files:
        print("no file there ends with .profile")
    for name in restarting:
        said = f"note: rule {name} will start afresh: its sources or its condition differ from the running ones"
        print_lines([said])
    print(", ".join(counted(count, noun) for noun, count in _counts(checked.declaration, files).items()))


def _as_json(checked: Checked, files: int, restarting: list[str]) -> dict[str, object]:
    counts = {} if checked.declaration is None else _counts(checked.declaration, files)
    return {
        "errors": [_place(error) for error in checked.errors],
        "warnings": [_place(warning) for warning in checked.warnings],
        "restarting": restarting,
        **{f"{noun}s": count for noun, count in counts.items()},
    }


def _place(error: RuleError) -> dict[str, object]:
    return {"file": error.file, "line": error.line, "column": error.column, "detail": error.message}


def _counts(declared: Declaration, files: int) -> dict[str, int]:
    counts = {"profile": declared.profiles, "rule": declared.rules, "source": declared.sources}
    return {"file": files} | {noun: len(found) for noun, found in counts.items()}


async def _restarting(declared: Declaration, settings: Settings) -> list[str]:
    """Return the rules that would lose their counters and get a new NOW in a running daemon."""
    try:
        async with Client.over_socket(socket_of(settings), timeout_s=2.0) as client:
            running = {rule["name"]: rule["fingerprint"] for rule in await client.rules()}
    except ProxydError:
        return []
    return [
        rule.name for rule in declared.rules.values() if running.get(rule.name, rule.fingerprint) != rule.fingerprint
    ]


def fmt(options: argparse.Namespace) -> int:
    """Print or rewrite profiles in canonical layout."""
    for index, text in enumerate(_texts(options.paths)):
        parsed = parse(text.text, text.file)
        if parsed.errors:
            raise ProfileError(parsed.errors)
        formatted = format_parsed(parsed)
        if not options.write:
            print_text(f"\n{formatted}" if index else formatted)
        elif formatted != text.text:
            Path(text.file).write_text(formatted, encoding="utf-8")
            print(f"rewrote {text.file}")
    return 0


def _texts(paths: list[Path]) -> list[SourceText]:
    texts: list[SourceText] = []
    for path in paths:
        if not path.exists():
            raise ConfigError([f"{path}: no such file or directory"])
        texts += read_directory(path) if path.is_dir() else [read_text(path)]
    return texts
