"""Model families: one folder each, found by the registry."""
