"""The messages between planner and probers, and their JSON form on the wire, checked when it is read."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.errors import UnreadableError

T = TypeVar("T")
_MOST_BYTES = 256 * 2**20  # in a decompressed message
_CONFIG = ConfigDict(ser_json_inf_nan="constants", ser_json_bytes="base64", val_json_bytes="base64")


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests to one host, in the order in which they are to be made.

    ``term`` counts the planners: requests of any but the newest are not made. ``sent_s`` is unix seconds by the
    planner's clock.
    """

    __pydantic_config__ = _CONFIG

    batch_id: str
    term: int
    host: str
    sent_s: float
    requests: tuple[ProbeRequest, ...]


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The result of one request of a batch; ``outcome`` is ``None`` if it is unknown what the last prober did.

    ``number`` is the request's place in the batch, ``reading`` what its outcome is about; ``sent_s`` is the batch's.
    """

    __pydantic_config__ = _CONFIG

    batch_id: str
    number: int
    prober: str
    reading: str
    sent_s: float
    outcome: ProbeOutcome | None = None


class Form(Generic[T]):
    """The form of one kind of message."""

    def __init__(self, kind: type[T]) -> None:
        self._adapter = TypeAdapter(kind)

    def write(self, message: T) -> bytes:
        """Return a message in the form in which it is sent."""
        return zlib.compress(self._adapter.dump_json(message), 1)

    def read(self, data: bytes) -> T:
        """Return the message; raises ``UnreadableError`` if ``data`` is not one."""
        unpacker = zlib.decompressobj()
        try:
            text = unpacker.decompress(data, _MOST_BYTES)
            if not unpacker.eof:
                raise UnreadableError("a message is truncated, or larger than proxyd sends")
            return self._adapter.validate_json(text)
        except (zlib.error, ValidationError) as error:
            raise UnreadableError(f"a message cannot be read: {error}") from error


BATCHES, REPORTS = Form(Batch), Form(ProbeReport)


def without_picture(report: ProbeReport) -> ProbeReport:
    """Return a report without the picture of its probe, with a remark about it.

    Examples
    --------
    >>> from proxyd.core.model.outcome import OutcomeKind, Picture
    >>> shown = ProbeOutcome("s", OutcomeKind.SAME_BODY, 1.0, 2.0, detail="the same", picture=Picture("image/png", b""))
    >>> without_picture(ProbeReport("b", 0, "p", "r", 1.0, shown)).outcome.detail
    'the same; no screenshot: it does not fit into a message to the planner'
    """
    outcome = report.outcome
    if outcome is None or outcome.picture is None:
        return report
    detail = f"{outcome.detail}; no screenshot: it does not fit into a message to the planner"
    return replace(report, outcome=replace(outcome, picture=None, detail=detail))


def by_our_clock(outcome: ProbeOutcome, *, sent_s: float, arrived_s: float) -> ProbeOutcome:
    """Return an outcome with times between its request's sending and its own arrival, by our clock.

    Its duration stays. Nothing changes if the clocks differ by less than a message's travel time.

    Examples
    --------
    >>> from proxyd.core.model.outcome import OutcomeKind
    >>> ahead = ProbeOutcome("s", OutcomeKind.NOT_MODIFIED, started_s=107.0, finished_s=108.0)
    >>> moved = by_our_clock(ahead, sent_s=100.0, arrived_s=102.0)
    >>> moved.started_s, moved.finished_s
    (101.0, 102.0)
    """
    shift_s = max(0.0, sent_s - outcome.started_s) or min(0.0, arrived_s - outcome.finished_s)
    if shift_s == 0.0:
        return outcome
    return replace(outcome, started_s=outcome.started_s + shift_s, finished_s=outcome.finished_s + shift_s)
