"""Verbs that import and export sources: OPML, and lists of addresses."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from proxyd.cli.printing import counted, print_text
from proxyd.config import load
from proxyd.config.profile_files import check_settings, read_directory
from proxyd.core.language import SourceText, check, listing_texts, opml, read_listing
from proxyd.errors import ConfigError, ProfileError
from proxyd.net import for_xml


def import_feeds(options: argparse.Namespace) -> int:
    """Print or write a profile with the feeds or pages of an OPML file or of a list of addresses."""
    try:
        body = options.file.read_bytes()
    except OSError as error:
        raise ConfigError([f"{options.file} cannot be read ({error.strerror})"]) from error
    listed = read_listing(body, str(options.file))
    texts = listing_texts(listed, options.name, pages=options.pages)
    paths = _paths(options.out or Path("imported.profile"), len(texts))
    named = [SourceText(str(path), text) for path, text in zip(paths, texts, strict=True)]
    checked = check(named, check_settings(load(options.config)))
    if checked.errors:
        raise ProfileError(checked.errors)
    if options.out is None:
        if len(texts) > 1:
            raise ConfigError([f"{len(listed)} sources need {len(texts)} files; name the first one by --out"])
        print_text(texts[0])
        return 0
    for path, text in zip(paths, texts, strict=True):
        _write(path, text)
    where = " ".join(map(str, paths))
    print(
        f"{counted(len(listed), 'source')} in {where}; `proxyd check {options.out.parent}` checks them with the others"
    )
    return 0


def export(options: argparse.Namespace) -> int:
    """Print the profiles' sources as OPML."""
    settings = load(options.config)
    checked = check(read_directory(settings.profiles), check_settings(settings))
    if checked.declaration is None:
        raise ProfileError(checked.errors)
    print(opml({for_xml(source.source_id): source.url for source in checked.declaration.sources.values()}))
    return 0


def _paths(first: Path, count: int) -> Sequence[Path]:
    """Return the files for the texts: feeds.profile, feeds-2.profile and so on."""
    others = [first.with_name(f"{first.stem}-{number}{first.suffix}") for number in range(2, count + 1)]
    if there := next((path for path in (first, *others) if path.exists()), None):
        raise ConfigError([f"{there} already exists; choose another --out"])
    return [first, *others]


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError([f"{path} already exists; choose another --out"]) from None
    except OSError as error:
        raise ConfigError([f"{path} cannot be written ({error.strerror})"]) from error
