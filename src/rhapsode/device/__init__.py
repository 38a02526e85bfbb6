"""The memory and the launches of a device: slot state, paged keys and values, transfers, capture and replay."""
