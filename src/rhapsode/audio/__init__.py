"""Audio in and out: decoding, encoding, resampling, tempo, joining. Needs no torch."""
