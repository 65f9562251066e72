"""Parses documents in worker processes: one that a document hangs or kills costs nobody else anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxyd.base.worker_pool import WorkerLimits, WorkerPool
from proxyd.core.errors import WorkerFailedError
from proxyd.core.model.notations import NO_LANGUAGES, Languages
from proxyd.probing.document_parser import ParsedDocument, parse_document
from proxyd.probing.documents.probe_failures import ParserFailedError

if TYPE_CHECKING:
    from proxyd.core.model.profile import PageClass

_MEMORY_BYTES = 256 << 20  # of data in one worker; a feed of 10 MB needs about a third


class ParseFunction(Protocol):
    """The function that a worker runs: at a module's top level, so that another process can import it."""

    def __call__(
        self,
        body: bytes,
        content_type: str | None = None,
        url: str = "",
        page_class: PageClass | None = None,
        languages: Languages = NO_LANGUAGES,
        /,
    ) -> ParsedDocument:
        """Return what the class reads; raise a ProbeError if the document contains nothing of this."""


class ParserPool(WorkerPool[ParsedDocument]):
    """Parses documents in separate processes, each within ``timeout_s``.

    Use it with ``async with``; leaving ends every worker at once, even a busy one.

    Parameters
    ----------
    timeout_s
        Longest time for one document, from when a worker starts it.
    tasks_per_worker
        Number of documents after which a worker is replaced.
    """

    def __init__(
        self,
        parse: ParseFunction = parse_document,
        *,
        workers: int = 2,
        timeout_s: float = 10.0,
        tasks_per_worker: int = 1000,
    ) -> None:
        limits = WorkerLimits(timeout_s, _MEMORY_BYTES, tasks_per_worker)
        super().__init__(parse, "the parser", workers=workers, limits=limits)

    async def parse(
        self,
        body: bytes,
        content_type: str | None = None,
        url: str = "",
        page_class: PageClass | None = None,
        languages: Languages = NO_LANGUAGES,
    ) -> ParsedDocument:
        """Return what a class reads from ``body``; without a class, a feed.

        Raises
        ------
        ParserFailedError
            The parser hung, died twice or raised an unexpected error.
        FeedParseError
            The document has no such content.
        """
        try:
            return await self.run(body, content_type, url, page_class, languages)
        except WorkerFailedError as error:
            raise ParserFailedError(str(error)) from error
