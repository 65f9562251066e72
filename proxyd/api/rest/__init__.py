"""The REST API: routes, endpoints and handlers."""
