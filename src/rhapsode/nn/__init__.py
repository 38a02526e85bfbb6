"""Building blocks that families share. Nothing here imports a family or the engine."""
