"""What belongs to a device: slot state, paged keys and values, transfers, capture and replay."""
