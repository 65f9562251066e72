"""Every manifest is what Kubernetes knows, and every pod keeps to the restricted standard."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from proxyd import __version__
from proxyd.core.language import CheckSettings, SourceText, check
from tests.deployment import DEPLOY, documents, unknown_settings
from tests.pages import options_of

FOLDER = DEPLOY / "kubernetes"
VERSION = "1.31"
(KUSTOMIZATION,) = documents(FOLDER / "kustomization.yaml")
SINGLE = documents(FOLDER / "single/proxyd.yaml")
APPLIED = [document for name in KUSTOMIZATION["resources"] for document in documents(FOLDER / name)]
EXAMPLES = documents(FOLDER / "secret.example.yaml")


def titled(document: dict[str, Any]) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [document for document in APPLIED if document["kind"] == kind]


DEPLOYMENTS = {document["metadata"]["name"]: document for document in of_kind("Deployment")}
each_role = pytest.mark.parametrize("role", DEPLOYMENTS)


def pod(role: str) -> dict[str, Any]:
    found: dict[str, Any] = DEPLOYMENTS[role]["spec"]["template"]["spec"]
    return found


def container(role: str) -> dict[str, Any]:
    (found,) = pod(role)["containers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("document", APPLIED + EXAMPLES + SINGLE, ids=titled)
def test_kubernetes_knows_it(document: dict[str, Any]) -> None:
    from kubernetes_validate import ValidationError, validate  # slow to load

    validate(document, VERSION, strict=True)
    with pytest.raises(ValidationError):
        validate({**document, "speck": {}}, VERSION, strict=True)


def test_no_manifest_is_left_out_and_no_two_have_the_same_name() -> None:
    files = {path.name for path in FOLDER.iterdir() if path.is_file()}
    assert files - set(KUSTOMIZATION["resources"]) == {"kustomization.yaml", "secret.example.yaml"}
    names = [titled(document) for document in APPLIED]
    assert len(names) == len(set(names))
    assert {d["metadata"].get("namespace", "proxyd") for d in APPLIED} == {"proxyd"}
    (image,) = KUSTOMIZATION["images"]
    assert image == {"name": "proxyd", "newName": "ghcr.io/proxyd/proxyd", "newTag": __version__}
    (single,) = documents(FOLDER / "single/kustomization.yaml")
    assert (single["images"], single["resources"]) == ([image], ["proxyd.yaml"])


def test_there_is_a_deployment_for_each_role() -> None:
    assert set(DEPLOYMENTS) == {"planner", "prober", "notifier"}
    assert DEPLOYMENTS["planner"]["spec"]["replicas"] == 2
    for role in DEPLOYMENTS:
        assert container(role)["env"][0] == {"name": "PROXYD_ROLE", "value": role}
        options_of(container(role)["args"])


@each_role
def test_a_pod_keeps_to_the_restricted_standard(role: str) -> None:
    held = pod(role)["securityContext"]
    assert held["runAsNonRoot"] is True
    assert held["runAsUser"] > 0
    assert held["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(role)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod(role)["automountServiceAccountToken"] is False
    assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(pod(role))


@each_role
def test_kubernetes_puts_no_variable_of_its_own_among_the_settings(role: str) -> None:
    """A Service named proxyd would: PROXYD_PORT and the like, with which proxyd does not start."""
    assert pod(role)["enableServiceLinks"] is False


@each_role
def test_a_pod_is_asked_whether_it_lives_and_is_ready_and_takes_what_it_says(role: str) -> None:
    asked = {probe: container(role)[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe: get["path"] for probe, get in asked.items()} == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    ports = {port["name"] for port in container(role)["ports"]}
    assert {get["port"] for get in asked.values()} <= ports
    resources = container(role)["resources"]
    assert {"cpu", "memory"} <= set(resources["requests"])
    assert "memory" in resources["limits"]


@each_role
def test_what_is_mounted_is_a_volume_and_every_configuration_is_there(role: str) -> None:
    volumes = {volume["name"]: volume for volume in pod(role)["volumes"]}
    assert {mount["name"] for mount in container(role)["volumeMounts"]} == set(volumes)
    secrets = {volume["secret"]["secretName"] for volume in volumes.values() if "secret" in volume}
    assert secrets == {example["metadata"]["name"] for example in EXAMPLES}
    maps = {document["metadata"]["name"] for document in of_kind("ConfigMap")}
    named = re.findall(r'"configMap(?:Ref)?": {"name": "([a-z-]+)"', json.dumps(pod(role)))
    assert named
    assert set(named) <= maps


@each_role
def test_selectors_choose_the_pods_of_their_role(role: str) -> None:
    labels = DEPLOYMENTS[role]["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENTS[role]["spec"]["selector"]["matchLabels"] == labels
    assert labels["app.kubernetes.io/component"] == role


def test_every_setting_is_one_and_every_file_that_it_names_is_a_key_of_a_secret() -> None:
    settings = next(d["data"] for d in of_kind("ConfigMap") if d["metadata"]["name"] == "proxyd-settings")
    assert all(name.startswith("PROXYD_") for name in settings)
    assert unknown_settings(set(settings)) == set()
    keys = {example["metadata"]["name"]: set(example["stringData"]) for example in EXAMPLES}
    files = {Path(value) for name, value in settings.items() if name.endswith("_FILE")}
    assert {str(path.parent) for path in files} == {"/run/secrets/proxyd"}
    for role in DEPLOYMENTS:
        mounted = {
            item["path"]: item["key"]
            for volume in pod(role)["volumes"]
            if volume["name"] == "secrets"
            for item in volume["secret"]["items"]
        }
        unset = {each["name"] for each in container(role)["env"] if each["value"] == ""}
        wanted = {name: Path(value).name for name, value in settings.items() if name.endswith("_FILE")}
        assert set(mounted) == {file for name, file in wanted.items() if name not in unset}
        assert set(mounted.values()) <= keys["proxyd"]
        assert mounted["nats_url"] == f"nats_url_{role}"
        assert ("database_url" in mounted) == (role != "prober")  # the least that each needs
    assert settings["PROXYD_SECRETS"] == "/run/secrets/hooks"  # what profiles may name holds no password of a store


def profiles_of(applied: list[dict[str, Any]]) -> dict[str, str]:
    return next(d["data"] for d in applied if titled(d) == "ConfigMap proxyd-profiles")


@pytest.mark.parametrize("applied", [APPLIED, SINGLE], ids=["cluster", "single"])
def test_the_profiles_are_valid(applied: list[dict[str, Any]]) -> None:
    checked = check([SourceText(name, text) for name, text in profiles_of(applied).items()], CheckSettings())
    assert [str(error) for error in checked.errors] == []
    assert ("'hook'" in profiles_of(applied)["releases.profile"]) == (
        applied is APPLIED
    )  # a single pod needs no secret


def test_nothing_comes_or_goes_but_what_is_named() -> None:
    policies = {document["metadata"]["name"]: document["spec"] for document in of_kind("NetworkPolicy")}
    nothing = policies["nothing-else"]
    ours = {"matchLabels": {"app.kubernetes.io/name": "proxyd"}}
    assert nothing == {"podSelector": ours, "policyTypes": ["Ingress", "Egress"]}
    between, planners = policies["between-planners"], DEPLOYMENTS["planner"]["spec"]["template"]["metadata"]["labels"]
    assert between["podSelector"] == {"matchLabels": planners}
    way = [{"protocol": "TCP", "port": 8080}]
    assert between["ingress"] == [{"from": [{"podSelector": {"matchLabels": planners}}], "ports": way}]
    assert between["egress"] == [{"to": [{"podSelector": {"matchLabels": planners}}], "ports": way}]
    (internet,) = policies["to-the-internet"]["egress"]
    four, six = (to["ipBlock"] for to in internet["to"])
    private = {"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"}
    assert private <= set(four["except"])
    assert {"::1/128", "fc00::/7", "fe80::/10"} <= set(six["except"])


def test_drains_and_scaling_leave_enough_running() -> None:
    budgets = {d["metadata"]["name"]: d["spec"]["maxUnavailable"] for d in of_kind("PodDisruptionBudget")}
    assert budgets == {"planner": 1, "prober": 1, "notifier": 1}
    (scaler,) = of_kind("HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["name"] == "prober"
    assert "replicas" not in DEPLOYMENTS["prober"]["spec"]  # the scaler's to say
    assert scaler["spec"]["minReplicas"] >= 2


def test_a_planner_is_replaced_once_another_one_is_ready() -> None:
    rolling = {"maxUnavailable": 0, "maxSurge": 1}
    assert DEPLOYMENTS["planner"]["spec"]["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
