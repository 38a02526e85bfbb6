"""Checks a checkpoint: its files, configuration, tensors and tokenizer, then how it speaks."""
