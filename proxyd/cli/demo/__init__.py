"""``proxyd demo``: runs the real daemon between its own origin and receiver, and compares it with other schedules."""

from proxyd.cli.demo.run import demo

__all__ = ["demo"]
