"""Where checks put what they find."""

from __future__ import annotations

from proxyd.errors import RuleCheckError
from proxyd.language.nodes import SourceText
from proxyd.language.parser import MAX_ERRORS
from proxyd.model.expression import Span


class Reporter:
    """Collects the errors and warnings of one file."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.errors: list[RuleCheckError] = []
        self.warnings: list[RuleCheckError] = []

    def error(self, message: str, span: Span) -> None:
        """Report an error; after a hundred in one file the rest is left for later."""
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(self._make(message, span))

    def warn(self, message: str, span: Span) -> None:
        """Report what is allowed but probably not meant."""
        if len(self.warnings) < MAX_ERRORS:
            self.warnings.append(self._make(message, span))

    def where(self, span: Span) -> str:
        """Return ``file:line:column`` of a place, for errors elsewhere that refer to it."""
        place = self._make("", span)
        return f"{place.file}:{place.line}:{place.column}"

    def _make(self, message: str, span: Span) -> RuleCheckError:
        return RuleCheckError(message, text=self.source.text, start=span.start, stop=span.stop, file=self.source.file)
