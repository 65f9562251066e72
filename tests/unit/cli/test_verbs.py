"""The verbs as the parser knows them: helped with examples that parse, alike in what they take."""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from proxyd.cli import administration, service
from proxyd.cli.main import main, make_parser
from proxyd.cli.notifications import show
from proxyd.cli.sources import _found_row
from proxyd.client.types import ItemFound
from proxyd.terminal.verbs import Verb, address, until_hangup, whole
from tests.pages import options_of

WITHOUT_JSON = {
    "mcp",
    "serve",
    "cluster",
    "cluster init",
    "db",
    "db migrate",
    "db back",
    "db vacuum",
    "fmt",
    "import",
    "export",
    "completion",
    "top",
    "profile",
    "token",
    "person",
    "receiver",
    "webhook",
    "solve",
}
ASKING = {
    "add", "remove", "moved", "probe", "pause", "resume", "mute", "unmute",
    "export", "healthcheck", "mcp", "sources", "probes", "items", "search", "explain", "top", "plan", "hosts", "sites",
    "advise",
    "report", "notifications",
    "notifications show", "wait", "rules", "reload", "profile list", "profile show", "profile declare", "profile drop",
    "audit",
    "token create", "token list", "token drop", "person invite", "person list", "person limit", "person drop",
    "receiver list", "receiver test", "webhook list", "webhook test", "webhook dead", "webhook replay",
}  # fmt: skip


def verbs() -> dict[str, argparse.ArgumentParser]:
    """Return every verb and verb of a verb by what is typed."""
    found: dict[str, argparse.ArgumentParser] = {}
    waiting = [("", make_parser())]
    while waiting:
        name, parser = waiting.pop()
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += [(f"{name} {each}".strip(), sub) for each, sub in action.choices.items()]
        if name:
            found[name] = parser
    return found


def examples(parser: argparse.ArgumentParser) -> list[str]:
    lines = (parser.epilog or "").splitlines()
    assert lines[:1] in (["example:"], ["examples:"]), parser.prog
    return [line.strip() for line in lines[1:]]


def takes(parser: argparse.ArgumentParser, option: str) -> bool:
    return option in parser._option_string_actions


ALL = verbs()


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_verb_has_examples_and_they_parse(name: str) -> None:
    shown = examples(ALL[name])
    assert shown
    for example in shown:
        program, *arguments = shlex.split(example)
        assert program == "proxyd"
        assert callable(options_of(arguments).run)
    words = [word for word in shlex.split(shown[0])[1:] if not word.startswith("-") and word != "/etc/proxyd.toml"]
    assert " ".join(words).startswith(name)


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_verb_says_what_each_of_its_arguments_means(name: str) -> None:
    for action in ALL[name]._actions:
        assert action.help or isinstance(action, argparse._SubParsersAction), action
    assert (ALL[name].description or "").endswith(".")


def test_what_prints_anything_of_substance_prints_json() -> None:
    assert {name for name, parser in ALL.items() if not takes(parser, "--json")} == WITHOUT_JSON


def test_what_asks_a_daemon_can_ask_one_elsewhere() -> None:
    assert {name for name, parser in ALL.items() if takes(parser, "--url")} == ASKING


def test_what_is_given_before_a_verb_of_a_verb_holds_for_it() -> None:
    for arguments in (["--url", "http://a", "--json", "show", "x"], ["show", "x", "--url", "http://a", "--json"]):
        options = options_of(["notifications", *arguments])
        assert (options.url, options.json, options.run) == ("http://a", True, show.run)


@pytest.mark.parametrize(
    "text",
    ["", "x", "ftp://a", "http://", "http://u:p@a", "http://pxd@a", "http://a?token=t", "http://a:x", "http://[a"],
)
def test_what_is_no_address_is_wrong_usage(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="PROXYD_TOKEN"):
        address(text)


@pytest.mark.parametrize("text", ["0", "11", "", "x", "-1", "1.5", "²"])
def test_a_number_out_of_its_range_is_wrong_usage(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="from 1 to 10"):
        whole(1, 10)(text)


@pytest.mark.parametrize(
    "arguments", [[], ["no-such-verb"], ["plan", "--limit", "0"], ["webhook", "replay"], ["plan", "--url", "x"]]
)
def test_wrong_usage_exits_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: proxyd")


def loaded(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after the code."""
    said = f"import sys; {code}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", said], capture_output=True, check=True, text=True).stdout.split())


def test_the_help_of_every_verb_is_made_without_what_verbs_need_to_run() -> None:
    heavy = {"asyncio", "aiohttp", "numpy", "pydantic", "rich", "proxyd.client", "proxyd.config", "proxyd.core.model"}
    assert loaded("import proxyd.cli.main; proxyd.cli.main.make_parser()") & heavy == set()


@pytest.mark.alone
def test_the_help_takes_three_tenths_of_a_second_of_a_processor() -> None:
    def used_s() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "proxyd", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(used_s() for _ in range(3)) < 0.3


def test_an_empty_daemon_begins_without_what_only_many_sources_or_terminals_need() -> None:
    not_run = "import asyncio; asyncio.run = lambda daemon: daemon.close()"
    begun = loaded(f"{not_run}; from proxyd.cli.main import main; main(['serve'])")
    assert "proxyd.app.wiring" in begun
    assert begun & {"rich", "pygments", "mako.ext.pygmentplugin", "numba"} == set()


@pytest.mark.parametrize("arguments", ["sources", "top --once", "check profiles", "export", "import /nowhere"])
def test_verbs_that_ask_a_daemon_or_read_texts_alone_load_no_store_and_no_science(
    arguments: str, tmp_path: Path
) -> None:
    run = f"import proxyd.cli.main; proxyd.cli.main.main({arguments.split()})"
    found = loaded(
        f"import os; os.chdir({str(tmp_path)!r}); sys.stdout = sys.stderr; {run}; sys.stdout = sys.__stdout__"
    )
    assert "proxyd.config" in found
    assert found & {"sqlalchemy", "numba", "proxyd.daemon"} == set()


@pytest.mark.parametrize(
    ("typed", "program", "said"),
    [
        ("explian x", "proxyd", "there is no 'explian'; did you mean explain?"),
        ("token lits", "proxyd token", "there is no 'lits'; did you mean list?"),
        ("token create --name x --scope root", "proxyd token create", "'root'; choose from read, write, admin"),
        ("sources --faling", "proxyd sources", "unrecognized arguments: --faling; did you mean --failing?"),
        ("backup x.db --jsno=1", "proxyd backup", "unrecognized arguments: --jsno=1; did you mean --json?"),
        ("export nowhere", "proxyd export", "unrecognized arguments: nowhere"),
    ],
)
def test_what_is_misspelt_is_told_the_nearest_word_by_the_verb_it_was_given_to(
    typed: str, program: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        options_of(typed.split())
    usage, *_, last = capsys.readouterr().err.splitlines()
    assert (ended.value.code, usage.startswith(f"usage: {program} [-h]")) == (2, True)
    assert last.startswith(f"{program}: error: ")
    assert last.endswith(said)


def test_without_a_verb_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert (shown.out, "proxyd watches feeds and web pages" in shown.err, "add" in shown.err) == ("", True, True)


@pytest.mark.parametrize("arguments", ["mute", "mute news --all", "unmute", "unmute news --all"])
def test_a_name_and_everything_are_not_confused(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments.split()) == 1
    assert "name a rule or a profile, or take --all for everything" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "shown"), [("2 lines more", "Page: 2 lines more"), ("", "Page")])
def test_a_change_that_has_no_text_leaves_no_colon(text: str, shown: str) -> None:
    item = ItemFound(
        position=1, source="s", event=1, id="a", title="Page", text=text, link=None, came=None, seen="", gone=False,
        update=True, read=False, starred=False,
    )  # fmt: skip
    assert _found_row(item)[2] == shown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_verb_that_a_signal_ends_leaves_no_temporary_files(number: signal.Signals, tmp_path: Path) -> None:
    @until_hangup
    async def work(_: argparse.Namespace) -> int:
        with TemporaryDirectory(dir=tmp_path):
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        return 0

    ended = work(argparse.Namespace())
    assert not isinstance(ended, int)
    assert (asyncio.run(ended), list(tmp_path.iterdir())) == (128 + number, [])


def test_a_verb_goes_on_after_its_terminal_if_it_is_to(monkeypatch: pytest.MonkeyPatch) -> None:
    @until_hangup
    async def work(_: argparse.Namespace) -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        return 7

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        ended = work(argparse.Namespace())
        assert not isinstance(ended, int)
        assert asyncio.run(ended) == 7
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    "each",
    [service.demo, administration.backup, administration.restore, administration.copy, administration.migrate],
    ids=lambda each: each.name,
)
def test_verbs_that_make_temporary_files_remove_them_at_a_signal(each: Verb) -> None:
    assert hasattr(each.run, "__wrapped__")


@pytest.mark.parametrize("seed", ["-1", "1.5", "x", str(2**64)])
def test_a_seed_that_is_none_is_refused_at_its_argument(seed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--seed", seed])
    assert (ended.value.code, "argument --seed" in capsys.readouterr().err) == (2, True)
