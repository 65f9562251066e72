"""The messages between planner and probers, and their JSON form on the wire, checked when it is read."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from proxyd.core.errors import UnreadableError
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.net.http_values import LONGEST_URL

_T = TypeVar("_T")
_CONFIG = ConfigDict(ser_json_inf_nan="constants", ser_json_bytes="base64", val_json_bytes="base64")
_MIB = 2**20
_LONG_BYTES = 262_144
_LONGEST_ERROR = 300
_SEQUENCES = frozenset({"tuple", "list", "dict", "set", "frozenset"})
_LARGEST = 2**53

_Id = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
_Said = Annotated[str, Field(max_length=500)]
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Seconds = Annotated[float, Field(allow_inf_nan=False)]
_MOST_HOSTS = 1000  # of a prober
MOST_PLANNERS = 1000
MOST_SPACING_S = 86_400.0
_Batches = Annotated[tuple[_Id, ...], Field(max_length=_MOST_HOSTS)]


@dataclass(frozen=True, slots=True)
class Hello:
    """A prober says that it is there, for how many hosts at once, and which batches it works on.

    ``sent_s`` is by the prober's clock; the answers repeat it. ``planners`` are the terms of the planners whose batches
    it makes, each with those that it works on. ``words`` are those of each ``Living`` that it has heeded.
    """

    __pydantic_config__ = _CONFIG

    prober_id: _Id
    name: _Said
    version: _Said
    hosts: Annotated[int, Field(ge=1, le=_MOST_HOSTS)]
    sent_s: _Seconds
    planners: Annotated[Mapping[_Count, _Batches], Field(max_length=MOST_PLANNERS)] = field(default_factory=dict)
    words: Annotated[tuple[_Id, ...], Field(max_length=MOST_PLANNERS)] = ()
    is_leaving: bool = False


@dataclass(frozen=True, slots=True)
class AnswerMessage:
    """The planner of a term answers a prober, or tells it something unasked (``echo_s`` is ``None`` then).

    ``now_s`` is the planner's clock. The batches of ``held`` are the prober's until ``now_s + hold_s``, those of
    ``ended`` no longer. ``aside`` says why the prober has no work, if it is put aside.
    """

    __pydantic_config__ = _CONFIG

    term: _Count
    now_s: _Seconds
    hold_s: Annotated[float, Field(gt=0.0, le=86400.0)]
    echo_s: _Seconds | None = None
    held: _Batches = ()
    ended: _Batches = ()
    aside: _Said = ""


@dataclass(frozen=True, slots=True)
class Living:
    """A planner says which planners live, by their terms, because others have ended.

    A prober breaks off the batches of all others, and then says ``word``, because their hosts have new planners.
    """

    __pydantic_config__ = _CONFIG

    terms: Annotated[tuple[_Count, ...], Field(max_length=MOST_PLANNERS)]
    word: _Id


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests to one host, in the order in which they are to be made.

    A prober makes the requests only if it knows the clock of the planner of ``term``. ``sent_s`` is unix time.
    ``until_s``, the end of the hold, is by that clock, which ``AnswerMessage.now_s`` tells. If the host is another
    planner's, to which a source has moved, each request ``needs_turns`` of that one.
    """

    __pydantic_config__ = _CONFIG

    batch_id: _Id
    term: _Count
    host: str
    sent_s: _Seconds
    until_s: _Seconds
    requests: tuple[ProbeRequest, ...]
    needs_turns: bool = False


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The result of one request of a batch; without an outcome its prober refuses the batch, and has begun nothing.

    ``number`` is the request's place in the batch, ``reading`` what its outcome is about; ``sent_s`` is the batch's.
    """

    __pydantic_config__ = _CONFIG

    batch_id: _Id
    number: _Count
    prober_id: _Id
    reading: str
    sent_s: _Seconds
    outcome: ProbeOutcome | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """The planner has recorded the report of a request; its prober need not send it again."""

    __pydantic_config__ = _CONFIG

    batch_id: _Id
    number: _Count


@dataclass(frozen=True, slots=True)
class TurnMessage:
    """A prober asks the planner of a host, to which a redirect leads, for a turn there; again, until it is given.

    The request, which is made for a batch or for none, is to start ``spacing_s`` after the last one to the host, if
    that is more than usual.
    """

    __pydantic_config__ = _CONFIG

    turn_id: _Id
    prober_id: _Id
    batch_id: _Said
    host: Annotated[str, Field(max_length=LONGEST_URL)]
    spacing_s: Annotated[float, Field(ge=0.0, le=MOST_SPACING_S)]


@dataclass(frozen=True, slots=True)
class TurnAnswer:
    """The planner of a host has heard of a turn, which is given now or has to wait."""

    __pydantic_config__ = _CONFIG

    turn_id: _Id
    is_given: bool


class _Form(Generic[_T]):
    """The form of one kind of message, of at most so many bytes before compression."""

    def __init__(self, kind: type[_T], most_bytes: int) -> None:
        self._adapter = TypeAdapter(kind)
        self._validator = SchemaValidator(_that_fails_soon(self._adapter.core_schema))
        self._most_bytes = most_bytes

    def write(self, message: _T) -> bytes:
        """Return a message in the form in which it is sent."""
        return zlib.compress(self._adapter.dump_json(message), 1)

    def read(self, data: bytes) -> _T:
        """Return the message; raises ``UnreadableError`` if ``data`` is not one."""
        unpacker = zlib.decompressobj()
        try:
            text = unpacker.decompress(data, self._most_bytes)
            if not unpacker.eof:
                raise UnreadableError("a message is truncated, or larger than proxyd sends")
            message: _T = self._validator.validate_json(text)
        except zlib.error as error:
            raise UnreadableError(f"a message cannot be read: {error}") from error
        except ValidationError as error:
            (first, *_) = error.errors(include_input=False, include_url=False, include_context=False)
            where = ".".join(map(str, first["loc"]))
            raise UnreadableError(f"a message cannot be read: {where}: {first['msg']}"[:_LONGEST_ERROR]) from None
        return message

    def is_long(self, data: bytes) -> bool:
        """Whether reading the message takes so long that a thread should do it."""
        with suppress(zlib.error):
            return len(zlib.decompressobj().decompress(data, _LONG_BYTES)) == _LONG_BYTES
        return False


def _that_fails_soon(schema: Any) -> Any:
    """Return pydantic's schema so that a sequence fails with its first error: a message may hold millions."""
    if isinstance(schema, dict):
        changed = {key: _that_fails_soon(value) for key, value in schema.items()}
        return changed | {"fail_fast": True} if schema.get("type") in _SEQUENCES else changed
    if isinstance(schema, list | tuple):
        return type(schema)(_that_fails_soon(each) for each in schema)
    return schema


TURNS, TURN_ANSWERS = _Form(TurnMessage, _MIB), _Form(TurnAnswer, _MIB)
HELLOS, ANSWERS, RECORDED, LIVING = (
    _Form(Hello, _MIB),
    _Form(AnswerMessage, _MIB),
    _Form(Recorded, _MIB),
    _Form(Living, _MIB),
)
BATCHES, REPORTS = _Form(Batch, 64 * _MIB), _Form(ProbeReport, 256 * _MIB)


def is_plausible(outcome: ProbeOutcome) -> bool:
    """Whether the numbers of an outcome can be worked with; a forged one may hold any.

    >>> from proxyd.core.model.outcome import OutcomeKind
    >>> [is_plausible(ProbeOutcome("s", OutcomeKind.GONE, 1.0, end_s)) for end_s in (2.0, float("nan"), 0.5)]
    [True, False, False]
    """
    values = [getattr(outcome, each.name) for each in fields(outcome)]
    numbers = [each for each in values if isinstance(each, int | float)]
    is_sound = all(isfinite(each) and abs(each) < _LARGEST for each in numbers)
    return is_sound and outcome.started_s <= outcome.finished_s < _LARGEST


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


OUTBOX = "proxyd.outbox"
"""The planner tells the notifier that there is something to deliver."""
CALL = "proxyd.call"
"""A planner asks all probers to say hello."""
HELLO = "proxyd.hello"
REPORT = "proxyd.report"
"""A prober reports to all planners; to the planner of a term, which follows after a point, the first time."""
TURN = f"{REPORT}.turn"
"""A prober asks the planner of a host for a turn there. The rights of existing NATS servers cover this subject."""
ABSENT = "proxyd.absent"
"""The server tells the planner that nobody received a batch, whose id follows after a point."""
_WORK = "proxyd.prober"


def report_to(term: int) -> str:
    """Return the subject of reports to the planner of a term.

    >>> report_to(7)
    'proxyd.report.7'
    """
    return f"{REPORT}.{term}"


def work_of(prober_id: str) -> str:
    """Return the subject of what the planner tells a prober; the kind of message follows after a point."""
    return f"{_WORK}.{prober_id}"


class _Rights(NamedTuple):
    """The subjects at which a role may publish and which it may hear."""

    publish: Sequence[str]
    hear: Sequence[str]


_RIGHTS: Mapping[str, _Rights] = {
    "planner": _Rights([CALL, OUTBOX, f"{_WORK}.>"], [HELLO, REPORT, f"{REPORT}.*", f"{ABSENT}.>"]),
    "prober": _Rights([HELLO, REPORT, f"{REPORT}.*"], [CALL, f"{_WORK}.>"]),
    "notifier": _Rights([], [OUTBOX]),
}


def rights_of(role: str) -> _Rights:
    """Return the rights of a role of the setting ``role``.

    >>> rights_of("all").publish
    ['proxyd.call', 'proxyd.outbox', 'proxyd.prober.>', 'proxyd.hello', 'proxyd.report', 'proxyd.report.*']
    """
    if role != "all":
        return _RIGHTS[role]
    return _Rights(*([each for rights in _RIGHTS.values() for each in rights[number]] for number in range(2)))
