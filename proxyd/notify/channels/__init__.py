"""The channels that deliver messages: webhook, mail and apprise."""
