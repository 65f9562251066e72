"""The REST API over the Control port."""

from proxyd.api.auth import SCOPES, new_token
from proxyd.api.routes import make_app
from proxyd.api.server import ApiSettings, serve_api
from proxyd.api.streams import StreamSettings

__all__ = ["SCOPES", "ApiSettings", "StreamSettings", "make_app", "new_token", "serve_api"]
