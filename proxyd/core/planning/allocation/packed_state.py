"""The input of a plan of the week as bytes, so that the same plan is made again after a restart."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from io import BytesIO
from typing import Any

import numpy as np

from proxyd.core.model.target import Target
from proxyd.core.planning.allocation.fleet_state import FleetState
from proxyd.core.planning.allocation.targets import FleetTargets
from proxyd.core.planning.kernels.losses import Losses, Step
from proxyd.core.rates.week_bins import Cycle
from proxyd.core.rates.week_shapes import WeekShapes

_KINDS = {kind.__name__: kind for kind in (FleetState, WeekShapes, Cycle, Losses, Step, FleetTargets, Target)}
_WHOLE = "whole"


def pack(state: FleetState) -> bytes:
    """Return a state as bytes, some 20 to 60 for each source; takes seconds for a million sources.

    Arrays are those of an ``npz`` file, all else is JSON, so that reading runs no code.

    Examples
    --------
    >>> even = WeekShapes(np.ones((1, 168)), np.zeros(1, dtype=np.int64))
    >>> state = FleetState(("a",), np.array([1e-4]), np.ones(1), np.zeros(1), even, probes_per_s=1e-3)
    >>> again = unpack(pack(state))
    >>> again.source_ids, again.rate_per_s, again.weeks.shapes.shape, again.cycle == state.cycle
    (('a',), array([0.0001]), (1, 168), True)
    """
    arrays: list[np.ndarray[Any, Any]] = []
    pieces = json.JSONEncoder(ensure_ascii=False).iterencode(_encoded(state, arrays))  # lets other threads run
    packed = BytesIO()
    named: dict[str, Any] = {f"a{number}": array for number, array in enumerate(arrays)}
    named[_WHOLE] = np.frombuffer("".join(pieces).encode(), dtype=np.uint8)
    np.savez_compressed(packed, **named)
    return packed.getvalue()


def unpack(packed: bytes) -> FleetState:
    """Return the state that ``pack`` packed.

    Raises
    ------
    ValueError
        Another version packed it, or it is damaged.

    Examples
    --------
    >>> unpack(b"")
    Traceback (most recent call last):
    ...
    ValueError: this is not a plan of this version
    """
    try:
        with np.load(BytesIO(packed), allow_pickle=False) as arrays:
            found = _decoded(json.loads(arrays[_WHOLE].tobytes()), arrays)
    except (TypeError, KeyError, AttributeError, OSError, EOFError, zlib.error) as error:
        raise ValueError("this is not a plan of this version") from error
    if not isinstance(found, FleetState):
        raise ValueError("this is not a plan")  # noqa: TRY004 - of a value, not of an argument
    return found


def _encoded(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    """Return a value in the types of JSON; arrays are gathered, and referred to by their number."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if is_dataclass(value):
        encoded = {field.name: _encoded(getattr(value, field.name), arrays) for field in fields(value)}
        return {"kind": type(value).__name__, "fields": encoded}
    if isinstance(value, Target):
        return {"kind": "Target", "fields": {name: _encoded(each, arrays) for name, each in value._asdict().items()}}
    if isinstance(value, Mapping):
        return {"pairs": [[_encoded(key, arrays), _encoded(each, arrays)] for key, each in value.items()]}
    if isinstance(value, list | tuple):
        return [_encoded(each, arrays) for each in value]
    return value


def _decoded(encoded: Any, arrays: Any) -> Any:
    if isinstance(encoded, list):
        return tuple(_decoded(each, arrays) for each in encoded)
    if not isinstance(encoded, dict):
        return encoded
    if "array" in encoded:
        return arrays[f"a{encoded['array']}"]
    if "pairs" in encoded:
        return {_decoded(key, arrays): _decoded(each, arrays) for key, each in encoded["pairs"]}
    return _KINDS[encoded["kind"]](**{name: _decoded(each, arrays) for name, each in encoded["fields"].items()})
