"""Typed clients of the REST API, over the daemon's Unix socket or over HTTP with a token.

The types of the responses are in ``proxyd.client.types``.
"""

from proxyd.client.client import Client, ProfileRead, SyncClient
from proxyd.client.wire import ApiError, StreamEvent
from proxyd.core.errors import UnreachableError

__all__ = ["ApiError", "Client", "ProfileRead", "StreamEvent", "SyncClient", "UnreachableError"]
