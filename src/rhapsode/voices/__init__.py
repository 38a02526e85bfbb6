"""Voices: kept in a folder, fetched from addresses that may be hostile, cached by content. Needs no torch."""
