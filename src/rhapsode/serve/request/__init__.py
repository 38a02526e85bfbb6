"""From the bytes a client sent to a typed request."""
