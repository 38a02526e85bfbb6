"""Kokoro: phonemes to a whole sentence in one pass."""
