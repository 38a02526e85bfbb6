"""The server: the OpenAI speech API over HTTP and WebSocket. The only place that knows HTTP."""
