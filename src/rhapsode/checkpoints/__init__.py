"""Finds a checkpoint, reads its configuration and loads its tensors. No code from a checkpoint is ever executed."""
