"""Which of the declared sources this process plans: all of them, unless several planners divide them."""

from __future__ import annotations


class Ownership:
    """All sources are planned here. Where several planners divide them, a subclass says which are ours."""

    @property
    def is_whole(self) -> bool:
        """Whether no other planner has any source."""
        return True

    @property
    def has_declaration(self) -> bool:
        """Whether this planner answers for the declaration, and so for what is declared nowhere."""
        return True

    def has(self, url: str) -> bool:
        """Whether this planner has the source that is declared with an address."""
        return True

    def has_host(self, host: str) -> bool:
        """Whether this planner spaces the requests to a host."""
        return True


EVERYTHING = Ownership()
