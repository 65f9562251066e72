"""The dashboard: pages rendered by the server, for users who sign in with a token."""

from proxyd.api.web.dashboard import Dashboard
from proxyd.api.web.page_gate import WebRoute

__all__ = ["Dashboard", "WebRoute"]
