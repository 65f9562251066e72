"""The Helm chart makes what the manifests for Kubernetes are, and what its values say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxyd import __version__
from proxyd.config.loading import load
from proxyd.config.settings import Settings
from tests.deployment import DEPLOY, ROOT, documents, unknown_settings
from tests.pages import options_of
from tests.unit.deploy.test_kubernetes import APPLIED, SINGLE, VERSION, profiles_of, titled

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


ROLES = ("planner", "prober", "notifier")


def test_the_chart_makes_what_the_manifests_are() -> None:
    made = rendered(values=yaml.safe_dump({"mode": "cluster", "profiles": profiles_of(APPLIED)}))
    manifests = {titled(each): yaml.safe_load(yaml.safe_dump(each)) for each in APPLIED if each["kind"] != "Namespace"}
    assert without_version(made, *(f"Deployment {role}" for role in ROLES)) == manifests


def test_the_chart_makes_one_pod_with_a_volume_of_the_same_manifest() -> None:
    made = rendered(values=yaml.safe_dump({"profiles": profiles_of(SINGLE)}))
    assert without_version(made, "StatefulSet proxyd") == {titled(each): each for each in SINGLE}
    (pod,) = made["StatefulSet proxyd"]["spec"]["template"]["spec"]["containers"]
    environment = made["ConfigMap proxyd-settings"]["data"]
    mounted = {mount["name"]: mount["mountPath"] for mount in pod["volumeMounts"]}
    assert {claim["metadata"]["name"] for claim in made["StatefulSet proxyd"]["spec"]["volumeClaimTemplates"]} <= set(
        mounted
    )
    assert Path(environment["PROXYD_DATABASE"]).parent == Path(mounted["state"])
    assert mounted["backups"] == f"{mounted['state']}/backups"  # where nightly copies go by default
    assert unknown_settings(set(environment)) == set()


def without_version(made: dict[str, dict[str, Any]], *workloads: str) -> dict[str, dict[str, Any]]:
    """Return what was made as the manifests have it, whose images get their version elsewhere."""
    for name in workloads:
        template = made[name]["spec"]["template"]
        (pod,) = template["spec"]["containers"]
        assert pod["image"] == f"proxyd:{__version__}"
        pod["image"] = "proxyd"
        assert re.fullmatch("[0-9a-f]{64}", template["metadata"].pop("annotations")["checksum/settings"])
    return made


def test_every_value_is_where_it_belongs() -> None:
    values = """
mode: cluster
image: {repository: registry.example/proxyd, tag: "7"}
pullSecrets: [{name: registry}]
settings: {hosts: proxyd.example.org, budget: 600/min, cycle: day, max_body_bytes: 10000000, ping_webhooks: false}
profiles: {a.profile: "-- nothing"}
secrets: {stores: stores, hooks: receivers}
planner: {replicas: 3}
prober: {scaling: {min: 4, max: 40, hosts: 32, waiting: 16}}
network: {enabled: false}
podMonitor: {enabled: true, labels: {release: monitoring}}
browser: {enabled: true, image: {repository: registry.example/browser}}
ingress: {host: watch.example.org, className: nginx, tlsSecret: tls}
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
    assert made["Deployment browser"]["spec"]["template"]["spec"]["containers"][0]["image"].startswith(
        "registry.example/"
    )
    assert settings_of(made)["PROXYD_BROWSER"] == "http://browser:9222"
    assert made["Deployment planner"]["spec"]["replicas"] == 3
    settings = settings_of(made)
    assert settings["PROXYD_HOSTS"] == (
        "proxyd,proxyd.watching,proxyd.watching.svc,proxyd.watching.svc.cluster.local,proxyd.example.org,watch.example.org"
    )
    assert (settings["PROXYD_BUDGET"], settings["PROXYD_CYCLE"], settings["PROXYD_LEASE"]) == ("600/min", "day", "15s")
    assert settings["PROXYD_PUBLIC_URL"] == "https://watch.example.org"
    assert (settings["PROXYD_MAX_BODY_BYTES"], settings["PROXYD_PING_WEBHOOKS"]) == ("10000000", "false")
    assert unknown_settings(set(settings)) == set()
    assert made["ConfigMap proxyd-profiles"]["data"] == {"a.profile": "-- nothing"}
    scaler = made["HorizontalPodAutoscaler prober"]["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (4, 40)
    targets = [next(iter(each.values()))["target"] for each in scaler["metrics"] for each in [_without_type(each)]]
    assert [target["averageValue"] for target in targets] == ["32", "16"]
    assert not any(title.startswith("NetworkPolicy") for title in made)
    assert made["PodMonitor proxyd"]["metadata"]["labels"] == {"release": "monitoring"}
    labels = made["Deployment planner"]["spec"]["template"]["metadata"]["labels"]
    assert labels[made["PodMonitor proxyd"]["spec"]["jobLabel"]] == "proxyd"  # as the alerts call the job


def settings_of(made: dict[str, dict[str, Any]]) -> dict[str, str]:
    found: dict[str, str] = made["ConfigMap proxyd-settings"]["data"]
    return found


@pytest.mark.parametrize("mode", ["single", "cluster"])
def test_pages_are_rendered_by_a_chromium_that_only_proxyd_reaches(mode: str) -> None:
    from kubernetes_validate import validate  # slow to load

    made = rendered(values=f"{{mode: {mode}, browser: {{enabled: true}}}}")
    for title in ("Deployment browser", "Service browser", "NetworkPolicy browser", "NetworkPolicy to-the-browser"):
        validate(made[title], VERSION, strict=True)
    spec = made["NetworkPolicy browser"]["spec"]
    assert "egress" not in spec
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    (rule,) = spec["ingress"]
    assert [(set(each), set(each["podSelector"])) for each in rule["from"]] == [({"podSelector"}, {"matchLabels"})]
    assert [each["port"] for each in rule["ports"]] == [9222]
    (pod,) = made["Deployment browser"]["spec"]["template"]["spec"]["containers"]
    assert pod["resources"]["limits"]["memory"] == "2Gi"
    assert pod["securityContext"]["readOnlyRootFilesystem"]
    assert "Deployment browser" not in rendered(values=f"mode: {mode}")


def test_mail_has_its_password_from_a_secret_and_only_where_mail_is_sent() -> None:
    values = "{mode: cluster, settings: {smtp: 'mail.example.org:587', smtp_user: me}, secrets: {mail: mail}}"
    made = rendered(values=values)
    for role in ROLES:
        pod = made[f"Deployment {role}"]["spec"]["template"]["spec"]
        files = [each["value"] for each in container(made, role)["env"] if each["name"] == "PROXYD_SMTP_PASSWORD_FILE"]
        secrets = [each["secret"]["secretName"] for each in pod["volumes"] if each["name"] == "mail"]
        is_sender = role != "prober"
        assert (files, secrets) == (["/run/secrets/mail/smtp_password"] * is_sender, ["mail"] * is_sender)


def test_alerts_and_dashboards_are_those_of_prometheus_and_grafana() -> None:
    made = rendered(values="{alerts: {enabled: true}, dashboards: {enabled: true}}", namespace="watching")
    for path in (DEPLOY / "prometheus/rules").glob("*.yml"):
        rules = yaml.safe_load(yaml.safe_dump(yaml.safe_load(path.read_text(encoding="utf-8"))))
        for rule in [rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule]:
            rule["labels"]["namespace"] = "watching"  # or the operator would not send it to an AlertmanagerConfig
        assert made[f"PrometheusRule proxyd-{path.stem}"]["spec"] == rules
    shown = made["ConfigMap proxyd-dashboards"]["data"]
    paths = list((DEPLOY / "grafana/dashboards").glob("*.json"))
    assert shown == {f"proxyd-{path.name}": path.read_text(encoding="utf-8") for path in paths}
    assert {"PodMonitor proxyd", "AlertmanagerConfig proxyd"}.isdisjoint(made)


def test_the_secret_of_a_chat_is_enough_for_alerts_to_come_there() -> None:
    made = rendered(values="{secrets: {alerts: chat}}")
    assert made.keys() - rendered().keys() == {
        "PodMonitor proxyd",
        "PrometheusRule proxyd-recording",
        "PrometheusRule proxyd-alerts",
        "AlertmanagerConfig proxyd",
    }
    (receiver,) = made["AlertmanagerConfig proxyd"]["spec"]["receivers"]
    (chat,) = receiver["slackConfigs"]
    assert chat["apiURL"] == {"name": "chat", "key": "alerts_url"}
    (alertmanager,) = documents(DEPLOY / "alertmanager/alertmanager.yml")
    (same,) = alertmanager["receivers"][0]["slack_configs"]
    assert (chat["title"], chat["text"], chat["sendResolved"]) == (same["title"], same["text"], same["send_resolved"])


@pytest.mark.parametrize(
    "values",
    ["mode: other", "imge: {}", "settings: {Budget: 1}", "planner: {replicas: 0}", "ingress: {hots: a}"],
)
def test_values_that_are_wrong_are_refused_by_name(values: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        rendered(values=values)
    assert "values.schema.json" in refused.value.stderr or "values don't meet" in refused.value.stderr


def test_the_schema_names_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

    def names(at: dict[str, Any], value: object, path: str) -> list[str]:
        if not isinstance(value, dict) or not at.get("properties"):
            return []
        missing = [f"{path}{key}" for key in value if key not in at["properties"]]
        below = [(at["properties"][k], v, f"{path}{k}.") for k, v in value.items() if k in at["properties"]]
        return missing + [each for part in below for each in names(*part)]

    known = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert names(schema, known, "") == []


def test_the_notes_say_how_to_sign_in(tmp_path: Path) -> None:
    chart = shutil.copytree(
        CHART, tmp_path / "proxyd"
    )  # only an installation prints the notes, so they are a value here
    (chart / "templates/NOTES.txt").rename(chart / "notes.txt")
    (chart / "templates/notes.yaml").write_text('notes: {{ tpl (.Files.Get "notes.txt") . | quote }}')
    done = subprocess.run(
        [HELM, "template", "proxyd", chart, "--show-only", "templates/notes.yaml", "--namespace", "watching"],
        capture_output=True,
        text=True,
        check=True,
    )
    (notes,) = yaml.safe_load_all(done.stdout)
    asked = re.search(r"--namespace watching exec statefulset/proxyd -- proxyd (.+)", notes["notes"])
    assert asked is not None
    options_of(asked[1].split())
    assert "Nothing is watched yet" in notes["notes"]


def _without_type(metric: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metric.items() if name != "type"}


def test_pods_start_anew_after_a_change_of_settings_and_not_after_one_of_profiles() -> None:
    """Settings are read once; profiles are followed."""

    def checksum(values: str) -> str:
        annotations = rendered(values=values)["StatefulSet proxyd"]["spec"]["template"]["metadata"]["annotations"]
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
    scaler = rendered(values="mode: cluster")["HorizontalPodAutoscaler prober"]["spec"]["metrics"]
    asked = [next(iter(_without_type(each).values()))["metric"]["name"] for each in scaler]
    assert asked == [*given["custom"], *given["external"]]


@pytest.mark.parametrize("host", ["*", "*.example.org"])
def test_an_ingress_of_many_hosts_is_no_address_of_proxyd(host: str) -> None:
    from kubernetes_validate import validate  # slow to load

    values = {"ingress": {"host": host, "tlsSecret": "tls"}, "settings": {"hosts": "a.example.org"}}
    made = rendered(values=yaml.safe_dump(values))
    validate(made["Ingress proxyd"], VERSION, strict=True)
    settings = settings_of(made)
    assert "PROXYD_PUBLIC_URL" not in settings
    assert [each for each in settings["PROXYD_HOSTS"].split(",") if "svc" not in each] == [
        *("proxyd", "proxyd.proxyd", "a.example.org")
    ]
    load(environ={name: value for name, value in settings.items() if name in {"PROXYD_HOSTS", "PROXYD_LISTEN"}})
    spec = made["Ingress proxyd"]["spec"]
    named = [] if host == "*" else [host]
    assert ([each["host"] for each in spec["rules"] if "host" in each], spec["tls"][0]["hosts"]) == (named, named)
    public = {"ingress": {"host": host}, "settings": {"public_url": "https://a.example.org"}}
    assert settings_of(rendered(values=yaml.safe_dump(public)))["PROXYD_PUBLIC_URL"] == "https://a.example.org"


@pytest.mark.parametrize("written", ["a: b", "a # b", "a\nPROXYD_ROLE: all", '"', "*a", "123", "yes"])
def test_a_text_stays_the_text_that_it_is(written: str) -> None:
    values = {
        "settings": {"hosts": written, "contact": written},
        "secrets": dict.fromkeys(("stores", "hooks", "mail", "oidc", "proxy", "browser", "alerts"), written),
        "ingress": {"host": "a.example.org", "className": written, "tlsSecret": written},
        "single": {"volumes": {"state": {"size": "1", "className": written}, "backups": {"size": "1"}}},
    }
    for mode, workload in (("single", "StatefulSet proxyd"), ("cluster", "Deployment planner")):
        made = rendered(values=yaml.safe_dump(values | {"mode": mode}))
        settings = settings_of(made)
        assert (settings["PROXYD_HOSTS"].split(",")[4], settings["PROXYD_CONTACT"]) == (written, written)
        assert "PROXYD_ROLE" not in settings
        assert made["Ingress proxyd"]["spec"]["ingressClassName"] == written
        volumes = made[workload]["spec"]["template"]["spec"]["volumes"]
        assert {each["secret"]["secretName"] for each in volumes if "secret" in each} == {written}
        claims = made[workload]["spec"].get("volumeClaimTemplates", [])
        assert [each["spec"]["storageClassName"] for each in claims[:1]] == [written] * (mode == "single")


SECRET_SETTINGS = {
    "smtp_password": "a password",
    "oidc_secret": "12345",
    "database": "postgresql+asyncpg://me:secret@db.example/proxyd",
    "nats": "nats://me:secret@nats.example:4222",
    "proxy": "http://me:secret@proxy.example:3128",
    "browser": "wss://browser.example?token=secret",
}


def test_every_setting_that_may_hold_a_secret_is_known_here() -> None:
    assert SECRET_SETTINGS.keys() == {name for name, field in Settings.model_fields.items() if not field.repr}


@pytest.mark.parametrize("mode", ["single", "cluster"])
@pytest.mark.parametrize("name", SECRET_SETTINGS)
def test_a_secret_among_the_settings_is_refused_and_has_a_place_of_its_own(name: str, mode: str) -> None:
    secret = SECRET_SETTINGS[name]
    with pytest.raises(subprocess.CalledProcessError) as refused:
        rendered(values=yaml.safe_dump({"mode": mode, "settings": {name: secret}}))
    said = re.search(rf"settings\.{name} would be in a ConfigMap.* name this in secrets\.(\w+)", refused.value.stderr)
    assert said is not None
    assert secret not in refused.value.stderr
    made = rendered(values=yaml.safe_dump({"mode": "cluster", "secrets": {said[1]: "mine"}}))
    pod = made["Deployment planner"]["spec"]["template"]["spec"]
    (volume,) = [each["name"] for each in pod["volumes"] if each.get("secret", {}).get("secretName") == "mine"]
    (folder,) = [each["mountPath"] for each in container(made, "planner")["volumeMounts"] if each["name"] == volume]
    files = settings_of(made) | {each["name"]: each["value"] for each in container(made, "planner")["env"]}
    assert str(Path(files[f"PROXYD_{name.upper()}_FILE"]).parent) == folder


def test_an_address_without_a_secret_may_be_among_the_settings() -> None:
    values = (
        "{settings: {proxy: 'http://proxy.example:3128', browser: 'http://browser.example:9222', smtp_password: ''}}"
    )
    settings = settings_of(rendered(values=values))
    assert settings["PROXYD_PROXY"] == "http://proxy.example:3128"
    assert settings["PROXYD_BROWSER"] == "http://browser.example:9222"
