"""Reads and writes profile files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from proxyd.config.bounded_files import read_at_most
from proxyd.core.errors import ConfigError, ProfileError, RuleSyntaxError
from proxyd.core.language import MAX_FILE_BYTES, SourceText, is_list, list_names
from proxyd.core.texts.safe_text import visible

_MOST_OF_NAME = 50  # characters of four bytes each, of the name of an unfinished file; a file system takes 255 bytes


def read_directory(folder: Path) -> list[SourceText]:
    """Return the ``*.profile`` texts of a directory, in order of name, and the lists that they name.

    Hidden files are left out: editors keep locks and former texts under such names, and ``.profile`` is the shell's.

    Raises ``ConfigError``: the directory does not exist, or it or one of its files cannot be read, is not a regular
    file or is too large; ``ProfileError``: a file is not UTF-8.
    """
    try:  # glob treats an unreadable folder as empty
        if not folder.is_dir():
            raise ConfigError([f"profiles: there is no directory {folder}; create it, or name another one"])
        files = [each for each in folder.iterdir() if each.match("*.profile") and not each.name.startswith(".")]
        texts = [read_text(path) for path in sorted(files)]
        return [*texts, *_lists_of(texts, folder)]
    except OSError as error:
        raise ConfigError([f"profiles: {folder} cannot be read ({error.strerror or error})"]) from error


def profiles_to_keep(folder: Path) -> dict[str, str]:
    """Return the texts of a folder's profiles and lists by their names in a backup; of one that is not there, none.

    Raises as ``read_directory`` does, and ``ConfigError``: a name is not UTF-8, and so no text of a backup.
    """
    found = {Path(each.file).name: each.text for each in (read_directory(folder) if folder.is_dir() else [])}
    wrong = [visible(name) for name in found if name != os.fsencode(name).decode("utf-8", errors="replace")]
    if wrong:
        raise ConfigError([f"{folder}/{each}: no backup can keep this name, which is not UTF-8" for each in wrong])
    return {f"profiles/{name}": text for name, text in found.items()}


def read_profile(path: Path) -> list[SourceText]:
    """Return a profile text, also from a pipe, and the lists that it names; raises as ``read_directory`` does."""
    text = read_text(path, may_be_pipe=True)
    try:
        return [text, *_lists_of([text], path.parent)]
    except OSError as error:
        raise ConfigError([f"{path.parent} cannot be read ({error.strerror or error})"]) from error


def _lists_of(texts: Sequence[SourceText], folder: Path) -> list[SourceText]:
    """Return the lists in a directory that texts name, in order of name."""
    named = {name for text in texts for name in list_names(text.text)}
    return [read_text(each) for each in sorted(folder.iterdir()) if is_list(each.name) and each.name in named]


def check_place(file: Path, folder: Path) -> str | None:
    """Return why no daemon reads a profile that is to be written, or ``None``; ``folder`` is the one that it reads.

    Raises ``ConfigError``: the file has another ending, or another folder that is not there.
    """
    if file.suffix != ".profile":
        raise ConfigError([f"{file}: profiles are files that end with .profile"])
    if file.parent.resolve() == folder.resolve():
        return None
    read = f"the daemon here reads the profiles in {folder.absolute()} (the setting profiles)"
    if not file.parent.exists():
        raise ConfigError([f"{file}: there is no such folder; {read}"])
    return f"{file} is not watched: {read}; move it there"


def write_text(path: Path, text: str) -> None:
    """Replace a profile as a whole, because the daemon may be reading its folder; who may read it stays, and a link.

    Makes the folder if that alone is missing. Raises ``ConfigError``: it cannot be written.
    """
    target = path.resolve()
    new = target.with_name(f".{target.name[:_MOST_OF_NAME]}.new")
    try:
        target.parent.mkdir(exist_ok=True)
        is_there = target.exists()
        mode = 0o600 if is_there else 0o666
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
        if is_there:
            shutil.copymode(target, new)
        new.replace(target)
    except OSError as error:
        with suppress(OSError):  # of a full disk: half a text is useless
            new.unlink(missing_ok=True)
        raise ConfigError([f"{path} cannot be written ({error.strerror})"]) from error


def read_text(path: Path, *, may_be_pipe: bool = False) -> SourceText:
    """Return the text of a profile or a list, named by its path; raises as ``read_directory`` does."""
    try:
        written = read_at_most(path, MAX_FILE_BYTES, may_be_pipe=may_be_pipe)
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror or error}"]) from error
    try:
        text = written.decode("utf-8")
    except UnicodeDecodeError as error:
        text = written.decode("utf-8", errors="replace")
        start = text.find("\ufffd")
        raise ProfileError(
            [
                RuleSyntaxError(
                    "not UTF-8; save the file as UTF-8", text=text, start=start, stop=start + 1, file=str(path)
                )
            ]
        ) from error
    return SourceText(str(path), text.replace("\r\n", "\n").replace("\r", "\n"))
