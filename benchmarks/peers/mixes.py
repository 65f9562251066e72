"""Mixes: what sources publish when, and how they misbehave, the same for every program."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

OLD = 5  # items that each feed has before the run
SHOWN = 20  # items of a feed
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Item:
    """An item; ``at_s`` counts from the beginning of the run, and is negative for those from before."""

    feed: int
    number: int
    at_s: float

    @property
    def word(self) -> str:
        """A word by which every message that tells of it is known."""
        return f"pxitem-{self.feed}-{self.number}"


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed with its items, the oldest first, and how it is written."""

    number: int
    items: tuple[Item, ...]
    shape: str = "plain"

    def body(self, now_s: float, epoch_s: float) -> tuple[str, str]:
        """Return the document at a moment of the run, which began at ``epoch_s``, and its version."""
        shown = [each for each in self.items if each.at_s <= now_s][-SHOWN:]
        version = f"{self.number}-{shown[-1].number if shown else 0}"
        if self.shape != "oldest first":
            shown.reverse()
        if self.shape == "shuffled":  # as by a cache of several servers
            shift = int(now_s) % max(1, len(shown))
            shown = shown[shift:] + shown[:shift]
        entries = "".join(self._entry(each, now_s, epoch_s) for each in shown)
        channel = f"<title>feed {self.number}</title><link>http://example.org/</link><description>d</description>"
        head = "" if self.shape == "no declaration" else '<?xml version="1.0" encoding="utf-8"?>\n'
        tail = "" if self.shape == "cut off" else "</channel></rss>"
        return f'{head}<rss version="2.0"><channel>{channel}\n{entries}{tail}', version

    def _entry(self, item: Item, now_s: float, epoch_s: float) -> str:
        link = f"http://example.org/{item.word}"
        if self.shape == "links that change":
            link += f"?session={int(now_s)}"
        title = f"News &amp; views: {item.word}" if self.shape != "bare ampersand" else f"News & views: {item.word}"
        guid = "" if self.shape == "no guid" else f'<guid isPermaLink="false">{item.word}</guid>'
        when = "" if self.shape == "no dates" else f"<pubDate>{formatdate(epoch_s + item.at_s)}</pubDate>"
        edited = f" (read {int(now_s)} times)" if self.shape == "texts that change" else ""
        text = escape(f"Text of {item.word}{edited}")
        return f"<item><title>{title}</title><link>{link}</link>{guid}{when}<description>{text}</description></item>\n"


ODD = (
    *("oldest first", "shuffled", "no declaration", "cut off", "links that change", "bare ampersand"),
    *("no guid", "no dates", "texts that change"),
)


@dataclass(frozen=True, slots=True)
class Mix:
    """Feeds of a run of ``length_s`` seconds; a day of the sources takes ``day_s``."""

    name: str
    feeds: tuple[Feed, ...]
    length_s: float
    day_s: float
    limits: tuple[tuple[float, float], ...] = ()  # when half of the hosts answer 429, with Retry-After to its end
    outages: tuple[tuple[float, float], ...] = ()  # when half of the hosts answer 503
    kills: tuple[float, ...] = ()  # when the program is killed, and started again
    receiver_outages: tuple[tuple[float, float], ...] = ()

    def news(self) -> dict[str, Item]:
        """Return the items that come during the run, by their word."""
        return {each.word: each for feed in self.feeds for each in feed.items if each.at_s > 0.0}


def mixes(feeds: int, length_s: float, day_s: float, seed: int, trace: Path | None) -> list[Mix]:
    """Return all mixes; the last has the updates of a real trace, if there is one, at a day in ``day_s``."""
    rng = np.random.default_rng(seed)
    times = _uneven(feeds, length_s, rng)
    part, third = length_s / 10.0, length_s / 3.0
    uneven = _feeds(times)
    cyclic = _feeds(_cyclic(feeds, length_s, rng))
    odd = _feeds(_uneven(feeds, length_s, rng), ODD)
    kills = tuple(float(each) for each in np.sort(rng.uniform(0.1, 0.9, round(length_s / 30.0)) * length_s))
    found = [
        Mix("uneven", uneven, length_s, day_s),
        Mix("cyclic", cyclic, length_s, day_s),
        Mix("odd", odd, length_s, day_s),
        Mix("limits", uneven, length_s, day_s, limits=((part, 3 * part),), outages=((5 * part, 6 * part),)),
        Mix("faults", uneven, length_s, day_s, kills=kills, receiver_outages=((third, third + part),)),
    ]
    if trace is not None:
        found.append(Mix(trace.stem, _feeds(_of_trace(trace, feeds, length_s, day_s, rng)), length_s, day_s))
    return found


def _feeds(times: Sequence[Sequence[float]], shapes: Sequence[str] = ("plain",)) -> tuple[Feed, ...]:
    found = []
    for number, its in enumerate(times):
        at = [-60.0 * (OLD - old) for old in range(OLD)] + sorted(its)
        items = tuple(Item(number, index, at_s) for index, at_s in enumerate(at))
        found.append(Feed(number, items, shapes[number % len(shapes)]))
    return tuple(found)


def _uneven(feeds: int, length_s: float, rng: np.random.Generator) -> list[list[float]]:
    """Return times of Poisson processes with rates of which the greatest is hundreds of times the smallest."""
    rates = rng.lognormal(0.0, 1.6, feeds)
    rates *= 6.0 * feeds / rates.sum()  # six items a feed on average
    return [list(rng.uniform(1.0, length_s, rng.poisson(rate))) for rate in rates]


def _cyclic(feeds: int, length_s: float, rng: np.random.Generator) -> list[list[float]]:
    """Return times that come back after a period of the source, from a fortieth to a quarter of the run."""
    periods = length_s / rng.uniform(4.0, 40.0, feeds)
    return [
        [float(at_s) for at_s in np.arange(rng.uniform(0.0, period), length_s, period) + rng.normal(0.0, 0.01 * period)]
        for period in periods
    ]


def _of_trace(path: Path, feeds: int, length_s: float, day_s: float, rng: np.random.Generator) -> list[list[float]]:
    """Return the times of some sources of a trace (source, unix seconds) in its busiest part, at the run's speed."""
    by_source: dict[str, list[float]] = {}
    with path.open(newline="") as file:
        rows = csv.reader(file)
        next(rows)
        for source, at_s, *_ in rows:
            by_source.setdefault(source, []).append(float(at_s))
    span_s = length_s / day_s * DAY_S
    every = np.sort(np.concatenate([np.array(each) for each in by_source.values()]))
    starts = np.arange(every[0], every[-1] - span_s, span_s / 4.0)
    counts = np.searchsorted(every, starts + span_s) - np.searchsorted(every, starts)
    begin_s = starts[int(np.argsort(counts)[-max(1, len(counts) // 4)])]  # a busy part, not a mass change
    inside = {name: [t for t in its if begin_s <= t < begin_s + span_s] for name, its in by_source.items()}
    active = [name for name in sorted(inside) if inside[name]]
    chosen = rng.permutation(len(active))[:feeds]
    found = [[(t - begin_s) / DAY_S * day_s for t in inside[active[index]]] for index in chosen]
    return found + [[] for _ in range(feeds - len(found))]
