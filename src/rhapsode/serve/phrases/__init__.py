"""Phrases that are said often: finished speech, kept by content."""
