"""The Helm chart makes what the manifests for Kubernetes are, and what its values say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxyd import __version__
from tests.deployment import DEPLOY, ROOT, documents, unknown_settings
from tests.unit.deploy.test_kubernetes import APPLIED, VERSION, titled

CHART = DEPLOY / "helm" / "proxyd"
HELM = Path(sys.executable).with_name("helm")


def rendered(*options: str, namespace: str = "proxyd", values: str = "{}") -> dict[str, dict[str, Any]]:
    """Return what the chart makes of these values, by kind and name."""
    made = subprocess.run(
        [HELM, "template", "proxyd", CHART, "--namespace", namespace, "--values", "-", *options],
        input=values,
        capture_output=True,
        text=True,
        check=True,
    )
    return {titled(each): each for each in yaml.safe_load_all(made.stdout) if each is not None}


def container(made: dict[str, dict[str, Any]], role: str) -> dict[str, Any]:
    """Return the container of a role."""
    (found,) = made[f"Deployment {role}"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def test_helm_finds_no_fault() -> None:
    subprocess.run([HELM, "lint", "--strict", CHART], check=True, capture_output=True)


def test_the_chart_makes_what_the_manifests_are() -> None:
    (profiles,) = (each["data"] for each in APPLIED if each["metadata"]["name"] == "proxyd-profiles")
    made = rendered(values=yaml.safe_dump({"profiles": profiles}))
    for role in ("planner", "prober", "notifier"):
        assert container(made, role).pop("image") == f"proxyd:{__version__}"
        template = made[f"Deployment {role}"]["spec"]["template"]
        assert re.fullmatch("[0-9a-f]{64}", template["metadata"].pop("annotations")["checksum/settings"])
    manifests = {titled(each): each for each in APPLIED if each["kind"] != "Namespace"}
    for role in ("planner", "prober", "notifier"):
        assert container(manifests, role)["image"] == "proxyd"
    without_images = yaml.safe_load(yaml.safe_dump(manifests))
    for role in ("planner", "prober", "notifier"):
        container(without_images, role).pop("image")
    assert made == without_images


def test_every_value_is_where_it_belongs() -> None:
    values = """
image: {repository: registry.example/proxyd, tag: "7"}
pullSecrets: [{name: registry}]
settings: {hosts: proxyd.example.org, budget: 600/min, cycle: day, max_body_bytes: 10000000, ping_webhooks: false}
profiles: {a.profile: "-- nothing"}
secrets: {stores: stores, hooks: receivers}
planner: {replicas: 3}
prober: {scaling: {min: 4, max: 40, hosts: 32, waiting: 16}}
network: {enabled: false}
podMonitor: {enabled: true, labels: {release: monitoring}}
"""
    from kubernetes_validate import validate  # slow to load

    made = rendered(namespace="watching", values=values)
    for each in made.values():
        if each["kind"] != "PodMonitor":  # the operator's own
            validate(each, VERSION, strict=True)
        assert each["metadata"]["namespace"] == "watching"
    assert container(made, "prober")["image"] == "registry.example/proxyd:7"
    pods = made["Deployment planner"]["spec"]["template"]["spec"]
    assert pods["imagePullSecrets"] == [{"name": "registry"}]
    assert {v["secret"]["secretName"] for v in pods["volumes"] if "secret" in v} == {"stores", "receivers"}
    assert made["Deployment planner"]["spec"]["replicas"] == 3
    settings = made["ConfigMap proxyd-settings"]["data"]
    assert settings["PROXYD_HOSTS"] == (
        "proxyd,proxyd.watching,proxyd.watching.svc,proxyd.watching.svc.cluster.local,proxyd.example.org"
    )
    assert (settings["PROXYD_BUDGET"], settings["PROXYD_CYCLE"], settings["PROXYD_LEASE"]) == ("600/min", "day", "15s")
    assert (settings["PROXYD_MAX_BODY_BYTES"], settings["PROXYD_PING_WEBHOOKS"]) == ("10000000", "false")
    assert unknown_settings(set(settings)) == set()
    assert made["ConfigMap proxyd-profiles"]["data"] == {"a.profile": "-- nothing"}
    scaler = made["HorizontalPodAutoscaler prober"]["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (4, 40)
    targets = [next(iter(each.values()))["target"] for each in scaler["metrics"] for each in [_without_type(each)]]
    assert [target["averageValue"] for target in targets] == ["32", "16"]
    assert not any(title.startswith("NetworkPolicy") for title in made)
    assert made["PodMonitor proxyd"]["metadata"]["labels"] == {"release": "monitoring"}


def _without_type(metric: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metric.items() if name != "type"}


def test_pods_start_anew_after_a_change_of_settings_and_not_after_one_of_profiles() -> None:
    """Settings are read once; profiles are followed."""

    def checksum(values: str) -> str:
        annotations = rendered(values=values)["Deployment planner"]["spec"]["template"]["metadata"]["annotations"]
        assert isinstance(annotations, dict)
        return str(annotations["checksum/settings"])

    assert checksum("settings: {budget: 7/min}") != checksum("{}")
    assert checksum("profiles: {a.profile: x}") == checksum("{}")


def test_the_chart_has_the_version_of_proxyd() -> None:
    (chart,) = documents(CHART / "Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


@pytest.mark.parametrize("values", re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/install.md").read_text(), re.DOTALL))
def test_the_values_in_the_documents_are_values(values: str) -> None:
    known = yaml.safe_load((CHART / "values.yaml").read_text())
    assert yaml.safe_load(values).keys() <= known.keys()
    assert rendered(values=values)


def test_the_adapter_gives_the_metrics_by_which_probers_are_scaled() -> None:
    (adapter,) = documents(DEPLOY / "prometheus" / "adapter.yaml")
    rules = adapter["rules"]
    given = {kind: [rule["seriesQuery"].partition("{")[0] for rule in rules[kind]] for kind in ("custom", "external")}
    assert given == {"custom": ["proxyd_prober_hosts"], "external": ["proxyd_batches_waiting"]}
    scaler = rendered()["HorizontalPodAutoscaler prober"]["spec"]["metrics"]
    asked = [next(iter(_without_type(each).values()))["metric"]["name"] for each in scaler]
    assert asked == [*given["custom"], *given["external"]]
