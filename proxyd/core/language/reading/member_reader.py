"""Reads declarations given as JSON members instead of one text: clauses without keywords, queries, triggers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from proxyd.core.language.clauses import parse_clause
from proxyd.core.language.nodes import SourceText
from proxyd.core.language.reading.parser import BEGINNINGS, INNER_TEXTS, read_text
from proxyd.core.language.reading.scanner import Scan, Token, scan_part
from proxyd.core.language.reading.token_reader import Complaint, TokenReader, attempt_whole
from proxyd.core.language.words import get_keyword
from proxyd.core.model.expression import TextSpan
from proxyd.errors import RuleError

_STRAYS = BEGINNINGS - {"ON"} | {";"}  # a digest may be WEEKLY ON MONDAY


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
        tokens = [Token("WORD", word, before, before, get_keyword(word) or "") for word in words.split()]
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
        value = read_text(scanned.tokens, INNER_TEXTS[name])
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
