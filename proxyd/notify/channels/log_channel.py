"""The daemon's own log: one line for each message, for those who gather logs anyway."""

from __future__ import annotations

import structlog

from proxyd.notify.channels.channel_resources import ChannelResources
from proxyd.notify.message_forms import subject
from proxyd.ports import Message

log = structlog.get_logger("notifications")


class LogChannel:
    """Writes messages to the log; it cannot fail."""

    async def deliver(self, message: Message) -> str:
        """Return once the line is written: who it is for, the rule, the id of the message and its first item."""
        name = message.endpoint.partition(":")[2]
        first = subject(message.rule, message.body)
        log.info("notification", to=name, rule=message.rule, notification=message.message_id, subject=first)
        return "it was written to the log"


def open_log(_resources: ChannelResources) -> LogChannel:
    """Return the channel that is the log."""
    return LogChannel()
