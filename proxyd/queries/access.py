"""What the API asks about tokens, answers to repeat, and pushes from hubs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

Scope: TypeAlias = Literal["read", "write", "admin"]


@dataclass(frozen=True, slots=True)
class Token:
    """An API token, of which only the secret's hash is stored. A wider scope includes the narrower ones."""

    token_id: str
    name: str
    scope: Scope
    sha256: str
    created_s: float
    expires_s: float | None


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer to a bearer's request with a key; ``request`` distinguishes it from others with the same key."""

    bearer: str
    key: str
    request: str
    status: int
    content_type: str
    body: bytes
    answered_s: float


class Access(Protocol):
    """API tokens, and stored answers to requests that may be repeated."""

    async def add_token(self, token: Token) -> None:
        """Store a token; raises ``ConflictError`` if its name is taken."""

    async def find_token(self, token_id: str) -> Token | None:
        """Return the token with that id, or ``None``."""

    async def tokens(self) -> Sequence[Token]:
        """Return every token, by name."""

    async def drop_token(self, name: str) -> None:
        """Revoke a token; raises ``NotFoundError``."""

    async def find_answer(self, bearer: str, key: str, *, now_s: float) -> StoredAnswer | None:
        """Return the answer to a key from the last day, or ``None``."""

    async def keep_answer(self, answer: StoredAnswer) -> None:
        """Store an answer; returns once it cannot be lost."""


class HubCallbacks(Protocol):
    """Callbacks for WebSub hubs."""

    async def verify(self, callback_id: str, query: Mapping[str, str]) -> str | None:
        """Return the challenge if a hub's request is valid, ``None`` if it does not match a subscription."""

    def is_subscribed(self, callback_id: str) -> bool:
        """Return whether a subscription has this callback."""

    async def push(self, callback_id: str, content_type: str | None, signature: str | None, body: bytes) -> None:
        """Observe a pushed document; raises ``BusyError`` if the hub should try again later."""
