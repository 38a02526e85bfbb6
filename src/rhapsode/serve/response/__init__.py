"""Turns speech into the bytes that a client gets."""
