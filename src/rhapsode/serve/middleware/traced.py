"""Gives every HTTP request and WebSocket a span, and its log lines the id of its trace."""

from __future__ import annotations

from collections.abc import Awaitable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rhapsode.serve.observe.trace_id import trace_id
from rhapsode.serve.observe.traces import Traces, current

UNTRACED = ("/health", "/ready", "/metrics", "/web/", "/favicon.ico")
HEADERS = (b"traceparent", b"tracestate")


class Traced:
    """The outermost middleware, where a deployment asks for traces."""

    def __init__(self, app: ASGIApp, traces: Traces) -> None:
        self._app = app
        self._traces = traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"].startswith(UNTRACED):
            await self._app(scope, receive, send)
            return
        span = self._traces.arrived(scope)
        current.set(span)
        trace_id.set(f"{span.get_span_context().trace_id:032x}")
        # Whoever forwards the request forwards its headers: what happens there is below this span.
        kept = [(name, value) for name, value in scope["headers"] if name not in HEADERS]
        scope["headers"] = [*kept, *self._traces.headers(span)]
        status, has_begun = 0, False

        def watch(message: Message) -> Awaitable[None]:
            nonlocal status, has_begun
            if message["type"] in ("http.response.start", "websocket.accept"):
                status = message.get("status", 101)
            elif message["type"] == "http.response.body" and not has_begun and message.get("body"):
                has_begun = True
                span.add_event("first byte")
            return send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            self._traces.answered(span, scope, status)
