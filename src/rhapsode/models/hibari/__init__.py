"""A small English voice: the `hibari-tts` package behind a generator stage."""
