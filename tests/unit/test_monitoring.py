"""What is shipped for Prometheus, Alertmanager and Grafana is valid, and names what there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from proxyd.base.metrics import ROLES, Metrics
from proxyd.config.settings import Settings
from tests.pages import ROOT, anchors, options_of

PROMETHEUS = ROOT / "deploy" / "prometheus"
RULES = sorted((PROMETHEUS / "rules").glob("*.yml"))
TESTS = sorted((PROMETHEUS / "tests").glob("*.yml"))
ALERTMANAGER = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
DASHBOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
RUNBOOK = ROOT / "docs" / "runbook.md"
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
PARTS = ("Means", "How bad", "Look", "Do", "Over when")
OTHERS = {"up", "ALERTS"}  # what Prometheus itself makes
WORDS = {"objective", "burn", "fast", "steady", "slow", "creeping", "advise", "spend", "proxyd", "pg_stat_activity"}
_WORDS = {"and", "or", "unless", "bool", "offset"}


def run(*command: str | Path) -> str:
    """Return what a tool of Prometheus prints; it must be content."""
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def rules() -> list[dict[str, Any]]:
    loaded = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in RULES]
    return [rule for file in loaded for group in file["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def dashboard(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def panels(path: Path) -> list[dict[str, Any]]:
    return [panel for panel in dashboard(path)["panels"] if panel["type"] != "row"]


def without_variables(expression: str) -> str:
    return expression.replace("$__rate_interval", "5m").replace("$job", ".+").replace("$instance", ".+")


def queries(path: Path) -> Iterator[str]:
    """Yield what a dashboard asks: its panels, variables and annotations."""
    for panel in panels(path):
        yield from (without_variables(target["expr"]) for target in panel["targets"])
    for variable in dashboard(path)["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])
            assert found is not None
            yield without_variables(found[1])
    yield from (without_variables(each["expr"]) for each in dashboard(path)["annotations"]["list"])


def expressions() -> list[str]:
    return [rule["expr"] for rule in rules()] + [query for path in DASHBOARDS for query in queries(path)]


def metrics_in(expression: str) -> set[str]:
    """Return the metrics that an expression reads."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"|\{[^}]*\}|\[[^]]*\]', "", re.sub(r'"[^"]*"', '""', expression))
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", "", bare)
    return set(re.findall(r"\b[a-zA-Z_:][a-zA-Z0-9_:]*\b(?!\s*\()", bare)) - _WORDS


def matchers(expression: str) -> Iterator[tuple[str, str, str]]:
    """Yield metric, label and value of what an expression selects by equality or by a list of values."""
    for metric, inside in re.findall(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}", expression):
        for label, _, wanted in re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', inside):
            if label not in {"job", "instance"}:
                yield from ((metric, label, value) for value in wanted.split("|"))


def samples() -> set[tuple[str, str, str]]:
    """Return name, label and value of all that a daemon shows, and its names with an empty label."""
    metrics, found = Metrics(), set()
    metrics.take_roles(*ROLES)
    metrics.prober_aside.labels("far:7").set(1)  # only shown for those that are
    families = text_string_to_metric_families(metrics.render().decode())
    for sample in (each for family in families for each in family.samples):
        found |= {(sample.name, "", ""), *((sample.name, *label) for label in sample.labels.items())}
    return found


def test_the_parts_of_an_expression_are_found() -> None:
    expression = 'sum by (job) (rate(a_total{x="1", y=~"b|c"}[5m])) / on (job) group_left () r:b:c > 2 * (1 - time())'
    assert metrics_in(expression) == {"a_total", "r:b:c"}
    assert list(matchers(expression)) == [("a_total", "x", "1"), ("a_total", "y", "b"), ("a_total", "y", "c")]


def test_every_expression_names_metrics_that_there_are() -> None:
    there_are = {name for name, _, _ in samples()} | {rule["record"] for rule in rules() if "record" in rule} | OTHERS
    asked = {expression: metrics_in(expression) - there_are for expression in expressions()}
    assert len(asked) > 90
    assert {expression: unknown for expression, unknown in asked.items() if unknown} == {}


def test_every_expression_selects_labels_that_there_are() -> None:
    recorded: set[tuple[str, str, str]] = set()
    for rule in rules():
        recorded |= {(rule.get("record", ""), *label) for label in rule.get("labels", {}).items()}
    objectives = {value for _, label, value in recorded if label == "objective"}
    outcomes = {value for name, label, value in samples() if (name, label) == ("proxyd_probes_total", "outcome")}
    for metric, label, value in [each for expression in expressions() for each in matchers(expression)]:
        if metric.startswith("proxyd_"):
            assert (metric, label, value) in samples(), f"{metric}{{{label}={value}}}"
        elif label == "objective":
            assert value in objectives
        elif label == "outcome":
            assert value in outcomes
        else:
            assert (metric, label) in {("ALERTS", "alertname"), ("ALERTS", "alertstate"), ("proxyd:roles:sum", "role")}


def test_every_metric_is_shown_on_a_dashboard() -> None:
    shown = {metric for path in DASHBOARDS for query in queries(path) for metric in metrics_in(query)}
    by_way = {metric for rule in rules() if rule.get("record") in shown for metric in metrics_in(rule["expr"])}
    totals = {metric for rule in rules() if rule.get("record") in by_way for metric in metrics_in(rule["expr"])}
    families = {re.sub("_(bucket|count|sum)$", "", name) for name in shown | by_way | totals}
    exported = {name for name, _, _ in samples()}
    expected = {re.sub("_(bucket|count|sum)$", "", name) for name in exported}
    assert expected - families == {"process_virtual_memory_bytes"}


def test_prometheus_takes_the_configuration_and_the_rules() -> None:
    printed = run("promtool", "check", "config", PROMETHEUS / "prometheus.yml")
    assert f"SUCCESS: {len(RULES)} rule files found" in printed
    run("promtool", "check", "rules", *RULES)


def test_alertmanager_takes_its_configuration() -> None:
    assert "inhibit rules" in run("amtool", "check-config", ALERTMANAGER)


def test_every_expression_of_the_dashboards_is_parsed_by_prometheus(tmp_path: Path) -> None:
    asked = sorted({query for path in DASHBOARDS for query in queries(path)})
    listed = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(asked)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": listed}]}), encoding="utf-8")
    assert f"SUCCESS: {len(listed)} rules found" in run("promtool", "check", "rules", file)


def write_needed(tested: set[str], folder: Path) -> list[str]:
    """Write the rules that these alerts are computed from: promtool evaluates each that it is given every minute."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for rule in rules():
        by_name.setdefault(rule.get("alert") or rule["record"], []).append(rule)
    names, found = set[str](), set(tested)
    while new := found - names:
        names |= new
        found = {metric for name in new for rule in by_name.get(name, ()) for metric in metrics_in(rule["expr"])}
    for path in RULES:
        groups = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
        for group in groups:
            group["rules"] = [rule for rule in group["rules"] if (rule.get("alert") or rule["record"]) in names]
        (folder / path.name).write_text(yaml.safe_dump({"groups": groups}, sort_keys=False), encoding="utf-8")
    return [path.name for path in RULES]


def alerts_in(case: dict[str, Any]) -> set[str]:
    """Return the alerts that a test asks for."""
    return {name for check in case["promql_expr_test"] for name in re.findall(r'alertname="(\w+)"', check["expr"])}


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=[pytest.mark.long] * (path.stem == "slowly")) for path in TESTS]
)
def test_alerts_come_when_they_should_and_only_then(path: Path, tmp_path: Path) -> None:
    listed = yaml.safe_load(path.read_text(encoding="utf-8"))
    tested = set[str]().union(*map(alerts_in, listed["tests"]))
    written = yaml.safe_dump(listed | {"rule_files": write_needed(tested, tmp_path)}, sort_keys=False)
    file = tmp_path / f"test-{path.name}"
    file.write_text(written, encoding="utf-8")
    assert "SUCCESS" in run("promtool", "test", "rules", file)


def test_every_alert_is_tested_with_its_fault_and_without_it() -> None:
    checked: dict[str, set[bool]] = {}
    for path in TESTS:
        for case in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            for check in case["promql_expr_test"]:
                (name,) = re.findall(r'alertname="(\w+)"', check["expr"])
                checked.setdefault(name, set()).add(bool(check["exp_samples"]))
    assert checked == {alert["alert"]: {True, False} for alert in alerts()}


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"] + alert["labels"].get("burn", ""))
def test_an_alert_says_how_bad_it_is_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert page == f"{URLS['Repository']}/blob/main/{RUNBOOK.relative_to(ROOT)}"
    assert anchor == alert["alert"].lower()
    for verb in re.findall(r"`proxyd ([^`]+)`", alert["annotations"]["description"]):
        options_of(verb.split())


def entries() -> dict[str, str]:
    """Return the entries of the runbook by their heading."""
    found = re.split(r"^### (.*)$", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def test_every_alert_has_its_entry_and_every_entry_its_alert() -> None:
    assert list(entries()) == list(dict.fromkeys(entries()))
    assert set(entries()) == {alert["alert"] for alert in alerts()}
    assert {alert["annotations"]["runbook_url"].partition("#")[2] for alert in alerts()} <= anchors(RUNBOOK)


@pytest.mark.parametrize("name", entries())
def test_an_entry_says_what_to_look_at_and_what_to_do(name: str) -> None:
    """Verbs parse, queries name metrics, and other words in code are settings, labels or their values."""
    entry = entries()[name]
    assert tuple(re.findall(r"^\* \*\*(.+):\*\*", entry, re.MULTILINE)) == PARTS
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    known = recorded | OTHERS | {part for sample in samples() for part in sample} | set(Settings.model_fields) | WORDS
    for text in re.findall(r"`([^`]+)`", entry):
        if text.startswith("proxyd "):
            options_of(text.removeprefix("proxyd ").split())
        elif re.fullmatch(r"[a-z_]+|.*[:({=].*", text):
            assert metrics_in(text) <= known, text


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_whole(path: Path) -> None:
    board = dashboard(path)
    assert board["schemaVersion"] >= 41
    ids = [panel["id"] for panel in board["panels"]]
    assert Counter(ids).most_common(1)[0][1] == 1
    for panel in panels(path):
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        for target in [panel, *panel["targets"]]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert len({panel["title"] for panel in panels(path)}) == len(panels(path))


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_no_two_panels_overlap(path: Path) -> None:
    places = [panel["gridPos"] for panel in dashboard(path)["panels"]]
    assert all(place["x"] >= 0 and place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)


def test_dashboards_have_names_of_their_own_and_a_source_of_data() -> None:
    boards = [dashboard(path) for path in DASHBOARDS]
    assert len({board["uid"] for board in boards}) == len({board["title"] for board in boards}) == len(boards) == 3
    provisioning = ROOT / "deploy" / "grafana" / "provisioning"
    source = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text(encoding="utf-8"))
    provider = yaml.safe_load((provisioning / "dashboards" / "proxyd.yml").read_text(encoding="utf-8"))
    (variable,) = {json.dumps(board["templating"]["list"][0]["current"]) for board in boards}
    assert json.loads(variable)["value"] == source["datasources"][0]["uid"]
    assert provider["providers"][0]["options"]["path"] == "/var/lib/grafana/dashboards"
