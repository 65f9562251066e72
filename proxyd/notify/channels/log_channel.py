"""The daemon's own log as a channel: one line for each message, for users who collect logs."""

from __future__ import annotations

import structlog

from proxyd.notify.channels import ChannelResources
from proxyd.notify.message_forms import subject
from proxyd.ports import Message

log = structlog.get_logger("notifications")


class LogChannel:
    """Writes messages to the log; it cannot fail."""

    async def deliver(self, message: Message) -> str:
        """Return once the line is written: receiver, rule, message id and first item."""
        name = message.endpoint.partition(":")[2]
        first = subject(message.rule, message.body)
        log.info("notification", to=name, rule=message.rule, notification=message.message_id, subject=first)
        return "it was written to the log"


def open_log(_resources: ChannelResources) -> LogChannel:
    """Return the log channel."""
    return LogChannel()
