"""From speech to the bytes a client gets."""
