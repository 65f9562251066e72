"""The dashboard: pages rendered by the server, for users who sign in with a token."""
