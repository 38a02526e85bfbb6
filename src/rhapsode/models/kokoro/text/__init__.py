"""From text to the network's phonemes."""
