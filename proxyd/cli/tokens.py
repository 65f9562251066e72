"""Verbs about the API's tokens."""

from __future__ import annotations

import argparse
import asyncio

from proxyd.cli.asking import ask
from proxyd.cli.printing import print_json, print_lines
from proxyd.client import UnreachableError
from proxyd.client.types import TokenMade
from proxyd.config import load
from proxyd.errors import SilentError
from proxyd.terminal.tables import print_table


def create(options: argparse.Namespace) -> int:
    """Create a token and print only its text, through a running daemon or else directly in the database."""
    try:
        made = ask(options, lambda c: c.create_token(options.name, options.scope, expires_s=options.expires))
    except UnreachableError as error:
        if options.url is not None or isinstance(error, SilentError):  # a slow daemon may have created it
            raise
        made = _made_in_database(options)
    if options.json:
        print_json(made)
    else:
        print(made["token"])
    return 0


def _made_in_database(options: argparse.Namespace) -> TokenMade:
    from proxyd.app import wiring as app

    settings = load(options.config)
    token = asyncio.run(app.create_token(settings, options.name, options.scope, expires_in_s=options.expires))
    return TokenMade(name=options.name, scope=options.scope, token=token)


def tokens(options: argparse.Namespace) -> int:
    """List the tokens."""
    found = ask(options, lambda client: client.tokens())
    if options.json:
        print_json(found)
        return 0
    rows = [[each["name"], each["scope"], each["created"], each["expires"] or "never", each["id"]] for each in found]
    print_table(["name", "scope", "created", "expires", "id"], rows)
    return 0


def drop(options: argparse.Namespace) -> int:
    """Revoke a token."""
    answer = ask(options, lambda client: client.drop_token(options.name))
    if options.json:
        print_json(answer)
    else:
        print_lines([f"token {options.name} is revoked"])
    return 0
