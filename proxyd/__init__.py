"""proxyd: a monitoring proxy that plans its probes, measures what it missed and says why it asked."""

from typing import TYPE_CHECKING

__version__: str

if not TYPE_CHECKING:

    def __getattr__(name: str) -> str:
        """Return the version, which is looked up only when it is asked for: that takes as long as the help does."""
        if name != "__version__":
            raise AttributeError(name)
        from importlib.metadata import version

        return version("proxyd")
