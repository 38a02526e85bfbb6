"""Draws the trace of a real request as text and as a picture: `python -m tools.trace_picture`.

Starts a server with the default voice and a collector on loopback, asks for one sentence twice, and keeps the trace of
the second request: docs/images/trace.svg, and the text on standard output.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "trace.svg"
PORT = 18_765
BODY = b'{"input": "The trace of a request shows where its time went.", "response_format": "pcm"}'
WIDTH, LABEL, ROW = 760, 250, 26
DARK = "@media(prefers-color-scheme:dark){text{fill:#ddd}.bar{fill:#7fb2e5}}"


@dataclass(frozen=True)
class Bar:
    """A span, with its depth below the first one."""

    name: str
    depth: int
    start_ms: float
    end_ms: float


def bars(spans: list) -> list[Bar]:
    """Returns the spans of one trace, each below its parent, in the order of their starts."""
    root = next(span for span in spans if not any(span.parent_span_id == one.span_id for one in spans))
    found: list[Bar] = []

    def add(span, depth: int) -> None:
        start, end = (
            (at - root.start_time_unix_nano) / 1e6 for at in (span.start_time_unix_nano, span.end_time_unix_nano)
        )
        found.append(Bar(span.name, depth, start, end))
        below = [one for one in spans if one.parent_span_id == span.span_id]
        for one in sorted(below, key=lambda one: (one.start_time_unix_nano, one.end_time_unix_nano)):
            add(one, depth + 1)

    add(root, 0)
    return found


def as_text(shown: list[Bar]) -> str:
    wide, total_ms = 40, max(bar.end_ms for bar in shown)
    lines = []
    for bar in shown:
        left = round(wide * bar.start_ms / total_ms)
        length = max(1, round(wide * (bar.end_ms - bar.start_ms) / total_ms))
        drawn = (" " * left + "━" * length)[:wide].ljust(wide)
        lines.append(f"{'  ' * bar.depth + bar.name:<26}{drawn} {bar.end_ms - bar.start_ms:8.1f} ms")
    return "\n".join(lines)


def as_svg(shown: list[Bar]) -> str:
    total_ms = max(bar.end_ms for bar in shown)
    across = (WIDTH - LABEL - 90) / total_ms
    height = ROW * len(shown) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        "<title>The trace of a request</title>",
        f"<style>text{{font-size:13px;fill:#222}}.bar{{fill:#3b6ea5}}{DARK}</style>",
    ]
    for i, bar in enumerate(shown):
        top, left = 10 + ROW * i, LABEL + bar.start_ms * across
        length = max(2.0, (bar.end_ms - bar.start_ms) * across)
        parts += [
            f'<text x="{10 + 18 * bar.depth}" y="{top + 17}">{escape(bar.name)}</text>',
            f'<rect class="bar" x="{left:.1f}" y="{top + 5}" width="{length:.1f}" height="{ROW - 10}" rx="2"/>',
            f'<text x="{left + length + 6:.1f}" y="{top + 17}">{bar.end_ms - bar.start_ms:.1f} ms</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def ask() -> None:
    address = f"http://127.0.0.1:{PORT}/v1/audio/speech"
    request = urllib.request.Request(address, BODY, {"Content-Type": "application/json"})
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60).read()


def real_trace() -> list:
    """Returns the spans of one request to a server that is warm."""
    sys.path.insert(0, str(ROOT / "tests"))
    from e2e.serve.collector import collecting

    with collecting() as collector, tempfile.TemporaryDirectory() as voices:
        given = {"RHAPSODE_SERVER__TRACES": collector.url, "RHAPSODE_SERVER__VOICES": voices}
        command = [sys.executable, "-m", "rhapsode", "serve", "--port", str(PORT)]
        server = subprocess.Popen(command, env={**os.environ, **given})
        try:
            deadline_s = time.monotonic() + 120
            while True:
                try:
                    ask()
                    break
                except OSError:
                    if time.monotonic() > deadline_s:
                        raise
                    time.sleep(0.5)
            ask()
        finally:
            server.terminate()
            server.wait(60)
        last = max(
            (span for span in collector.spans if not span.parent_span_id), key=lambda span: span.start_time_unix_nano
        )
        return [span for span in collector.spans if span.trace_id == last.trace_id]


def main() -> None:
    shown = bars(real_trace())
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(as_svg(shown))
    print(as_text(shown))


if __name__ == "__main__":
    main()
