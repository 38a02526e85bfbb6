"""WebSocket sessions: text in, audio out."""
