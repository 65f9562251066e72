"""Reads declarations given as JSON members instead of one text: clauses without keywords, queries, triggers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from proxyd.core.language.nodes import SourceText
from proxyd.core.language.reading.build import read_whole
from proxyd.core.language.reading.expression_rules import Clause
from proxyd.core.language.reading.parser import BEGINNINGS, INNER_RULES
from proxyd.core.language.reading.pieces import Complaint
from proxyd.core.language.reading.recovery import read_text
from proxyd.core.language.reading.scanner import RawToken, Scan, TokenShape, scan_part
from proxyd.core.language.words import get_keyword
from proxyd.core.model.expression import TextSpan
from proxyd.errors import RuleError, RuleSyntaxError

_STRAYS = BEGINNINGS - {"ON"}  # a digest may be WEEKLY ON MONDAY


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

    def option(self, title: str, span: TextSpan) -> Any:
        """Return the value of a source's option; ``title`` is the keyword before it in the language."""
        return self._read("source_option", title, span)

    def profile_option(self, title: str, span: TextSpan) -> Any:
        """Return the value of a profile's option."""
        return self._read("profile_option", title, span)

    def clause(self, title: str, span: TextSpan) -> Any:
        """Return the value of a notification's clause."""
        return self._read("clause", title, span)

    def inner(self, name: str, span: TextSpan) -> Any:
        """Return the query or trigger in a text."""
        scanned = self._scan(span)
        if scanned.errors:
            self.errors.extend(scanned.errors)
            return None
        built = read_text(scanned.tokens, INNER_RULES[name])
        for complaint in built if isinstance(built, list) else ():
            self._kept(complaint, f"SET {name.upper()}")
        return None if isinstance(built, list) else built

    def _read(self, rule: str, title: str, span: TextSpan) -> Any:
        """Return the value of a clause; its keywords are assumed to stand just before it."""
        scanned = self._scan(span)
        wrong = next(iter([*scanned.errors, *self._strays(scanned)]), None)
        if wrong is not None:
            self.errors.append(wrong)
            return None
        before = span.start - 1
        words = [RawToken(TokenShape.WORD, word, before, before) for word in title.split()]
        built = self._kept(read_whole([*words, *scanned.tokens], rule), title)
        return built.value if isinstance(built, Clause) else None

    def _scan(self, span: TextSpan) -> Scan:
        scanned = scan_part(self._source, span)
        self._comments.extend(comment.text for comment in scanned.comments)
        return scanned

    def _strays(self, scanned: Scan) -> Iterator[RuleError]:
        """Yield errors for words that would end or follow a clause."""
        for token in scanned.tokens:
            word = get_keyword(token.value) if token.shape is TokenShape.WORD else None
            if word in _STRAYS or (token.shape, token.value) == (TokenShape.SIGN, ";"):
                message = f"{token.value!r} starts another clause; put each clause into its own member"
                yield self._error(Complaint(message, token.start, token.stop))

    def _kept(self, built: Any, title: str) -> Any:
        """Return the value, or keep a complaint as an error and return ``None``."""
        if not isinstance(built, Complaint):
            return built
        self.errors.append(self._error(replace(built, message=f"{title}: {built.message}")))
        return None

    def _error(self, complaint: Complaint) -> RuleSyntaxError:
        source = self._source
        return RuleSyntaxError(
            complaint.message, text=source.text, start=complaint.start, stop=complaint.stop, file=source.file
        )
