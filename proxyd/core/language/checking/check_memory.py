"""What statements meant when they were last checked, so that those that did not change are not checked again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

from proxyd.core.language.checking.check_context import CheckSettings
from proxyd.core.model.profile import Domain

_Kept: TypeAlias = tuple[object, tuple[object, ...], Any]
_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class CheckMemory:
    """The meanings of the statements of one declaration; those of the one before are looked up in ``before``.

    A statement is known by its identity, so it is remembered as long as its text is not parsed again. Its meaning holds
    as long as ``inputs``, all else that it depends on, are the same objects. What has errors or warnings is to be
    checked again each time, so that they are reported again.

    Examples
    --------
    >>> statement, profile = ["a statement"], ["a profile"]
    >>> first = CheckMemory(CheckSettings())
    >>> first.keep(statement, (profile,), "its meaning")
    >>> second = first.following(CheckSettings())
    >>> second.recall(statement, (profile,)), second.recall(statement, (["a profile"],))
    ('its meaning', None)
    """

    def __init__(
        self, settings: CheckSettings, before: Mapping[int, _Kept] = _NOTHING, domains: Mapping[str, Domain] = _NOTHING
    ) -> None:
        self._settings = _relevant(settings)
        self._before, self._domains = before, domains
        self._known: dict[int, _Kept] = {}

    def following(self, settings: CheckSettings) -> CheckMemory:
        """Return a memory for the check of the next declaration; with other settings it knows nothing."""
        is_same = _relevant(settings) == self._settings
        return CheckMemory(settings, self._known, self._domains) if is_same else CheckMemory(settings)

    def same_domains(self, domains: Mapping[str, Domain]) -> Mapping[str, Domain]:
        """Return these domains, as the object of the declaration before if they are equal."""
        if self._domains != domains:
            self._domains = domains
        return self._domains

    def recall(self, statement: object, inputs: tuple[object, ...]) -> Any:
        """Return what a statement meant, or ``None`` if that is not known or no longer holds."""
        kept = self._before.get(id(statement))
        if kept is None or kept[0] is not statement or len(kept[1]) != len(inputs):
            return None
        if any(was is not now for was, now in zip(kept[1], inputs, strict=True)):
            return None
        self._known[id(statement)] = kept
        return kept[2]

    def keep(self, statement: object, inputs: tuple[object, ...], meaning: object) -> None:
        """Remember what a statement means."""
        self._known[id(statement)] = statement, inputs, meaning

    def finish(self) -> None:
        """Forget the statements of the declaration before."""
        self._before = {}


def _relevant(settings: CheckSettings) -> CheckSettings:
    """Return settings without those that only decide on errors: statements with errors are not kept."""
    return replace(settings, from_api=False, accepted_before=False)
