"""Verbs that read profiles without a daemon."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from proxyd import app
from proxyd.cli.sockets import socket_of
from proxyd.client import Client
from proxyd.config import Settings, load
from proxyd.daemon import read_directory, read_text
from proxyd.errors import ConfigError, ProfileError, ProxydError
from proxyd.language import SourceText, format_parsed, parse
from proxyd.language import check as check_texts
from proxyd.model.profile import Declaration


def check(options: argparse.Namespace) -> int:
    """Check profiles as one declaration and print every error with its place."""
    texts, settings = _texts(options.paths), load(options.config)
    checked = check_texts(texts, app.check_settings(settings))
    for error in checked.errors:
        print(error)
    for warning in checked.warnings:
        print(f"warning: {warning}")
    if checked.declaration is None:
        print(f"{len(checked.errors)} error{'s'[: len(checked.errors) != 1]}")
        return 1
    declared = checked.declaration
    for name in asyncio.run(_restarting(declared, settings)):
        print(f"note: rule {name} will start afresh: its sources or its condition differ from the running ones")
    counts = {"file": texts, "profile": declared.profiles, "rule": declared.rules, "source": declared.sources}
    print(", ".join(f"{len(found)} {noun}{'s' * (len(found) != 1)}" for noun, found in counts.items()))
    return 0


async def _restarting(declared: Declaration, settings: Settings) -> list[str]:
    """Return the rules that would lose their counters and get a new NOW in the running daemon, if there is one."""
    try:
        async with Client.over_socket(socket_of(settings), timeout_s=2.0) as client:
            running = {rule["name"]: rule["fingerprint"] for p in await client.profiles() for rule in p["rules"]}
    except ProxydError:
        return []
    return [
        rule.name for rule in declared.rules.values() if running.get(rule.name, rule.fingerprint) != rule.fingerprint
    ]


def fmt(options: argparse.Namespace) -> int:
    """Print, or rewrite, profiles in the canonical layout."""
    for index, text in enumerate(_texts(options.paths)):
        parsed = parse(text.text, text.file)
        if parsed.errors:
            raise ProfileError(parsed.errors)
        formatted = format_parsed(parsed)
        if not options.write:
            print(f"\n{formatted}" if index else formatted, end="")
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
