"""Tables and progress bars: with rich (extra ``terminal``) on a terminal, as plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import TypeVar

from proxyd.core.texts.safe_text import visible_line

_T = TypeVar("_T")
_HAS_RICH = find_spec("rich") is not None
_NUMERIC = frozenset("0123456789+-.,%einfa/ ")


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None, notes: Sequence[str] = ()
) -> None:
    """Print a table on stdout, with numbers aligned to the right; ``notes`` follow it, one per line.

    Off a terminal it is never cut to a width: one line for each row, columns two spaces apart. Invisible characters
    in cells are spelt out, and cells longer than 200 characters are cut.
    """
    rows = [[visible_line(cell) for cell in row] for row in rows]
    right = [all(_is_number(row[column]) for row in rows) for column in range(len(columns))]
    if sys.stdout.isatty() and _HAS_RICH:
        _print_rich(columns, rows, right, title)
    else:
        if title is not None:
            print(title)
        for line in _plain_lines(columns, rows, right):
            print(line)
    for note in notes:
        print(note)


def _plain_lines(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of a table; ``right`` says which columns are aligned to the right.

    >>> list(_plain_lines(["policy", "cost"], [["doe", "1.5"], ["uniform", "12.0"]], [False, True]))
    ['policy   cost', 'doe       1.5', 'uniform  12.0']
    """
    widths = [max(len(row[column]) for row in [columns, *rows]) for column in range(len(columns))]
    for row in [columns, *rows]:
        cells = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        yield "  ".join(cells).rstrip()


def number(value: float, digits: int = 4) -> str:
    """Return a number for a table: with ``digits`` decimals, or significant digits if those would all be zero.

    >>> number(46.753611), number(0.0000123), number(3.0, 1)
    ('46.7536', '1.23e-05', '3.0')
    """
    shown = f"{value:.{digits}f}"
    return f"{value:.3g}" if value != 0 and float(shown) == 0 else shown


def progress(items: Iterable[_T], label: str, *, total: int | None = None) -> Iterator[_T]:
    """Yield ``items``, with a bar on stderr if it is a terminal."""
    if not (sys.stderr.isatty() and _HAS_RICH):
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(items, description=label, total=total, console=console, transient=True)


def _print_rich(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], title: str | None
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, title=title, title_justify="left", header_style="bold")
    for name, to_right in zip(columns, right, strict=True):
        table.add_column(Text(name), justify="right" if to_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def _is_number(cell: str) -> bool:
    is_date = "-" in cell[1:].replace("e-", "")
    return (
        cell == ""
        or (cell[:1] in "+-0123456789." and set(cell) <= _NUMERIC and not is_date)
        or cell in ("-", "inf", "nan", "never")
    )
