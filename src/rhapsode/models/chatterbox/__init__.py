"""Chatterbox: original, multilingual, Turbo and Nano."""
