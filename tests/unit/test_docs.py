"""The documents name what there is: no setting and no metric is missing or made up."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

from proxyd.base.metrics import Metrics
from proxyd.cli.main import FAILED, INTERRUPTED, UNREACHABLE, make_parser, parsers
from proxyd.cli.notifications import TIMED_OUT
from proxyd.client import SyncClient
from proxyd.cluster.nats_users import USERS
from proxyd.config.loading import load
from proxyd.config.settings import Settings
from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.politeness.endpoints import LADDER_S
from tests.pages import options_of

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_metric_is_defined_in_the_metrics_page() -> None:
    exported = set()
    for family in Metrics().registry.collect():
        exported.add(family.name + ("_total" if family.type == "counter" else ""))
    named = set(re.findall(r"`((?:proxyd|process)_[a-z_]+)", read("docs/metrics.md")))
    assert named == exported


def test_every_setting_is_in_the_settings_page_with_its_default_and_its_meaning() -> None:
    defaults = load(environ={}).describe()
    rows = re.findall(r"^\| `([a-z_]+)` \| (.*?) \| (.*) \|$", read("docs/settings.md"), re.MULTILINE)
    assert [key for key, _, _ in rows] == list(Settings.model_fields)
    for key, shown, meaning in rows:
        value = defaults[key]
        spelt = str(value).lower() if isinstance(value, bool) else value
        assert shown == (f"`{spelt}`" if value not in (None, "", []) else ""), key
        assert meaning.replace("\\|", "|") == Settings.model_fields[key].description, key


def test_the_profiles_that_are_shipped_are_valid() -> None:
    for path in sorted((ROOT / "docs/examples").iterdir()):
        checked = check([SourceText(path.name, path.read_text(encoding="utf-8"))], CheckSettings())
        warnings = int(path.name == "stock_after_report.profile")  # it waits for sources of one's own
        assert ([str(error) for error in checked.errors], len(checked.warnings)) == ([], warnings)
        assert checked.declaration is not None
        assert checked.declaration.rules


def test_the_route_table_names_every_route() -> None:
    routes = [path.partition("{")[0] for path in json.loads(read("docs/openapi.json"))["paths"]]
    page = read("docs/api.md")
    assert len(routes) > 10
    assert [route for route in routes if route.rstrip("/") not in page] == []


def test_what_pages_put_into_the_settings_file_is_valid() -> None:
    for page, least in (("README.md", 1), ("docs/scaling.md", 4)):
        lines = re.findall(r"`([a-z_]+ = [^`]+)`", read(page))
        assert len(lines) >= least
        for line in lines:
            ((key, value),) = tomllib.loads(line).items()
            assert load(environ={}, **{key: value}).describe()[key] not in (None, "", []), line


def test_the_page_on_scaling_names_users_and_files_that_it_makes() -> None:
    page = read("docs/scaling.md")
    users = set(re.findall(r"postgresql\+asyncpg://([a-z_]+)[:@]", page))
    assert users == set(re.findall(r"CREATE ROLE (\w+)", page))
    assert set(re.findall(r"nats_url_(\w+)", page)) == set(USERS)
    for servers in re.findall(r"nats://[^`\"\s]+", page):
        assert load(environ={}, nats=servers).nats == servers.split(",")


def test_processes_on_one_machine_have_a_port_and_a_socket_each() -> None:
    (block,) = [each for each in re.findall(r"```sh\n(.*?)```", read("docs/scaling.md"), re.DOTALL) if "LISTEN" in each]
    started = block.count(" proxyd serve --role")
    for key in ("PROXYD_LISTEN", "PROXYD_SOCKET", "PROXYD_NATS_FILE"):
        assert len(set(re.findall(rf"{key}=(\S+)", block))) == started == 3


def test_every_verb_is_in_the_command_lines_page_with_an_example() -> None:
    page = read("docs/cli.md")
    examples = re.findall(r"^\| `[a-z -]+` \| .* \| `proxyd (.*)` \|$", page, re.MULTILINE)
    runs = [options_of(shlex.split(example)).run for example in examples]
    assert len(runs) > 35
    verbs = {each.prog.removeprefix("proxyd "): each for each in parsers(make_parser()) if "run" in each._defaults}
    named = set(re.findall(r"`((?:proxyd )?[a-z]+(?: [a-z-]+)?)", page))
    assert {name for name in verbs if name not in named} == set()
    assert {verb._defaults["run"] for verb in verbs.values()} == set(runs)
    rows = re.findall(r"^\| `([a-z -]+)` \| .* \| `proxyd ", page, re.MULTILINE)
    assert [row for row in rows if row not in verbs] == []


def test_every_exit_code_is_in_the_command_lines_page() -> None:
    codes = re.findall(r"^\| (\d+) \|", read("docs/cli.md"), re.MULTILINE)
    assert [int(code) for code in codes] == [0, FAILED, 2, UNREACHABLE, TIMED_OUT, INTERRUPTED]


def test_the_clients_examples_name_what_there_is() -> None:
    page = read("docs/client.md")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    compile(code, "docs/client.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    called = set(re.findall(r"client\.([a-z_]+)\(", code))
    assert len(called) > 4
    assert [name for name in called if not hasattr(SyncClient, name)] == []


def test_the_retry_ladder_is_written_as_it_is() -> None:
    def seconds(text: str) -> float:
        amount, unit = text.split()
        return float(amount) * {"s": 1, "min": 60, "h": 3600}[unit]

    written = re.search(r"tried again after (.*?), with up to", read("docs/receivers.md"), re.DOTALL)
    assert written is not None
    steps = re.findall(r"\d+ (?:s|min|h)\b", written[1].replace("\n", " "))
    assert tuple(seconds(step) for step in steps) == LADDER_S


def test_the_library_example_runs_and_says_the_truth() -> None:
    code = read("docs/algorithms.md").split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(compile(code, "docs/algorithms.md", "exec"), names)
    assert names["planned"].probes >= 0.95 * names["mine"].probes
    assert names["planned"].mean_delay_s < names["mine"].mean_delay_s


def test_no_line_of_prose_is_wider_than_120_characters() -> None:
    """Tables, code and pictures cannot be broken."""
    wide = []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        prose = re.sub(r"(?ms)^```.*?^```$", lambda code: "\n" * code[0].count("\n"), path.read_text(encoding="utf-8"))
        lines = enumerate(prose.splitlines(), start=1)
        wide += [f"{path.name}:{n}" for n, line in lines if len(line) > 120 and not line.startswith(("|", "!["))]
    assert wide == []


def test_the_comparison_in_five_rows_has_the_figures_of_the_whole_one() -> None:
    (table,) = re.findall(
        r"((?:^\|.*\n)+)", read("README.md").partition("## Beside others")[2].partition("\n## ")[0], re.MULTILINE
    )
    heading, _, *rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
    measured = read("docs/comparison.md")
    assert len(rows) == 5
    for program, *cells in zip(*[heading, *rows], strict=True):
        of_program = "".join(line for line in measured.splitlines() if line.startswith(f"| {program} |"))
        assert program == "" or [cell for cell in cells if not re.search(rf"[ |]{cell}[ |]", of_program)] == [], program
