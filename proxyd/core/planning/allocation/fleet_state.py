"""The state of a fleet: the input of a plan of the week."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from io import BytesIO
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

import numpy as np
from numpy.typing import NDArray

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.chronon import Target
from proxyd.core.planning.allocation.prices import HostLimits
from proxyd.core.planning.allocation.targets import FleetTargets
from proxyd.core.planning.kernels.losses import Losses, Step
from proxyd.core.rates.siblings import Siblings
from proxyd.core.rates.week_bins import Cycle
from proxyd.core.rates.week_shapes import WeekShapes

SLOT_S = 1800.0


@dataclass(frozen=True, eq=False)
class FleetState:
    """The sources that are probed for detection: the input of a plan of the week; shape (sources,) if not stated."""

    source_ids: Sequence[str]
    rate_per_s: Floats
    weights: Floats
    last_seen_s: Floats
    weeks: WeekShapes
    probes_per_s: float  # the part of the budget that is left for detection
    price_item_s: float = 0.0  # item-seconds that a probe must save even if the budget allows more
    importances: tuple[Floats, Ints] | None = None  # the cost of waiting by hour, (kinds, 168), and each source's kind
    slot_s: float = SLOT_S
    chronon_s: float = 0.0  # in which probes start; 0 if at any time
    trust: float = 1.0  # how much of the learned weeks to believe; the rest is taken as even
    cycle: Cycle = field(default_factory=Cycle)
    zone_s: Floats | None = None  # offset from UTC of the zone of each source's week
    doe: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)  # DOE's probes, and their seconds
    most_per_s: Floats | None = None  # of probes in each slot of the week, shape (slots,)
    slot_factor: Floats | None = None  # extra prices of the slots from the previous plan
    siblings: Siblings = field(default_factory=dict)  # passed on with the plan
    losses: tuple[Sequence[Losses], Ints] | None = None  # kinds, with lives in seconds, and each source's kind
    rules: Sequence[str] = ()  # those that have targets
    targets: FleetTargets | None = None  # what they ask for, with times in seconds
    even: NDArray[np.bool_] | None = None  # whose week is off, planned as if every hour were alike
    gaps: Floats | None = None  # shape, mean in seconds and newest item of those planned by age, (sources, 3)
    counted_s: Floats | None = None  # when the last probe of each counts as made; when it was seen by default
    passing: Floats | None = None  # the part of the items that a rule counts; ``weights`` are multiplied by it
    host_of: Ints | None = None
    host_per_s: Floats | None = None  # how many probes each host takes, shape (hosts,)
    host_k: Floats | None = None  # how independently the sources of each host change (``rates.siblings``), (hosts,)
    turned_h: int = 0  # by how many hours all weeks have turned since the last plan; ``weeks`` are those after it
    together: float = 1.0  # how many sources change together, as ``rates.siblings.together`` finds it

    @property
    def shapes_to_plan_by(self) -> WeekShapes:
        """The shapes by which the sources are planned, as far as trusted; an even one for those whose week is off."""
        weeks = self.weeks.mix_with_even(self.trust)
        return weeks if self.even is None else weeks.with_even_weeks(self.even)

    @property
    def host_limits(self) -> HostLimits | None:
        """How many probes a slot of the cycle each host takes, or ``None`` without limits."""
        if self.host_of is None or self.host_per_s is None:
            return None
        return HostLimits(self.host_of, self.host_per_s / self.cycle.speed * self.slot_s)


_KINDS = {kind.__name__: kind for kind in (FleetState, WeekShapes, Cycle, Losses, Step, FleetTargets, Target)}
_WHOLE = "whole"
_MANY, _RUN = 100, 10_000  # texts; so many are encoded by one call, which holds the interpreter's lock


def pack(state: FleetState) -> bytes:
    """Return a state as bytes, some 20 to 60 for each source.

    Arrays are those of an ``npz`` file, all else is JSON, so that reading runs no code.
    """
    arrays: list[np.ndarray[Any, Any]] = []
    pieces = json.JSONEncoder(ensure_ascii=False).iterencode(_encode_value(state, arrays))  # lets other threads run
    packed = BytesIO()
    named: dict[str, Any] = {f"a{number}": array for number, array in enumerate(arrays)}
    named[_WHOLE] = _bytes("".join(pieces))
    np.savez(packed, **named)
    # the checksum finds damage before ``zipfile`` does, some of whose errors ended the daemon
    return zstd.compress(packed.getbuffer(), options={zstd.CompressionParameter.checksum_flag: 1})


def unpack(packed: bytes) -> FleetState:
    """Return the state that ``pack`` packed; a ``ValueError`` if another version packed it, or it is damaged."""
    try:
        with np.load(BytesIO(zstd.decompress(packed)), allow_pickle=False) as arrays:
            found = _decode_part(json.loads(arrays[_WHOLE].tobytes()), arrays)
    except (TypeError, KeyError, AttributeError, OSError, EOFError, zstd.ZstdError) as error:
        raise ValueError("this is not a plan of this version") from error
    if not isinstance(found, FleetState):
        raise ValueError("this is not a plan")  # noqa: TRY004 - of a value, not of an argument
    return found


def _bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _encode_value(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    """Return a value in the types of JSON; arrays are gathered, and referred to by their number."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if is_dataclass(value) or isinstance(value, Target):
        names = Target._fields if isinstance(value, Target) else [field.name for field in fields(value)]
        encoded = {name: _encode_value(getattr(value, name), arrays) for name in names}
        return {"kind": type(value).__name__, "fields": encoded}
    if isinstance(value, Mapping):
        return {"pairs": [[_encode_value(key, arrays), _encode_value(each, arrays)] for key, each in value.items()]}
    if isinstance(value, list | tuple):
        if len(value) > _MANY and all(isinstance(each, str) for each in value):  # the sources: as JSON of their own
            runs = [value[begin : begin + _RUN] for begin in range(0, len(value), _RUN)]
            arrays += [_bytes(json.dumps(run, ensure_ascii=False)) for run in runs]
            return {"texts": [len(arrays) - len(runs), len(arrays)]}
        return [_encode_value(each, arrays) for each in value]
    return value


def _decode_part(encoded: Any, arrays: Any) -> Any:
    if isinstance(encoded, list):
        return tuple(_decode_part(each, arrays) for each in encoded)
    if not isinstance(encoded, dict):
        return encoded
    if "array" in encoded:
        return arrays[f"a{encoded['array']}"]
    if "texts" in encoded:
        return tuple(text for run in range(*encoded["texts"]) for text in json.loads(arrays[f"a{run}"].tobytes()))
    if "pairs" in encoded:
        return {_decode_part(key, arrays): _decode_part(each, arrays) for key, each in encoded["pairs"]}
    return _KINDS[encoded["kind"]](**{name: _decode_part(each, arrays) for name, each in encoded["fields"].items()})
