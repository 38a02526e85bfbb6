"""Text: punctuation, languages and tokens."""
