"""The users of a NATS server: what ``cluster init`` writes is what is shipped, and never written over."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from proxyd.cli.main import main
from proxyd.cluster.nats_users import USERS, server_config

ROOT = Path(__file__).parents[3]


def test_the_shipped_configuration_is_the_one_that_is_made() -> None:
    shipped = (ROOT / "deploy/nats/nats.conf").read_text(encoding="utf-8")
    assert shipped == server_config(passwords="../../run/secrets/nats_passwords")


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_each_role_has_a_user_whose_password_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_encrypted: bool
) -> None:
    folder = tmp_path / "nats"
    arguments = ["cluster", "init", str(folder), "--server", "nats.example"]
    assert main([*arguments, "--tls"] if is_encrypted else arguments) == 0
    made = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    passwords = set()
    for role in USERS:
        url = urlsplit(made[f"nats_url_{role}"])
        assert (url.scheme, url.username, url.hostname, url.port) == (
            "tls" if is_encrypted else "nats", role, "nats.example", 4222
        )  # fmt: skip
        assert f'proxyd_{role}: "{url.password}"' in made["nats_passwords"].splitlines()
        passwords.add(url.password)
    assert len(passwords) == len(USERS)
    assert ("nats-cert.pem" in made["nats.conf"]) is is_encrypted
    said = capsys.readouterr().out
    assert not any(str(password) in said for password in passwords)
    assert main(arguments) == 1
    assert "exists already: delete it, or name another folder" in capsys.readouterr().err
    assert made == {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
