"""Feeds of other projects' test suites; ``README.md`` names them and their licences."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path


@cache
def public_feeds() -> dict[str, bytes]:
    """Return the documents by project and name, for example ``rome/test_resources_test1.xml``."""
    with tarfile.open(Path(__file__).parent / "feeds.tar.xz") as archive:
        members = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
        return {name: file.read() for name, file in members.items() if file is not None}
