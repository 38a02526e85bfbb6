"""The flow: speech tokens to mel frames, chunk by chunk."""
