"""`rhapsode bench published`: checkpoints verified and measured, beside upstream, as rows of one table."""
