"""Logging: structlog, key=value on a terminal and JSON otherwise. Secrets are never passed to it."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(log_format: str, level: str) -> None:
    """Set up logging to standard error; the command line calls this once.

    An event is one line, and no text in it is a command to a terminal.
    """
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    rendering: list[structlog.typing.Processor] = (
        [_spelt_out, structlog.dev.ConsoleRenderer()] if console else [structlog.processors.JSONRenderer()]
    )
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(levelname)s %(name)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


class _Formatter(logging.Formatter):
    """Formats the records of libraries; only a traceback may span lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its library's name
        return _printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return _printable(super().format(record), but="\n")


def _spelt_out(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Return an event with unprintable characters of its texts escaped; a traceback keeps its lines."""
    return {
        key: _printable(value, but="\n" if key == "exception" else "") if isinstance(value, str) else value
        for key, value in event.items()
    }


def _printable(text: str, but: str = "") -> str:
    r"""Return a text with unprintable characters escaped.

    >>> _printable("a\x1b[2J\n\u202eb"), _printable("a\nb", but="\n")
    ('a\\x1b[2J\\n\\u202eb', 'a\nb')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in but else c.encode("unicode_escape").decode() for c in text)
