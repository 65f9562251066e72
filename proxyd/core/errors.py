"""All errors that proxyd raises.

::

    ProxydError
    |- ConfigError(ValueError)          every problem of the settings at once, each with its key
    |- RuleError(ValueError)            a span of a text in the rule language, printed with a caret
    |  |- RuleSyntaxError               the text cannot be parsed
    |  `- RuleCheckError                names, types or units of the text do not fit
    |- ProfileError(ValueError)         every RuleError of a declaration at once
    |- SchedulingError
    |  |- UnknownPolicyError(LookupError)
    |  `- InvalidScheduleError(ValueError)
    |- ListingError(ValueError)         a list of feeds that cannot be imported
    |- BadSearchError(ValueError)       a search for no words, or for too many
    |- TraceError(ValueError)           a line of a trace file
    |- ModelError(ValueError)           an unknown model of synthetic sources
    |- ProbeError                       source_id, retry_after_s
    |  |- FetchError
    |  |  `- BlockedAddressError        the network guard refused the connected address
    |  |- FetchTimeoutError
    |  `- FeedParseError                the document is not a feed, a page or JSON as its class expects
    |- BusyError                        too much work at the moment; try again later
    |- UnreachableError                 no daemon answers
    |  `- SilentError                   it did not answer in time, and may have done what was asked
    |- ClusterError                     the other machines cannot be reached
    |  |- UnreadableError               another machine sent an unreadable message
    |- DeliveryError                    retryable: the outbox decides from it
    `- StoreError
       |- StoreBusyError               the database cannot do it now: a lock, a full disk; it is tried again
       |- StoreUnreachableError        the database does not answer; it may come back
       |- NotFoundError(LookupError)
       `- ConflictError                another owner, or changed in the meantime
          `- ChangedError

The first line of a class's docstring is its default message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_LONGEST_SHOWN = 1000  # characters of a line


def extra_hint(extra: str) -> str:
    """Return what to say where an optional dependency is not installed.

    >>> extra_hint("mcp")
    "this needs proxyd[mcp]: pip install 'proxyd[mcp]'"
    """
    return f"this needs proxyd[{extra}]: pip install 'proxyd[{extra}]'"


class ProxydError(Exception):
    """Something went wrong in proxyd."""

    def __init__(self, message: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").splitlines()[0]
        super().__init__(self.message)


class ConfigError(ProxydError, ValueError):
    """The settings are not valid."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class RuleError(ProxydError, ValueError):
    """A text in the rule language is not valid.

    Parameters
    ----------
    message
        What is wrong, what was expected and, if one is close enough, the nearest known name.
    text
        The whole text of the file.
    start, stop
        Offsets into ``text`` of the characters at fault, ``stop`` exclusive.
    file
        Name of the file or of the text.
    """

    def __init__(self, message: str, *, text: str, start: int, stop: int, file: str = "<text>") -> None:
        super().__init__(message)
        self.text = text
        self.start = max(0, min(start, len(text)))
        self.stop = max(self.start, min(stop, len(text)))
        self.file = file
        self._line: int | None = None

    @property
    def line(self) -> int:
        """Line number, from 1."""
        if self._line is None:  # counting takes milliseconds in a long text
            self._line = self.text.count("\n", 0, self.start) + 1
        return self._line

    @property
    def column(self) -> int:
        """Column in characters, from 1."""
        return self.start - (self.text.rfind("\n", 0, self.start) + 1) + 1

    @property
    def source_line(self) -> str:
        """The line at fault, without its end; of a long line the part around the fault."""
        begin, end = self._shown()
        return self.text[begin:end].rstrip("\r")

    @property
    def caret_line(self) -> str:
        """Carets under the characters at fault; tabs are kept so that they align."""
        line, before = self.source_line, self.start - self._shown()[0]
        indent = "".join("\t" if char == "\t" else " " for char in line[:before])
        width = max(1, min(self.stop - self.start, len(line) - before))
        return indent + "^" * width

    def _shown(self) -> tuple[int, int]:
        """Return where the shown part of the line starts and stops."""
        begin, end = self.start - self.column + 1, self.text.find("\n", self.start)
        end = len(self.text) if end < 0 else end
        if end - begin <= _LONGEST_SHOWN:
            return begin, end
        around = _LONGEST_SHOWN // 2
        return max(begin, self.start - around), min(end, self.start + around)

    @property
    def without_texts(self) -> str:
        """The position and the message without quoted text, which may be secret."""
        message = re.sub(r"""'[^']*'|"[^"]*\"""", "[...]", self.message)
        return f"{self.file}:{self.line}:{self.column}: {message}"

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}"
        return f"{where}: {self.message}\n    {self.source_line}\n    {self.caret_line}"


class RuleSyntaxError(RuleError):
    """The text cannot be parsed."""


class RuleCheckError(RuleError):
    """The text is well-formed, but does not fit the declarations, or proxyd cannot execute it."""


class ProfileError(ProxydError, ValueError):
    """The declaration has errors; nothing was changed."""

    def __init__(self, errors: Sequence[RuleError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors))

    @property
    def without_texts(self) -> str:
        """Every error for the log, one per line."""
        return "\n".join(error.without_texts for error in self.errors)


class SchedulingError(ProxydError):
    """No schedule could be computed."""


class UnknownPolicyError(SchedulingError, LookupError):
    """No policy of that name is registered."""


class InvalidScheduleError(SchedulingError, ValueError):
    """The schedule breaks a budget or names an unknown source."""


class BadSearchError(ProxydError, ValueError):
    """Nothing can be searched for by this text."""


class ListingError(ProxydError, ValueError):
    """The list of feeds cannot be read."""


class TraceError(ProxydError, ValueError):
    """A line of the trace cannot be read."""

    def __init__(self, message: str, *, file: str, line: int) -> None:
        self.file = file
        self.line = line
        super().__init__(f"{file}:{line}: {message}")


class ModelError(ProxydError, ValueError):
    """No such model of synthetic sources exists."""


class ProbeError(ProxydError):
    """A probe found nothing usable."""

    def __init__(self, message: str | None = None, *, source_id: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.source_id = source_id
        self.retry_after_s = retry_after_s


class FetchError(ProbeError):
    """The response could not be obtained."""


class BlockedAddressError(FetchError):
    """The network guard refuses this address."""


class FetchTimeoutError(ProbeError):
    """The response did not arrive in time."""


class FeedParseError(ProbeError):
    """The document cannot be read."""


class BusyError(ProxydError):
    """The daemon is busy; try again a little later."""


class UnreachableError(ProxydError):
    """No daemon answers; start one with `proxyd serve`."""


class SilentError(UnreachableError):
    """The daemon did not answer in time; it may have done what was asked."""


class ClusterError(ProxydError):
    """The other machines cannot be reached."""


class UnreadableError(ClusterError):
    """Another machine sent a message that this version of proxyd cannot read."""


class EvaluationError(ProxydError):
    """The expressions of a rule exceed a limit."""


class WorkLimitError(EvaluationError):
    """A rule needs more work than is allowed for one observation."""


class WorkerFailedError(ProxydError):
    """A worker process did not finish a job: it took too long, died, or raised an unexpected error."""


class DeliveryError(ProxydError):
    """The receiver did not accept the notification."""

    def __init__(
        self, message: str | None = None, *, retryable: bool = True, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class StoreError(ProxydError):
    """The database failed."""


class StoreInUseError(StoreError):
    """Another process holds the database."""


class StoreBusyError(StoreError):
    """The database cannot do it now."""


class StoreUnreachableError(StoreError):
    """The database does not answer."""


class OtherSettingsError(StoreUnreachableError):
    """Another machine works with other settings."""


class LeaseLostError(StoreUnreachableError):
    """Another machine may have the lease now, and do the work of this one."""


class NotFoundError(StoreError, LookupError):
    """Nothing with this name exists."""


class ConflictError(StoreError):
    """The object belongs to another owner or has changed in the meantime."""


class ChangedError(ConflictError):
    """The object has changed since it was read."""


_CUTOFF, _SHORT_CUTOFF = 0.75, 0.6  # with one of three letters wrong, names are two thirds alike
_SHORT = 4
_MOST_COMPARED = 2000


def suggest(written: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to ``written``, ignoring case, or ``None``; of very many names none is.

    >>> suggest("channel.item.titel", ["channel.item.title", "channel.item.link"])
    'channel.item.title'
    >>> suggest("https://example.org/feed", ["example.org/feed"])  # as a source is named that has no other name
    'example.org/feed'
    """
    by_folded: dict[str, str] = {}
    for name in known:
        by_folded.setdefault(name.casefold(), name)
    if len(by_folded) > _MOST_COMPARED:
        return None
    folded = written[:200].casefold().removeprefix("http://").removeprefix("https://")
    close = get_close_matches(folded, by_folded, n=1, cutoff=_CUTOFF if len(folded) > _SHORT else _SHORT_CUTOFF)
    return by_folded[close[0]] if close else None
