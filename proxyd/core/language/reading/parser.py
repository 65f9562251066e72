"""Reads texts into statements. Reports every error and continues at the next clause or statement."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from proxyd.core.language.nodes import (
    Broken,
    CreateProfile,
    CreateSource,
    CreateSources,
    InsertNotification,
    Parsed,
    SourceText,
    Statement,
    StatementKind,
    Watch,
    kind_of_statement,
)
from proxyd.core.language.reading.address_lists import is_list, read_list
from proxyd.core.language.reading.build import build
from proxyd.core.language.reading.expression_rules import Clause
from proxyd.core.language.reading.pieces import (
    MAX_ERRORS,
    MAX_STATEMENT_BYTES,
    TOO_LONG,
    Complaint,
    More,
    Piece,
    complain,
    read_piece,
)
from proxyd.core.language.reading.plain_statements import read_plain
from proxyd.core.language.reading.recovery import later_in_head, read_text
from proxyd.core.language.reading.scanner import Comment, RawToken, TokenShape, scan, scan_inner
from proxyd.core.language.words import get_keyword
from proxyd.core.model.expression import TextSpan
from proxyd.errors import RuleError, RuleSyntaxError, suggest

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_SENT_BYTES = 1024 * 1024
"""Length of a text that is sent to the API."""
_EVERYTHING = tuple(Broken(kind, None) for kind in StatementKind)
_GAP = re.compile("[ \t;]*")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

_HEADS = {
    "CREATE": frozenset({"DOMAIN", "SOURCE", "PROFILE"}),
    "INSERT": frozenset({"NOTIFICATION"}),
    "DROP": frozenset({"DOMAIN", "SOURCE", "PROFILE", "NOTIFICATION"}),
    "WATCH": frozenset(),
}
_PARTS = {
    StatementKind.SOURCE: "source_option",
    StatementKind.PROFILE: "profile_option",
    StatementKind.NOTIFICATION: "clause",
}
_STARTS = {
    "source_option": (
        *("POLITENESS", "EXPECT", "ZONE", "LOCALE", "FRESHNESS"),
        *("HEADER", "AUTH", "METHOD", "WEBSUB", "ROBOTS", "BACKOFF", "FETCH", "WAIT"),
    ),
    "profile_option": ("DELIVER", "DIGEST", "ON"),
    "clause": ("SET", "START", "END", "INTO", "FROM", "WITHIN"),
    "watch_option": (
        *("OF", "LOCALE", "FETCH", "WAIT", "INTO", "AS", "ON", "WHERE", "WITHIN"),
        *("SCREENSHOT", "MESSAGE", "TELL"),
    ),
}
BEGINNINGS = frozenset(_HEADS) | {word for rule in _PARTS.values() for word in _STARTS[rule]}
INNER_RULES = {"query": "select", "trigger": "trigger"}
"""The rules of the texts in double quotes, by the clause that holds them."""
_REQUIRED = {
    "profiles": "INTO",
    "query": "SET QUERY",
    "trigger": "SET TRIGGER",
}
_ADD_UP = frozenset({"deliveries", "headers", "trouble"})
_TITLES = {"profiles": "INTO", "sources": "FROM SOURCES", "no_delivery": "SET DELIVERY NONE"}


@dataclass(slots=True)
class _Draft:
    """A statement being read: the grammar rule of its clauses, its head, and the values of its clauses."""

    rule: str | None
    head: Statement | None
    values: dict[str, Any] = field(default_factory=dict)


class _Reader:
    """Reads the tokens of one file."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._statements, begin = read_plain(source.text)
        scanned = scan(source, begin)
        self._tokens = scanned.tokens
        self._comments = list(scanned.comments)
        self._errors: list[RuleError] = list(scanned.errors)
        self._broken: list[Broken] = []
        self._at = 0

    def read(self) -> Parsed:
        while self._shape() is not TokenShape.END and not self._has_enough():
            if self._is_sign(";"):
                self._at += 1
            else:
                self._read_statement()
        if self._has_enough():
            self._broken += _EVERYTHING
        self._errors.sort(key=lambda error: (error.start, error.stop))
        statements, tail = _attach_comments(self._source.text, self._statements, self._comments)
        return Parsed(self._source, statements, tuple(self._errors[:MAX_ERRORS]), tail, tuple(self._broken))

    # ---- statements

    def _read_statement(self) -> None:
        begin = self._at
        draft = self._read_head()
        more: More = self._last_more if draft.head is not None or draft.rule else frozenset
        while not self._at_statement_end(begin, draft.rule) and not self._has_enough():
            more = self._read_part(draft, draft.rule, more)
        self._close(draft, begin)

    def _read_head(self) -> _Draft:
        first, second = self._tokens[self._at], self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        kind, rule = _kind_of(first, second), _rule_of(first, second)
        piece = read_piece(self._tokens, self._at, "statement_head")
        self._last_more = piece.more
        built = self._build(piece)
        if built is not None:
            self._at = piece.next
            return _Draft(rule, built)
        if kind in (StatementKind.DOMAIN, StatementKind.PROFILE) and piece.complaint is not None:
            for complaint in later_in_head(self._tokens, self._at, piece.complaint):
                self._complain(complaint)
        name = self._tokens[min(self._at + 2, len(self._tokens) - 1)]
        if (unread := kind or _guess_kind(second)) is not None:
            named = name.shape in (TokenShape.WORD, TokenShape.QUOTED) and piece.next > self._at + 2
            self._broken.append(Broken(unread, name.value if named else None))
        self._skip(max(piece.next, self._at + 1), rule or "")
        return _Draft(rule, None)

    def _read_part(self, draft: _Draft, rule: str | None, more: More) -> More:
        """Read one clause or option, or report the token in its place; return how it could continue."""
        begin = self._at
        starts = _STARTS[rule] if rule else ()
        if not rule or get_keyword(self._value()) not in starts or self._shape() is not TokenShape.WORD:
            others = [word for word in (*starts, "';'") if word != "FROM"]
            self._complain(complain(self._tokens, self._at, more() - {"$END"}, others))
            self._skip(begin + 1, rule or "")
            return frozenset
        piece = read_piece(self._tokens, begin, rule)
        clause = self._build(piece, label=True)
        if clause is None:
            self._skip(max(piece.next, begin + 1), rule)
            return frozenset
        self._at = piece.next
        self._set(draft, clause, begin)
        return piece.more

    def _set(self, draft: _Draft, clause: Clause, begin: int) -> None:
        """Keep the value of a clause; a clause that is given twice is an error."""
        value = clause.value
        if clause.name in ("query", "trigger"):
            value = self._read_inner(clause.name, self._tokens[begin + 2])
            if value is None:
                return
        if clause.also is not None:
            self._set(draft, clause.also, begin)
        if clause.name in _ADD_UP:
            draft.values[clause.name] = draft.values.get(clause.name, ()) + value
        elif clause.name in draft.values:
            title = _TITLES.get(clause.name, self._title(begin))
            self._complain(Complaint(f"{title} is given twice", clause.span.start, clause.span.stop))
        else:
            draft.values[clause.name] = value
        if {"no_delivery", "deliveries"} <= draft.values.keys():
            message = "SET DELIVERY NONE cannot be combined with another SET DELIVERY"
            self._complain(Complaint(message, clause.span.start, clause.span.stop))

    def _read_inner(self, name: str, quoted: RawToken) -> Any:
        """Return the query or trigger in a text in double quotes."""
        if quoted.broken:
            return None
        inner = scan_inner(self._source, quoted)
        self._comments.extend(inner.comments)
        if inner.errors:
            self._errors.extend(inner.errors)
            return None
        built = read_text(inner.tokens, INNER_RULES[name])
        if isinstance(built, list):
            for complaint in built:
                self._complain(replace(complaint, message=f"SET {name.upper()}: {complaint.message}"))
            return None
        return built

    def _close(self, draft: _Draft, begin: int) -> None:
        """Finish a statement at the current token."""
        if draft.head is None:
            return
        last = self._tokens[max(begin, self._at - 1)]
        head = draft.head
        span = TextSpan(head.span.start, last.stop)
        if _is_longer(self._source.text[span.start : span.stop], MAX_STATEMENT_BYTES):
            if not self._has_error(span.start, span.stop):
                self._complain(Complaint(TOO_LONG, head.span.start, head.span.stop))
            self._broken.append(Broken(kind_of_statement(head), head.name.value))
            return
        if isinstance(head, InsertNotification):
            self._require(draft, head)
        if isinstance(head, CreateSource | CreateSources | CreateProfile | InsertNotification | Watch):
            head = replace(head, **draft.values)
        self._statements.append(replace(head, span=span))

    def _require(self, draft: _Draft, head: InsertNotification) -> None:
        """Report missing clauses, unless an error may be the reason that they are missing."""
        begin, end = head.span.start, self._tokens[self._at].start
        message = what_lacks(head.name.value, draft.values)
        if message and not self._has_error(begin, end):
            self._complain(Complaint(message, head.span.start, head.span.stop))

    # ---- moving on

    def _skip(self, at: int, rule: str) -> None:
        """Move to the next ``;``, statement or clause at or after ``at``."""
        starts = _STARTS.get(rule, ())
        self._at = at
        while self._shape() is not TokenShape.END and not self._is_sign(";"):
            word = get_keyword(self._value()) if self._shape() is TokenShape.WORD else None
            if word in _HEADS and self._begins_statement(rule):
                return
            if word in starts and (word != "FROM" or get_keyword(self._tokens[self._at + 1].value) == "SOURCE"):
                return
            self._at += 1

    def _at_statement_end(self, begin: int, rule: str | None) -> bool:
        if self._shape() is TokenShape.END or self._is_sign(";"):
            return True
        if self._at == begin or self._shape() is not TokenShape.WORD or get_keyword(self._value()) not in _HEADS:
            return False
        return rule != "watch_option" or self._begins_statement(rule)

    def _begins_statement(self, rule: str | None) -> bool:
        """Whether the word here, among clauses of ``rule``, begins a statement and is not an event such as INSERT."""
        following = self._tokens[self._at + 1]
        if rule == "watch_option":
            return following.shape is TokenShape.TEXT or _kind_of(self._tokens[self._at], following) is not None
        return rule != "clause" or following.shape in (TokenShape.WORD, TokenShape.QUOTED, TokenShape.TEXT)

    def _shape(self) -> TokenShape:
        return self._tokens[self._at].shape

    def _value(self) -> str:
        return self._tokens[self._at].value

    def _is_sign(self, sign: str) -> bool:
        return self._shape() is TokenShape.SIGN and self._value() == sign

    # ---- errors

    def _has_error(self, start: int, stop: int) -> bool:
        return any(start <= error.start <= stop for error in self._errors)

    def _has_enough(self) -> bool:
        return len(self._errors) >= MAX_ERRORS

    def _title(self, begin: int) -> str:
        """Return the name of the clause that starts at a token, as users write it."""
        first = get_keyword(self._tokens[begin].value) or ""
        second = get_keyword(self._tokens[begin + 1].value) if first == "SET" else None
        return f"{first} {second}" if second else first

    def _build(self, piece: Piece, *, label: bool = False) -> Any:
        """Return the nodes of a piece, or report why there are none."""
        built = build(piece)
        if not isinstance(built, Complaint):
            return built
        if piece.next > 0 and self._tokens[piece.next - 1].broken:
            return None
        title = f"{self._title(self._at)}: " if label else ""
        self._complain(replace(built, message=title + built.message))
        return None

    def _complain(self, complaint: Complaint) -> None:
        self._errors.append(
            RuleSyntaxError(
                complaint.message,
                text=self._source.text,
                start=complaint.start,
                stop=complaint.stop,
                file=self._source.file,
            )
        )


def _kind_of(first: RawToken, second: RawToken) -> StatementKind | None:
    """Return the kind of object that a statement declares, from its first two words."""
    verb, noun = (get_keyword(t.value) if t.shape is TokenShape.WORD else None for t in (first, second))
    return StatementKind(noun) if noun is not None and noun in _HEADS.get(verb or "", ()) else None


def _rule_of(first: RawToken, second: RawToken) -> str | None:
    """Return the grammar rule of the clauses or options of a statement, from its first two words."""
    if first.shape is TokenShape.WORD and get_keyword(first.value) == "WATCH":
        return "watch_option"
    kind = _kind_of(first, second)
    return _PARTS.get(kind) if kind is not None else None


def _guess_kind(noun: RawToken) -> StatementKind | None:
    """Return the kind of object that a statement with a misspelt head probably declares."""
    close = suggest(noun.value, [kind.value for kind in StatementKind]) if noun.shape is TokenShape.WORD else None
    return StatementKind(close) if close is not None else None


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
