"""docker-compose.yml keeps to the Compose Specification, and what it says of containers holds for each of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from proxyd import __version__
from proxyd.cluster.nats_users import CONFIG, PASSWORDS
from tests.deployment import DEPLOY, ROOT, documents, pinned, unknown_settings

(COMPOSE,) = documents(ROOT / "docker-compose.yml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OTHERS = {name: service for name, service in SERVICES.items() if not service["image"].startswith("proxyd:")}
each_service = pytest.mark.parametrize("name", SERVICES)


def test_it_keeps_to_the_specification() -> None:
    from jsonschema.validators import validator_for  # slow to load

    schema = json.loads((ROOT / "tests/schemas/compose-spec.json").read_text(encoding="utf-8"))
    validator = validator_for(schema)(schema)
    assert [error.message for error in validator.iter_errors(COMPOSE)] == []
    assert not validator.is_valid({**COMPOSE, "services": {"a": {"imge": "proxyd"}}})


@each_service
def test_a_service_may_do_little(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"privileged", "cap_add", "network_mode", "pid"}.isdisjoint(service)
    assert service["mem_limit"]
    assert service["pids_limit"]


@each_service
def test_a_service_is_reached_from_this_machine_alone(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))
    assert set(SERVICES[name]["networks"]) <= set(COMPOSE["networks"])


@each_service
def test_an_image_is_pinned(name: str) -> None:
    _, _, tag = SERVICES[name]["image"].partition(":")
    assert re.match(r"v?\d+\.\d+", tag)


def test_proxyds_image_is_of_this_version_and_can_be_built() -> None:
    ours = [service for name, service in SERVICES.items() if name not in OTHERS]
    assert len(ours) == 4
    assert {service["image"] for service in ours} == {f"proxyd:{__version__}"}
    assert all((ROOT / service["build"]["dockerfile"]).is_file() for service in ours)


def test_the_stores_are_not_reached_from_outside() -> None:
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert all(
        SERVICES[name]["networks"] == ["inside"] and "ports" not in SERVICES[name] for name in ("postgres", "nats")
    )


@each_service
def test_what_a_service_waits_for_says_when_it_is_healthy(name: str) -> None:
    for needed, how in SERVICES[name].get("depends_on", {}).items():
        assert how["condition"] == "service_healthy"
        assert "healthcheck" in SERVICES[needed]
    assert "healthcheck" in SERVICES[name] or name not in OTHERS  # proxyd's own is in its image


def mounts(service: dict[str, Any]) -> list[list[str]]:
    return [str(volume).split(":") for volume in service.get("volumes", [])]


@each_service
def test_what_is_mounted_is_there_and_only_named_volumes_are_written_to(name: str) -> None:
    for source, _, *mode in mounts(SERVICES[name]):
        if source.startswith("./"):
            assert (ROOT / source).exists(), source
            assert mode == ["ro"]
        else:
            assert source in COMPOSE["volumes"]


def test_no_volume_is_declared_in_vain_or_used_by_two() -> None:
    used = [source for service in SERVICES.values() for source, *_ in mounts(service) if not source.startswith("./")]
    assert sorted(used) == sorted(COMPOSE["volumes"])


@each_service
def test_every_variable_of_proxyd_is_a_setting(name: str) -> None:
    assert unknown_settings(set(SERVICES[name].get("environment", {}))) == set()


def secrets(service: dict[str, Any]) -> dict[str, str]:
    """Return the secrets of a service and where it finds them."""
    found = {}
    for secret in service.get("secrets", []):
        source = secret if isinstance(secret, str) else secret["source"]
        found[source] = f"/run/secrets/{source}" if isinstance(secret, str) else secret["target"]
    return found


@each_service
def test_every_file_with_a_secret_is_given_to_the_service_that_reads_it(name: str) -> None:
    service = SERVICES[name]
    given = secrets(service)
    assert set(given) <= set(COMPOSE["secrets"])
    named = {v for k, v in service.get("environment", {}).items() if v and re.search(r"_FILE$|__FILE$", k)}
    assert named <= set(given.values())


def test_secrets_come_from_a_folder_that_is_kept_out_of_the_repository() -> None:
    assert all(
        re.fullmatch(r"deploy/secrets/[a-z_/]+(\.conf)?", secret["file"]) for secret in COMPOSE["secrets"].values()
    )
    assert "/deploy/secrets/" in (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    written = json.dumps(COMPOSE)
    assert not re.search(r"://[^/@\"]*:[^/@\"]+@", written)
    assert not re.search(r"_PASSWORD\"", written)


def test_profiles_can_name_no_secret_of_the_stores() -> None:
    for service in SERVICES.values():
        folder = service.get("environment", {}).get("PROXYD_SECRETS")
        if folder is not None:
            within = {name for name, path in secrets(service).items() if Path(path).is_relative_to(folder)}
            assert within == {"hook"}


def test_the_role_of_each_part_of_the_cluster_is_one() -> None:
    roles = {name: s["environment"]["PROXYD_ROLE"] for name, s in SERVICES.items() if name not in OTHERS}
    assert roles == {
        "proxyd": "${PROXYD_ROLE:-all}",
        "planner-2": "planner",
        "prober": "prober",
        "notifier": "notifier",
    }
    assert {n for n, s in SERVICES.items() if s.get("profiles") == ["cluster"]} == {"planner-2", "prober", "notifier"}


def test_nats_has_its_configuration_beside_its_users() -> None:
    given = secrets(SERVICES["nats"])
    assert SERVICES["nats"]["command"] == ["--config", given[CONFIG]]
    assert Path(given[PASSWORDS]) == Path(given[CONFIG]).parent / PASSWORDS  # as it includes them


def test_the_browser_is_reached_by_who_renders_pages_and_reaches_nothing() -> None:
    assert COMPOSE["networks"]["browsing"] == {"internal": True}
    assert SERVICES["browser"]["networks"] == ["browsing"]
    assert {n for n, s in SERVICES.items() if "browsing" in s["networks"]} == {"browser", "proxyd", "prober"}
    assert SERVICES["browser"]["mem_limit"] == SERVICES["browser"]["memswap_limit"]  # or it would swap before it ends
    address = urlsplit(SERVICES["prober"]["environment"]["PROXYD_BROWSER"])
    dockerfile = (ROOT / SERVICES["browser"]["build"] / "Dockerfile").read_text(encoding="utf-8")
    assert (address.hostname, f"\nEXPOSE {address.port}\n" in dockerfile) == ("browser", True)
    start = (ROOT / SERVICES["browser"]["build"] / "start").read_text(encoding="utf-8")
    assert len(re.findall(rf"TCP\d-LISTEN:{address.port},", start)) == 2
    assert SERVICES["browser"]["image"].endswith(f":{__version__}")
    assert f'image.version="{__version__}"' in dockerfile


def test_the_image_holds_what_the_language_offers() -> None:
    assert {"playwright", "readability-lxml", "asyncpg", "apprise"} <= set(pinned(DEPLOY / "requirements.lock"))


def test_mail_alerts_and_copies_need_one_value_each() -> None:
    environment = SERVICES["notifier"]["environment"]
    assert environment["PROXYD_SMTP"] == "${PROXYD_SMTP:-}"
    assert environment["PROXYD_SMTP_PASSWORD_FILE"] == secrets(SERVICES["notifier"])["smtp_password"]
    (alertmanager,) = documents(ROOT / "deploy/alertmanager/alertmanager.yml")
    named = {chat["api_url_file"] for each in alertmanager["receivers"] for chat in each["slack_configs"]}
    assert named == {secrets(SERVICES["alertmanager"])["alerts_url"]}
    kept = SERVICES["proxyd"]["environment"]["PROXYD_BACKUP"]
    assert any(kept.startswith(f"{target}/") for _, target, *_ in mounts(SERVICES["proxyd"]))


@pytest.mark.parametrize("role", ["prober", "notifier"])
def test_a_role_that_is_scaled_shares_no_socket(role: str) -> None:
    """The socket is in the state folder, which is each container's own as long as no volume is named for it."""
    assert mounts(SERVICES[role]) == []
    assert "VOLUME /var/lib/proxyd" in (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
