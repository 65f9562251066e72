"""The statements that short ones stand for.

CREATE SOURCES stands for the sources of a list. WATCH stands for a source, a rule on it and, if nothing else declares
it, a profile. ON TROUBLE of a profile stands for a rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from pathlib import PurePath
from typing import Any, TypeAlias

from proxyd.core.errors import ConfigError, RuleCheckError, RuleError
from proxyd.core.language.checking.classes import BUILT_IN
from proxyd.core.language.checking.source_checker import once_each
from proxyd.core.language.checking.word_conditions import over_words, without_words
from proxyd.core.language.syntax.address_lists import LIST_SUFFIX, is_list
from proxyd.core.language.syntax.check_context import CheckMemory, CheckSettings
from proxyd.core.language.syntax.clauses import RULE_CLAUSES, SOURCE_OPTIONS, WATCH_OPTIONS, format_clauses
from proxyd.core.language.syntax.nodes import (
    CreateDomain,
    CreateProfile,
    CreateReceiver,
    CreateSource,
    CreateSources,
    InsertNotification,
    ListedSource,
    ListLine,
    Located,
    Parsed,
    SourceOptions,
    SourceText,
    Statement,
    StatementKind,
    TimeSpec,
    Watch,
    without_scheme,
)
from proxyd.core.model.delivery import Delivery, WebhookDelivery
from proxyd.core.model.expression import Binary, ClassName, Expression, FromClass, Select, TextSpan
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import (
    SITE_CLASS,
    SOURCE_CLASS,
    Anchor,
    FieldType,
    Life,
    Trigger,
    Utility,
    UtilityKind,
    full_name,
    owner_of,
    plain_name,
)
from proxyd.core.model.site import PERIOD

DEFAULT_PROFILE = "default"
_DEFAULT_CLASS = ClassName("FEED", BUILT_IN.name)
_UPTIME_CLASS = ClassName("PAGE", BUILT_IN.name)
"""How the address of a WATCH on the source itself is read, if nothing else says so: any address can be."""
_Reading: TypeAlias = tuple[str | None, str, str, str]
"""Whose an address is, the address, and the domain and the class by which it is read."""
_SOURCE_CLASS_NAME = ClassName(SOURCE_CLASS.name, BUILT_IN.name)


@dataclass(frozen=True, slots=True)
class _ClassInBrief:
    """The domain of a class, and what happens when something new is at its sources."""

    domain: str
    news: EventKind  # INSERT of an item or row, UPDATE of a value, or HEALTH of a site
    texts: tuple[str, ...]  # the paths of the fields where WITHOUT looks for words


def expand(texts: Sequence[Parsed], memory: CheckMemory | None = None) -> list[Parsed]:
    """Return texts, each WATCH and each CREATE SOURCES replaced by the statements that it stands for.

    The sources of a list stand in the list's text. A source that is declared anywhere in the texts for the same address
    and class is used; so is a profile. What a statement stood for before is taken from ``memory``.
    """
    memory = memory or CheckMemory(CheckSettings())
    texts = _with_listed(texts, memory)
    if not any(parsed.source.is_kept or any(isinstance(each, Watch) for each in parsed.statements) for parsed in texts):
        return texts
    return _Expansion(texts, memory).texts()


class _Expansion:
    """The names that the texts declare, and those that earlier WATCH statements have added."""

    def __init__(self, texts: Sequence[Parsed], memory: CheckMemory) -> None:
        self._texts = texts
        self._memory = memory
        declared = [each for parsed in texts for each in parsed.statements]
        self._classes = dict(_classes_in_brief(declared))
        self._profiles = {each.name.value for each in declared if isinstance(each, CreateProfile)}
        self._profiles |= {
            broken.name or "" for parsed in texts for broken in parsed.broken if broken.kind is StatementKind.PROFILE
        }
        sources = [each for each in declared if isinstance(each, CreateSource)]
        self._sources = {self._reading(each, each.page_class): each for each in sources}
        self._taken = {each.name.value for each in sources}
        watched = [each for each in declared if isinstance(each, Watch)]
        self._read_as = {_address(each): self._class_of(each) for each in watched if not _is_of_source(each)}
        self._read_as |= {_address(each): each.page_class for each in sources}

    def texts(self) -> list[Parsed]:
        return [self._text_meant_by(parsed) for parsed in self._texts]

    def _text_meant_by(self, parsed: Parsed) -> Parsed:
        watches = [each for each in parsed.statements if isinstance(each, Watch)]
        if not watches:
            return self._with_profiles(parsed) if parsed.source.is_kept else parsed
        statements = tuple(self._statements_meant_by(parsed.statements))
        errors = [
            error
            for each in watches
            for error in (*self._other_options(each, parsed.source), *self._wrong_words(each, parsed.source))
        ]
        return replace(parsed, statements=statements, errors=(*parsed.errors, *errors))

    def _with_profiles(self, parsed: Parsed) -> Parsed:
        """Return a text of an owner with the profile of its rule, if others have removed that since."""
        rules = (each for each in parsed.statements if isinstance(each, InsertNotification))
        missing = [name for each in rules for name in each.profiles if name.value not in self._profiles]
        self._profiles.update(each.value for each in missing)
        made = (CreateProfile(each, span=each.span) for each in missing)
        return replace(parsed, statements=(*made, *parsed.statements)) if missing else parsed

    def _statements_meant_by(self, statements: Iterable[Statement]) -> Iterator[Statement]:
        for each in statements:
            if isinstance(each, Watch):
                yield from self._meant_by(each)
            else:
                yield each

    def _meant_by(self, watch: Watch) -> Sequence[Statement]:
        """Return the statements that a WATCH stands for; the same objects as before if they mean the same."""
        page_class = watch.page_class or replace(self._class_of(watch), span=watch.url.span)
        profiles = watch.profiles or (Located(DEFAULT_PROFILE, watch.url.span),)
        reading = self._reading(watch, page_class)
        source = self._sources.get(reading)
        missing = tuple(each for each in profiles if each.value not in self._profiles)
        name = self._source_name(watch, page_class) if source is None else source.name
        news = self._brief(watch, page_class)
        depends_on = page_class, missing, source is None, name.value, news
        before = self._memory.recall(watch, ())
        if before is not None and before[0] == depends_on:
            meant: tuple[Statement, ...] = before[1]
        else:
            made: list[Statement] = [CreateProfile(each, span=watch.span) for each in missing]
            if source is None:
                how = {option: getattr(watch, option) for option in _HOW_TO_READ}
                made.append(CreateSource(name, page_class, watch.url, span=watch.span, **how))
            meant = (*made, self._rule(watch, profiles, name, page_class))
            self._memory.keep(watch, (), (depends_on, meant))
        self._profiles.update(each.value for each in profiles)
        self._sources.update((reading, each) for each in meant if isinstance(each, CreateSource))
        return meant

    def _other_options(self, watch: Watch, text: SourceText) -> Iterator[RuleError]:
        """Yield an error for each option that differs from that of the source which reads the address."""
        source = self._sources[self._reading(watch, self._class_of(watch))]
        for option, keyword in _HOW_TO_READ.items():
            written, other = getattr(watch, option), getattr(source, option)
            if not written or other == written:
                continue
            has = f"has no {keyword}" if not other else f"has {keyword} {_shown(other)}"
            reader = f"the source {source.name.value!r}, which reads this address,"
            span = (written[0] if isinstance(written, tuple) else written).span
            message = f"{reader} {has}: write the same in both places"
            yield RuleCheckError(message, text=text.text, start=span.start, stop=span.stop, file=text.file)

    def _wrong_words(self, watch: Watch, text: SourceText) -> Iterator[RuleError]:
        """Yield an error for each WITHOUT that leaves out everything, and for what has no texts to look at."""
        known = self._brief(watch, self._class_of(watch))
        has_texts = not _is_of_source(watch) and (known is None or bool(known.texts))
        found: list[tuple[str, TextSpan]] = []
        for words in watch.without:
            if not words.value.strip():
                found.append(("WITHOUT '' leaves out everything; write the words that you do not want", words.span))
            elif not has_texts:
                found.append(("WITHOUT looks at texts, and this has none; write a WHERE", words.span))
        is_of_page = has_texts and (known is None or _is_change_of_page(watch, known))
        if watch.least_words is not None and not is_of_page:
            message = "OVER n WORDS is for changes of a page's text; write a WHERE"
            found.append((message, watch.least_words.span))
        for message, span in found:
            yield RuleCheckError(message, text=text.text, start=span.start, stop=span.stop, file=text.file)

    def _class_of(self, watch: Watch) -> ClassName:
        """Return how an address is read; a WATCH on the source itself reads it as another statement says."""
        if watch.page_class is not None:
            return watch.page_class
        return self._read_as.get(_address(watch), _UPTIME_CLASS) if _is_of_source(watch) else _DEFAULT_CLASS

    def _brief(self, watch: Watch, page_class: ClassName) -> _ClassInBrief | None:
        """Return the class that a statement names; what its owner has declared comes before what is shared."""
        name = page_class.name.casefold()
        qualified = f"{page_class.domain}.{name}" if page_class.domain else name
        return self._class_named(owner_of(watch.name.value), qualified)

    def _class_named(self, owner: str | None, name: str) -> _ClassInBrief | None:
        return self._classes.get((owner, name)) or self._classes.get((None, name))

    def _reading(self, of: Watch | CreateSource, page_class: ClassName) -> _Reading:
        """Return how an address is read."""
        name, owner, domain = page_class.name.casefold(), owner_of(of.name.value), page_class.domain
        if not domain:
            known = self._class_named(owner, name)
            domain = known.domain if known else ""
        return owner, of.url.value, domain, name

    def _source_name(self, watch: Watch, page_class: ClassName) -> Located[str]:
        """Return a free name: the address without its scheme, with its class, the whole one, or with its domain too.

        What was read like this before keeps its name, and with it all that is known of it, wherever others that read
        the address in another way are written.
        """
        address, owner = watch.address, owner_of(watch.name.value)
        of_class = f"{address.value} ({page_class.name})"
        of_domain = f"{address.value} ({page_class.domain}.{page_class.name})"  # of many values of a page
        written = (address.value, of_class, watch.url.value, *[of_domain] * (page_class.domain is not None))
        names = [full_name(owner, each) for each in written]
        free = [each for each in names if each not in self._taken] or names[:1]
        name = self._name_before(free, full_name(owner, of_class), self._reading(watch, page_class)) or free[0]
        self._taken.add(name)
        return replace(address, value=name)

    def _name_before(self, names: Sequence[str], of_class: str, reading: _Reading) -> str | None:
        """Return which of some free names a reading had before, or else the first that no other has that goes on.

        Returns ``None`` for the first name, and for readings by classes of one name: after a restart only names are
        known, and what a name stood for would change with it. The order of the texts decides for these.
        """
        if self._alike[_without_domain(reading)] > 1:
            return None
        before = {each: self._memory.sources.get(each) for each in names}
        readings = {
            each: (owner_of(each), source.url, plain_name(source.domain), source.page_class.casefold())
            for each, source in before.items()
            if source is not None
        }
        known = next((each for each, its in readings.items() if its == reading), None)
        if known is not None:
            return known
        if not readings:  # of sources before a restart only the names are known
            return of_class if of_class in self._memory.names_before and of_class in names else None
        return next((each for each in names if readings.get(each) not in self._readings_of_watches), None)

    @cached_property
    def _readings_of_watches(self) -> Set[_Reading]:
        """How the addresses of all WATCH statements are read."""
        watched = (each for parsed in self._texts for each in parsed.statements if isinstance(each, Watch))
        return {self._reading(each, self._class_of(each)) for each in watched}

    @cached_property
    def _alike(self) -> Counter[tuple[str | None, str, str]]:
        """How many readings there are of each address, under both schemes, by classes of one name."""
        return Counter(map(_without_domain, self._readings_of_watches))

    def _rule(
        self, watch: Watch, profiles: tuple[Located[str], ...], source: Located[str], page_class: ClassName
    ) -> InsertNotification:
        known = self._brief(watch, page_class)
        event = watch.event or (known.news if known else EventKind.INSERT)
        class_name = replace(_SOURCE_CLASS_NAME, span=page_class.span) if event.is_of_source else page_class
        return InsertNotification(
            watch.name,
            profiles=profiles,
            sources=(replace(source, span=watch.url.span),),
            query=Select((), (FromClass(class_name),), span=watch.span),
            trigger=Trigger(event, class_name, _condition(watch, event, known), after=watch.after, span=watch.span),
            start=TimeSpec(Anchor.NOW, span=watch.span),
            end=TimeSpec(Anchor.NEVER, span=watch.span),
            utility=Located(Utility(UtilityKind.STRICT), watch.span),
            deliveries=tuple(replace(each, value=with_short_names(each.value)) for each in watch.deliveries),
            target=watch.target,
            comments=watch.comments,
            span=watch.span,
            **self._clauses(watch, known),
        )

    def _clauses(self, watch: Watch, known: _ClassInBrief | None) -> dict[str, Any]:
        """Return the clauses of a rule that its WATCH gives; what is told of a site does not wait, and names it."""
        written = {name: getattr(watch, name) for name in _OF_THE_RULE}
        if known is None or known.news is not EventKind.HEALTH:
            return written
        span = watch.span
        of_sites: dict[str, Any] = {"life": Life(PERIOD), "quiet": True, "digest": None}
        if watch.is_named and watch.event is None:  # which people know better than its address
            of_sites["message"] = "{rule} {trouble}"
        usual = {name: Located(value, span) for name, value in of_sites.items()}
        return {name: value or usual.get(name) for name, value in written.items()}


def _condition(watch: Watch, event: EventKind, known: _ClassInBrief | None) -> Expression | None:
    """Return the condition of a WATCH: its WHERE, and what WITHOUT and OVER say of its texts."""
    conditions = [] if watch.where is None else [watch.where]
    if known is not None and known.texts and not event.is_of_source:
        if watch.without:
            paths = [("OLD." if event is EventKind.DELETE else "") + each for each in known.texts]
            is_change = _is_change_of_page(watch, known)
            conditions.append(without_words(watch.without, known.texts if is_change else paths, is_change=is_change))
        if watch.least_words is not None:
            conditions.append(over_words(watch.least_words, known.texts))
    return reduce(lambda left, right: Binary("AND", left, right, right.span), conditions) if conditions else None


def _is_change_of_page(watch: Watch, known: _ClassInBrief) -> bool:
    """Whether a WATCH tells of changes of a page that is one row."""
    return known.news is EventKind.UPDATE and watch.event in (None, EventKind.UPDATE)


def trouble_rule(profile: CreateProfile) -> InsertNotification:
    """Return the rule that ON TROUBLE of a profile stands for, without its sources: they follow from other rules."""
    name, span = profile.name, profile.trouble[0].span
    return InsertNotification(
        replace(name, value=f"{name.value}: trouble"),
        profiles=(name,),
        query=Select((), (FromClass(_SOURCE_CLASS_NAME),), span=span),
        trigger=Trigger(EventKind.TROUBLE, _SOURCE_CLASS_NAME, span=span),
        start=TimeSpec(Anchor.NOW, span=span),
        end=TimeSpec(Anchor.NEVER, span=span),
        utility=Located(Utility(UtilityKind.STRICT), span),
        deliveries=tuple(replace(each, value=with_short_names(each.value)) for each in profile.trouble),
        digest=Located(None, span),
        span=profile.span,
    )


def in_profiles(watch: Watch, profile: str, *, stays: bool = False) -> Watch:
    """Return a WATCH in a profile, if it ``stays`` also in those where it is."""
    before = watch.profiles or (Located(DEFAULT_PROFILE),)
    names = dict.fromkeys([*(each.value for each in before if stays), profile])
    return replace(watch, profiles=tuple(map(Located, names)))


def find_watch(statements: Iterable[Statement], url: str, name: str | None) -> Watch | None:
    """Return the WATCH of an address with a name; without a name the one named by its address, or the only one.

    Returns ``None`` if there is none. Raises ``ConfigError``: without a name, several others fit.
    """
    found = [each for each in statements if isinstance(each, Watch) and each.url.value == url]
    named = [each for each in found if each.name.value == (name or each.address.value)]
    if named or name is not None or not found:
        return named[0] if named else None
    if len(found) > 1:
        names = " or ".join(f"--name {each.name.value!r}" for each in found)
        raise ConfigError([f"{url} is watched {len(found)} times; choose one by {names}"])
    return found[0]


def with_options_of(old: Watch, new: Watch) -> Watch:
    """Return a WATCH with the options that a newer one has; its other options stay."""
    return replace(old, **{each.attribute: value for each in WATCH_OPTIONS if (value := getattr(new, each.attribute))})


def is_edit(new: Statement, old: Statement) -> bool:
    """Return whether a statement can take the place of another of its kind and name, which says nothing more.

    Classes and options that only the other one has are somebody's own; the check then says that the name is taken.
    """
    if new.kind is not old.kind or new.name.value != old.name.value:
        return False
    if isinstance(new, CreateDomain) and isinstance(old, CreateDomain):
        return _names_of(new) == _names_of(old)
    if isinstance(new, CreateSource) and isinstance(old, CreateSource):
        return all(getattr(new, each.attribute) for each in SOURCE_OPTIONS if getattr(old, each.attribute))
    return False


def _names_of(domain: CreateDomain) -> list[tuple[str, list[str]]]:
    return [(each.name.value, [field.path.value for field in each.fields]) for each in domain.classes]


def options_kept(old: Watch, edited: Watch) -> list[str]:
    """Return the options that ``with_options_of`` has left as they were, in their written form, but no name and class.

    A clause such as WITHOUT would otherwise stay in silence where somebody asks for other words.
    """
    options = (each for each in WATCH_OPTIONS if each.attribute not in ("page_class", "rule_name"))
    kept = (each for each in options if getattr(edited, each.attribute) is getattr(old, each.attribute))
    return format_clauses(edited, kept)


_HOW_TO_READ = {
    each.attribute: " ".join([each.words, *each.value.choices]) for each in SOURCE_OPTIONS if each in WATCH_OPTIONS
}
"""The options of a WATCH that are those of its source, with their keywords."""
_OF_THE_RULE = {each.attribute for each in WATCH_OPTIONS} & {each.attribute for each in RULE_CLAUSES}
_OF_THE_RULE -= {"deliveries", "profiles"}
"""The options of a WATCH that are clauses of its rule; WITHIN sets two."""


def deliveries_of(receiver: CreateReceiver) -> tuple[Delivery, ...]:
    """Return the deliveries of a receiver; each knows its name, and webhooks get short names of fields."""
    written: list[Any] = [with_short_names(each.value) for each in receiver.to]
    return once_each(replace(each, receiver=plain_name(receiver.name.value)) for each in written)


def with_short_names(delivery: Delivery) -> Delivery:
    """Return a delivery whose payload, unless one is chosen, has short names."""
    if isinstance(delivery, WebhookDelivery) and not delivery.payload:
        return replace(delivery, payload=2)
    return delivery


def _shown(option: object) -> str:
    """Return the value of an option for an error."""
    values = option if isinstance(option, tuple) else (option,)
    return ", ".join(repr(getattr(each, "value", each)) for each in values)


def _is_of_source(watch: Watch) -> bool:
    """Whether a WATCH is on the source itself, and leaves it to other statements how the address is read."""
    return watch.page_class is None and watch.event is not None and watch.event.is_of_source


def _without_domain(reading: _Reading) -> tuple[str | None, str, str]:
    owner, url, _, name = reading
    return owner, without_scheme(url), name


def _address(of: Watch | CreateSource) -> tuple[str | None, str]:
    return owner_of(of.name.value), of.url.value


def _classes_in_brief(statements: Iterable[Statement]) -> Iterator[tuple[tuple[str | None, str], _ClassInBrief]]:
    """Yield the classes by owner and name, in lower case; a declared one comes after a built-in one that it hides."""
    for name, built_in in BUILT_IN.classes.items():
        types = [(each.path, each.type) for each in built_in.fields]
        brief = _in_brief(BUILT_IN.name, types, has_rows=built_in.each is not None)
        yield from _under_names(None, name, replace(brief, news=EventKind.HEALTH) if built_in == SITE_CLASS else brief)
    for statement in statements:
        if isinstance(statement, CreateDomain):
            for declared in statement.classes:
                types = [(each.path.value, each.type) for each in declared.fields]
                domain, owner = plain_name(statement.name.value), owner_of(statement.name.value)
                brief = _in_brief(domain, types, has_rows=declared.each is not None)
                yield from _under_names(owner, declared.name.value, brief)


def _under_names(
    owner: str | None, name: str, brief: _ClassInBrief
) -> Iterator[tuple[tuple[str | None, str], _ClassInBrief]]:
    """Yield a class by its name, and by that after its domain's."""
    yield (owner, name.casefold()), brief
    yield (owner, f"{brief.domain}.{name.casefold()}"), brief


def _in_brief(domain: str, types: Sequence[tuple[str, FieldType]], *, has_rows: bool) -> _ClassInBrief:
    texts = tuple(path for path, type_ in types if type_ is FieldType.STRING)
    if is_feed := any(path.lower().startswith("channel.") for path, _ in types):
        texts = tuple(path.split(".")[-1] for path in texts if path.lower() in _TEXTS_OF_ITEMS)
    return _ClassInBrief(domain, EventKind.INSERT if is_feed or has_rows else EventKind.UPDATE, texts)


_TEXTS_OF_ITEMS = {f"channel.item.{name}" for name in ("title", "description", "content")}
_OPTIONS = [each.name for each in fields(SourceOptions) if each.name not in ("comments", "span")]


def _with_listed(texts: Sequence[Parsed], memory: CheckMemory) -> list[Parsed]:
    """Return texts where the text of each list declares its sources, instead of CREATE SOURCES in another text.

    Without its list CREATE SOURCES stays as it is. What a list stood for before is taken from ``memory``.
    """
    lists = {each.source.file: place for place, each in enumerate(texts) if is_list(each.source.file)}
    found = {place: list[Statement]() for place in lists.values()}
    texts = list(texts)
    for place, parsed in enumerate(texts):
        others: list[Statement] = []
        for each in parsed.statements:
            beside = _list_beside(parsed.source, each.file.value) if isinstance(each, CreateSources) else None
            if isinstance(each, CreateSources) and beside in lists:
                found[lists[beside]].extend(_sources(each, texts[lists[beside]], memory))
            else:
                others.append(each)
        if len(others) < len(parsed.statements):
            texts[place] = replace(parsed, statements=tuple(others))
    for place, statements in found.items():
        texts[place] = replace(texts[place], statements=tuple(statements))
    return texts


def _list_beside(text: SourceText, name: str) -> str:
    """Return the file of a list that a text names.

    >>> _list_beside(SourceText("profiles/main.profile", ""), "feeds.csv")
    'profiles/feeds.csv'
    """
    return str(PurePath(text.file).parent / name)


def list_problem(statement: CreateSources, text: SourceText, files: Set[str]) -> str | None:
    """Return why the list of a statement cannot be read, or ``None`` if it is among the declaration's ``files``."""
    name = statement.file.value
    if not is_list(name) or PurePath(name).name != name:
        return f"a list is a file {LIST_SUFFIX} beside the profile, such as 'feeds{LIST_SUFFIX}'; found {name!r}"
    if _list_beside(text, name) not in files:
        return f"there is no file {name!r} beside this profile; create it, with an address on each line"
    return None


def _sources(statement: CreateSources, listed: Parsed, memory: CheckMemory) -> tuple[ListedSource, ...]:
    """Return the sources of a list; those of lines at the same place as before are the same objects."""
    before: Mapping[ListLine, ListedSource] = memory.recall(statement, ()) or {}
    options = {name: getattr(statement, name) for name in _OPTIONS}
    found: dict[ListLine, ListedSource] = {}
    sources: list[ListedSource] = []
    for line in listed.lines:
        source = before.get(line)
        if source is None or source.span != line.url.span:
            name = _name_of(statement, line)
            source = ListedSource(name, statement.page_class, line.url, span=line.url.span, **options)
        found[line] = source
        sources.append(source)
    memory.keep(statement, (), found)
    return tuple(sources)


def _name_of(statement: CreateSources, line: ListLine) -> Located[str]:
    """Return the name of a source: the prefix, and its name in the list or its address without scheme."""
    name = line.name or replace(line.url, value=without_scheme(line.url.value))
    return replace(name, value=statement.name.value + name.value)
