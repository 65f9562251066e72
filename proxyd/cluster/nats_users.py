"""The users of a NATS server: one for each role, with its rights alone, and the addresses with their passwords."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from proxyd.cluster.subjects import rights_of

USERS = ("all", "planner", "prober", "notifier")
CONFIG, PASSWORDS = "nats.conf", "nats_passwords"
_TLS = """tls {
  cert_file: "nats-cert.pem"
  key_file: "nats-key.pem"
}
"""


def server_config(*, passwords: str = PASSWORDS, is_encrypted: bool = False) -> str:
    """Return the configuration of a server; ``passwords`` is the path of the file that holds those of the users."""
    users = "\n".join(_user(role) for role in USERS)
    return f"""# One server; three of them make a cluster that outlives the loss of one. Nothing is stored.
server_name: nats
port: 4222
http: "127.0.0.1:8222"
{_TLS if is_encrypted else ""}
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
        publish: {_listed(publish) if publish else '{deny: ">"}'}
        subscribe: {_listed(hear)}
      }}
    }}"""


def _listed(subjects: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{each}"' for each in subjects) + "]"


def files_of(server: str, password: Callable[[], str], *, is_encrypted: bool) -> Mapping[str, str]:
    """Return the files of a server at an address (host and port), by name: its configuration, and those with secrets.

    ``nats_url_<role>`` is what the setting ``nats`` is for machines of a role.
    """
    secrets = {role: password() for role in USERS}
    scheme = "tls" if is_encrypted else "nats"
    passwords = "".join(f'proxyd_{role}: "{secret}"\n' for role, secret in secrets.items())
    urls = {f"nats_url_{role}": f"{scheme}://{role}:{secret}@{server}" for role, secret in secrets.items()}
    return {CONFIG: server_config(is_encrypted=is_encrypted), PASSWORDS: passwords, **urls}
