"""Entry point of the ``proxyd`` command."""

import gc
import os
import sys

_COLLECTIONS = 50_000, 2, 2  # old objects are looked at about as often as by default; a daemon sets its own


def main() -> int:
    """Run the command line."""
    # BLAS starts a thread for each core with numpy, and these wait for each other in loops: on a busy machine of two
    # cores the weeks of 1,000 sources took ten times the processor time
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # noqa: TID251 - set for numpy, not read
    # What is imported stays: looking for garbage in it over and over took a tenth of the start
    gc.set_threshold(*_COLLECTIONS)
    # It is imported here and not above: parser processes import the main module again, and need none of it
    from proxyd.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
