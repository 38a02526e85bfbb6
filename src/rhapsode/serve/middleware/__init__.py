"""ASGI middleware, which runs before any route: API keys, body size, origins, pacing, and the direct speech route."""
