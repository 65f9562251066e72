"""The running daemon against its own OpenAPI document, by schemathesis: every operation, every check."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.acceptance.support import World, world
from tests.examples import examples

ROOT = Path(__file__).parents[2]
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[World]:
    """Run a daemon with a profile, a source and a rule."""
    async with world(folder, api_rate="") as w:
        w.origin.feed("one").add(2)
        w.daemon.declare(w.text(["one"], {"each": 1}))
        await w.daemon.start()
        yield w


async def checked(w: World, *options: str) -> tuple[int, str]:
    """Return how schemathesis ended and what it said; streams never end and are left out."""
    process = await asyncio.create_subprocess_exec(
        *(str(SCHEMATHESIS), "--config-file", str(ROOT / "schemathesis.toml")),
        *("run", f"{w.daemon.base}/api/v1/openapi.json", "--checks", "all"),
        *("--max-examples", str(examples(20).max_examples)),
        *("--exclude-path", "/api/v1/stream", "--generation-database", "none", "--seed", "1", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=w.daemon.folder,
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


PROFILES = "^/api/v1/profiles"
PARTS = {  # of about equal length: workers share them, and what follows from each other stays together
    "profiles": ["--include-path-regex", PROFILES],
    "answers": ["--exclude-path-regex", PROFILES, "--include-method", "GET"],
    "changes": ["--exclude-path-regex", PROFILES, "--exclude-method", "GET"],
}


@pytest.mark.parametrize("part", PARTS)
async def test_with_a_token_every_answer_is_as_documented_and_none_is_a_fault(tmp_path: Path, part: str) -> None:
    async with running(tmp_path) as w:
        token = (await w.daemon.cli("token", "create", "--name", "all", "--scope", "admin")).out.strip()
        status, said = await checked(w, *PARTS[part], "--header", f"Authorization: Bearer {token}")
        assert status == 0, said
        assert not w.daemon.has_ended


@pytest.mark.long
async def test_without_a_token_nothing_is_let_through(tmp_path: Path) -> None:
    async with running(tmp_path) as w:
        status, said = await checked(w)
        assert status == 0, said
        assert (await w.daemon.metrics())["proxyd_rules"] > 0
