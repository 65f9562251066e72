from __future__ import annotations

from pathlib import Path

import pytest

from proxyd.config.loading import load
from proxyd.core.errors import ConfigError

URL = "http://me:hunter2@proxy.example:3128"


def test_credentials_of_the_proxy_come_from_the_environment_and_are_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "proxy"
    secret.write_text(URL + "\n", encoding="utf-8")
    for environ in ({"PROXYD_PROXY": URL}, {"PROXYD_PROXY_FILE": str(secret)}):
        settings = load(environ=environ)
        assert settings.proxy == URL
        assert settings.describe()["proxy"] == "http://[hidden]@proxy.example:3128"
        assert "hunter2" not in f"{settings!r} {settings}"


def test_credentials_in_the_settings_file_are_refused_without_showing_them(tmp_path: Path) -> None:
    file = tmp_path / "proxyd.toml"
    file.write_text(f'proxy = "{URL}"', encoding="utf-8")
    with pytest.raises(ConfigError, match="credentials belong in PROXYD_PROXY") as caught:
        load(file, environ={})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://me:hunter2@a:1",
        "socks5://me:hunter2@a",
        "http://me:hunter2@",
        "hunter2",
        "http://hunter2:x",
        "http://a/hunter2",
    ],
)
def test_what_is_no_proxy_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigError, match="PROXYD_PROXY: this is not an address such as") as caught:
        load(environ={"PROXYD_PROXY": url})
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__}"


def test_a_proxy_without_credentials_is_shown_as_it_is() -> None:
    assert load(environ={"PROXYD_PROXY": "http://127.0.0.1:3128"}).describe()["proxy"] == "http://127.0.0.1:3128"


def test_ports_are_numbers_of_ports() -> None:
    assert load(environ={"PROXYD_ALLOW_PORTS": "80, 443"}).allow_ports == [80, 443]
    with pytest.raises(ConfigError, match="PROXYD_ALLOW_PORTS"):
        load(environ={"PROXYD_ALLOW_PORTS": "80, 70000"})
