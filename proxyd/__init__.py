"""proxyd: a monitoring proxy that plans its probes, measures what it missed and says why it asked."""

from importlib.metadata import version

__version__ = version("proxyd")
