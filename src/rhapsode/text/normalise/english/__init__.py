"""English: all kinds of things that are not written as words."""
