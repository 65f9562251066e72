"""The users of a NATS server: where it listens, what ``cluster init`` writes, and never writes over."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import bcrypt
import pytest

from proxyd.cli.main import main
from proxyd.cluster.nats_users import USERS
from proxyd.config.loading import load
from tests.servers import free_port, wait_for_port


def hash_of(role: str, passwords: str) -> bytes:
    """Return the hash of a role's password, as a server of any age reads it."""
    (found,) = re.findall(rf'^proxyd_{role}: "(\$2a\$.*)"$', passwords, re.MULTILINE)
    return str(found).encode()


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
        assert bcrypt.checkpw(str(url.password).encode(), hash_of(role, made["nats_passwords"]))
        passwords.add(url.password)
    assert len(passwords) == len(USERS)
    assert ("nats-cert.pem" in made["nats.conf"]) is is_encrypted
    said = capsys.readouterr().out
    served = made["nats.conf"] + made["nats_passwords"]
    assert not any(str(password) in said + served for password in passwords)
    assert "only programs on its own machine reach a server" in said
    assert main(arguments) == 1
    assert "exists already: delete it, or name another folder" in capsys.readouterr().err
    assert made == {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("server", "port", "url"),
    [
        ("nats.example:5222", 5222, "@nats.example:5222"),
        ("[fd00::1]", 4222, "@[fd00::1]:4222"),
        ("[fd00::1]:5222", 5222, "@[fd00::1]:5222"),
    ],
)
def test_a_server_listens_at_the_port_of_its_address(tmp_path: Path, server: str, port: int, url: str) -> None:
    assert main(["cluster", "init", str(tmp_path), "--server", server]) == 0
    config = (tmp_path / "nats.conf").read_text(encoding="utf-8")
    assert f'\nlisten: "127.0.0.1:{port}"\n' in config
    assert "cluster" not in config
    assert (tmp_path / "nats_url_prober").read_text(encoding="utf-8").endswith(url)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("fd00::1", "write the IPv6 address fd00::1 in brackets, as in [fd00::1] or [fd00::1]:4222"),
        ("fd00::1:5222", "write the IPv6 address fd00::1:5222 in brackets"),
        ("nats://nats.example", "'nats://nats.example' is not HOST or HOST:PORT"),
        ("nats.example:0", "'nats.example:0' is not HOST or HOST:PORT"),
        ("one.example,", "'' is not HOST or HOST:PORT"),
        ("One.example,one.example:4222", "one.example:4222 is there twice"),
    ],
)
def test_an_address_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], server: str, said: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["cluster", "init", str(tmp_path / "nats"), "--server", server])
    assert said in capsys.readouterr().err
    assert not (tmp_path / "nats").exists()


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_several_servers_make_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_encrypted: bool
) -> None:
    servers = "one.example,two.example:5222,two.example:5223"
    listeners = "10.0.0.1,10.0.0.2,[fd00::2]"
    arguments = ["cluster", "init", str(tmp_path), "--server", servers, "--listen", listeners]
    assert main([*arguments, "--tls"] if is_encrypted else arguments) == 0
    made = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    configs = [made[f"nats-{number}.conf"] for number in (1, 2, 3)]
    assert "nats.conf" not in made
    assert [re.findall(r"^server_name: (.*)$", each, re.MULTILINE) for each in configs] == [
        ["nats-1"], ["nats-2"], ["nats-3"]
    ]  # fmt: skip
    assert [re.findall(r'listen: "(.*)"', each) for each in configs] == [
        ["10.0.0.1:4222", "10.0.0.1:6222"],
        ["10.0.0.2:5222", "10.0.0.2:6222"],
        ["[fd00::2]:5223", "[fd00::2]:6223"],
    ]
    assert len({"".join(re.findall(r"^http: .*$", each, re.MULTILINE)) for each in configs[1:]}) == 2
    routes = [re.findall(r'"(?:nats|tls)://route:\w+@(.*)"', each) for each in configs]
    links = ["one.example:6222", "two.example:6222", "two.example:6223"]
    assert routes == [[each for each in links if each != own] for own in links]
    (password,) = {each for config in configs for each in re.findall(r"route:(\w+)@", config)}
    assert all(f'password: "{password}"' in each for each in configs)
    assert [each.count("nats-cert.pem") for each in configs] == [2 * is_encrypted] * 3  # for clients and for servers
    for role in USERS:
        urls = [urlsplit(each) for each in made[f"nats_url_{role}"].split(",")]
        assert [each.netloc.partition("@")[2] for each in urls] == [
            "one.example:4222", "two.example:5222", "two.example:5223"
        ]  # fmt: skip
        (secret,) = {each.password for each in urls}
        assert bcrypt.checkpw(str(secret).encode(), hash_of(role, made["nats_passwords"]))
    said = capsys.readouterr().out
    assert password not in said
    assert "only programs" not in said
    assert f"start on one.example: nats-server --config {tmp_path / 'nats-1.conf'}" in said


@pytest.mark.parametrize(
    ("listeners", "said"),
    [
        ("nats.example", "'nats.example'"),
        ("10.0.0.1:4222", "'10.0.0.1:4222'"),
        ("10.0.0.1,10.0.0.2", "--listen names 2 addresses for 1 servers: one each, or one"),
    ],
)
def test_an_address_to_listen_on_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], listeners: str, said: str
) -> None:
    with suppress(SystemExit):
        assert main(["cluster", "init", str(tmp_path / "nats"), "--server", "a.example", "--listen", listeners]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "nats").exists()


@pytest.mark.skipif(shutil.which("nats-server") is None, reason="nats-server is not installed")
@pytest.mark.parametrize(("listens", "reached"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_a_server_listens_where_it_is_told(tmp_path: Path, listens: str, *, reached: bool) -> None:
    port = free_port()
    assert main(["cluster", "init", str(tmp_path), "--server", f"127.0.0.1:{port}", "--listen", listens]) == 0
    command = ["nats-server", "--config", str(tmp_path / "nats.conf"), "-m", str(free_port())]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        wait_for_port(port, process)
        with socket.socket() as other:  # another address of this machine
            assert (other.connect_ex(("127.0.0.2", port)) == 0) is reached
        process.kill()


@pytest.mark.skipif(shutil.which("nats-server") is None, reason="nats-server is not installed")
@pytest.mark.parametrize("servers", ["nats.example", "one.example,[fd00::2],three.example"])
def test_the_server_takes_what_is_made(tmp_path: Path, servers: str) -> None:
    assert main(["cluster", "init", str(tmp_path), "--server", servers]) == 0
    for config in tmp_path.glob("*.conf"):
        done = subprocess.run(["nats-server", "-t", "-c", config], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_addresses_of_a_role_are_a_setting(tmp_path: Path) -> None:
    assert main(["cluster", "init", str(tmp_path), "--server", "one.example,[fd00::2]"]) == 0
    settings = load(environ={"PROXYD_NATS_FILE": str(tmp_path / "nats_url_prober")})
    assert [urlsplit(each).hostname for each in settings.nats] == ["one.example", "fd00::2"]
