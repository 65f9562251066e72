"""The stages that turn a probe outcome into notifications."""
