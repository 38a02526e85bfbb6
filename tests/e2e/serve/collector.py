"""A collector of OpenTelemetry: OTLP over HTTP, on loopback."""

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """What was received."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.paths: set[str] = set()
        self.services: set[str] = set()
        self.spans: list[Span] = []

    def take(self, path: str, body: bytes) -> None:
        self.paths.add(path)
        for about in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {one.key: one.value.string_value for one in about.resource.attributes}
            self.services.add(names["service.name"])
            self.spans += [span for scope in about.scope_spans for span in scope.spans]

    def wait_for(self, is_there: Callable[[list[Span]], bool], timeout_s: float = 20) -> list[Span]:
        deadline_s = time.monotonic() + timeout_s
        while not is_there(self.spans):
            assert time.monotonic() < deadline_s, [span.name for span in self.spans]
            time.sleep(0.05)
        return self.spans


@contextmanager
def collecting() -> Iterator[Collector]:
    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            zipped = self.headers.get("Content-Encoding") == "gzip"
            collector.take(self.path, gzip.decompress(body) if zipped else body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *about: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join(10)
