"""The user's pages as tests see them: blocks of code, links, anchors and commands."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from proxyd.cli.main import make_parser

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"`([\w./-]+)`[^`\n]*:\s*\Z")
_REDIRECTION = re.compile(r"\s\d?>>?\s*(?:&\d|\"[^\"]*\"|\S+)")


@cache
def _parser() -> argparse.ArgumentParser:
    return make_parser()  # 50 ms


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Return what the command line makes of arguments; exit where they are wrong."""
    return _parser().parse_args(arguments)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; ``file`` is the name that the line before it ends with, as in "Save this as `a.toml`:"."""

    page: Path
    line: int
    language: str
    text: str
    file: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Return all blocks of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        named = _NAMED.search(text[: match.start()])
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(page, line, match[1], match[2], named[1] if named else None))
    return found


def without_blocks(page: Path) -> str:
    """Return the prose of a page, without code of any kind."""
    return re.sub(r"`[^`\n]+`", "``", _FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Return the anchors that a page's headings have where it is shown."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return {_slug(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def links(page: Path) -> list[str]:
    """Return where a page's links and pictures lead to, those to other sites left out."""
    found: list[str] = re.findall(r"\]\(([^)\s]+)\)", without_blocks(page))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the arguments of each call of proxyd in a block of shell commands."""
    text = re.sub(r"\\\n\s*", " ", block.text)
    for line in filter(re.compile(r"\bproxyd ").search, text.splitlines()):
        for words in _simple_commands(_REDIRECTION.sub(" ", line)):
            while words and re.match(r"\w+=", words[0]):
                words.pop(0)
            if words and words[0].rpartition("/")[2] == "proxyd":
                yield words[1:]


def _simple_commands(line: str) -> Iterator[list[str]]:
    """Yield the words between pipes, ampersands, semicolons and parentheses, also inside ``"$(...)"``."""
    for inner in re.findall(r"\"\$\((.*)\)\"", line):
        yield from _simple_commands(inner)
    words: list[str] = []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for word in lexer:
        if set(word) <= set("|&;()<>"):
            yield words
            words = []
        else:
            words.append(word)
    yield words
