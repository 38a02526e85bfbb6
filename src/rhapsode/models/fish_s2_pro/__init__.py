"""Fish Audio S2-Pro: dialogue in cloned voices at 44.1 kHz."""
