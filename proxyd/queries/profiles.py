"""What the API asks about the declaration: profiles, what is paused or muted, and sources that have moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from proxyd.core.errors import RuleError
from proxyd.core.language import Parsed, Statement, Watch
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import ProbeOutcome
from proxyd.core.model.profile import Declaration
from proxyd.core.model.suspension import Subject, Suspension
from proxyd.core.rules.answers.trial import PlanCost
from proxyd.core.rules.known.failing import FailingRule


@dataclass(frozen=True, slots=True)
class DeclarationChanges:
    """The changes made by a new declaration, by rule name; ``restarted`` holds the counters that start again.

    ``warnings`` are about the texts that were sent.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    restarted: Mapping[str, tuple[str, ...]]
    warnings: tuple[RuleError, ...] = ()


@dataclass(frozen=True, slots=True)
class OnlyIf:
    """The precondition of a declaration: ``takes`` decides whether the text of a profile is the expected one.

    The text is empty if the profile does not exist. ``profile`` is ``None`` for the only profile that is declared.
    """

    takes: Callable[[str], bool]
    profile: str | None = None


class Profiles(Protocol):
    """The running declaration, and how it is changed."""

    @property
    def has_started(self) -> bool:
        """Whether the declaration is loaded; until then the listeners are up, and every name is unknown."""

    @property
    def declaration(self) -> Declaration:
        """The running declaration."""

    def origin(self, file: str) -> str:
        """Return ``api`` or the file of a declaration, given its ``file``."""

    def watch_of(self, rule: str) -> Watch | None:
        """Return the WATCH that declares a rule over the API; ``None`` if another statement or a file does."""

    def text_of(self, profile: str) -> str:
        """Return a profile and its rules as text in canonical layout."""

    def written_of(self, profile: str) -> tuple[str, Sequence[Statement]]:
        """Return the text of a profile and its rules, and the statements; call it in a thread, as it may take long."""

    async def declare(
        self, *texts: str | Parsed, only_if: OnlyIf | None = None, instead_of: Declaration | None = None
    ) -> DeclarationChanges:
        """Add texts or parsed declarations, all of them or none.

        Raises ``ProfileError`` with every error, ``ConflictError`` if a file owns a name, ``NotFoundError`` for a
        DROP of a name that the API never declared, and ``ChangedError`` if ``only_if`` rejects the profile's current
        text, or if another declaration runs than ``instead_of``.
        """

    async def try_out(self, *texts: str | Parsed, only_if: OnlyIf | None = None) -> tuple[DeclarationChanges, PlanCost]:
        """Return what texts would change, and their demand on the budget; raises as ``declare`` does."""

    async def drop_profile(self, name: str, *, only_if: Callable[[str], bool] | None = None) -> DeclarationChanges:
        """Remove a profile of the API and its rules that are in no other profile.

        Raises as ``declare`` does, and ``ChangedError`` if ``only_if`` rejects its text.
        """

    async def reload(self) -> tuple[str, ...]:
        """Check the files and swap them in; return their errors, or nothing once they are in."""


@dataclass(frozen=True, slots=True)
class SuspensionChange:
    """What a command did, in words, and the suspension that there is now.

    ``is_new`` says whether anything began or ended; ``notifications`` counts those that were released or dropped.
    """

    said: str
    suspension: Suspension | None
    is_new: bool = True
    notifications: int = 0


class Suspending(Protocol):
    """The paused sources, and the muted rules and profiles.

    Commands raise ``NotFoundError`` for an unknown name, and ``BusyError`` while the daemon starts. A command that
    changes nothing says so.
    """

    def all(self) -> Sequence[Suspension]:
        """Return every suspension, sources first, by name."""

    def of(self, subject: Subject, name: str) -> Suspension | None:
        """Return the suspension of a source, or the own one of a rule or profile."""

    def mute_of(self, rule: str, profiles: Iterable[str]) -> Suspension | None:
        """Return what mutes a rule: its own suspension or one of its profiles'."""

    async def pause(self, source: str, by: str) -> SuspensionChange:
        """Stop probing a source."""

    async def resume(self, name: str, *, subject: Subject | None = None) -> SuspensionChange:
        """Probe a paused source again, or evaluate a rule again that failed too often.

        Raises ``ConflictError`` if both have the name and ``subject`` does not decide.
        """

    def failing_rules(self) -> Iterable[str]:
        """Return the names of the rules that failed the last time they were evaluated."""

    def failing(self, rule: str) -> FailingRule | None:
        """Return how a rule failed the last time it was evaluated, or ``None`` if it did not."""

    async def mute(
        self, name: str, by: str, *, subject: Subject | None = None, until_s: float | None = None
    ) -> SuspensionChange:
        """Keep back the notifications of a rule, or of every rule of a profile, until a time or until it is unmuted.

        Raises ``ConflictError`` if both have the name and ``subject`` does not decide, or if the time has passed.
        """

    async def unmute(self, name: str, *, subject: Subject | None = None, drop: bool = False) -> SuspensionChange:
        """Send what was kept back as one digest for each receiver, or drop it; raises as ``mute`` does."""


@dataclass(frozen=True, slots=True)
class MovePlace:
    """The file and the line that declare a source."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class SourceMove:
    """A permanent move of a source.

    Parameters
    ----------
    declared_url, url
        The declared address, and the new one.
    since_s, probes
        When a probe was first led there, in unix seconds, and how many were; or when the move was accepted, and 0.
    place
        Where the source is declared; ``None`` if that was over the API.
    is_proposed
        Whether it was seen for a week or longer, so that people should know.
    is_accepted
        Whether it was accepted, and the declaration does not name the new address yet.
    """

    source_id: str
    declared_url: str
    url: str
    since_s: float
    probes: int
    place: MovePlace | None
    is_proposed: bool = False
    is_accepted: bool = False


@dataclass(frozen=True, slots=True)
class MoveAccepted:
    """What was done, in words, and the accepted move; ``None`` if it led back to the declared address."""

    said: str
    move: SourceMove | None


class Moving(Protocol):
    """The sources that have moved permanently."""

    async def all(self) -> Sequence[SourceMove]:
        """Return every move, by source."""

    async def proposals(self, sources: Iterable[str] | None = None) -> Mapping[str, str]:
        """Return the new address of each source that moved a week ago or earlier, or of some of these."""

    def of(self, source: str) -> Sequence[SourceMove]:
        """Return the moves of a source: an accepted one first."""

    def places(self, sources: Iterable[str]) -> Mapping[str, MovePlace]:
        """Return the file and line that declare each source, without those that were declared over the API."""

    async def accept(self, source: str, *, to: str | None = None) -> MoveAccepted:
        """Read a source at its new address from now on; ``to`` is the address that was looked at.

        Raises ``NotFoundError`` for an unknown name, ``ConflictError`` if the source has not moved, or elsewhere than
        ``to``, and ``BusyError`` while the daemon starts.
        """


@dataclass(frozen=True, slots=True)
class Discovered:
    """What an address holds.

    Parameters
    ----------
    outcome
        The outcome of probing it. Its ``source_id`` is the address to watch: that of a feed to which a page links.
    page_class
        The name of the built-in class that reads it: FEED, PAGE or PRICE.
    price
        The price that its page states, or ``None``.
    preview
        The page as harmless markup; empty for a feed, or if it was not asked for.
    """

    outcome: ProbeOutcome
    page_class: str
    price: Item | None = None
    preview: str = ""


class Discovering(Protocol):
    """Looks at addresses, within the limits of all probes."""

    async def look(
        self, url: str, *, locale: str | None = None, wants_price: bool = False, wants_preview: bool = False
    ) -> Discovered:
        """Return what an address holds; raises ``BusyError`` if too many are looked at already.

        With ``wants_price`` its page is read for its price alone; ``locale`` says how its numbers are written.
        """

    async def read_value(self, url: str, selector: str, *, is_number: bool, locale: str | None = None) -> ProbeOutcome:
        """Return the outcome of reading a value of a page; raises ``BusyError`` as ``look`` does."""
