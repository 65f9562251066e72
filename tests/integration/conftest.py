"""The templates of the dashboard, compiled once for all daemons of a run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket


class CompiledTemplates(BytecodeCache):
    """Compiled templates by their names and texts."""

    def __init__(self) -> None:
        self._compiled: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._compiled:
            bucket.bytecode_from_string(self._compiled[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._compiled[bucket.key] = bucket.bytecode_to_string()


@pytest.fixture(autouse=True, scope="session")
def compiled_templates() -> Iterator[None]:
    """Keep the compiled templates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proxyd.api.web.rendering.Environment", partial(Environment, bytecode_cache=CompiledTemplates()))
        yield
