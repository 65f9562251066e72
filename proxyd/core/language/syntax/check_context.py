"""The context of the checker: settings of the daemon, the reporter of errors, and what was checked before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from proxyd.core.errors import RuleCheckError
from proxyd.core.language.syntax.nodes import SourceText
from proxyd.core.language.syntax.token_reader import MAX_ERRORS
from proxyd.core.language.syntax.words import did_you_mean
from proxyd.core.model.delivery import SecretRef
from proxyd.core.model.expression import TextSpan
from proxyd.core.model.profile import Domain, Source


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What the checker must know about the daemon."""

    chronon_s: float = 10.0  # length of a chronon; durations are compared with it
    spacing_s: float = 0.0  # least time between two probes of a source that sets none
    can_subscribe: bool = True  # whether hubs can reach the daemon; if not, WEBSUB ON has no effect
    can_mail: bool = True  # whether there is a mail server; if not, DELIVERY MAIL waits for one
    # The schemes that DELIVERY CHANNEL may use; `None` for every scheme
    channel_schemes: frozenset[str] | None = None
    chats: frozenset[str] | None = None  # schemes that are sent to by what is installed; ``None``: all
    # Returns why that library, or the network guard, refuses a channel's address, or `None`
    channel_problem: Callable[[str], str | None] | None = None
    is_secret_set: Callable[[SecretRef], bool] = lambda _: True  # only the daemon knows its own
    # Why no page can be rendered, or `None`; FETCH BROWSER then waits for a browser
    browser_missing: str | None = None
    # Whether the texts were accepted before: what only other settings forbid is then a warning
    accepted_before: bool = False
    from_api: bool = False  # whether the texts may hold DROP. The caller acts on it; the checker skips it.
    names_before: frozenset[str] = frozenset()  # of the sources that were declared before the daemon started


class Reporter:
    """Collects the errors and warnings of one file."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.errors: list[RuleCheckError] = []
        self.warnings: list[RuleCheckError] = []
        self.reports = 0  # all that were made, with those that are not kept

    def hint(self, written: str, known: Iterable[str]) -> str:
        """Return what may be meant by a name; not to who writes only some profiles: it may be a name of others."""
        return "" if self.source.is_owned else did_you_mean(written, known)

    def error(self, message: str, span: TextSpan) -> None:
        """Report an error; after a hundred in one file the rest are dropped."""
        self.reports += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(self._make(message, span))

    def has_error(self, span: TextSpan) -> bool:
        """Return whether exactly these characters were reported."""
        return any((each.start, each.stop) == (span.start, span.stop) for each in self.errors)

    def warn(self, message: str, span: TextSpan) -> None:
        """Report something that is allowed but probably not meant."""
        self.reports += 1
        if len(self.warnings) < MAX_ERRORS:
            self.warnings.append(self._make(message, span))

    def warn_once(self, message: str, span: TextSpan) -> None:
        """Report at its first place something that the settings lack, and not again for each statement."""
        self.reports += 1
        if all(each.message != message for each in self.warnings):
            self.warn(message, span)

    def where(self, span: TextSpan) -> str:
        """Return ``file:line:column`` of a place, for errors elsewhere that refer to it."""
        place = self._make("", span)
        return f"{place.file}:{place.line}:{place.column}"

    def _make(self, message: str, span: TextSpan) -> RuleCheckError:
        return RuleCheckError(message, text=self.source.text, start=span.start, stop=span.stop, file=self.source.file)


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
        self.names_before = settings.names_before
        self.sources: Mapping[str, Source] = _NOTHING  # of the declaration before
        self._before, self._domains = before, domains
        self._receivers: Mapping[str, Any] = _NOTHING
        self._known: dict[int, _Kept] = {}

    def following(self, settings: CheckSettings, sources: Mapping[str, Source] = _NOTHING) -> CheckMemory:
        """Return a memory for the check after that of some ``sources``; with other settings it knows nothing else."""
        memory = CheckMemory(settings)
        if _relevant(settings) == self._settings:
            memory = CheckMemory(settings, self._known, self._domains)
            memory._receivers = self._receivers
        memory.sources = sources
        return memory

    def same_domains(self, domains: Mapping[str, Domain]) -> Mapping[str, Domain]:
        """Return these domains, as the object of the declaration before if they are equal."""
        if self._domains != domains:
            self._domains = domains
        return self._domains

    def same_receivers(self, receivers: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return these receivers, as the object of the declaration before if they are equal."""
        if self._receivers != receivers:
            self._receivers = receivers
        return self._receivers

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
    return replace(settings, from_api=False, accepted_before=False, names_before=frozenset())
