"""Entry point of the ``proxyd`` command."""

import sys

from proxyd.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
