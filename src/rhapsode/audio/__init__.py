"""Audio at the edges: decode, encode, resample, change tempo, join. Needs no torch."""
