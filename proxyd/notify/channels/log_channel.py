"""The daemon's own log as a channel: one line for each message, for users who collect logs."""

from __future__ import annotations

import logging

import structlog

from proxyd.notify.channels import ChannelResources
from proxyd.notify.message_forms import subject
from proxyd.ports import Message


class LogChannel:
    """Writes messages to the log at any log level; it cannot fail."""

    def __init__(self) -> None:
        self._log = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET))

    async def deliver(self, message: Message) -> str:
        """Return once the line is written: receiver, rule, message id and first item."""
        name = message.endpoint.partition(":")[2]
        first = subject(message.rule, message.body)
        self._log.info("notification", to=name, rule=message.rule, notification=message.message_id, subject=first)
        return "it was written to the log"


def open_log(_resources: ChannelResources) -> LogChannel:
    """Return the log channel."""
    return LogChannel()
