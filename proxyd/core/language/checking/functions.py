"""The scalar functions of the language: their parameters and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from proxyd.core.model.profile import FieldType


class Family(Enum):
    """Types that can be compared with each other; the value is the family's name in errors."""

    TEXT = "a text"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    TIME = "a time"
    ANY = "any value"


_FAMILIES = {
    FieldType.STRING: Family.TEXT,
    FieldType.URL: Family.TEXT,
    FieldType.INTEGER: Family.NUMBER,
    FieldType.DECIMAL: Family.NUMBER,
    FieldType.BOOLEAN: Family.BOOLEAN,
    FieldType.TIMESTAMP: Family.TIME,
}


def family_of(type_: FieldType) -> Family:
    """Return the family of a type."""
    return _FAMILIES[type_]


@dataclass(frozen=True, slots=True)
class Function:
    """The parameters and the result of a function.

    Parameters
    ----------
    parameters
        Families of the arguments; with ``variadic`` the last one repeats.
    required
        The least number of arguments.
    result
        Type of the result; ``None`` if it is that of the first argument.
    """

    parameters: tuple[Family, ...]
    required: int
    result: FieldType | None
    variadic: bool = False

    def takes(self, count: int) -> bool:
        """Return whether it can be called with that many arguments."""
        return self.required <= count and (self.variadic or count <= len(self.parameters))

    def parameter(self, index: int) -> Family:
        """Return the family of the argument at ``index``."""
        return self.parameters[min(index, len(self.parameters) - 1)]


_TEXT, _NUMBER, _ANY = Family.TEXT, Family.NUMBER, Family.ANY
_PART = Function((Family.TIME, _TEXT), 1, FieldType.INTEGER)

FUNCTIONS: Mapping[str, Function] = {
    "ABS": Function((_NUMBER,), 1, None),
    "DAY": _PART,
    "HOUR": _PART,
    "MINUTE": _PART,
    "MONTH": _PART,
    "WEEKDAY": _PART,
    "YEAR": _PART,
    "COALESCE": Function((_ANY,), 1, None, variadic=True),
    "DIFF": Function((_TEXT, _TEXT), 2, FieldType.STRING),
    "LENGTH": Function((_TEXT,), 1, FieldType.INTEGER),
    "LOWER": Function((_TEXT,), 1, FieldType.STRING),
    "NUMBER": Function((_TEXT, _TEXT), 1, FieldType.DECIMAL),
    "NULLIF": Function((_ANY, _ANY), 2, None),
    "REGEXP_SUBSTR": Function((_TEXT, _TEXT), 2, FieldType.STRING),
    "REPLACE": Function((_TEXT, _TEXT, _TEXT), 3, FieldType.STRING),
    "ROUND": Function((_NUMBER, _NUMBER), 1, FieldType.DECIMAL),
    "SUBSTR": Function((_TEXT, _NUMBER, _NUMBER), 2, FieldType.STRING),
    "TRIM": Function((_TEXT,), 1, FieldType.STRING),
    "UPPER": Function((_TEXT,), 1, FieldType.STRING),
}
"""By name in capitals. ``SUBSTR`` counts characters from 1; every argument that is null makes the result null, except
for ``COALESCE`` (its first value that is not null) and ``NULLIF``."""
