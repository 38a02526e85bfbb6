"""Logs, metrics and the outcomes of requests."""
