from __future__ import annotations

import os
import re
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.config.loading import SecretStore, api_token, load, socket_address
from proxyd.config.profile_files import read_directory, read_profile, read_text
from proxyd.config.settings import format_budget, format_duration, parse_budget, parse_duration
from proxyd.core.errors import ConfigError, ProfileError, suggest
from proxyd.core.language import MAX_FILE_BYTES
from proxyd.core.model.delivery import SecretRef


def problems(**environ: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(environ=environ)
    return caught.value.problems


def test_the_environment_goes_over_the_file_and_the_call_over_both(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text('chronon = "5s"\nbudget = "30/min"\nobjective = "spend"\n', encoding="utf-8")
    settings = load(file, environ={"PROXYD_BUDGET": "60/min"}, objective="satisfy")
    assert (settings.chronon, settings.budget.per_s, settings.objective) == (5.0, 1.0, "satisfy")


def test_a_variable_may_name_a_file_that_holds_the_value(tmp_path: Path) -> None:
    (tmp_path / "contact").write_text("me@example.org\n", encoding="utf-8")
    assert load(environ={"PROXYD_CONTACT_FILE": str(tmp_path / "contact")}).contact == "me@example.org"


@pytest.mark.parametrize("value", ["me:hunter2@mail.example:587", "smtp://me:hunter2@mail.example:587", "hunter2@:587"])
def test_a_password_in_the_address_of_the_mail_server_is_refused_and_not_told(value: str, tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(f'smtp = "{value}"\n', encoding="utf-8")
    (tmp_path / "smtp").write_text(value, encoding="utf-8")
    for environ in ({"PROXYD_SMTP": value}, {"PROXYD_SMTP_FILE": str(tmp_path / "smtp")}, {"PROXYD_CONFIG": str(file)}):
        with pytest.raises(ConfigError, match="PROXYD_SMTP_PASSWORD_FILE or PROXYD_SMTP_PASSWORD") as caught:
            load(environ=environ)
        assert "hunter2" not in str(caught.value)


def test_the_address_of_the_mail_server_is_no_url() -> None:
    (problem,) = problems(PROXYD_SMTP="smtp://mail.example:587")
    assert problem == "PROXYD_SMTP: this is not host:port, such as mail.example.org:587, without smtp://"


def test_every_problem_is_reported_at_once_with_its_key() -> None:
    found = problems(
        PROXYD_CHRONO="1s",
        PROXYD_CHRONON="1ms",
        PROXYD_BUDGET="lots",
        PROXYD_ALLOW_NETWORKS="10/33",
        PROXYD_LISTEN="here",
    )
    assert sorted(problem.partition(":")[0] for problem in found) == [
        "PROXYD_ALLOW_NETWORKS",
        "PROXYD_BUDGET",
        "PROXYD_CHRONO",
        "PROXYD_CHRONON",
        "PROXYD_LISTEN",
    ]


def test_a_problem_names_the_file_or_the_variable_where_the_value_stands(tmp_path: Path) -> None:
    file, secret = tmp_path / "p.toml", tmp_path / "listen"
    file.write_text('chronon = "soon"\nprobe_price = -1\nping_webhooks = "maybe"\n', encoding="utf-8")
    secret.write_text("here", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(file, environ={"PROXYD_LISTEN_FILE": str(secret), "PROXYD_PROBE_TIMEOUT": "x"}, budget="lots")
    assert set(caught.value.problems) == {
        f"{file}: chronon: 'soon' is not a duration; write it like 200ms, 10s, 5m, 2h or 4w",
        f"{file}: probe_price: must be greater than 0",
        f"{file}: ping_webhooks: must be true or false",
        "PROXYD_LISTEN_FILE: 'here' is not host:port, such as 127.0.0.1:8080",
        "PROXYD_PROBE_TIMEOUT: 'x' is not a duration; write it like 200ms, 10s, 5m, 2h or 4w",
        "budget: 'lots' is not a rate; write it like 60/min, 5/s or 1000/h",
    }


def test_a_duration_without_a_unit_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("retention = 30\nfirst_day = 0\nparser_processes = 3\nbackup = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(file, environ={"PROXYD_LEASE": "30"})
    lacks = "is not a duration: it lacks a unit, such as in 30s, 30m, 30h or 30d"
    lease, retention, backup = sorted(caught.value.problems, key=lambda said: "backup" in said)
    assert {lease, retention} == {f"PROXYD_LEASE: '30' {lacks}", f"{file}: retention: '30' {lacks}"}
    assert backup.startswith(f"{file}: backup: ")  # a number is no folder


def test_a_misspelt_setting_is_told_the_nearest_one(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("host_concurency = 3\nxyz = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(file, environ={"PROXYD_BUGET": "1/s"})
    assert set(caught.value.problems) == {
        "PROXYD_BUGET: no such setting; did you mean PROXYD_BUDGET?",
        f"{file}: host_concurency: no such setting; did you mean host_concurrency?",
        f"{file}: xyz: no such setting; `proxyd config` lists them",
    }


def test_a_setting_that_only_older_versions_had_is_to_be_removed(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("overflow = 0.1\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(file, environ={"PROXYD_TRACE_SHARE": "1"})
    gone = "version 1.0 has no such setting any more: remove it"
    assert set(caught.value.problems) == {f"PROXYD_TRACE_SHARE: {gone}", f"{file}: overflow: {gone}"}


def test_what_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, environ={"PROXYD_CONTACT_FILE": str(tmp_path / "none")})
    assert caught.value.problems == (
        f"{tmp_path}: it cannot be read (Is a directory)",
        f"PROXYD_CONTACT_FILE: {tmp_path / 'none'} cannot be read (No such file or directory)",
    )


def test_an_unknown_key_of_the_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("budgt = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="budgt: no such setting"):
        load(file, environ={})


def test_relative_paths_count_from_the_folder_of_the_file_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proxyd.toml").write_text('profiles = "p"\ndatabase = "d/p.db"\nsecrets = "/s"\nbackup = "off"\n')
    (tmp_path / "all.toml").write_text('profiles = "."\nbackup = ""\n')
    together = load(tmp_path / "all.toml", environ={})
    assert (together.profiles, together.backup_folder) == (tmp_path, None)
    elsewhere = load(tmp_path / "proxyd.toml", environ={"PROXYD_SOCKET": "s.sock"})
    assert (elsewhere.profiles, elsewhere.database) == (tmp_path / "p", str(tmp_path / "d/p.db"))
    assert (elsewhere.secrets, elsewhere.socket, elsewhere.backup_folder) == (Path("/s"), Path("s.sock"), None)
    monkeypatch.chdir(tmp_path)
    here = load(environ={})
    assert (here.profiles, here.database) == (Path("p"), "d/p.db")


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such settings file"):
        load(tmp_path / "none.toml", environ={})


def test_lists_are_separated_by_commas() -> None:
    settings = load(environ={"PROXYD_ALLOW_NETWORKS": "127.0.0.0/8, ::1/128"})
    assert [str(network) for network in settings.networks] == ["127.0.0.0/8", "::1/128"]


def test_what_is_printed_can_be_read_back() -> None:
    settings = load(environ={"PROXYD_BUDGET": "08-18 30/min, 60/min", "PROXYD_CHRONON": "200ms"})
    shown = {f"PROXYD_{key.upper()}": value for key, value in settings.describe().items() if isinstance(value, str)}
    assert load(environ=shown) == settings


@given(st.integers(1, 10**9))
def test_durations_survive_printing(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000, rel=1e-5)


@pytest.mark.parametrize("text", ["", "s", "10 apples", "-5s", "5s5", "1h 5", "90", "1.5"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    "text", ["60/min", "22-06 6/min, 60/min", "08-18 30/min, 18-20 1/min, 120/min", "1/day", "7/h", "0/min"]
)
def test_budgets_survive_printing(text: str) -> None:
    assert format_budget(parse_budget(text)) == text


def test_a_seldom_rate_is_printed_as_one_that_can_be_read() -> None:
    assert parse_budget(format_budget(parse_budget("0.0005/day"))) == parse_budget("0.0005/day")


@pytest.mark.parametrize("text", ["", "60", "60/year", "08-18 30/min", "08-25 1/min, 1/min", "08-08 1/min, 1/min"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"rate|hours"):
        parse_budget(text)


def test_secrets_come_only_from_where_profiles_may_look(tmp_path: Path) -> None:
    (tmp_path / "hook").write_text("from a file\n", encoding="utf-8")
    settings = load(environ={"PROXYD_SECRETS": str(tmp_path)})
    secrets = SecretStore(settings, {"SECRET_A": "from a variable", "HOME": "/root"})
    assert secrets.resolve(SecretRef("env", "SECRET_A")) == b"from a variable"
    assert secrets.resolve(SecretRef("env", "HOME")) is None
    assert secrets.resolve(SecretRef("env", "SECRET_B")) is None
    assert secrets.resolve(SecretRef("file", "hook")) == b"from a file"
    assert secrets.resolve(SecretRef("file", "../hook")) is None
    assert secrets.resolve(SecretRef("file", "none")) is None
    assert SecretStore(load(environ={}), {}).resolve(SecretRef("file", "hook")) is None


def test_a_long_socket_path_is_spelled_short_enough_for_the_kernel(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    assert len(socket_address(folder / "proxyd.sock")) < 104
    assert socket_address(Path("data/proxyd.sock")) == "data/proxyd.sock"


def test_the_password_of_the_mail_server_is_read_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n", encoding="utf-8")
    environ = {"PROXYD_SMTP": "mail.example:587", "PROXYD_SMTP_PASSWORD_FILE": str(tmp_path / "password")}
    settings = load(environ=environ)
    assert (settings.smtp_password, settings.smtp_address) == ("hunter2", ("mail.example", 587))
    assert settings.describe()["smtp_password"] == "[hidden]"
    assert "hunter2" not in f"{settings!r} {settings.describe()}"
    file = tmp_path / "proxyd.toml"
    file.write_text('smtp_password = "hunter2"', encoding="utf-8")
    with pytest.raises(ConfigError, match="smtp_password: it belongs in PROXYD_SMTP_PASSWORD") as caught:
        load(file, environ={})
    assert "hunter2" not in str(caught.value)


def test_the_rate_of_an_endpoint_is_a_number_in_a_time() -> None:
    assert load(environ={}).endpoint_window == (None, 0.0)
    assert load(environ={"PROXYD_ENDPOINT_RATE": "60/min"}).endpoint_window == (60, 60.0)


def test_the_token_of_the_command_line_is_no_setting(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("pxd_file\n")
    environ = {"PROXYD_TOKEN": "pxd_here", "PROXYD_TOKEN_FILE": str(file)}
    assert "pxd_" not in str(load(environ=environ).describe())
    assert api_token(environ) == "pxd_file"
    assert api_token({"PROXYD_TOKEN": " "}) is None
    with pytest.raises(ConfigError, match="PROXYD_TOKEN_FILE"):
        api_token({"PROXYD_TOKEN_FILE": str(tmp_path)})


@pytest.mark.parametrize(
    "environ",
    [
        {"PROXYD_DATABASE": "postgresql+asyncpg://db.example/p?user=me&password=hunter2"},
        {"PROXYD_DATABASE": "postgresql://db.example/p?p%61ssword=hunter2"},
        {"PROXYD_DATABASE": "postgresql://db.example/p?passfile=hunter2"},
        {"PROXYD_DATABASE": "postgresql://db.example/p#x?password=hunter2"},
        {"PROXYD_DATABASE": "postgresql://db.example/p?dsn=postgresql://me:hunter2@db.example/p"},
        {"PROXYD_DATABASE": "postgresql://[hunter2]/p"},
        {"PROXYD_DATABASE": "postgresql://db.example:hunter2/p"},
        {"PROXYD_PUBLIC_URL": "https://me:hunter2@proxyd.example"},
        {"PROXYD_PUBLIC_URL": "https://hunter2@proxyd.example"},
        {"PROXYD_PUBLIC_URL": "https://proxyd.example/?key=hunter2"},
        {"PROXYD_PUBLIC_URL": "https://[hunter2]/"},
        {"PROXYD_TRACES": "http://collector.example:hunter2"},
        {"PROXYD_BROWSER": "ws://browser.example:hunter2"},
        {"PROXYD_BROWSER": "hunter2"},
        {"PROXYD_NATS": "nats://a.example,nats://b.example:hunter2", "PROXYD_DATABASE": "postgresql://db.example/p"},
        {"PROXYD_NATS": "nats://[hunter2]@b.example", "PROXYD_DATABASE": "postgresql://db.example/p"},
    ],
    ids=lambda environ: next(iter(environ.values())),
)
def test_an_address_that_is_none_or_holds_a_secret_where_it_would_be_shown_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environ=environ)
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [next(iter(environ))]
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__!r}"


@pytest.mark.parametrize("address", ["planner2..example:80", f"{'a' * 64}.example:80", ".:80", "a.example:99999"])
def test_no_address_that_others_cannot_reach_is_advertised(address: str) -> None:
    with pytest.raises(ConfigError, match=r"^PROXYD_ADVERTISE: "):
        load(environ={"PROXYD_ADVERTISE": address})


@pytest.mark.parametrize(("address", "host"), [("Two.example:80", "two.example"), ("[fd00::5]:80", "fd00::5")])
def test_requests_for_the_advertised_host_are_our_own(address: str, host: str) -> None:
    assert host in load(environ={"PROXYD_ADVERTISE": address}).own_hosts
    assert load(environ={}).own_hosts == {"localhost", "127.0.0.1"}


def test_the_token_of_a_browser_is_not_shown() -> None:
    settings = load(environ={"PROXYD_BROWSER": "wss://me:hunter2@browser.example:3000/x?token=hunter2"})
    assert settings.describe()["browser"] == "wss://browser.example:3000"
    assert "hunter2" not in f"{settings!r} {settings.describe()}"


def test_who_gives_the_password_of_the_database_in_a_query_is_told_where_it_goes() -> None:
    (problem,) = problems(PROXYD_DATABASE="postgresql://db.example/p?user=me&password=x")
    assert "user:password@" in problem
    assert "PROXYD_DATABASE_FILE" in problem


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nats", '"nats://hunter2@nats.example"'),
        ("nats", '"nats://me:hunter2@nats.example"'),
        ("nats", '"nats://a.example, nats://hunter2@b.example:4222"'),
        ("nats", '["nats://a.example", "nats://hunter2@b.example"]'),
        ("database", '"postgresql://me:hunter2@db.example/p"'),
        ("database", '"postgresql://me:hunter2/x@db.example/p"'),
        ("database", '"postgresql://db.example/p?password=hunter2"'),
    ],
)
def test_secrets_of_servers_are_refused_in_the_settings_file(key: str, value: str, tmp_path: Path) -> None:
    file = tmp_path / "proxyd.toml"
    file.write_text(f"{key} = {value}", encoding="utf-8")
    environ = {"PROXYD_DATABASE": "postgresql://db.example/p"} if key == "nats" else {}
    with pytest.raises(ConfigError, match=f"{key}: .*PROXYD_{key.upper()}_FILE") as caught:
        load(file, environ=environ)
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__!r}"


def test_secrets_of_servers_come_from_the_environment_and_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "nats").write_text("nats://hunter2@a.example,tls://me:hunter2@b.example:4222\n", encoding="utf-8")
    database = "postgresql+asyncpg://me:hunter2@db.example:5432/p?ssl=require"
    settings = load(environ={"PROXYD_DATABASE": database, "PROXYD_NATS_FILE": str(tmp_path / "nats")})
    assert settings.nats == ["nats://hunter2@a.example", "tls://me:hunter2@b.example:4222"]
    assert settings.describe()["nats"] == ["nats://[hidden]@a.example", "tls://[hidden]@b.example:4222"]
    assert settings.database_shown == "postgresql+asyncpg://[hidden]@db.example:5432/p?ssl=require"
    assert "hunter2" not in f"{settings!r} {settings.describe()}"


@pytest.mark.parametrize("password", ["hunter2/x", "hunter2#x", "hunter2?x", "[hunter2]", "a:hunter2", "hunter2\nx"])
def test_a_password_may_hold_every_sign_but_the_one_after_it(password: str) -> None:
    settings = load(environ={"PROXYD_DATABASE": f"postgresql://me:{password}@db.example/p"})
    assert settings.database_shown == "postgresql://[hidden]@db.example/p"


def test_the_settings_file_may_name_servers_and_the_user_of_the_database(tmp_path: Path) -> None:
    file = tmp_path / "proxyd.toml"
    named = 'database = "postgresql://me@db.example:5432/p"\nnats = ["nats://a.example:4222", "tls://[::1]:4222"]\n'
    file.write_text(named, encoding="utf-8")
    assert load(file, environ={}).nats == ["nats://a.example:4222", "tls://[::1]:4222"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("MAIL_FROM", "nobody", "'nobody' is not an address such as proxyd@example.org"),
        ("BUDGET_ZONE", "Europe/Nowhere", "'Europe/Nowhere' is not a time zone such as Europe/Berlin"),
        ("PLAN_EVERY", "0s", "must be longer than 0"),
        ("ENDPOINT_RATE", "0/min", "'0/min' is not a budget such as 30/min, 1/s or 600/h"),
    ],
)
def test_a_value_that_means_nothing_is_named_with_what_would(key: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        load(environ={f"PROXYD_{key}": value})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('database = "proxyd.toml"', "proxyd.toml: database: this is the settings file; name another one"),
        ('profiles = "a\\u0000b"', "proxyd.toml: profiles: it holds a NUL"),
    ],
)
def test_paths_that_cannot_be_are_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "proxyd.toml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        load(tmp_path / "proxyd.toml", environ={})


def test_a_settings_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    file = tmp_path / "proxyd.toml"
    file.write_text("budget = ", encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(str(file))):
        load(file)


def test_a_profile_that_is_not_utf_8_is_named_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "a.profile"
    file.write_bytes(b"-- first\n-- \xff\n")
    with pytest.raises(ProfileError, match=r"a\.profile:2:4: not UTF-8; save the file as UTF-8"):
        read_text(file)


def test_only_the_lists_that_a_profile_names_are_read(tmp_path: Path) -> None:
    main = tmp_path / "main.profile"
    main.write_text(
        """CREATE SOURCES "a/" OF FEED FROM FILE 'data.csv'; -- not FROM FILE 'old.csv'
        CREATE SOURCES "b/" OF FEED FROM FILE 'it''s.csv';"""
    )
    for name in ("data.csv", "it's.csv"):
        (tmp_path / name).write_text("https://example.org/\r\n", newline="")
    for name in ("a.csv", "old.csv"):
        (tmp_path / name).write_bytes(b"\xff")
    texts = read_directory(tmp_path)
    assert [Path(each.file).name for each in texts] == ["main.profile", "data.csv", "it's.csv"]
    assert texts[1].text == "https://example.org/\n"
    assert read_profile(main) == texts


@pytest.mark.parametrize("name", ["a.profile", "a.csv"])
@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_only_regular_files_are_read(kind: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "main.profile").write_text("CREATE SOURCES \"a/\" OF FEED FROM FILE 'a.csv';")
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    elif kind == "device":
        (tmp_path / name).symlink_to(os.devnull)
    else:
        (tmp_path / name).mkdir()
    refused: list[str] = []

    def read() -> None:
        try:
            read_directory(tmp_path)
        except ConfigError as error:
            refused.extend(error.problems)

    reading = Thread(target=read, daemon=True)  # a pipe without a writer would block it forever
    reading.start()
    reading.join(20)
    said = "this is not a regular file; move it elsewhere, or write its text to a file"
    assert refused == [f"{tmp_path / name}: {said}"]


def test_a_profile_that_is_named_by_hand_may_come_from_a_pipe() -> None:
    read, write = os.pipe()
    os.write(write, b"CREATE NOTHING;")
    os.close(write)
    assert read_profile(Path(f"/dev/fd/{read}"))[0].text == "CREATE NOTHING;"
    os.close(read)
    with pytest.raises(ConfigError, match=r"^/dev/zero: a file may have 8388608 bytes at most"):
        read_profile(Path("/dev/zero"))


def test_a_pipe_to_which_nobody_writes_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="nothing came through this pipe; start what writes to it first"):
        read_profile(tmp_path / "pipe")


@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
def test_settings_and_secrets_without_end_are_refused(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    endless = tmp_path / name
    said = "may have 1048576 bytes at most" if name == "/dev/zero" else "nothing came through this pipe"
    with pytest.raises(ConfigError, match=said):
        load(endless, environ={})
    with pytest.raises(ConfigError, match=f"PROXYD_SMTP_PASSWORD_FILE: .*{said}"):
        load(environ={"PROXYD_SMTP_PASSWORD_FILE": str(endless)})
    with pytest.raises(ConfigError, match=said):
        api_token({"PROXYD_TOKEN_FILE": str(endless)})
    (tmp_path / "hook").symlink_to(endless)
    store = SecretStore(load(environ={}, secrets=tmp_path), {})
    assert store.resolve(SecretRef("file", "hook")) is None


def test_settings_that_are_nested_without_end_are_one_error(tmp_path: Path) -> None:
    (tmp_path / "proxyd.toml").write_text(f"a = {'[' * 100_000}")
    with pytest.raises(ConfigError, match=r"proxyd\.toml: "):
        load(tmp_path / "proxyd.toml", environ={})


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.profile"
    file.touch()
    os.truncate(file, MAX_FILE_BYTES)
    assert len(read_text(file).text) == MAX_FILE_BYTES
    os.truncate(file, MAX_FILE_BYTES + 1)
    with pytest.raises(ConfigError, match=r"a\.profile: a file may have 8388608 bytes at most; split it into several"):
        read_text(file)


def test_of_very_many_names_none_is_suggested() -> None:
    assert suggest("nam1", ["name1"]) == "name1"
    assert suggest("nam1", [f"name{number}" for number in range(2001)]) is None
