"""The REST API over the Control port."""

from proxyd.api.auth import SCOPES, new_token
from proxyd.api.health import serve_health
from proxyd.api.openapi import document
from proxyd.api.quotas import Quota
from proxyd.api.routes import endpoints, make_app
from proxyd.api.server import ApiSettings, serve_api
from proxyd.api.streams import Streams, StreamSettings

__all__ = [
    "SCOPES",
    "ApiSettings",
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
