"""The shapes of pieces: which rules of the grammar apply to which tokens.

Two pieces whose tokens can mean the same have the same shape, whatever names, texts and numbers they hold. So what the
grammar found once is remembered, and the next piece of this shape is read without it: in a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

from lark import Token, Tree

Readings: TypeAlias = tuple[str, ...]
"""The terminals that a token can stand for, the best first."""
_MOST_TOKENS = 64  # of a piece that is remembered
_MOST_NODES = 8_000


@dataclass(frozen=True, slots=True)
class Step:
    """A rule of the grammar and its parts: the results of earlier steps, or tokens with their terminals.

    Parameters
    ----------
    parts
        Pairs of a terminal and a token's place in the piece, or of ``None`` and the number of a step.
    first, last
        The places of its first and its last token.
    """

    rule: str
    parts: tuple[tuple[str | None, int], ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The steps that make a piece of so many tokens; the last one makes the whole."""

    steps: tuple[Step, ...]
    length: int

    @classmethod
    def of(cls, tree: Tree[Token], length: int) -> Shape:
        """Return the shape of a tree whose tokens have their places in the piece as positions."""
        numbers: dict[int, int] = {}
        steps: list[Step] = []
        for each in tree.iter_subtrees():
            numbers[id(each)] = len(steps)
            parts = tuple(_part(child, numbers) for child in each.children)
            steps.append(Step(each.data, parts, each.meta.start_pos, each.meta.end_pos))
        return cls(tuple(steps), length)


def _part(child: Token | Tree[Token], numbers: dict[int, int]) -> tuple[str | None, int]:
    if isinstance(child, Tree):
        return None, numbers[id(child)]
    assert child.start_pos is not None
    return child.type, child.start_pos


@dataclass(slots=True)
class _Node:
    """The pieces that begin alike: how they go on, and what ends them here."""

    following: dict[Readings, _Node] = field(default_factory=dict)
    ends: set[Readings] = field(default_factory=set)
    shape: Shape | None = None


class KnownShapes:
    """The shapes that were found twice, by rule and by what their tokens can mean; at some number all are forgotten.

    Of one that was found once a number is kept: statements of which each has its own shape would leave objects behind,
    through which every garbage collection would have to go.
    """

    def __init__(self, most_nodes: int = _MOST_NODES) -> None:
        self._most_nodes = most_nodes
        self._found_once: set[int] = set()
        self._roots: dict[str, _Node] = {}
        self._nodes = 0

    def find(self, rule: str, readings: Iterator[Readings]) -> Shape | None:
        """Return the shape of the piece at the beginning of tokens, or ``None`` if it is not known."""
        node = self._roots.get(rule)
        for each in readings:
            if node is None or each in node.ends:
                return None if node is None else node.shape
            node = node.following.get(each)
        return None

    def keep(self, rule: str, readings: Sequence[Readings], shape: Shape) -> None:
        """Remember a shape that is found again; the last readings are those of the token that ends the piece."""
        if len(readings) > _MOST_TOKENS or not self._is_again(hash((rule, *readings))):
            return
        if self._nodes > self._most_nodes:
            self._roots, self._nodes = {}, 0
        node = self._roots.setdefault(rule, _Node())
        for each in readings[:-1]:
            if each not in node.following:
                node.following[each] = _Node()
                self._nodes += 1
            node = node.following[each]
        node.shape = shape
        node.ends.add(readings[-1])

    def _is_again(self, found: int) -> bool:
        if found in self._found_once:
            self._found_once.discard(found)
            return True
        if len(self._found_once) > self._most_nodes:
            self._found_once.clear()
        self._found_once.add(found)
        return False


@cache
def known_shapes() -> KnownShapes:
    """Return the shapes that this process has found."""
    return KnownShapes()
