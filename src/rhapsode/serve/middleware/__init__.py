"""Checks that run before any route: API keys, body size."""
