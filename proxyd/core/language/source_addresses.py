"""Where texts declare the addresses of sources, and what to write there once a source has moved."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from proxyd.core.errors import RuleCheckError
from proxyd.core.language.checking.watches import expand
from proxyd.core.language.syntax.nodes import CreateSource, Located, Parsed, SourceText, Statement, Watch
from proxyd.core.language.syntax.quoting import quote_text


@dataclass(frozen=True, slots=True)
class WrittenAddress:
    """The address of a source where a text declares it; ``watch`` is the WATCH that does, unless CREATE SOURCE does."""

    source_id: str
    text: SourceText
    url: Located[str]
    watch: Watch | None = None

    @property
    def line(self) -> int:
        """Line number, from 1."""
        return self._fault("").line

    def remedy(self, url: str) -> str:
        """Return what to write so that the source is declared at another address."""
        if self.watch is None:
            return f"write AT {quote_text(url)}"
        renamed = replace(self.watch, url=Located(url)).address.value != self.watch.address.value
        return f"write WATCH {quote_text(url)}{_ANOTHER if renamed else ''}"

    def warning(self, url: str) -> RuleCheckError:
        """Return the warning that the source is read at another address than the one written here."""
        moved = f"the source {self.source_id!r} has moved and is read at its new address"
        return self._fault(f"{moved}: {self.remedy(url)}")

    def _fault(self, message: str) -> RuleCheckError:
        span, text = self.url.span, self.text
        return RuleCheckError(message, text=text.text, start=span.start, stop=span.stop, file=text.file)


_ANOTHER = " (a new source, named after its address: what is known of this one is not kept)"


def lines_of(addresses: Iterable[WrittenAddress]) -> dict[str, int]:
    """Return the line of each address, from 1, by source; each text is counted once, however many it has."""
    found: dict[str, int] = {}
    in_order = sorted(addresses, key=lambda each: (each.text.file, each.url.span.start))
    for _, its in groupby(in_order, key=lambda each: each.text.file):
        line, counted = 1, 0
        for each in its:
            line += each.text.text.count("\n", counted, each.url.span.start)
            counted = each.url.span.start
            found[each.source_id] = line
    return found


def written_addresses(texts: Sequence[Parsed]) -> dict[str, WrittenAddress]:
    """Return where the texts of one declaration write the address of each source, by name."""
    pairs = zip(texts, expand(texts), strict=True)
    found = (written_address(text, e) for text, its in pairs for e in its.statements if isinstance(e, CreateSource))
    return {each.source_id: each for each in found}


def written_address(text: Parsed, declared: CreateSource) -> WrittenAddress:
    """Return where a text writes the address of a source, which it declares or for which its WATCH stands."""
    return WrittenAddress(declared.name.value, text.source, declared.url, watch_of(text, declared))


def watch_of(text: Parsed, expanded: Statement) -> Watch | None:
    """Return the WATCH of a text that stands for a statement, or ``None`` if that is written itself."""
    statements, start = text.statements, expanded.span.start
    at = bisect_left(statements, start, key=lambda each: each.span.start)
    written = statements[at] if at < len(statements) else None
    return written if isinstance(written, Watch) and written.span == expanded.span else None
