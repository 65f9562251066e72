"""A machine that does not plan says how it does, and who answers the API."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxyd.app.server import ApiSettings, serve_health
from proxyd.client import ApiError, Client


async def test_what_only_the_planner_answers_is_refused_with_where_to_ask(tmp_path: Path) -> None:
    socket = tmp_path / "proxyd.sock"
    settings = ApiSettings("127.0.0.1", 0, socket, str(socket))
    async with (
        serve_health(lambda: {"planner": False}, lambda: b"", settings),
        Client.over_socket(str(socket)) as client,
    ):
        assert (await client.ready())["checks"] == {"planner": False}
        for question in (client.sources(), client.reload()):
            with pytest.raises(ApiError, match=r"^this machine does not plan, .* name a planner with --url") as caught:
                await question
            assert (caught.value.status, "\n" in str(caught.value)) == (421, False)
