"""The network: phoneme ids to durations, and durations to samples."""
