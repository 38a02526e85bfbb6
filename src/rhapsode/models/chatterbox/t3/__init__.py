"""T3: text and a voice to speech tokens."""
