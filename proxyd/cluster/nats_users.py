"""The users of NATS servers: one for each role, with its rights alone, and the addresses with their passwords."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from proxyd.cluster.messages import rights_of

USERS = ("all", "planner", "prober", "notifier")
CONFIG, PASSWORDS = "nats.conf", "nats_passwords"
_PORT, _HTTP_PORT, _CLUSTER_PORT = 4222, 8222, 6222
_SERVER = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,5}))?")
_TLS = """tls {
  cert_file: "nats-cert.pem"
  key_file: "nats-key.pem"
}
"""


class Server(NamedTuple):
    """A NATS server: its host, an IPv6 address in brackets, and the port for its clients."""

    host: str
    port: int = _PORT

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def read_servers(text: str) -> Sequence[Server]:
    """Return the servers of a text, which commas separate; raise ``ValueError`` if one is invalid or there twice.

    >>> read_servers("one.example,[fd00::1]:5222")
    (Server(host='one.example', port=4222), Server(host='[fd00::1]', port=5222))
    """
    found = tuple(_read_server(each.strip()) for each in text.split(","))
    for server in found:
        if found.count(server) > 1:
            raise ValueError(f"{server} is there twice: give each server a host or a port of its own")
    return found


def _read_server(text: str) -> Server:
    match = _SERVER.fullmatch(text)
    if match is None and re.fullmatch(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", text):
        raise ValueError(f"write the IPv6 address {text} in brackets, as in [fd00::1] or [fd00::1]:{_PORT}")
    port = _PORT if match is None or match["port"] is None else int(match["port"])
    if match is None or not 1 <= port <= 65535:
        raise ValueError(f"{text!r} is not HOST or HOST:PORT, such as nats.example or nats.example:{_PORT}")
    return Server(match["host"].lower(), port)


def config_names(servers: Sequence[Server]) -> Sequence[str]:
    """Return the name of the configuration of each server."""
    return [CONFIG] if len(servers) == 1 else [f"nats-{number}.conf" for number, _ in enumerate(servers, start=1)]


def server_config(
    *,
    name: str = "nats",
    port: int = _PORT,
    http_port: int = _HTTP_PORT,
    cluster: str = "",
    passwords: str = PASSWORDS,
    is_encrypted: bool = False,
) -> str:
    """Return the configuration of a server; ``passwords`` is the path of the file that holds those of the users."""
    users = "\n".join(_user(role) for role in USERS)
    return f"""# {"One server of a cluster" if cluster else "One server"}. Nothing is stored.
server_name: {name}
port: {port}
http: "127.0.0.1:{http_port}"
{_TLS if is_encrypted else ""}{cluster}
# each user may do what its role does, and nothing else
include "{passwords}"
authorization {{
  users: [
{users}
  ]
}}
"""


def _user(role: str) -> str:
    publish, hear = rights_of(role)
    return f"""    {{
      user: {role}
      password: $proxyd_{role}
      permissions: {{
        publish: {_list_text(publish) if publish else '{deny: ">"}'}
        subscribe: {_list_text(hear)}
      }}
    }}"""


def _list_text(subjects: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{each}"' for each in subjects) + "]"


def files_of(servers: Sequence[Server], password: Callable[[], str], *, is_encrypted: bool) -> Mapping[str, str]:
    """Return the files of servers by name: the configuration of each, and those with the passwords of all.

    Several servers make a cluster. ``nats_url_<role>`` is what the setting ``nats`` is for machines of a role.
    """
    secrets = {role: password() for role in USERS}
    scheme = "tls" if is_encrypted else "nats"
    passwords = "".join(f'proxyd_{role}: "{secret}"\n' for role, secret in secrets.items())
    urls = {
        f"nats_url_{role}": ",".join(f"{scheme}://{role}:{secret}@{server}" for server in servers)
        for role, secret in secrets.items()
    }
    if len(servers) == 1:
        return {CONFIG: server_config(port=servers[0].port, is_encrypted=is_encrypted), PASSWORDS: passwords, **urls}
    configs = _configs(servers, password(), is_encrypted=is_encrypted)
    return {**configs, PASSWORDS: passwords, **urls}


def _configs(servers: Sequence[Server], route_password: str, *, is_encrypted: bool) -> Mapping[str, str]:
    """Return the configurations of the servers of a cluster; those on one host get ports of their own."""
    names = config_names(servers)
    before = [[each.host for each in servers[:number]].count(server.host) for number, server in enumerate(servers)]
    links = [f"{server.host}:{_CLUSTER_PORT + count}" for server, count in zip(servers, before, strict=True)]
    return {
        names[number]: server_config(
            name=names[number].removesuffix(".conf"),
            port=server.port,
            http_port=_HTTP_PORT + before[number],
            cluster=_cluster(links, number, route_password, is_encrypted=is_encrypted),
            is_encrypted=is_encrypted,
        )
        for number, server in enumerate(servers)
    }


def _cluster(links: Sequence[str], own: int, password: str, *, is_encrypted: bool) -> str:
    """Return what makes a server one of a cluster, with routes to all servers but its own."""
    scheme, user = "tls" if is_encrypted else "nats", "route"
    routes = "\n".join(
        f'    "{scheme}://{user}:{password}@{link}"' for number, link in enumerate(links) if number != own
    )
    tls = "".join(f"  {line}\n" for line in _TLS.splitlines()) if is_encrypted else ""
    return f"""
cluster {{
  name: proxyd
  listen: "0.0.0.0:{links[own].rpartition(":")[2]}"
{tls}  authorization {{
    user: {user}
    password: "{password}"
  }}
  routes: [
{routes}
  ]
  no_advertise: true  # the address of each role names all servers
}}
"""
