"""Makes links and pictures of the README absolute in what is built, because PyPI shows it outside the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class AbsoluteReadme(MetadataHookInterface):
    """Reads the README; its links then lead to the files of the version that is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the README into the metadata."""
        repository, version = metadata["urls"]["Repository"], metadata["version"]

        def absolute(link: re.Match[str]) -> str:
            return f"{link[1]}({repository}/{'raw' if link[1].startswith('!') else 'blob'}/v{version}/"

        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = re.sub(r"(!?\[[^]]*\])\((?!https?:|#)", absolute, text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
