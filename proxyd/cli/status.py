"""Status commands."""

from __future__ import annotations

import argparse
import json

from proxyd import __version__
from proxyd.cli.asking import ask
from proxyd.cli.printing import print_json
from proxyd.config import load


def config(options: argparse.Namespace) -> int:
    """Print the effective settings."""
    values = load(options.config).describe()
    if options.json:
        print_json(values)
        return 0
    for key, value in values.items():
        print(f"{key} = {json.dumps(value)}" if value is not None else f"# {key} is not set")
    return 0


def healthcheck(options: argparse.Namespace) -> int:
    """Exit 0 if the daemon is ready or stands by."""
    answer = ask(options, lambda client: client.ready(), timeout_s=options.timeout)
    failed = [name for name, holds in answer["checks"].items() if not holds]
    if options.json:
        print_json(answer)
    elif failed == ["leading"]:
        print("standing by: another machine leads")
    else:
        print(f"not ready: {', '.join(failed)}; the daemon's log says more" if failed else "ready")
    return 0 if failed in ([], ["leading"]) else 1


def version(options: argparse.Namespace) -> int:
    """Print the version."""
    if options.json:
        print_json({"version": __version__})
    else:
        print(f"proxyd {__version__}")
    return 0
