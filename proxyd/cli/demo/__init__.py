"""``proxyd demo``: the real daemon between an origin and a receiver of its own, beside what else could be done."""

from proxyd.cli.demo.run import demo

__all__ = ["demo"]
