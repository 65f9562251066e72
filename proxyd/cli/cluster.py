"""The verb that prepares the servers over which the machines of a cluster talk."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from proxyd.core.errors import ProxydError
from proxyd.terminal.verbs import Verb, argument, flag, verb

if TYPE_CHECKING:
    from proxyd.cluster.nats_users import Server

CLUSTER = Verb("cluster", "prepare a cluster of several machines", ["proxyd cluster init nats --server nats.example"])


def _servers(text: str) -> Sequence[Server]:
    from proxyd.cluster.nats_users import read_servers

    try:
        return read_servers(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


@verb(
    "cluster init",
    "proxyd cluster init nats --server nats.example",
    "proxyd cluster init nats --server nats.example:4222 --tls",
    "proxyd cluster init nats --server one.example,two.example,three.example",
    takes=[
        argument("folder", "folder to write the files into", type=Path, metavar="DIR"),
        argument(
            "--server",
            "host of the NATS server, and its port if not 4222; several, with commas, make a cluster",
            type=_servers,
            required=True,
            metavar="HOST[:PORT]",
        ),
        flag("--tls", "let the servers encrypt; put the certificate of each next to its configuration"),
    ],
)
def init(options: argparse.Namespace) -> int:
    """Write the configuration of NATS servers, with a user and a password for each role."""
    import secrets

    from proxyd.cluster.nats_users import PASSWORDS, USERS, config_names, files_of

    servers: Sequence[Server] = options.server
    _write(options.folder, files_of(servers, lambda: secrets.token_hex(24), is_encrypted=options.tls))
    several = len(servers) > 1
    if several:
        print(f"copy to each server its configuration and {options.folder / PASSWORDS}, into one folder")
    for server, name in zip(servers, config_names(servers), strict=True):
        if options.tls:
            where = f"next to its {name}" if several else f"into {options.folder}"
            print(f"put the certificate of {server.host} {where}: nats-cert.pem, nats-key.pem")
        start = f"start on {server.host}" if several else "start the server"
        print(f"{start}: nats-server --config {options.folder / name}")
    print(f"each machine needs one file, that of its role ({', '.join(USERS)}):")
    print(f"PROXYD_NATS_FILE={options.folder / 'nats_url_ROLE'} proxyd serve --role ROLE")
    return 0


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files that only their owner may read, and none if one exists."""
    there = [name for name in files if (folder / name).exists()]
    if there:
        raise ProxydError(f"{folder / there[0]} exists already: delete it, or name another folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in files.items():
        handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
