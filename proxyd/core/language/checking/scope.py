"""The fields that an expression can name, and the resolution of the names that it uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proxyd.core.language.syntax.check_context import Reporter
from proxyd.core.language.syntax.quoting import quote_text
from proxyd.core.language.syntax.words import did_you_mean
from proxyd.core.model.expression import Column
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import PROBE_FIELDS, SOURCE_CLASS, Field, FieldType, PageClass

_OLD_AND_NEW = {EventKind.INSERT: ("NEW",), EventKind.UPDATE: ("OLD", "NEW"), EventKind.DELETE: ("OLD",)}
"""The versions of an item that an event has; an event of a source itself has none."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A class by the name that an expression can use for it; bare fields may also belong to ``implicit`` bindings."""

    name: str
    page_class: PageClass
    implicit: bool = True


def _find_fields(page_class: PageClass, written: str) -> list[Field]:
    """Return the field of that path, or the fields whose path ends with it; case is ignored.

    Every class of pages has the fields of the probe, under their full paths.
    """
    folded = written.lower()
    exact = [each for each in page_class.fields if each.path.lower() == folded]
    if not exact and folded in PROBE_FIELDS and page_class != SOURCE_CLASS:
        return [PROBE_FIELDS[folded]]
    return exact or [each for each in page_class.fields if each.path.lower().endswith(f".{folded}")]


class Scope:
    """The classes that an expression sees. With ``qualify`` a resolved column keeps the name of its class.

    ``event`` is the event that a trigger waits for: it decides whether OLD and NEW exist. If ``is_open``, another class
    could not be found, and unknown fields may be its own.
    """

    def __init__(
        self,
        bindings: Sequence[Binding],
        *,
        event: EventKind,
        event_class: PageClass | None,
        qualify: bool = False,
        is_open: bool = False,
    ) -> None:
        self._is_open = is_open
        self._bindings = tuple(bindings)
        self._event = event
        self._event_class = event_class
        self._qualify = qualify

    def resolve(self, column: Column, reporter: Reporter) -> tuple[Column, FieldType | None]:
        """Return the column by its declared path and its type; report a name of no field or of several."""
        first, _, rest = column.path.partition(".")
        if rest and first.upper() in ("OLD", "NEW"):
            return self._resolve_version(column, first.upper(), rest, reporter)
        named = [each for each in self._bindings if rest and each.name.casefold() == first.casefold()]
        if named:
            return self._pick(column, rest, named, reporter)
        return self._pick(column, column.path, [each for each in self._bindings if each.implicit], reporter)

    def _resolve_version(
        self, column: Column, version: str, path: str, reporter: Reporter
    ) -> tuple[Column, FieldType | None]:
        if version not in _OLD_AND_NEW.get(self._event, ()):
            reporter.error(f"ON {self._event.name} has no {version}", column.span)
            return column, None
        if self._event_class is None:
            return column, None
        binding = Binding(version, self._event_class)
        resolved, type_ = self._pick(column, path, [binding], reporter)
        return Column(resolved.path, version, column.span), type_

    def _pick(
        self, column: Column, path: str, bindings: Sequence[Binding], reporter: Reporter
    ) -> tuple[Column, FieldType | None]:
        found = [(binding, field) for binding in bindings for field in _find_fields(binding.page_class, path)]
        exact = [pair for pair in found if pair[1].path.lower() == path.lower()]
        found = exact or found
        if len(found) == 1:
            binding, field = found[0]
            name = binding.name if self._qualify or not binding.implicit else None
            return Column(field.path, name, column.span), field.type
        if found:
            _report_ambiguous(column, found, reporter)
        elif not self._is_open:
            _report_unknown(column, path, bindings, reporter)
        return column, None


def _report_ambiguous(column: Column, found: Sequence[tuple[Binding, Field]], reporter: Reporter) -> None:
    several = len({binding.name for binding, _ in found}) > 1
    names = [f"{binding.name}.{field.path}" if several else field.path for binding, field in found]
    shown = " or ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    reporter.error(f"{column.path} could mean {shown}: write one of them", column.span)


def _report_unknown(column: Column, path: str, bindings: Sequence[Binding], reporter: Reporter) -> None:
    classes = " and ".join(binding.page_class.name for binding in bindings)
    paths = [field.path for binding in bindings for field in binding.page_class.fields]
    known = [*paths, *(known.rpartition(".")[2] for known in paths)]
    suggestion = did_you_mean(path, [*known, *PROBE_FIELDS] if "." in path else known)
    if reporter.source.text.startswith('"', column.span.start):
        suggestion += f" Use single quotes for text: {quote_text(column.path)}"
    elif not suggestion and len(paths) <= 8:
        suggestion = f" It has {', '.join(paths)}."
    reporter.error(f"{classes} has no field {path}.{suggestion}", column.span)
