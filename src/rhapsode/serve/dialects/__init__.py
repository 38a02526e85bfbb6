"""Dialects: what other speech servers call things, translated at the edge of this one. Nothing behind it knows them."""
