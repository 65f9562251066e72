"""Notifications in the log, from the clause to the line."""

from __future__ import annotations

import json

import pytest
import structlog
from structlog.testing import capture_logs

from proxyd.base.log import configure
from proxyd.base.ports import Message
from proxyd.core.language.syntax.delivery_kinds import format_delivery
from proxyd.core.model.delivery import LogDelivery
from proxyd.notify.channels.channel_routing import LogChannel
from tests.unit.core.language.texts import messages

BODY = json.dumps({"type": "proxyd.notification", "data": {"items": [{"title": "6.12\n is out"}, {"title": "b"}]}})


async def test_a_notification_is_one_line_of_the_log() -> None:
    endpoint = LogDelivery("stock").endpoint
    with capture_logs() as lines:
        said = await LogChannel().deliver(Message("ntf_1", "kernel", endpoint, BODY.encode(), 0.0, kind="log"))
    assert said == "it was written to the log"
    (line,) = lines
    assert (line["event"], line["to"], line["rule"], line["notification"]) == (
        "notification",
        "stock",
        "kernel",
        "ntf_1",
    )
    assert line["subject"] == "6.12 is out and 1 more"


@pytest.mark.parametrize("level", ["info", "error"])
async def test_a_notification_is_written_at_any_log_level(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = structlog.get_config()
    try:
        configure("json", level)
        endpoint = LogDelivery("stock").endpoint
        await LogChannel().deliver(Message("ntf_1", "kernel", endpoint, BODY.encode(), 0.0, kind="log"))
        (line,) = capsys.readouterr().err.splitlines()
        assert json.loads(line)["notification"] == "ntf_1"
    finally:
        structlog.configure(**before)


def test_a_name_in_the_log_is_printed_and_checked() -> None:
    assert format_delivery(LogDelivery("stock")) == "LOG 'stock'"
    profile = """CREATE DOMAIN "D" AS CLASS::PAGE;\nCREATE PROFILE "P" AS (DOMAIN "D") DELIVER TO LOG '{}';"""
    assert messages(profile.format("stock")) == []
    (error,) = messages(profile.format("two\nlines"))
    assert "LOG takes a short name" in error
