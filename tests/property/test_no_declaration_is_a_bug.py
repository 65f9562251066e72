"""Whatever is sent to be declared is taken, or refused with a reason and its place, and then nothing has changed."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlencode

import pytest
from aiohttp import ClientResponse
from hypothesis import given
from hypothesis import strategies as st

from proxyd.api.rest.json_profiles import declaration_of
from proxyd.api.wire import Fault, Problem
from proxyd.core.language import format_statements, parse
from proxyd.core.language.syntax.quoting import quote_name
from proxyd.core.model.profile import Declaration
from tests.examples import examples
from tests.fleets import rule, source
from tests.hostile import ALL, SHORT, hidden_in
from tests.integration.api_world import Running, running_api
from tests.integration.dashboard_world import Browser
from tests.property.strategies import statements
from tests.property.test_print_parse_roundtrip import soups

VALID = (
    """CREATE DOMAIN "New" AS CLASS::NEWS(channel.item.title:String, channel.item.pubDate:Timestamp),
CLASS::PAGE EACH CSS 'li' KEY name (name:String FROM CSS 'b', size:Integer FROM XPATH './i');
CREATE SOURCE "n" OF "New".NEWS AT 'https://n.example/feed' POLITENESS 12 PROBES PER HOUR, SPACING 2 MINUTES
EXPECT 3 PER DAY ZONE 'Europe/Prague' HEADER 'X-A' 'b' AUTH BASIC 'u' SECRET ENV 'SECRET_A' WEBSUB OFF ROBOTS OBEY;
CREATE SOURCE "page" OF PAGE AT 'https://n.example/page';
CREATE PROFILE "Own" AS (DOMAIN "New", LANGUAGE "SQL", USER "v")
DELIVER TO WEBHOOK 'https://r.example/new' SECRET ENV 'SECRET_A';
INSERT NOTIFICATION "each" INTO "Own" FROM SOURCES "n"
SET QUERY "SELECT title, COUNT(*) AS many FROM NEWS WHERE title LIKE '%a%' GROUP BY title ORDER BY 2 DESC LIMIT 5"
SET TRIGGER "ON INSERT TO NEWS WHEN COUNT(*) % 3 = 0 AND NOT (title REGEXP '^b')"
START NOW END NOW + '30 days' SET UTILITY LINEAR(30 MINUTES) SET LIFE WINDOW(5 MINUTES)
SET IMPORTANCE 3 DURING 'Mon-Fri 09:00-18:00', 1 OTHERWISE SET DIGEST EVERY 1 HOUR AT MOST 20 ITEMS;
"""
    + source("m")
    + rule("every")
)
TOKENS = re.findall(r"'[^']*'|\w+|\s+|.", VALID, re.DOTALL)
DECLARED = json.loads(declaration_of(parse(VALID).statements).model_dump_json(by_alias=True, exclude_none=True))
REFUSALS = {400, 404, 409, 413, 415, 422}
KINDS = {"notification": "rules", "profile": "profiles", "source": "sources", "domain": "domains"}
FORM = "application/x-www-form-urlencoded"
_PART = b'--x\r\nContent-Disposition: form-data; name="csrf"'
BROKEN = {
    "no form": ("application/octet-stream", b"text=a"),
    "no boundary": ("multipart/form-data", b"--x\r\n\r\n"),
    "cut off": ("multipart/form-data; boundary=x", _PART + b"\r\n\r\na"),
    "a file": ("multipart/form-data; boundary=x", _PART + b'; filename="a"\r\n\r\na\r\n--x--\r\n'),
    "no such encoding": ("multipart/form-data; boundary=x", _PART + b"\r\nContent-Transfer-Encoding: nosuch\r\n\r\na"),
    "no such charset": (f"{FORM}; charset=nosuch", b"csrf=\xff"),
    "wide characters": (f"{FORM}; charset=utf-16", b"csrf"),
    "no UTF-8": (FORM, b"csrf=\xff&=%ff&%zz&&=="),
    "too many fields": (FORM, b"a=1&" * 5000),
    "too large": (FORM, b"csrf=" + b"x" * 1_000_000),
}
FORMS = ["/sign-in", "/sign-out", "/profiles", "/profiles/check", "/profiles/P/drop", "/tokens", "/tokens/x/drop",
         "/reload", "/rules/r/test", "/replay-dead"]  # fmt: skip
NO_JSON = [b"", b"[" * 100_000, b'{"a":' * 40_000, b"NaN", b"1" * 5000, b"\xff", b'"\\ud800"', b"[]", b'{"\\ud800": 1}',
           b'{"domains": [], "domains": 1}']  # fmt: skip
Text: TypeAlias = str | bytes


@dataclass
class Served:
    """The API of a daemon in a thread of its own, asked from tests that are not asynchronous."""

    running: Running
    loop: asyncio.AbstractEventLoop
    headers: Mapping[str, str]
    browser: Browser
    files: Declaration = field(init=False)

    def __post_init__(self) -> None:
        self.files = self.declaration

    @property
    def declaration(self) -> Declaration:
        return self.running.control.declarations.declaration

    def post(self, path: str, body: Text, media_type: str, **more: Any) -> tuple[ClientResponse, bytes]:
        async def asked() -> tuple[ClientResponse, bytes]:
            headers = {**self.headers, "Content-Type": media_type}
            async with self.running.client.post(path, data=body, headers=headers, **more) as answer:
                return answer, await answer.read()

        return asyncio.run_coroutine_threadsafe(asked(), self.loop).result(60)

    def form(self, path: str, **fields: str) -> tuple[int, str]:
        encoded = urlencode({"csrf": self.browser.csrf, **fields}, errors="surrogatepass")
        answer, page = self.post(path, encoded, FORM, allow_redirects=False)
        return answer.status, page.decode()

    def drop_new(self) -> None:
        """Drop whatever was declared since the beginning."""
        drops = [
            f"DROP {kind} {quote_name(name)};"
            for kind, member in KINDS.items()
            for name in getattr(self.declaration, member).keys() - getattr(self.files, member).keys()
        ]
        if drops:
            answer, said = self.post("/api/v1/profiles", "".join(drops), "text/plain")
            assert answer.status == 201, said
        assert self.declaration.rules.keys() == self.files.rules.keys()


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    ready: list[Served] = []
    is_ready, ends = threading.Event(), asyncio.Event()

    async def serve() -> None:
        try:
            async with running_api(folder) as running:
                browser = Browser(running)
                await browser.sign_in("admin")
                headers = await running.token("write")
                ready.append(Served(running, asyncio.get_running_loop(), headers, browser))
                is_ready.set()
                await ends.wait()
        finally:
            is_ready.set()

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    is_ready.wait(60)
    try:
        yield ready[0]
    finally:
        if ready:
            ready[0].loop.call_soon_threadsafe(ends.set)
        thread.join(60)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as found:
        yield found


# -- what is sent

hostile = st.sampled_from([text[:20_000] for text in ALL.values()])


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    """Return a text with some tokens cut, doubled, moved, replaced or nested."""
    tokens = list(TOKENS)
    for _ in range(draw(st.integers(1, 3))):
        at, to = draw(st.integers(0, len(tokens))), draw(st.integers(0, len(tokens)))
        instead = {
            "cut": [],
            "drop": tokens[at + 1 :],
            "double": tokens[at : at + 1] + tokens[at:],
            "move": tokens[to : to + 1] + tokens[at + 1 :],
            "replace": [draw(_instead), *tokens[at + 1 :]],
            "nest": [draw(st.sampled_from("(\"'-")) * draw(_deep), *tokens[at:]],
        }
        tokens = tokens[:at] + instead[draw(st.sampled_from(sorted(instead)))]
    return "".join(tokens)


_deep = st.sampled_from([1, 60, 20_000])
_instead = hostile | hostile.map(lambda text: "'" + text.replace("'", "''") + "'") | hostile.map(quote_name)
texts: st.SearchStrategy[Text] = st.one_of(
    st.text(max_size=80),
    soups,
    damaged_texts(),
    st.lists(statements, min_size=1, max_size=3).map(format_statements),
    st.binary(max_size=80),
)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each member of a value, at any depth."""
    within = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in within:
        yield (*at, key)
        yield from places(each, (*at, key))


PLACES = list(places(DECLARED))
_values: st.SearchStrategy[Any] = (
    st.sampled_from([None, True, 0, -1, 1e308, 10**400, "", [], {}, [[]], "OBEY", "DOMAIN", {"env": "SECRET_A"}])
    | hostile
)


@st.composite
def damaged_declarations(draw: st.DrawFn) -> Any:
    """Return a declaration with some members replaced, dropped, doubled, or of other names."""
    declared = json.loads(json.dumps(DECLARED))
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(PLACES))
        inside = declared
        for key in way:
            inside = _inner(inside, key)
        if not isinstance(inside, dict | list) or _inner(inside, last) is None:
            continue
        match draw(st.sampled_from(["replace", "drop", "add"])):
            case "replace":
                inside[last] = draw(_values)
            case "drop":
                del inside[last]
            case _ if isinstance(inside, list):
                inside.append(inside[last])
            case _:
                inside[draw(hostile | st.just("NAME"))] = inside[last]
    return declared


def _inner(value: Any, key: Any) -> Any:
    """Return a member, ``None`` where an earlier change left none."""
    if isinstance(value, list):
        return value[key] if isinstance(key, int) and key < len(value) else None
    return value.get(key) if isinstance(value, dict) else None


# -- what is answered


def sent(text: Text) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def check_answer(api: Served, body: bytes, media_type: str, points: Callable[[Fault], bool]) -> None:
    """Send a declaration, first without effect: it is taken twice, or refused twice alike and changes nothing."""
    before = api.declaration
    dry, dry_said = api.post("/api/v1/profiles?dry_run=true", body, media_type)
    assert api.declaration is before
    done, said = api.post("/api/v1/profiles", body, media_type)
    if dry.status == 200:
        assert done.status == 201, said
        api.drop_new()
        return
    assert done.status in REFUSALS, said
    assert (done.status, said) == (dry.status, dry_said)
    assert done.content_type == "application/problem+json"
    problem = Problem.model_validate_json(said)
    assert (problem.status, problem.type) == (done.status, "about:blank")
    assert problem.title
    assert done.status != 422 or problem.errors
    for fault in problem.errors or ():
        assert fault.detail
        assert points(fault), fault
    assert api.declaration is before


def is_on_a_line(fault: Fault) -> bool:
    return fault.line is not None and fault.line >= 1 and fault.column is not None and fault.column >= 1


def leads_into(declared: Any, fault: Fault) -> bool:
    """Whether a pointer leads to a member, or to where one is missing."""
    if fault.pointer is None:
        return is_on_a_line(fault)
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in fault.pointer.split("/")[1:]] or [""]
    for part in way:
        declared = declared[int(part)] if isinstance(declared, list) else declared[part]
    return isinstance(declared, dict) or fault.pointer == "" or int(last) < len(declared)


@examples(120)
@given(text=texts)
def test_a_text_is_declared_or_refused_with_its_lines(api: Served, text: Text) -> None:
    check_answer(api, sent(text), "text/plain", is_on_a_line)


@pytest.mark.parametrize("text", ALL.values(), ids=ALL)
def test_a_hostile_text_is_refused_with_its_lines(api: Served, text: str) -> None:
    check_answer(api, sent(text), "text/plain", is_on_a_line)


@examples(120)
@given(declared=damaged_declarations())
def test_a_declaration_in_json_is_declared_or_refused_with_its_members(api: Served, declared: Any) -> None:
    check_answer(api, json.dumps(declared).encode(), "application/json", lambda fault: leads_into(declared, fault))


@pytest.mark.parametrize("name", SHORT.values(), ids=SHORT)
def test_hostile_names_are_declared_and_dropped_or_refused(api: Served, name: str) -> None:
    """Whatever is a text may be a name."""
    declared = json.loads(json.dumps(DECLARED).replace('"New"', json.dumps(name)).replace('"Own"', json.dumps(name)))
    declared["profiles"][0]["users"] = [name]
    declared["notifications"][0]["name"] = declared["sources"][1]["name"] = name
    check_answer(api, json.dumps(declared).encode(), "application/json", lambda fault: leads_into(declared, fault))


@pytest.mark.parametrize("body", NO_JSON)
def test_what_is_no_declaration_in_json_is_refused(api: Served, body: bytes) -> None:
    answer, said = api.post("/api/v1/profiles", body, "application/json")
    assert answer.status in {400, 422}
    problem = Problem.model_validate_json(said)
    assert problem.detail
    assert body != b"[]" or [fault.pointer for fault in problem.errors or ()] == [""]


@examples(60)
@given(text=st.text(max_size=80) | soups | damaged_texts(), name=st.sampled_from(["", *SHORT.values()]))
def test_a_text_in_the_editor_is_judged_and_kept(api: Served, text: str, name: str) -> None:
    before = api.declaration
    for part in ("", "1"):
        status, page = api.form("/profiles/check", text=text, name=name, tag="x", part=part)
        assert (status, 'id="verdict"' in page) == (200, True)
        shown = re.sub(r"<textarea.*</textarea>|<input[^>]*>", "", page, flags=re.DOTALL)
        assert not hidden_in(shown, but="\n\t")  # with its tabs a line stands above its carets
    status, page = api.form("/profiles", text=text, tag="x")
    assert status in {303, 400, 404, 409, 422}, page
    if status == 303:
        api.drop_new()
    else:
        assert api.declaration is before


@pytest.mark.parametrize(("media_type", "body"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("path", FORMS)
def test_a_broken_form_is_refused(api: Served, path: str, media_type: str, body: bytes) -> None:
    answer, page = api.post(path, body, media_type, allow_redirects=False)
    assert answer.status in {400, 403, 413}
    assert b"</html>" in page
