"""Turns the bytes that a client sends into a typed request."""
