"""Traces of requests for OpenTelemetry: a span for what HTTP sees, one for each speech, and its phases below it.

The engine knows nothing of traces: when each phase of a speech ended is in its `Outcome`, and their spans are made when
it is over. OpenTelemetry is imported only where traces are asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.routing import Route, WebSocketRoute
from starlette.types import Scope

from rhapsode import __version__
from rhapsode.config.server import TracesConfig
from rhapsode.errors import MissingDependency
from rhapsode.extras import how_to_install
from rhapsode.serve.observe.outcomes import PHASES, Record
from rhapsode.serve.request.header import header
from rhapsode.types import Outcome, SpeechRequest

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span

NAMES = dict(zip(PHASES, ("queue", "prepare", "first frame", "first audio", "rest"), strict=True))
EXPORT_S = 3.0
"""How long the collector may take to answer."""
LEAST_WAIT_NS = 1_000_000
"""A shorter wait for the model has no span."""
NS = 1_000_000_000
current: ContextVar[Span | None] = ContextVar("span", default=None)
"""The span of the current HTTP request or WebSocket."""


def open_traces(config: TracesConfig) -> Traces | None:
    """Returns the traces that a deployment asks for, sent to its collector in batches by a thread."""
    if config.endpoint is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise MissingDependency(f"traces need OpenTelemetry: {how_to_install('otel')}") from None
    path = "" if urlsplit(config.endpoint).path.strip("/") else "/v1/traces"
    exporter = OTLPSpanExporter(config.endpoint.rstrip("/") + path, timeout=EXPORT_S)
    return Traces(config, BatchSpanProcessor(exporter))


class Traces:
    """Makes the spans of one server."""

    def __init__(self, config: TracesConfig, processor: SpanProcessor) -> None:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        about = Resource.create({"service.name": config.service, "service.version": __version__})
        sampler = ParentBased(TraceIdRatioBased(config.sample))
        self._provider = TracerProvider(sampler=sampler, resource=about, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("rhapsode", __version__)
        self._headers = TraceContextTextMapPropagator()
        self._trace = trace

    def arrived(self, scope: Scope) -> Span:
        """Begins the span of an HTTP request or WebSocket, below the client's if that sends `traceparent`."""
        sent = {name: header(scope, name.encode()) for name in self._headers.fields}
        above = self._headers.extract({name: value for name, value in sent.items() if value})
        method = scope.get("method", "WEBSOCKET")
        return self._tracer.start_span(method, above, self._trace.SpanKind.SERVER)

    def headers(self, span: Span) -> list[tuple[bytes, bytes]]:
        """Returns the headers that make a span the parent of what another server does."""
        sent: dict[str, str] = {}
        self._headers.inject(sent, self._trace.set_span_in_context(span))
        return [(name.encode(), value.encode()) for name, value in sent.items()]

    def answered(self, span: Span, scope: Scope, status: int) -> None:
        """Ends the span of an HTTP request or WebSocket; `status` is 0 if there was no answer."""
        found, method = scope.get("route"), scope.get("method", "WEBSOCKET")
        route = found.path if isinstance(found, Route | WebSocketRoute) else None
        if route is not None:
            span.update_name(f"{method} {route}")
            span.set_attribute("http.route", route)
        span.set_attribute("http.request.method", method)
        span.set_attribute("rhapsode.request_id", scope.get("state", {}).get("request_id", ""))
        if status:
            span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_status(self._trace.StatusCode.ERROR)
        span.end()

    def speech(self, request_id: str, request: SpeechRequest) -> SpeechSpan:
        """Begins the span of one speech, below that of the current request."""
        parent = current.get()
        above = None if parent is None else self._trace.set_span_in_context(parent)
        span = self._tracer.start_span("speech", above)
        span.set_attribute("rhapsode.request_id", request_id)
        span.set_attribute("rhapsode.characters", len(request.text))
        return SpeechSpan(self, span)

    def phase(self, name: str, above: Span, start_ns: int, end_ns: int) -> None:
        """Adds a span that is over to a speech."""
        span = self._tracer.start_span(name, self._trace.set_span_in_context(above), start_time=start_ns)
        span.end(end_ns)

    def failed(self, span: Span, code: str) -> None:
        span.set_attribute("error.type", code)
        span.set_status(self._trace.StatusCode.ERROR, code)

    def close(self) -> None:
        """Sends what is left, as far as the collector takes it in time."""
        self._provider.shutdown()


class SpeechSpan:
    """The span of one speech that is being made."""

    def __init__(self, traces: Traces, span: Span) -> None:
        self._traces, self._span = traces, span
        self._begun_ns = time.time_ns()
        self._submitted_ns: int | None = None

    def submitted(self) -> None:
        """Called when the engine gets the request: the times of an outcome begin here."""
        self._submitted_ns = time.time_ns()

    def ended(self, record: Record | None) -> None:
        """Ends the span, with its phases; without a record the request was refused."""
        outcome = record.outcome if record else None
        if outcome is not None:
            self._describe(outcome)
        if outcome is not None and self._submitted_ns is not None:
            self._add_phases(outcome, self._submitted_ns)
        error = (record.error or (outcome.error if outcome else None)) if record else None
        if error is not None and (outcome is None or outcome.finish_reason != "aborted" or (record and record.error)):
            self._traces.failed(self._span, error.code)
        self._span.end()

    def _describe(self, outcome: Outcome) -> None:
        self._span.set_attribute("rhapsode.finish_reason", str(outcome.finish_reason))
        self._span.set_attribute("rhapsode.audio_s", round(outcome.audio_s, 3))
        self._span.set_attribute("rhapsode.frames", outcome.frames)
        self._span.set_attribute("rhapsode.underruns", outcome.underruns)

    def _add_phases(self, outcome: Outcome, submitted_ns: int) -> None:
        if submitted_ns - self._begun_ns > LEAST_WAIT_NS:
            self._traces.phase("model", self._span, self._begun_ns, submitted_ns)
        for name, start_s, end_s in phases(outcome):
            start_ns, end_ns = (submitted_ns + round(at_s * NS) for at_s in (start_s, end_s))
            self._traces.phase(name, self._span, start_ns, end_ns)


def phases(outcome: Outcome) -> Iterator[tuple[str, float, float]]:
    """Yields the phases of a request with their starts and ends. The one in which it ended early is the last; one whose
    end is not known belongs to the next."""
    ends = [(name, vars(outcome)[name]) for name in PHASES]
    at_s = 0.0
    for i, (name, end_s) in enumerate(ends):
        is_last = all(later is None for _, later in ends[i:-1])
        if end_s is None and not is_last:
            continue
        yield NAMES[name], at_s, outcome.total_s if is_last else end_s
        if is_last:
            return
        at_s = end_s
