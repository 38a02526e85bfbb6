"""Voices: stored in a folder, fetched from untrusted URLs, cached by content. Needs no torch."""
