"""A cache of finished speech, for phrases that are requested often."""
