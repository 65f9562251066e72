"""Reads texts into statements. Reports every error and continues at the next clause or statement."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from proxyd.core.errors import RuleError, RuleSyntaxError, suggest
from proxyd.core.language.syntax.address_lists import is_list, read_list
from proxyd.core.language.syntax.clauses import ADDS_UP, CLAUSE_STARTS, parse_clause
from proxyd.core.language.syntax.expressions import (
    QUERY_CLAUSES,
    TRIGGER_CLAUSES,
    parse_name,
    parse_select,
    parse_trigger,
)
from proxyd.core.language.syntax.nodes import Broken, InsertNotification, Parsed, SourceText, Statement, StatementKind
from proxyd.core.language.syntax.scanner import Comment, Lexeme, Scan, scan, scan_inner, scan_part
from proxyd.core.language.syntax.statement_syntax import (
    PROFILE_ITEMS,
    Head,
    parse_class_declaration,
    parse_field,
    parse_head,
    parse_profile_item,
)
from proxyd.core.language.syntax.token_reader import (
    MAX_ERRORS,
    MAX_STATEMENT_BYTES,
    NAMES,
    TOO_LONG,
    Complaint,
    TokenReader,
    attempt,
    attempt_whole,
)
from proxyd.core.language.syntax.words import get_keyword
from proxyd.core.model.expression import TextSpan

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_SENT_BYTES = 1024 * 1024
"""Length of a text that is sent to the API."""
_EVERYTHING = tuple(Broken(kind, None) for kind in StatementKind)
_GAP = re.compile("[ \t;]*")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_MOST_LATER = 100  # complaints after the first of a text or head


class _InnerText(NamedTuple):
    """A text in double quotes: how it is read, and its clauses, where reading goes on after an error."""

    read: Callable[[TokenReader], Any]
    clauses: Mapping[str, Callable[[TokenReader], Any]]


_HEADS = {
    "CREATE": frozenset({"DOMAIN", "SOURCE", "PROFILE", "RECEIVER"}),
    "INSERT": frozenset({"NOTIFICATION"}),
    "DROP": frozenset({"DOMAIN", "SOURCE", "PROFILE", "RECEIVER", "NOTIFICATION"}),
    "WATCH": frozenset(),
}
_KINDS = {kind.value: kind for kind in StatementKind}
_AFTER_A_HEAD = frozenset({"CREATE", "INSERT", "DROP", "DELIVER", "DIGEST"})
_BEGINNINGS = frozenset(_HEADS).union(*(starts for kind, starts in CLAUSE_STARTS.items() if kind != "WATCH"))
_INNER_TEXTS: Mapping[str, _InnerText] = MappingProxyType(
    {
        "query": _InnerText(parse_select, QUERY_CLAUSES),
        "trigger": _InnerText(parse_trigger, TRIGGER_CLAUSES),
    }
)
"""The texts in double quotes, by the clause that holds them."""
_REQUIRED = {
    "profiles": "INTO",
    "query": "SET QUERY",
    "trigger": "SET TRIGGER",
}
_DELIVERIES = frozenset({"no_delivery", "deliveries"})
_TITLES = {"profiles": "INTO", "sources": "FROM SOURCES", "no_delivery": "SET DELIVERY NONE"}


@dataclass(slots=True)
class _Draft:
    """A statement being read: the kind of its clauses, its head, and the values of its clauses."""

    kind: str
    head: Head | None = None
    span: TextSpan | None = None
    values: dict[str, Any] = field(default_factory=dict)


class _Reader:
    """Reads one file."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        scanned = scan(source)
        self._parser = TokenReader(scanned.tokens)
        self._tokens = scanned.tokens
        self._statements: list[Statement] = []
        self._comments = list(scanned.comments)
        self._errors: list[RuleError] = list(scanned.errors)
        self._broken: list[Broken] = []

    def read(self) -> Parsed:
        parser = self._parser
        while parser.token.shape != "END" and not self._has_enough():
            if parser.token.word == ";":
                parser.move(parser.at + 1)
            else:
                self._read_statement()
        if self._has_enough():
            self._broken += _EVERYTHING
        self._errors.sort(key=lambda error: (error.start, error.stop))
        statements, tail = _attach_comments(self._source.text, self._statements, self._comments)
        return Parsed(self._source, statements, tuple(self._errors[:MAX_ERRORS]), tail, tuple(self._broken))

    # ---- statements

    def _read_statement(self) -> None:
        begin = self._parser.at
        draft = self._read_head(begin)
        while not self._is_at_end(begin, draft.kind) and not self._has_enough():
            self._read_part(draft)
        self._close(draft, begin)

    def _read_head(self, begin: int) -> _Draft:
        parser, first, second = self._parser, self._tokens[begin], self._tokens[begin + 1]
        kind = _kind_of(first, second)
        clauses = "WATCH" if first.word == "WATCH" else second.word if kind is not None else ""
        head = attempt(parser, begin, parse_head)
        if not isinstance(head, Complaint):
            return _Draft(clauses, head, TextSpan(first.start, self._tokens[parser.at - 1].stop))
        stop = parser.at
        self._report(head)
        if kind in (StatementKind.DOMAIN, StatementKind.PROFILE):
            for complaint in islice(_later_in_head(parser, begin, head), _MOST_LATER):
                self._complain(complaint)
        if (unread := kind or _guess_kind(second)) is not None:
            name = self._token(begin + 2)
            is_named = name.shape in NAMES and stop > begin + 2
            self._broken.append(Broken(unread, name.value if is_named else None))
        self._skip(max(stop, begin + 1), clauses)
        return _Draft(clauses)

    def _read_part(self, draft: _Draft) -> None:
        """Read one clause or option, or report the token in its place."""
        parser, begin, starts = self._parser, self._parser.at, CLAUSE_STARTS.get(draft.kind, ())
        if parser.token.word not in starts:
            complaint = parser.complain([word for word in (*starts, "';'") if word != "FROM"])
            is_of_source = draft.kind == "WATCH" and parser.token.word in CLAUSE_STARTS["SOURCE"]
            hint = " Only CREATE SOURCE takes it: write a source and a rule in place of WATCH." if is_of_source else ""
            self._complain(replace(complaint, message=complaint.message + hint))
            self._skip(begin + 1, draft.kind)
            return
        clause = attempt(parser, begin, lambda parser: parse_clause(parser, draft.kind))
        if isinstance(clause, Complaint):
            self._report(replace(clause, message=f"{self._title(begin)}: {clause.message}"))
            self._skip(max(parser.at, begin + 1), draft.kind)
            return
        for attribute, value in clause.values.items():
            self._set(draft, attribute, value, begin, clause.span)

    def _set(self, draft: _Draft, attribute: str, value: Any, begin: int, span: TextSpan) -> None:
        """Keep the value of a clause; a clause that is given twice is an error."""
        if attribute in _INNER_TEXTS:
            value = self._read_inner(attribute, value)
            if value is None:
                return
        if attribute in ADDS_UP:
            draft.values[attribute] = draft.values.get(attribute, ()) + value
        elif attribute in draft.values:
            message = f"{_TITLES.get(attribute) or self._title(begin)} is given twice"
            self._complain(Complaint(message, span.start, span.stop))
        else:
            draft.values[attribute] = value
        if attribute in _DELIVERIES and draft.values.keys() >= _DELIVERIES:
            message = "SET DELIVERY NONE cannot be combined with another SET DELIVERY"
            self._complain(Complaint(message, span.start, span.stop))

    def _read_inner(self, name: str, quoted: Lexeme) -> Any:
        """Return the query or trigger in a text in double quotes."""
        if quoted.broken:
            return None
        inner = scan_inner(self._source, quoted)
        self._comments.extend(inner.comments)
        if inner.errors:
            self._errors.extend(inner.errors)
            return None
        value = _read_text(inner.tokens, _INNER_TEXTS[name])
        for complaint in value if isinstance(value, list) else ():
            self._complain(replace(complaint, message=f"SET {name.upper()}: {complaint.message}"))
        return None if isinstance(value, list) else value

    def _close(self, draft: _Draft, begin: int) -> None:
        """Finish a statement at the current token."""
        if draft.head is None or draft.span is None:
            return
        span = TextSpan(draft.span.start, self._tokens[max(begin, self._parser.at - 1)].stop)
        statement = draft.head.made(**draft.head.values, **draft.values, span=span)
        if 4 * span.length > MAX_STATEMENT_BYTES and _is_longer(
            self._source.text[span.start : span.stop], MAX_STATEMENT_BYTES
        ):
            if not self._has_error(span.start, span.stop):
                self._complain(Complaint(TOO_LONG, draft.span.start, draft.span.stop))
            self._broken.append(Broken(statement.kind, statement.name.value))
            return
        if isinstance(statement, InsertNotification):
            self._require(statement.name.value, draft.values, draft.span)
        self._statements.append(statement)

    def _require(self, name: str, given: Collection[str], head: TextSpan) -> None:
        """Report missing clauses, unless an error may be the reason that they are missing."""
        message = what_lacks(name, given)
        if message and not self._has_error(head.start, self._parser.token.start):
            self._complain(Complaint(message, head.start, head.stop))

    # ---- moving on

    def _skip(self, at: int, kind: str) -> None:
        """Move to the next ``;``, statement or clause at or after ``at``."""
        while self._tokens[at].shape != "END" and not self._goes_on_at(at, kind):
            at += 1
        self._parser.move(at)

    def _goes_on_at(self, at: int, kind: str) -> bool:
        word = self._tokens[at].word
        if word == ";" or (word in _HEADS and self._begins_statement(at, kind)):
            return True
        is_start = word in CLAUSE_STARTS.get(kind, ())
        # FROM alone belongs to a field, or to a query whose quotes were forgotten
        return is_start and (word != "FROM" or self._tokens[at + 1].word == "SOURCE")

    def _is_at_end(self, begin: int, kind: str) -> bool:
        token, at = self._parser.token, self._parser.at
        if token.shape == "END" or token.word == ";":
            return True
        if at == begin or token.word not in _HEADS:
            return False
        return kind != "WATCH" or self._begins_statement(at, kind)

    def _begins_statement(self, at: int, kind: str) -> bool:
        """Whether the word at a place, among clauses, begins a statement and is not an event such as INSERT."""
        following = self._tokens[at + 1]
        if kind == "WATCH":
            return following.shape == "TEXT" or _kind_of(self._tokens[at], following) is not None
        return kind != "NOTIFICATION" or following.shape in (*NAMES, "TEXT")

    def _token(self, at: int) -> Lexeme:
        return self._tokens[min(at, len(self._tokens) - 1)]

    # ---- errors

    def _has_error(self, start: int, stop: int) -> bool:
        return any(start <= error.start <= stop for error in self._errors)

    def _has_enough(self) -> bool:
        return len(self._errors) >= MAX_ERRORS

    def _title(self, begin: int) -> str:
        """Return the name of the clause that starts at a token, as users write it."""
        first, second = self._tokens[begin].word, self._token(begin + 1).word
        return f"{first} {second}" if first == "SET" and second.isalpha() else first

    def _report(self, complaint: Complaint) -> None:
        """Report why a head or clause cannot be read, unless that is a quote that is not closed."""
        if not _is_at_open_quote(self._parser):
            self._complain(complaint)

    def _complain(self, complaint: Complaint) -> None:
        self._errors.append(complaint.as_error(self._source))


def _kind_of(verb: Lexeme, noun: Lexeme) -> StatementKind | None:
    """Return the kind of object that a statement declares, from its first two words."""
    return _KINDS[noun.word] if noun.word in _HEADS.get(verb.word, ()) else None


def _guess_kind(noun: Lexeme) -> StatementKind | None:
    """Return the kind of object that a statement with a misspelt head probably declares."""
    close = suggest(noun.value, [kind.value for kind in StatementKind]) if noun.shape == "WORD" else None
    return StatementKind(close) if close is not None else None


def _read_text(tokens: Sequence[Lexeme], text: _InnerText) -> Any:
    """Return the query or trigger in a separate text, which may end with ';', or a list of :class:`Complaint`."""
    if len(tokens) > 1 and tokens[-2].word == ";":
        tokens = (*tokens[:-2], tokens[-1])
    parser = TokenReader(tokens)
    value = attempt_whole(parser, text.read)
    if not isinstance(value, Complaint):
        return value
    return [value, *islice(_later_in_text(parser, text.clauses, value), _MOST_LATER)]


def _later_in_text(
    parser: TokenReader, clauses: Mapping[str, Callable[[TokenReader], Any]], after: Complaint
) -> Iterator[Complaint]:
    """Yield complaints of the clauses of a query or trigger that begin after a complaint."""
    end = 0
    for at, depth in _depths(parser.tokens, 0):
        word = parser.tokens[at].word
        is_inner = depth > 0 and word in ("WHERE", "WHEN", "THEN")  # of FILTER or CASE; other clauses are never inside
        if at < end or is_inner or word not in clauses or parser.tokens[at].start < after.start:
            continue
        complaint = _complaint_of(parser, at + 1, clauses[word])
        if complaint is None and parser.token.word not in clauses and parser.token.shape != "END":
            complaint = parser.complain(["the end of the text"])
        end = max(parser.at, at + 1)
        if complaint is not None:
            yield complaint


def _later_in_head(parser: TokenReader, begin: int, after: Complaint) -> Iterator[Complaint]:
    """Yield complaints of the fields and classes, or the items, of CREATE DOMAIN or PROFILE that follow a complaint."""
    tokens, end, kind = parser.tokens, begin, parser.tokens[begin + 1].word
    for at, depth in _depths(tokens, begin):
        token = tokens[at]
        if token.word == ";" or (at > begin and token.word in _AFTER_A_HEAD):
            return
        rule = _rule_at(kind, token, tokens[at + 1], depth)
        if at < end or rule is None or token.start < after.start:
            continue
        start = at + (token.word == ",")
        complaint = _complaint_of(parser, start, rule)
        if complaint is None and rule is not parse_class_declaration and parser.token.word not in (",", ")"):
            complaint = parser.complain(["','", "')'"])
        end = max(parser.at, start + 1)
        if complaint is not None:
            yield complaint


def _rule_at(kind: str, token: Lexeme, following: Lexeme, depth: int) -> Callable[[TokenReader], Any] | None:
    """Return how the part of a head is read that begins at a token or after a comma."""
    if kind == "DOMAIN" and token.word == "CLASS" and not depth:
        return parse_class_declaration
    if token.word != "," or (kind == "DOMAIN" and not depth):
        return None
    if kind == "DOMAIN":
        return parse_field
    return parse_profile_item if following.word in PROFILE_ITEMS else parse_name


def _depths(tokens: Sequence[Lexeme], begin: int) -> Iterator[tuple[int, int]]:
    """Yield the place of each token but the end, and in how many parentheses and CASEs it stands."""
    depth = 0
    for at in range(begin, len(tokens) - 1):
        word = tokens[at].word
        depth -= word == ")" or (word == "END" and depth > 0)
        yield at, depth
        depth += word in ("(", "CASE")


def _complaint_of(parser: TokenReader, at: int, rule: Callable[[TokenReader], Any]) -> Complaint | None:
    """Return why a part cannot be read, unless that is a quote that is not closed."""
    value = attempt(parser, at, rule)
    return value if isinstance(value, Complaint) and not _is_at_open_quote(parser) else None


def _is_at_open_quote(parser: TokenReader) -> bool:
    return any(each.broken for each in parser.tokens[max(parser.at - 1, 0) : parser.at + 1])


def _attach_comments(
    text: str, statements: Sequence[Statement], comments: Sequence[Comment]
) -> tuple[tuple[Statement, ...], tuple[str, ...]]:
    """Give each statement the comments before it, inside it and after it on its last line."""
    waiting = deque(sorted(comments, key=lambda comment: comment.start))
    result: list[Statement] = []
    for statement in statements:
        own = []
        while waiting and _belongs(text, waiting[0], statement):
            own.append(waiting.popleft().text)
        result.append(replace(statement, comments=tuple(own)) if own else statement)
    return tuple(result), tuple(comment.text for comment in waiting)


def _belongs(text: str, comment: Comment, statement: Statement) -> bool:
    """Whether a comment stands before the end of a statement, or after it on its line."""
    gap = _GAP.match(text, statement.span.stop)
    return comment.start < statement.span.stop or (gap is not None and gap.end() == comment.start)


def what_lacks(name: str, given: Collection[str]) -> str | None:
    """Return a message with the clauses that a notification lacks, or ``None`` if it is complete."""
    missing = [title for clause, title in _REQUIRED.items() if clause not in given]
    return f"the notification {name!r} lacks {', '.join(missing)}" if missing else None


def what_is_unfit(source: SourceText, most_bytes: int = MAX_FILE_BYTES) -> RuleSyntaxError | None:
    """Return why a text is not read at all: it is too long, or no database can store it."""
    text = source.text
    if _is_longer(text, most_bytes):
        message = f"a text may have {most_bytes} bytes at most here; split it into several texts"
        if most_bytes == MAX_STATEMENT_BYTES:
            message = TOO_LONG
        return RuleSyntaxError(message, text=text, start=0, stop=1, file=source.file)
    if found := _UNSTORABLE.search(text):
        message = f"no text may hold the character U+{ord(found[0]):04X}: not every database can keep it"
        return RuleSyntaxError(message, text=text, start=found.start(), stop=found.end(), file=source.file)
    return None


def _is_longer(text: str, most_bytes: int) -> bool:
    return len(text) > most_bytes or (
        len(text) * 4 > most_bytes and len(text.encode("utf-8", "surrogatepass")) > most_bytes
    )


def parse(text: str, file: str = "<text>", *, most_bytes: int = MAX_FILE_BYTES) -> Parsed:
    """Return the statements and errors of a text, or the lines of a list; errors in the text are not raised."""
    source = SourceText(file, text)
    if (error := what_is_unfit(source, most_bytes)) is not None:
        return Parsed(source, (), (error,), broken=_EVERYTHING)
    return read_list(source) if is_list(file) else _Reader(source).read()


# ---- members of JSON

_STRAYS = _BEGINNINGS - {"ON", "IGNORE"} | {";"}  # in WEEKLY ON MONDAY and ROBOTS IGNORE they stand in a value


class MemberReader:
    """Reads members, each a part of one text; ``errors`` and comments are collected."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._comments: list[str] = []
        self.errors: list[RuleError] = []

    def take_comments(self) -> tuple[str, ...]:
        """Return the comments found since the last call."""
        found, self._comments = self._comments, []
        return tuple(found)

    def clause(self, kind: str, words: str, span: TextSpan) -> Any:
        """Return the value of a clause of a kind of statement; its words are assumed to stand just before it."""
        scanned = self._scan(span)
        wrong = next(iter([*scanned.errors, *self._strays(scanned)]), None)
        if wrong is not None:
            self.errors.append(wrong)
            return None
        before = span.start - 1
        tokens = [Lexeme("WORD", word, before, before, get_keyword(word) or "") for word in words.split()]
        parser = TokenReader([*tokens, *scanned.tokens])
        setting = attempt_whole(parser, lambda parser: parse_clause(parser, kind))
        if isinstance(setting, Complaint):
            self._complain([setting], words)
            return None
        return next(iter(setting.values.values()))

    def inner(self, name: str, span: TextSpan) -> Any:
        """Return the query or trigger in a text."""
        scanned = self._scan(span)
        if scanned.errors:
            self.errors.extend(scanned.errors)
            return None
        value = _read_text(scanned.tokens, _INNER_TEXTS[name])
        if isinstance(value, list):
            self._complain(value, f"SET {name.upper()}")
            return None
        return value

    def _scan(self, span: TextSpan) -> Scan:
        scanned = scan_part(self._source, span)
        self._comments.extend(comment.text for comment in scanned.comments)
        return scanned

    def _strays(self, scanned: Scan) -> Iterator[RuleError]:
        """Yield errors for words that would end or follow a clause."""
        for token in scanned.tokens:
            if token.word in _STRAYS:
                message = f"{token.value!r} starts another clause; put each clause into its own member"
                yield Complaint(message, token.start, token.stop).as_error(self._source)

    def _complain(self, complaints: Sequence[Complaint], title: str) -> None:
        for complaint in complaints:
            self.errors.append(replace(complaint, message=f"{title}: {complaint.message}").as_error(self._source))
