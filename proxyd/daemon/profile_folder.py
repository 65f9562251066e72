"""The profiles directory: reads its files, and notices that they have changed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from proxyd.config.profile_files import read_directory
from proxyd.core.language import SourceText, is_list


class ProfileFolder:
    """The profiles directory, and what it looked like when it was last read and last looked at."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: tuple[tuple[str, int, int], ...] | None = None
        self._looked: tuple[tuple[str, int, int], ...] | None = None

    def read(self) -> list[SourceText]:
        """Return the texts of the files; raises as ``read_directory`` does."""
        self._read = self._snapshot()
        return read_directory(self._folder)

    def has_changed(self) -> bool:
        """Return whether files have changed since they were read, but not since the last call.

        Editors empty a file before they write it, so a file that still changes is not read yet.
        """
        found, before = self._snapshot(), self._looked
        if found == self._read:
            return False
        self._looked = found
        return found == before

    def _snapshot(self) -> tuple[tuple[str, int, int], ...]:
        found = []
        with suppress(OSError):  # reading the folder reports the reason
            paths = [path for path in self._folder.iterdir() if path.match("*.profile") or is_list(path.name)]
            for path in sorted(paths):
                with suppress(OSError):
                    stat = path.stat()
                    found.append((path.name, stat.st_mtime_ns, stat.st_size))
        return tuple(found)
