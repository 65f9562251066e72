"""The dashboard: pages that the server renders, for those who sign in with a token."""

from proxyd.api.web.dashboard import Dashboard
from proxyd.api.web.gate import WebRoute

__all__ = ["Dashboard", "WebRoute"]
