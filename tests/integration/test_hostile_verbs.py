"""No verb that asks a daemon passes commands on to the terminal, whatever the daemon, or who stands in for it, says."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from proxyd.api.problems import problem
from proxyd.api.wire import Fault
from proxyd.cli.main import main
from tests.hostile import CONTROLS, MARKUP, hidden_in
from tests.pages import options_of

EXAMPLES = re.findall(r"^\| `[a-z -]+` \| .* \| `proxyd (.*)` \|$", Path("docs/cli.md").read_text(), re.MULTILINE)
ASKING = [
    each.replace(" --follow", "")  # it asks again
    for each in EXAMPLES
    if "url" in options_of(shlex.split(each))
    and not each.startswith(("add ", "wait ", "mcp"))  # which ask a page, or for ever
]
EVIL = CONTROLS["escape"] + MARKUP["script"] + CONTROLS["turned"] + CONTROLS["lines"]


def test_most_verbs_ask_a_daemon() -> None:
    assert len(ASKING) > 25


@pytest.mark.parametrize("status", [404, 401, 409, 422, 500])
async def test_a_hostile_refusal_is_made_visible_by_every_verb(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def refuse(_: web.Request) -> web.Response:
        fault = Fault(detail=EVIL, file=EVIL, line=1, column=1, source_line=EVIL)
        answer = problem(status, EVIL, EVIL, [fault])
        answer.headers["X-Evil"] = "a"
        return answer

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROXYD_TOKEN", "pxd_1")
    (tmp_path / "my.profile").write_text('CREATE PROFILE "P" AS (DOMAIN "D", USER "u");')
    async with TestServer(app, host="127.0.0.1") as server:
        for example in ASKING:
            code = await asyncio.to_thread(main, [*shlex.split(example), "--url", str(server.make_url(""))])
            said = capsys.readouterr()
            assert code in {1, 2, 3}, example
            assert hidden_in(said.out + said.err) == set(), example
            assert "⟨U+001B⟩" in said.out + said.err or example.startswith("healthcheck"), example
