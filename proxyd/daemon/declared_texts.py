"""The texts of a declaration, of files and of the API: read, checked, and asked what they declare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain
from operator import attrgetter
from types import MappingProxyType

from proxyd.core.errors import ConflictError, ProfileError, RuleCheckError, RuleError
from proxyd.core.language import (
    DEFAULT_PROFILE,
    MAX_SENT_BYTES,
    MAX_STATEMENT_BYTES,
    Checked,
    CheckSettings,
    CreateProfile,
    CreateSource,
    CreateSources,
    DropStatement,
    InsertNotification,
    Parsed,
    SourceText,
    Statement,
    StatementKind,
    Watch,
    WrittenAddress,
    check_parsed,
    expand,
    format_statements,
    give_owners,
    parse,
    watch_of,
    what_is_unfit,
    without_scheme,
    written_address,
    written_as,
)
from proxyd.core.language.hidden_addresses import hide_channels
from proxyd.core.model.delivery import SecretRef, WebhookDelivery
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import SITE_CLASS, Declaration, Source, full_name, owner_of, plain_name
from proxyd.store.declared_rows import StoredText


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


API_TEXT = "api"
_MOST_NAMED = 5
NOTHING_PARSED: Mapping[SourceText, Parsed] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GivenTexts:
    """The texts of a declaration: the files of the profiles directory, and what was sent to the API, by key."""

    files: Sequence[SourceText]
    api: Mapping[str, str]

    @classmethod
    def of_stored(cls, stored: Sequence[StoredText]) -> GivenTexts:
        """Return what ``stored`` returned."""
        files = [SourceText(each.name, each.text) for each in stored if each.origin == "file"]
        return cls(files, {each.name: each.text for each in stored if each.origin == API_TEXT})

    def all(self) -> list[SourceText]:
        """Return all texts, those of the API last."""
        return [*self.files, *texts_of(self.api)]

    def texts_of_owner(self, profile: str) -> list[str]:
        """Return the names of the texts of the API that belong to a profile."""
        return [key for key in self.api if owner_of(_name_in(key)) == profile]

    def rows(self) -> list[StoredText]:
        """Return the texts as they are stored."""
        files = [StoredText(each.file, "file", each.text) for each in self.files]
        return [*files, *(StoredText(name, API_TEXT, text) for name, text in self.api.items())]

    def digest(self) -> str:
        """Return a digest of the texts, by which planners compare what they run; takes long if there are many."""
        found = sha256()
        for each in sorted(self.all(), key=attrgetter("file")):
            for part in (each.file, each.text):
                found.update(f"{len(part)}:{part}".encode())
        return found.hexdigest()


@dataclass(frozen=True, slots=True)
class WrittenStatement:
    """A statement where it stands: in ``origin``, which is ``api`` or a file, from ``line`` on."""

    origin: str
    line: int
    statement: Statement

    @property
    def text(self) -> str:
        """Its text in canonical layout."""
        return format_statements([self.statement])


@dataclass(frozen=True, slots=True)
class DeclaredTexts:
    """The texts of a declaration, read; most texts of the next one are the same."""

    # What each text says, and the same by file
    parsed: Mapping[SourceText, Parsed]
    in_file: Mapping[str, Parsed]
    # The statements as written, and with what each WATCH and each list stands for, each with its file
    statements: Sequence[tuple[str, Statement]]
    expanded: Sequence[tuple[str, Statement]]
    declared: Mapping[StatementKind, Mapping[str, tuple[str, Statement]]]  # the latter by kind and name
    sites: Mapping[str, Sequence[tuple[str, Watch]]]  # each WATCH of a site, with its file, by address without scheme
    checked: Checked | None  # what they mean

    @classmethod
    def of(cls, checked: Checked) -> DeclaredTexts:
        """Return the texts of a checked declaration."""
        written = [_by_file(each) for each in checked.texts]
        expanded = [
            pairs if each is text else _by_file(each)
            for text, each, pairs in zip(checked.texts, checked.expanded, written, strict=True)
        ]
        declared: dict[StatementKind, dict[str, tuple[str, Statement]]] = {}
        for pair in chain.from_iterable(expanded):
            declared.setdefault(pair[1].kind, {})[pair[1].name.value] = pair
        sites: dict[str, list[tuple[str, Watch]]] = {}
        for file, statement in chain.from_iterable(written):
            if isinstance(statement, Watch) and _is_of_site(statement):
                sites.setdefault(statement.address.value, []).append((file, statement))
        return cls(
            {each.source: each for each in checked.texts},
            {each.source.file: each for each in checked.texts},
            [*chain.from_iterable(written)],
            [*chain.from_iterable(expanded)],
            declared,
            sites,
            checked,
        )

    def refuse_owned(self, kind: StatementKind, name: str) -> None:
        """Raise ``ConflictError`` if a file declares something."""
        file, _ = self._declaration_of(kind, name)
        if file is not None and origin(file) != API_TEXT:
            raise ConflictError(f"{kind.value.lower()} {name!r} is declared in {file}; change it there")

    def _declaration_of(self, kind: StatementKind, name: str) -> tuple[str | None, Statement | None]:
        """Return the file, or the name of the API's text, and the statement that declare something."""
        return self.declared.get(kind, {}).get(name, (None, None))

    def is_of_api(self, kind: StatementKind, name: str) -> bool:
        """Whether a statement of the API declares something, by itself or with others."""
        file, _ = self._declaration_of(kind, name)
        return file is not None and origin(file) == API_TEXT

    def address_of(self, source: str) -> WrittenAddress | None:
        """Return where the address of a source is written."""
        file, declared = self._declaration_of(StatementKind.SOURCE, source)
        return written_address(self.in_file[file], declared) if isinstance(declared, CreateSource) and file else None

    def written_of(self, kind: StatementKind, name: str) -> WrittenStatement | None:
        """Return the statement that declares something, as it is written, or ``None`` if nothing declares it."""
        file, declared = self._declaration_of(kind, name)
        if file is None or declared is None:
            return None
        text = self.in_file[file]
        line = text.source.text.count("\n", 0, declared.span.start) + 1
        return WrittenStatement(origin(file), line, written_as(text, declared))

    def watch_of(self, rule: str) -> Watch | None:
        """Return the WATCH that declares a rule over the API; ``None`` if another statement or a file does."""
        file, declared = self._declaration_of(StatementKind.NOTIFICATION, rule)
        if file is None or declared is None or origin(file) != API_TEXT:
            return None
        return watch_of(self.in_file[file], declared)

    def site_watches(self, url: str, owner: str | None) -> list[Watch]:
        """Return each WATCH of an owner, or shared, over the API of the site at an address; named ones come first."""
        over_api = (watch for file, watch in self.sites.get(without_scheme(url), ()) if origin(file) == API_TEXT)
        found = [watch for watch in over_api if owner_of(watch.name.value) == owner]
        of_url = [watch for watch in found if watch.url.value.rstrip("/") == url.rstrip("/")]
        return sorted(of_url, key=lambda watch: not watch.is_named)

    def site_name(self, site: Source) -> str | None:
        """Return the name that AS gives a site, or ``None``; others may watch its address too."""
        watches = (watch for _, watch in self.sites.get(without_scheme(site.url), ()) if watch.url.value == site.url)
        own = (each for each in watches if owner_of(each.name.value) == owner_of(site.source_id))
        return next((plain_name(each.name.value) for each in own if each.is_named), None)

    def text_of(self, profile: str, owners: Sequence[str] = ()) -> str:
        """Return the text of a profile and its rules in canonical layout.

        Only some ``owners`` may see it if there are any: without other profiles, and without others' tokens of chats.
        """
        found = (statement for _, statement in self.statements if _is_of(profile, statement))
        if not owners:
            return format_statements(found)
        texts = ((each, format_statements([_only_in(each, owners)])) for each in found)
        return "\n".join(text if _is_owned(each, owners) else hide_channels(text) for each, text in texts)

    def statements_of(self, profile: str, owners: Sequence[str] = ()) -> list[Statement]:
        """Return the statements of a profile and its rules, with what each WATCH stands for.

        Only some ``owners`` may see them if there are any: without other profiles.
        """
        found = self._statements_of(profile)
        return [_only_in(each, owners) for each in found] if owners else found

    def _statements_of(self, profile: str) -> list[Statement]:
        watches = {(file, each.span) for file, each in self.statements if isinstance(each, Watch)}
        own = watches & {(file, each.span) for file, each in self.expanded if _is_of(profile, each)}
        files = {file for file, _ in own}  # of 100,000 sources, most are in others
        return [
            each
            for file, each in self.expanded
            if (isinstance(each, CreateSource) and file in files and (file, each.span) in own) or _is_of(profile, each)
        ]

    def files_of_rules_only_in(self, profile: str) -> Iterator[str]:
        """Yield where each rule stands that is in this profile and in no other."""
        for file, statement in self.expanded:
            if isinstance(statement, InsertNotification) and {p.value for p in statement.profiles} == {profile}:
                yield file

    def pairs_of_api(self, declaration: Declaration) -> int:
        """Return how many pairs of a rule and a source exist because of the API; takes long if there are many."""
        sources = self.declared.get(StatementKind.SOURCE, {})
        own = {name for name, (file, _) in sources.items() if origin(file) == API_TEXT}
        found = 0
        for rule in declaration.rules.values():
            is_own = origin(rule.file) == API_TEXT
            found += len(rule.source_ids) if is_own else sum(name in own for name in rule.source_ids) if own else 0
        return found


NOTHING_DECLARED = DeclaredTexts(NOTHING_PARSED, {}, (), (), {}, {}, None)


@dataclass(frozen=True, slots=True)
class CheckedTexts:
    """A declaration without errors."""

    declaration: Declaration
    warnings: Sequence[RuleError]
    written: DeclaredTexts


def origin(file: str) -> str:
    """Return ``api`` or the file that holds a declaration."""
    return API_TEXT if file.startswith(f"{API_TEXT}:") else file


def key_of(kind: StatementKind, name: str) -> str:
    """Return the name of the API's text that declares something."""
    return f"{API_TEXT}:{kind.value.lower()}:{name}"


def keys_of(kind: StatementKind, name: str) -> list[str]:
    """Return the names that the API's text of something may have: a profile may own itself."""
    own = [key_of(kind, full_name(name, name))] if kind is StatementKind.PROFILE else []
    return [key_of(kind, name), *own]


def _name_in(key: str) -> str:
    return key.split(":", 2)[-1]


def describe_removal(keys: Sequence[str]) -> tuple[str, str]:
    """Return the kind and the name of what some of the API's texts declared.

    >>> describe_removal(["api:notification:a", "api:notification:b"])
    ('notification', 'a, b')
    >>> describe_removal([f"api:source:{number}" for number in range(9)] + ["api:profile:P"])
    ('statements', '0, 1, 2, 3, 4 and 5 more')
    >>> describe_removal(["api:profile:P⋮P"])  # a profile that owns itself
    ('profile', 'P')
    """
    pairs = [key.split(":", 2)[1:] for key in keys]
    kinds = {kind for kind, _ in pairs}
    names = [plain_name(name) if kind == "profile" else name for kind, name in pairs]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return kinds.pop() if len(kinds) == 1 else "statements", ", ".join(names[:_MOST_NAMED]) + more


def sources_only_of(profile: str, declaration: Declaration) -> set[str]:
    """Return the sources that no rule reads once the rules are gone that are in this profile and in no other."""
    rules = declaration.rules.values()
    gone = {name for rule in rules if set(rule.profiles) == {profile} for name in rule.source_ids}
    return gone.difference(*(rule.source_ids for rule in rules if set(rule.profiles) != {profile})) if gone else gone


def texts_of(api: Mapping[str, str]) -> list[SourceText]:
    """Return the API's texts."""
    owned = ((name, text, owner_of(_name_in(name)) is not None) for name, text in api.items())
    return [SourceText(name, text, is_owned, is_owned) for name, text, is_owned in owned]


def read_sent(
    texts: Sequence[str | Parsed],
    owners: Sequence[str] = (),
    api: Mapping[str, str] = MappingProxyType({}),
    seen: Declaration | None = None,
) -> tuple[list[Parsed], dict[str, str]]:
    """Return texts sent to the API parsed, and the text of each of their statements; raises ``ProfileError``.

    If whoever sends them writes only the profiles of some ``owners``, what they declare belongs to these, and its
    messages are signed only where those of what they have ``seen`` are.
    """
    parsed = [_parse_text(text) for text in texts]
    if owners:
        signed = _signed_webhooks(seen)
        parsed = [give_owners(each, owners, lambda kind, name: key_of(kind, name) in api, signed) for each in parsed]
    if errors := [error for each in parsed for error in each.errors]:
        raise ProfileError(errors)
    kept = [(p.source, s) for p in parsed for s in p.statements if not isinstance(s, DropStatement)]
    printed = {_key_of(s, source): format_statements([s]) for source, s in kept}
    for source, statement in kept:
        text = printed[_key_of(statement, source)]
        if (problem := _what_is_unfit(statement, text)) is not None:
            at, text = statement.name.span, source.text
            raise ProfileError([RuleCheckError(problem, text=text, start=at.start, stop=at.stop, file=source.file)])
    return parsed, printed


def check_texts(
    texts: Sequence[SourceText], parsed: Mapping[SourceText, Parsed], settings: CheckSettings, before: DeclaredTexts
) -> CheckedTexts:
    """Return the declaration of all texts together, some parsed and checked before; raises ``ProfileError``."""
    found = ((text, parsed.get(text) or before.parsed.get(text)) for text in texts)
    checked = check_parsed([each or _parse_kept(text) for text, each in found], settings, before.checked)
    if checked.declaration is None:
        raise ProfileError(checked.errors)
    return CheckedTexts(checked.declaration, checked.warnings, DeclaredTexts.of(checked))


def only_profile(parsed: Parsed) -> str:
    """Return the name of the only profile that a text declares.

    Raises
    ------
    ConflictError
        It declares no profile, or several.

    Examples
    --------
    >>> only_profile(parse('CREATE PROFILE "P" AS (DOMAIN "D", USER "u");'))
    'P'
    """
    names = [each.name.value for each in expand([parsed])[0].statements if isinstance(each, CreateProfile)]
    if len(names) != 1:
        raise ConflictError("If-Match applies to one profile; send a text that declares exactly one")
    return names[0]


def _signed_webhooks(seen: Declaration | None) -> frozenset[tuple[str, SecretRef]]:
    """Return the address and the secret of each webhook that a rule tells, other than by the name of a receiver."""
    told = (its for rule in seen.rules.values() for its in rule.deliveries) if seen is not None else ()
    return frozenset(
        (each.url, each.secret) for each in told if isinstance(each, WebhookDelivery) and not each.receiver
    )


def _parse_text(text: str | Parsed) -> Parsed:
    return text if isinstance(text, Parsed) else parse(text, API_TEXT, most_bytes=MAX_SENT_BYTES)


def _parse_kept(text: SourceText) -> Parsed:
    return replace(parse(text.text, text.file), source=text)


def _key_of(statement: Statement, source: SourceText) -> str:
    return keys_of(statement.kind, statement.name.value)[-1 if source.is_owned else 0]


def _what_is_unfit(statement: Statement, printed: str) -> str | None:
    """Return why a statement cannot be kept by the API."""
    if isinstance(statement, CreateSources):
        return "CREATE SOURCES is for files of the profiles directory; send a CREATE SOURCE for each address"
    # printing doubles the quotes in names, so what was short enough may be too long now
    unfit = what_is_unfit(SourceText("", printed), MAX_STATEMENT_BYTES)
    return None if unfit is None else unfit.message


def _only_in(statement: Statement, owners: Sequence[str]) -> Statement:
    """Return a statement without the profiles that are of others."""
    if not isinstance(statement, InsertNotification | Watch) or not statement.profiles:
        return statement
    return replace(statement, profiles=tuple(each for each in statement.profiles if each.value in owners))


def _is_owned(statement: Statement, owners: Sequence[str]) -> bool:
    return isinstance(statement, CreateProfile) or owner_of(statement.name.value) in owners


def _is_of(profile: str, statement: Statement) -> bool:
    match statement:
        case CreateProfile():
            return statement.name.value == profile
        case InsertNotification():
            return profile in {each.value for each in statement.profiles}
        case Watch():
            return profile in ({each.value for each in statement.profiles} or {DEFAULT_PROFILE})
        case _:
            return False


def _is_of_site(watch: Watch) -> bool:
    """Whether a WATCH tells how a site fares, and not of another event of its source."""
    is_site = watch.page_class is not None and watch.page_class.name.upper() == SITE_CLASS.name
    return is_site and watch.event in {None, EventKind.HEALTH}


def _by_file(parsed: Parsed) -> list[tuple[str, Statement]]:
    return [(parsed.source.file, statement) for statement in parsed.statements]
