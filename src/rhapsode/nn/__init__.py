"""Building blocks that families share. Nothing here knows a family or the engine."""
