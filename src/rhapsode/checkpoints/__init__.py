"""Checkpoints: find one, read its configuration, stream its tensors into modules. Nothing in one is ever executed."""
