"""The verb that prepares the server over which the machines of a cluster talk."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from proxyd.errors import ProxydError
from proxyd.terminal.verbs import Verb, argument, flag, verb

CLUSTER = Verb("cluster", "prepare a cluster of several machines", ["proxyd cluster init nats --server nats.example"])


@verb(
    "cluster init",
    "proxyd cluster init nats --server nats.example",
    "proxyd cluster init nats --server nats.example:4222 --tls",
    takes=[
        argument("folder", "folder to write the files into", type=Path, metavar="DIR"),
        argument("--server", "host of the NATS server, and its port if not 4222", required=True, metavar="HOST[:PORT]"),
        flag("--tls", "let the server encrypt; put its certificate next to its configuration"),
    ],
)
def init(options: argparse.Namespace) -> int:
    """Write the configuration of a NATS server, with a user and a password for each role."""
    import secrets

    from proxyd.cluster.nats_users import CONFIG, USERS, files_of

    server = options.server if ":" in options.server else f"{options.server}:4222"
    files = files_of(server, lambda: secrets.token_hex(24), is_encrypted=options.tls)
    there = [name for name in files if (options.folder / name).exists()]
    if there:
        raise ProxydError(f"{options.folder / there[0]} exists already: delete it, or name another folder")
    options.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in files.items():
        handle = os.open(options.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    if options.tls:
        print(f"put the certificate of {server.rpartition(':')[0]} into {options.folder}: nats-cert.pem, nats-key.pem")
    print(f"start the server: nats-server --config {options.folder / CONFIG}")
    print(f"each machine needs one file, that of its role ({', '.join(USERS)}):")
    print(f"PROXYD_NATS_FILE={options.folder / 'nats_url_ROLE'} proxyd serve --role ROLE")
    return 0
