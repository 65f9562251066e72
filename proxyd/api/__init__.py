"""The REST API and the dashboard, over the queries of the daemon."""
