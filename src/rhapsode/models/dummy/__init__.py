"""A complete family without weights: text becomes tones, one frame per character."""
