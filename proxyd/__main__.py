"""Entry point of the ``proxyd`` command."""

import sys


def main() -> int:
    """Run the command line."""
    # It is imported here and not above: parser processes import the main module again, and need none of it
    from proxyd.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
