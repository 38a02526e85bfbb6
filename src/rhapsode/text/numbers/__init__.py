"""Numbers as words, one file per language: `cardinal` and `ordinal` of a whole number."""
