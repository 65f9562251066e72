"""Cases of what people reported of such programs: an input, and what must be told. A case is one file:

    report https://tracker.example/issues/1      the report, if the case is one that somebody made
    point 6                                      the point of the issue that it shows
    rule WATCH 'http://x.example/feed';          the profile; indented lines go on with it
    set source_spacing 10s                       a setting, and ``run`` if the daemon itself plans the probes
    at 0m                                        an answer from then on (the first one: always), and a probe
      Content-Type: text/xml                     headers, if any, and an empty line

      rss                                        a body: see ``_body``
      Post 9 | guid 9 | link http://x.example/9
    told                                         what the receiver must get from it; without it, nothing
      - Post 9 http://x.example/9

Words after ``at TIME`` are the address (by default that of the first source), the status, ``gzip``, ``zlib``, a
charset, ``cookie`` (the answer to requests with one), and what else goes wrong: ``cut``, ``closed``, ``bad-coding``.
Without a body the address answers as before. An address that is no source is only answered, not probed. ``until 5m``
lets time pass. After ``sent HOST`` come lines on what a receiver was sent since the last step: see ``test_reports``.
After ``import`` comes a list of feeds, after ``declares`` the addresses that it must declare.

Times are minutes, hours or days after the start, 2026-03-02 12:00 UTC. In a body ``{T-3h}`` is such a time as feeds
write it, ``{iso T-3h}`` in ISO 8601, and ``{\\u200b}`` a character by its number.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import TypeAlias

T0 = datetime(2026, 3, 2, 12, tzinfo=UTC).timestamp()
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(r"\{(iso )?T([+-][0-9.]+)([smhd])\}")
_CHARACTER = re.compile(r"\{\\u([0-9a-f]{4,5})\}")
_HEADER = re.compile(r"([A-Z][A-Za-z-]*): (.*)")
_ROWS = re.compile(r"(\d+)\.\.(\d+): (.*)")
_ADDRESS = re.compile(r"'(http://[^']+)'")
_HEAD = frozenset({"report", "point", "rule", "set", "run"})
_Block: TypeAlias = tuple[str, str, list[str]]
_PACKERS: Mapping[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zlib": zlib.compress}
_FAULTS = {"cut", "closed", "bad-coding"}
_RSS = (
    '<?xml version="1.0"?>\n<rss version="2.0" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"'
    ' xmlns:media="http://search.yahoo.com/mrss/" xmlns:content="http://purl.org/rss/1.0/modules/content/">'
    "<channel><title>Feed</title><link>http://x.example/</link>\n{}\n</channel></rss>"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an address answers from a time on."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    text: str = ""
    body: bytes = b""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A verb, its time, address and answer, and the lines below it."""

    verb: str
    at_s: float = 0.0
    address: str = ""
    answer: Answer | None = None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One case."""

    name: str
    point: int
    report: str
    rule: str
    settings: Mapping[str, str]
    runs: bool
    steps: tuple[Step, ...]


def read_case(path: Path) -> Case:
    """Return the case of a file."""
    blocks = list(_blocks(path.read_text(encoding="utf-8")))
    texts = {verb: "\n".join([rest, *lines]).rstrip("\n") for verb, rest, lines in blocks if verb in _HEAD}
    settings = dict(rest.split(" ", 1) for verb, rest, _ in blocks if verb == "set")
    rule = texts.get("rule", "")
    steps = tuple(_steps([block for block in blocks if block[0] not in _HEAD], _ADDRESS.search(rule)))
    point, report = int(texts.get("point", "0")), texts.get("report", "")
    return Case(path.stem, point, report, rule, settings, "run" in texts, steps)


def _blocks(text: str) -> Iterator[_Block]:
    """Yield the first word and the rest of each line that is not indented, and the lines below it that are."""
    head, lines = "", list[str]()
    for line in [*text.splitlines(), "end"]:
        if not line or line.startswith("  "):
            lines.append(line[2:])
            continue
        if head:
            verb, _, rest = head.partition(" ")
            yield verb, rest, lines
        head, lines = line, []


def _steps(blocks: Sequence[_Block], first: re.Match[str] | None) -> Iterator[Step]:
    answers: dict[str, Answer] = {}
    for verb, rest, lines in blocks:
        match verb:
            case "at":
                yield _probe(answers, rest.split(), lines, "" if first is None else first[1])
            case "until":
                yield Step("until", time_s(rest))
            case "told" | "sent" | "import" | "declares":
                yield Step(verb, address=rest, lines=tuple(lines))
            case _:
                raise ValueError(f"{verb!r} begins no line of a case")


def time_s(text: str) -> float:
    """Return a time such as ``10m``."""
    return float(text[:-1]) * _UNITS_S[text[-1]]


def _probe(answers: dict[str, Answer], words: Sequence[str], lines: Sequence[str], first: str) -> Step:
    """Return the step of an answer, which ``answers`` then has for its address."""
    at, *rest = words
    address = next((word for word in rest if word.startswith("http")), first)
    key = f"{address} cookie" if "cookie" in rest else address
    others = [word for word in rest if word not in {address, "cookie"}]
    if others or any(lines):
        answers[key] = _answer(others, lines, answers.get(key, Answer()))
    return Step("at", time_s(at), key, answers[key])


def _answer(words: Sequence[str], lines: Sequence[str], before: Answer) -> Answer:
    answer, charset, pack = Answer(), "utf-8", ""
    headers, lines = _headers(lines)
    text = _body(lines, before.text)
    for word in words:
        if word.isdigit():
            answer = replace(answer, status=int(word))
        elif word in _FAULTS:
            answer = replace(answer, fault=word)
        elif word in _PACKERS:
            pack = word
        else:
            charset = word
    body = text.encode(charset, "surrogateescape")
    return replace(answer, headers=headers, text=text, body=_PACKERS[pack](body) if pack else body)


def _headers(lines: Sequence[str]) -> tuple[tuple[tuple[str, str], ...], Sequence[str]]:
    found = [match.groups() for match in map(_HEADER.fullmatch, lines) if match is not None]
    count = next((n for n, line in enumerate(lines) if _HEADER.fullmatch(line) is None), len(lines))
    rest = lines[count:]
    return tuple((name, value) for name, value in found[:count]), rest[1:] if rest and not rest[0] else rest


def _body(lines: Sequence[str], before: str) -> str:
    """Return the text of a body: the lines, or by its first one an RSS feed of rows or what was there with edits.

    A row of ``rss`` is a title and elements as they are, ``a | guid 1 | link http://x.example/1``; ``8..1: a {n}``
    stands for eight lines. After ``as before`` a line is ``old => new``, of which each must be there.
    """
    head, *rest = [*_all_lines(lines), ""]
    if head == "rss":
        return plain_text(_RSS.format("\n".join(map(_item, filter(None, rest)))))
    if head == "as before":
        return _after_edits(before, rest)
    return plain_text("\n".join([head, *rest]).rstrip("\n") + "\n")


def _all_lines(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        many = _ROWS.fullmatch(line)
        if many is None:
            yield line
            continue
        first, last = int(many[1]), int(many[2])
        step = 1 if last >= first else -1
        yield from (many[3].replace("{n}", str(n)) for n in range(first, last + step, step))


def _item(row: str) -> str:
    title, *elements = row.split(" | ")
    named = [f"title {title}"] * bool(title) + elements
    return f"<item>{''.join(map(_element, named))}</item>"


def _element(text: str) -> str:
    """Return an element; its attribute may follow its name after ``@``."""
    head, _, content = text.partition(" ")
    return f"<{head.replace('@', ' ')}>{content}</{head.partition('@')[0]}>"


def _after_edits(text: str, edits: Sequence[str]) -> str:
    for edit in filter(None, edits):
        old, _, new = (plain_text(each) for each in edit.partition(" => "))
        assert old in text, f"{old!r} is not in the body before"
        text = text.replace(old, new)
    return text


def plain_text(text: str) -> str:
    text = _CHARACTER.sub(lambda match: chr(int(match[1], 16)), text)
    return _TIME.sub(lambda match: _time_text(float(match[2]) * _UNITS_S[match[3]], iso=bool(match[1])), text)


def _time_text(after_s: float, *, iso: bool) -> str:
    moment = datetime.fromtimestamp(T0 + after_s, UTC)
    return moment.isoformat().replace("+00:00", "Z") if iso else format_datetime(moment, usegmt=True)


def messages(lines: Sequence[str]) -> list[str]:
    """Return the messages that lines list: each begins with a dash, and the lines below it go on."""
    texts: list[str] = []
    for line in lines:
        if line.startswith("- "):
            texts.append(plain_text(line[2:]))
        elif line:
            texts[-1] += "\n" + plain_text(line.removeprefix("  "))
    return texts


def all_cases(folder: Path) -> Mapping[str, Case]:
    """Return the cases of a folder by their names."""
    return {path.stem: read_case(path) for path in sorted(folder.glob("*.case"))}
