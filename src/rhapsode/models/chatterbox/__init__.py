"""Chatterbox: the original, the multilingual models, Turbo and Nano."""
