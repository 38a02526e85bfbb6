"""Tiny random checkpoints in each family's published layout, made on the fly; no upstream package is needed."""
