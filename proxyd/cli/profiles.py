"""Verbs that read profiles without a daemon."""

from __future__ import annotations

import argparse
from pathlib import Path

from proxyd import app
from proxyd.config import load
from proxyd.daemon import read_directory, read_text
from proxyd.errors import ConfigError, ProfileError
from proxyd.language import SourceText, format_parsed, parse
from proxyd.language import check as check_texts


def check(options: argparse.Namespace) -> int:
    """Check profiles as one declaration and print every error with its place."""
    texts = _texts(options.paths)
    checked = check_texts(texts, app.check_settings(load(options.config)))
    for error in checked.errors:
        print(error)
    if checked.declaration is None:
        print(f"{len(checked.errors)} error{'s'[: len(checked.errors) != 1]}")
        return 1
    declared = checked.declaration
    print(f"{len(texts)} files: {len(declared.profiles)} profiles, {len(declared.rules)} rules, ", end="")
    print(f"{len(declared.sources)} sources, {len(declared.domains)} domains")
    return 0


def fmt(options: argparse.Namespace) -> int:
    """Print, or rewrite, profiles in the canonical layout."""
    for text in _texts(options.paths):
        parsed = parse(text.text, text.file)
        if parsed.errors:
            raise ProfileError(parsed.errors)
        formatted = format_parsed(parsed)
        if not options.write:
            print(formatted, end="")
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
