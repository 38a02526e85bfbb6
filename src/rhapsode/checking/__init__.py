"""Checks requests before any stage works on them, in whichever process they arrive."""
