"""Reads Markdown, whole or as it arrives."""
