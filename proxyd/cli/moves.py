"""The verb about sources that have moved permanently."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from proxyd.cli.answers import ask, print_answer, print_list
from proxyd.terminal.verbs import ASKING, argument, verb

if TYPE_CHECKING:
    from proxyd.client.types import MoveShown


@verb(
    "moved",
    "proxyd moved",
    "proxyd moved --accept news",
    takes=[argument("--accept", "read this source at its new address from now on", metavar="SOURCE"), *ASKING],
)
def moved(options: argparse.Namespace) -> int:
    """List the sources whose permanent redirects lead elsewhere, or accept the move of one."""
    if options.accept is not None:
        made = ask(options, lambda client: client.accept_move(options.accept))
        return print_answer(options, made, [made["said"]])
    found = ask(options, lambda client: client.moves())
    head = ["source", "state", "since", "probes", "declared", "new address", "declared in"]
    notes = ["`proxyd moved --accept SOURCE` reads a source at its new address"] if found else ()
    return print_list(options, found, head, _row, empty="no source has moved", notes=notes)


def _row(move: MoveShown) -> list[str]:
    place = f"{move['file']}:{move['line']}" if move["file"] is not None else "the API"
    return [move["source"], move["state"], move["since"], str(move["probes"]), move["declared"], move["url"], place]
