"""The vocoder: mel frames to samples, frame by frame."""
