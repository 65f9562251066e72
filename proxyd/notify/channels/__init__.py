"""The channels that deliver messages: one module for each kind of delivery."""
