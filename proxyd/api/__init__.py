"""The REST API and the dashboard, over the queries of the daemon."""

from proxyd.api.auth import SCOPES, new_token
from proxyd.api.forwarding import Peer, Planners
from proxyd.api.quotas import Quota
from proxyd.api.rest.openapi import document
from proxyd.api.rest.routes import endpoints, make_app
from proxyd.api.rest.streams import Streams, StreamSettings
from proxyd.api.server import ApiSettings, serve_api, serve_health

__all__ = [
    "SCOPES",
    "ApiSettings",
    "Peer",
    "Planners",
    "Quota",
    "StreamSettings",
    "Streams",
    "document",
    "endpoints",
    "make_app",
    "new_token",
    "serve_api",
    "serve_health",
]
