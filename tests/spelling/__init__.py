"""A family that says every letter as a tone, and an acoustic model that hears these tones: word times are exact."""
