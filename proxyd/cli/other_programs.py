"""Reads what other programs keep, for `proxyd import`: pages and sites become WATCH statements, feeds a list.

What these files look like is each program's own: ``tests/unit/cli/exports`` has some that the programs wrote.
"""

from __future__ import annotations

import json
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from lzma import LZMAError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxyd.core.errors import ConfigError, ListingError

if TYPE_CHECKING:
    from proxyd.core.language import CheckSettings, Merged, SourceList
    from proxyd.core.language.watch_wishes import WatchWish
    from proxyd.core.model.profile import Declaration

_SQLITE, _ZIP = b"SQLite format 3\0", b"PK\x03\x04"
_YAML = (".yaml", ".yml")
_MOST_BYTES = 8 * 2**20  # of a text in a file; changedetection.io's backups hold pictures of pages too
_MOST_OF_BACKUP = 2 * _MOST_BYTES  # of all of them: JSON takes twenty times as much once it is read
_MOST_OF_LIST = 2 * _MOST_BYTES  # of a list, which takes forty times as much if its elements are small
_MOST_WATCHED = 20_000  # each is checked beside its settings, which takes 2 ms
_MOST_YAML, _DEEPEST_YAML = 400_000, 100  # values, with those that aliases stand for; and how they lie in each other
_LONGEST_FIELD = 2**16  # of a database
_MOST_STEPS, _STEPS = 100_000_000, 10_000  # of a query, which takes some seconds; and how often they are counted
_MOST_FEEDS = 100_001  # one more than a list may have
_READER = 0x72656164  # the number in databases of reader
_DAMAGE = (  # of an archive; a name may be no UTF-8, and one may ask for more memory than there is
    *(zipfile.BadZipFile, zlib.error, LZMAError, OSError, EOFError, NotImplementedError, RuntimeError, ValueError),
    MemoryError,
)
_SETTINGS = ("changedetection.json", "url-watches.json")
_CONVERSIONS = {"html2text", "strip", "striplines", "beautify"}  # what proxyd does with a page anyway
_ELEMENTS = {"element-by-id": "#{}", "element-by-class": ".{}", "element-by-tag": "{}"}
_LINES = {"grepi", "remove_lines_containing", "delete_lines_containing"}
_READERS = {"css": "CSS", "xpath": "XPATH", "jsonpath": "JSON"}
_OF_JOBS = {"name", "url", "navigate", "filter", "filters", "headers", "kind", "use_browser", "index_number"} | {
    *("user_visible_url", "note", "timeout", "max_tries", "enabled"),
}


@dataclass(frozen=True, slots=True)
class Watched:
    """What somebody watched, and what of it is not taken over."""

    wish: WatchWish
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moved:
    """What another program watched; ``notes`` are about what is left out."""

    watched: Sequence[Watched]
    notes: tuple[str, ...] = ()


def read_other_program(path: Path, *, pages: bool = False) -> Moved | SourceList:
    """Return what a file of another program holds, or the feeds of a list; a list may also come through a pipe.

    If ``pages`` is set, the addresses of a list are pages. Raises ``ListingError``: it is damaged, or holds nothing
    that can be watched; ``ConfigError``: it cannot be read, or is too large.
    """
    from proxyd.config.bounded_files import read_at_most
    from proxyd.core.language import read_listing

    where = str(path)
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(len(_SQLITE))
        if head == _SQLITE:
            return _feeds_of_reader(path)
        if head.startswith(_ZIP):
            return _of_changedetection(_files_of_backup(path), where)
        if path.suffix in _YAML:
            return _sort_out(_jobs(read_at_most(path, _MOST_BYTES), where), where)
    body = read_at_most(path, _MOST_OF_LIST, may_be_pipe=True)
    return _of_json(_json(body, where), where) if _is_json(body) else read_listing(body, where, pages=pages)


def _is_json(body: bytes) -> bool:
    r"""Return whether a text is a JSON object, in any of its encodings and behind a byte order mark.

    >>> _is_json(b"\xef\xbb\xbf {}"), _is_json('{"a": 1}'.encode("utf-16")), _is_json(b"https://example.org/")
    (True, True, False)
    """
    start = body[:1000]
    return start.decode(json.detect_encoding(start), errors="replace").lstrip("\ufeff \t\r\n").startswith("{")


def merge_watches(
    moved: Moved,
    declared: Declaration,
    known: CheckSettings,
    to: Sequence[str],
    secret: str | None = None,
    *,
    watched: Collection[str] = (),
) -> tuple[Merged, list[str]]:
    """Return the WATCH of each address that is neither declared nor ``watched``, and what is left out, by name."""
    from proxyd.core.language import Merged, UniqueNames
    from proxyd.core.language.watch_wishes import watch_text
    from proxyd.core.model.profile import plain_name

    names = UniqueNames([*map(plain_name, declared.rules), *declared.domains])
    there = {source.url for source in declared.sources.values()} | {*watched}
    statements, notes, settled = [], list(moved.notes), dict[str, dict[str, str]]()
    new = [each for each in moved.watched if each.wish.url not in there]
    for each in new:
        name = names.of(each.wish.name or "", each.wish.url)
        wish = replace(each.wish, name=name, to=())
        # What says how an address is asked, of several jobs: its source is called by it, without the scheme
        of_address = settled.setdefault(re.sub("^[a-z]+://", "", wish.url).rstrip("/"), {})
        taken = _weaken(wish, known, [*of_address.values()])
        if isinstance(taken, str):
            notes.append(f"{name}: left out: {each.wish.url} cannot be watched: {taken}")
            continue
        if how := "headers" if taken.options.headers else taken.page_class:
            of_address.setdefault(how, watch_text(taken))
        statements.append(f"{watch_text(replace(taken, to=tuple(to), secret=secret))}\n")
        left_out = [*each.left_out, *_losses(wish, taken)]
        notes += [f"{name}: not taken over: {', '.join(left_out)}"] * bool(left_out)
    if not statements and len(new) == len(moved.watched):
        raise ListingError("\n".join([*notes[:20], "nothing of it can be watched"]))
    return Merged(tuple(statements), len(statements), len(moved.watched) - len(new)), notes


def _weaken(wish: WatchWish, known: CheckSettings, others: Sequence[str]) -> WatchWish | str:
    """Return what of a wish can be declared beside other statements, or why nothing can."""
    from proxyd.core.language import SourceText, check
    from proxyd.core.language.watch_wishes import watch_text

    plain = replace(wish, page_class=wish.page_class or "PAGE", selector="", words=())
    why = ""
    for weaker in (wish, plain):
        lines, headers = replace(weaker.options, ignored=()), replace(weaker.options, headers=())
        # The source of an address may be there already, with its own headers and browser
        none = replace(lines, headers=(), needs_browser=weaker.options.needs_browser and not others)
        for options in dict.fromkeys((weaker.options, lines, headers, none)):
            tried = replace(weaker, options=options)
            try:
                text = watch_text(tried)
            except ConfigError as error:
                why = why or str(error)
                continue
            errors = check([SourceText("", "\n".join([*others, text]))], known).errors
            if not errors:
                return tried
            why = why or errors[0].message
    return why


def _losses(wish: WatchWish, taken: WatchWish) -> Iterator[str]:
    """Yield the names of what a wish has and what was taken of it has not."""
    if taken.selector != wish.selector:
        yield f"the selector {wish.selector!r}"
    if taken.words != wish.words:
        yield "its words"
    if taken.options.ignored != wish.options.ignored:
        yield "lines that are left out"
    if taken.options.headers != wish.options.headers:
        yield "headers of its own"
    if taken.options.needs_browser != wish.options.needs_browser:
        yield "the browser"


def _json(body: bytes, where: str) -> Any:
    if len(body) > _MOST_BYTES:
        raise ListingError(f"{where} is larger than {_MOST_BYTES // 2**20} MiB")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a ValueError too
        raise ListingError(f"{where} is not JSON that can be read") from error


def _of_json(found: Any, where: str) -> Moved:
    if "monitorList" in found:
        return _sort_out(map(_monitor, _dicts(found["monitorList"])), where)
    if "watching" in found:
        return _of_changedetection({"url-watches.json": found}, where)
    raise ListingError(f"{where} is neither a backup of Uptime Kuma nor one of changedetection.io")


def _sort_out(found: Iterable[Watched | str], where: str) -> Moved:
    """Return what can be watched; a text says why something cannot."""
    from proxyd.core.language.syntax.value_checks import address_problem, plain_address

    watched, notes = [], []
    for number, each in enumerate(found):
        if number == _MOST_WATCHED:
            raise ListingError(f"{where} holds more than {_MOST_WATCHED} jobs; import it in parts")
        if isinstance(each, str):
            notes.append(f"{where}: left out: {each}")
        elif address_problem(url := plain_address(each.wish.url), of_site=each.wish.page_class == "SITE") is not None:
            notes.append(f"{where}: left out: {each.wish.name or 'one'}, whose address cannot be watched")
        else:
            watched.append(replace(each, wish=replace(each.wish, url=url)))
    if not watched:
        raise ListingError("\n".join([*notes[:20], f"{where} holds nothing that proxyd can watch"]))
    return Moved(watched, tuple(notes))


def _dicts(found: object) -> list[dict[str, Any]]:
    each = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return [one for one in each if isinstance(one, dict)]


def _texts(found: object) -> list[str]:
    if isinstance(found, str):
        return [found] * bool(found.strip())
    return [each.strip() for each in found if isinstance(each, str) and each.strip()] if isinstance(found, list) else []


def _text(found: object) -> str:
    """Return a text, or a number as one; of all else an empty one, as a list may be as deep as it is long.

    >>> _text("a"), _text(5432), _text([["a"]]), _text(None), _text(16**5000)
    ('a', '5432', '', '', '')
    """
    if isinstance(found, int) and not isinstance(found, bool) and abs(found) < 2**63:
        return str(found)
    return found if isinstance(found, str) else ""


def _headers(found: object) -> tuple[tuple[str, str], ...]:
    return tuple((_text(name), _text(value)) for name, value in found.items()) if isinstance(found, dict) else ()


# -- changedetection.io


def _files_of_backup(path: Path) -> dict[str, Any]:
    """Return the settings, watches and tags of a backup, by the names of their files."""
    bodies, left = dict[str, bytes](), _MOST_OF_BACKUP
    try:
        with zipfile.ZipFile(path) as archive:
            for each in archive.infolist():
                if Path(each.filename).name in {*_SETTINGS, "watch.json", "tag.json"} and left >= 0:
                    with archive.open(each) as member:
                        bodies[each.filename] = body = member.read(left + 1)
                    left -= len(body)
    except _DAMAGE as error:
        raise ListingError(f"{path} is a damaged archive, or no backup of changedetection.io") from error
    if left < 0:
        raise ListingError(f"{path}: its watches are larger than {_MOST_OF_BACKUP // 2**20} MiB")
    return {name: _json(body, f"{path}: {name}") for name, body in bodies.items()}


def _of_changedetection(files: Mapping[str, Any], where: str) -> Moved:
    """Take the watches of a backup: since version 0.50 each has a file of its own, before all were in one."""
    watches, tags = list[dict[str, Any]](), dict[str, str]()
    for name, found in files.items():
        if not isinstance(found, dict):
            continue
        if Path(name).name == "watch.json":
            watches.append(found)
        elif Path(name).name == "tag.json":
            tags[Path(name).parent.name] = _text(found.get("title"))
        else:
            watches += _dicts(found.get("watching"))
            kept = _object_at(found, "settings", "application", "tags")
            tags |= {uuid: _text(tag.get("title")) for uuid, tag in kept.items() if isinstance(tag, dict)}
    watches.sort(key=lambda each: _text(each.get("date_created")))
    moved = _sort_out((_page_of(each, tags) for each in watches), where)
    told = any(each.get("notification_urls") for each in [*watches, *_dicts(_applications(files))])
    said = f"{where}: its notification addresses are not taken over: add TELL CHANNEL, or take --to"
    return replace(moved, notes=(*moved.notes, *[said] * told))


def _applications(files: Mapping[str, Any]) -> list[object]:
    return [_object_at(files.get(name), "settings", "application") for name in _SETTINGS]


def _object_at(found: object, *names: str) -> dict[str, Any]:
    """Return the object to which names lead, or an empty one."""
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _page_of(watch: Mapping[str, Any], tags: Mapping[str, str]) -> Watched:
    from proxyd.core.language.watch_wishes import WatchOptions, WatchWish

    filters, triggers = _texts(watch.get("include_filters")), _texts(watch.get("trigger_text"))
    is_price = watch.get("processor") == "restock_diff"
    reader, selector = ("CSS", "") if is_price or not filters else _selector(filters[0])
    words = tuple(each for each in triggers if not each.startswith("/")) if not is_price else ()
    ignored = tuple(map(_pattern, _texts(watch.get("ignore_text")))) if not is_price else ()
    folders = [tags.get(each, "") for each in _texts(watch.get("tags"))] + [_text(watch.get("tag"))]
    options = WatchOptions(
        profile=next(filter(None, folders), ""),
        needs_browser="webdriver" in _text(watch.get("fetch_backend")),
        headers=_headers(watch.get("headers")),
        ignored=() if selector else ignored,
    )
    left_out = {
        "it is paused there": watch.get("paused"),
        "its method or body": watch.get("method", "GET") != "GET" or watch.get("body"),
        f"the selector {filters[0]!r}" if filters else "": bool(filters) and not is_price and not selector,
        f"selectors but {filters[0]!r}" if filters else "": len(filters) > 1 and not is_price,
        "what is removed from the page": watch.get("subtractive_selectors"),
        "ignored text": ignored and selector,
        "patterns that trigger": any(each.startswith("/") for each in triggers),
        "text that must not be there": watch.get("text_should_not_be_present"),
        "conditions": watch.get("conditions"),
        "browser steps": watch.get("browser_steps"),
    }
    wish = WatchWish(
        _text(watch.get("url")).removeprefix("source:"),
        page_class="PRICE" if is_price else "" if selector else "PAGE",
        name=_text(watch.get("title")) or _text(watch.get("page_title")) or None,
        words=words,
        selector=selector,
        reader=reader,
        options=options,
    )
    return Watched(wish, tuple(name for name, is_there in left_out.items() if is_there))


def _selector(written: str) -> tuple[str, str]:
    """Return how a filter of changedetection.io reads a page; an empty selector if proxyd has no such reader.

    >>> _selector("xpath://ul"), _selector("json:$.a"), _selector("#main"), _selector("jq:.a")
    (('XPATH', '//ul'), ('JSON', '$.a'), ('CSS', '#main'), ('CSS', ''))
    """
    if written.startswith("/"):
        return "XPATH", written
    for prefix, reader in (("xpath:", "XPATH"), ("xpath1:", "XPATH"), ("json:", "JSON")):
        if written.startswith(prefix):
            return reader, written.removeprefix(prefix)
    return "CSS", "" if re.match("jq(raw)?:", written) else written


def _pattern(written: str) -> str:
    """Return a text to ignore as the language writes it; a pattern may have flags behind its slash.

    >>> _pattern("/views/i"), _pattern("/a/"), _pattern("updated")
    ('/(?i)views/', '/a/', 'updated')
    """
    found = re.fullmatch(r"/(.+)/([a-z]*)", written)
    flags = "" if found is None else "".join(flag for flag in found[2] if flag in "ims")
    return written if found is None else f"/{f'(?{flags})' if flags else ''}{found[1]}/"


# -- urlwatch and webchanges


def _jobs(body: bytes, where: str) -> Iterator[Watched | str]:
    try:
        import yaml
    except ImportError:
        raise ConfigError([f"{where}: to read YAML, install proxyd[moving]"]) from None
    loader: Any = type("TextLoader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})  # libyaml is much faster
    for kind in ("int", "float", "timestamp", "binary"):  # texts here; 1:1:1... took minutes as a number
        loader.add_constructor(f"tag:yaml.org,2002:{kind}", loader.construct_scalar)
    try:
        is_small = _is_small(yaml.parse(body, Loader=loader))
        jobs = list(yaml.load_all(body, Loader=loader)) if is_small else []
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise ListingError(f"{where} is not YAML that can be read") from error  # a key is a list, or a tag does not fit
    if not is_small:
        raise ListingError(f"{where} holds more than can be read, in itself or through its aliases; split it")
    for job in jobs:
        if isinstance(job, dict):
            yield _job(job)


def _is_small(events: Iterable[Any]) -> bool:
    """Return whether the events of a YAML text stand for few values, which do not lie deep in each other.

    An alias counts as all that it stands for: 359 bytes of merge keys stood for so many that they took 1.7 GB.
    """
    sizes, open_nodes, total = dict[str, int](), list[tuple[str | None, int]](), 0
    for event in events:
        kind, anchor = type(event).__name__, getattr(event, "anchor", None)
        if kind in {"SequenceStartEvent", "MappingStartEvent"}:
            open_nodes.append((anchor, total))
        elif kind in {"SequenceEndEvent", "MappingEndEvent"}:
            anchor, before = open_nodes.pop()
            sizes[anchor or ""] = total - before + 1
        elif kind == "AliasEvent":
            total += sizes.get(anchor or "", _MOST_YAML)  # one that stands for what it lies in never ends
        elif kind == "ScalarEvent":
            sizes[anchor or ""] = size = len(event.value) // 100 + 1
            total += size
        total += 1
        if total > _MOST_YAML or len(open_nodes) > _DEEPEST_YAML:
            return False
    return True


def _job(job: Mapping[str, Any]) -> Watched | str:
    from proxyd.core.language.watch_wishes import WatchOptions, WatchWish

    name = _text(job.get("name"))
    url = job.get("navigate") or job.get("url")
    if not isinstance(url, str):
        return f"{name or 'a job'}, which is no address"
    reader, selector, ignored, left_out = "CSS", "", list[str](), list[str]()
    for kind, value in _filters(job.get("filter", job.get("filters"))):
        if kind in _ELEMENTS and not selector:
            selector = _ELEMENTS[kind].format(value)
        elif kind in _READERS and not selector:
            reader, selector = _READERS[kind], value
        elif kind in _LINES:
            ignored.append(f"/{value}/")
        elif kind not in _CONVERSIONS:
            left_out.append(f"the filter {kind}")
    if selector and ignored:
        left_out.append("lines that are removed")
    left_out += ["it is off there"] * (job.get("enabled") is False)
    left_out += [_text(key) for key in job if key not in _OF_JOBS]
    options = WatchOptions(
        needs_browser="navigate" in job or bool(job.get("use_browser")),
        headers=_headers(job.get("headers")),
        ignored=() if selector else tuple(ignored),
    )
    page_class = "" if selector else "PAGE"
    wish = WatchWish(url, page_class, name or None, selector=selector, reader=reader, options=options)
    return Watched(wish, tuple(left_out))


def _filters(found: object) -> Iterator[tuple[str, str]]:
    """Yield the name of each filter with its main value; they are a list, a text such as ``css:#a,strip``, or one."""
    if isinstance(found, str):
        found = found.split(",")
    for each in found if isinstance(found, list) else [found]:
        if isinstance(each, str):
            kind, _, value = each.partition(":")
            yield kind.strip(), value
        for kind, value in each.items() if isinstance(each, dict) else ():
            first = next(iter(value.values()), "") if isinstance(value, dict) else value
            yield _text(kind), _text(first)


# -- Uptime Kuma, reader


def _monitor(monitor: Mapping[str, Any]) -> Watched | str:
    from proxyd.core.language.watch_wishes import WatchOptions, WatchWish

    kind, name = _text(monitor.get("type")), _text(monitor.get("name"))
    if kind == "port":
        host = _text(monitor.get("hostname"))
        url = f"tcp://{f'[{host}]' if ':' in host and host[0] != '[' else host}:{_text(monitor.get('port'))}"
    elif kind in {"http", "keyword"}:
        url = _text(monitor.get("url"))
    else:
        return f"{name or 'a monitor'}, which is of the kind {kind}"
    left_out = {
        "it is paused there": "active" in monitor and not monitor["active"],
        "that it is to be down": monitor.get("upsideDown"),
        "that its word must not be there": kind == "keyword" and monitor.get("invertKeyword"),
        "its method or body": monitor.get("method", "GET") != "GET" or monitor.get("body"),
        "its headers": monitor.get("headers"),
        "how it signs in": monitor.get("authMethod") or monitor.get("basic_auth_user"),
    }
    holding = _text(monitor.get("keyword")) if kind == "keyword" and not monitor.get("invertKeyword") else ""
    wish = WatchWish(url, "SITE", name or None, options=WatchOptions(holding=holding))
    return Watched(wish, tuple(name for name, is_there in left_out.items() if is_there))


def _feeds_of_reader(path: Path) -> SourceList:
    from proxyd.core.language import read_listed

    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            _bound(opened)
            if opened.execute("PRAGMA application_id").fetchone()[0] != _READER:
                raise ListingError(f"{path} is no database of reader")
            if not _is_plain_table(opened, "feeds"):
                raise ListingError(f"{path}: its feeds are no plain table, as reader makes it")
            rows = opened.execute(_FEEDS_OF_READER, (_MOST_FEEDS,)).fetchall()
    except sqlite3.Error as error:
        raise ListingError(f"{path} cannot be read: {error}") from error
    listed = [(number, _text(own) or _text(title), _text(url), "") for number, (url, own, title) in enumerate(rows, 1)]
    return read_listed(listed, str(path))


_LONGEST_DEFAULT = 100
_FEEDS_OF_READER = "SELECT url, user_title, title FROM feeds ORDER BY added LIMIT ?"


def _bound(opened: sqlite3.Connection) -> None:
    """Make queries of a stranger's database end, and its values short."""
    opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_FIELD)
    opened.text_factory = lambda written: written.decode("utf-8", errors="replace")
    calls = count(1)
    opened.set_progress_handler(lambda: next(calls) * _STEPS > _MOST_STEPS, _STEPS)


def _is_plain_table(opened: sqlite3.Connection, name: str) -> bool:
    """Return whether a table holds rows: a view or a computed column runs what a stranger wrote, without end."""
    found = opened.execute("SELECT type, sql FROM sqlite_master WHERE name = ? COLLATE NOCASE", (name,)).fetchall()
    if [(kind, str(sql)[:13].upper()) for kind, sql in found] != [("table", "CREATE TABLE ")]:
        return False
    columns = opened.execute(f"PRAGMA table_xinfo({name})")
    # None is hidden or computed, nor has a default that stands in every row and takes no room in the file
    return all(not hidden and len(default or "") <= _LONGEST_DEFAULT for *_, default, _, hidden in columns)
