"""One trace per request, from its arrival to its last byte; nothing where nobody asked for traces."""

import json
import re
import time
from itertools import pairwise

import httpx2
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from e2e.serve.collector import collecting
from e2e.serve.running import Running, in_thread, running
from rhapsode.config.server import TracesConfig
from rhapsode.errors import MissingDependency
from rhapsode.extras import how_to_install
from rhapsode.serve.observe.traces import Traces, open_traces, phases
from rhapsode.types import FinishReason, Outcome
from unit.command import python
from unit.edge.test_edge import Servers, edge_before

LIMITS = {"max_concurrency": 2, "max_queue": 1, "max_positions": 1024}
ASKED = {"endpoint": "http://127.0.0.1:9"}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"
PHASES = ["queue", "prepare", "first frame", "first audio", "rest"]


@pytest.fixture(scope="module")
def memory():
    return InMemorySpanExporter()


@pytest.fixture(scope="module")
def server(memory, tmp_path_factory):
    """A server whose spans stay in the memory of this process."""
    with pytest.MonkeyPatch.context() as patch:
        kept = lambda config: Traces(config, SimpleSpanProcessor(memory))  # noqa: E731
        patch.setattr("rhapsode.serve.service.open_traces", kept)
        with in_thread("dummy", tmp_path_factory.mktemp("traced"), limits=LIMITS, server={"traces": ASKED}) as started:
            yield started


@pytest.fixture
def spans(server: Running, memory):
    """The spans of one test; those of an answer are there shortly after its last byte."""
    server.settle()
    memory.clear()

    def ended(name: str = "POST /v1/audio/speech") -> dict[str, ReadableSpan]:
        deadline_s = time.monotonic() + 10
        while name not in (found := {span.name: span for span in memory.get_finished_spans()}):
            assert time.monotonic() < deadline_s, list(found)
            time.sleep(0.02)
        return found

    return ended


def test_a_request_is_one_trace_from_http_to_its_end(server: Running, spans) -> None:
    answer = server.http.post("/v1/audio/speech", json={"input": "Hello there."}, headers={"traceparent": SAMPLED})
    assert answer.status_code == 200
    found = spans()
    root, speech = found["POST /v1/audio/speech"], found["speech"]
    assert {f"{span.context.trace_id:032x}" for span in found.values()} == {TRACE}
    assert (f"{root.parent.span_id:016x}", root.kind) == (PARENT, SpanKind.SERVER)
    assert speech.parent.span_id == root.context.span_id
    assert all(found[name].parent.span_id == speech.context.span_id for name in PHASES)
    assert root.attributes["http.response.status_code"] == 200
    assert root.attributes["rhapsode.request_id"] == answer.headers["x-request-id"]
    assert speech.attributes["rhapsode.finish_reason"] == "stop"
    assert speech.attributes["rhapsode.frames"] == len("Hello there.")
    assert "Hello" not in json.dumps([span.to_json() for span in found.values()])


def test_the_phases_follow_each_other_within_the_request(server: Running, spans) -> None:
    assert server.speak().status_code == 200
    found = spans()
    root, speech = found["POST /v1/audio/speech"], found["speech"]
    assert root.start_time <= speech.start_time <= found["queue"].start_time
    assert speech.end_time <= root.end_time
    assert all(found[a].end_time == found[b].start_time for a, b in pairwise(PHASES))
    assert all(found[name].start_time <= found[name].end_time for name in PHASES)
    assert found["rest"].end_time <= speech.end_time
    (event,) = [event for event in root.events if event.name == "first byte"]
    assert found["first audio"].end_time <= event.timestamp <= root.end_time


def test_the_times_are_those_of_the_outcome(server: Running, spans) -> None:
    answer = server.speak()
    outcome = server.http.get(f"/v1/audio/speech/{answer.headers['x-request-id']}").json()
    found, begun_ns = spans(), spans()["queue"].start_time
    ends = ("queued_s", "prepared_s", "first_frame_s", "first_audio_s", "total_s")
    assert 0 <= outcome["queued_s"] <= outcome["prepared_s"] <= outcome["first_frame_s"] <= outcome["first_audio_s"]
    for name, end in zip(PHASES, ends, strict=True):
        assert (found[name].end_time - begun_ns) / 1e9 == pytest.approx(outcome[end], abs=1e-6)


def test_a_client_that_samples_nothing_is_not_traced(server: Running, spans, memory) -> None:
    for given in (UNSAMPLED, SAMPLED):
        answer = server.http.post("/v1/audio/speech", json={"input": "Hi."}, headers={"traceparent": given})
        assert answer.status_code == 200
    spans()
    assert sum(span.name == "speech" for span in memory.get_finished_spans()) == 1


@pytest.mark.parametrize("given", ["", "00", "x" * 5000, f"00-{'0' * 32}-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01"])
def test_a_header_that_is_none_begins_a_new_trace(server: Running, spans, given: str) -> None:
    answer = server.http.post("/v1/audio/speech", json={"input": "Hi."}, headers={"traceparent": given})
    assert answer.status_code == 200
    root = spans()["POST /v1/audio/speech"]
    assert root.parent is None
    assert f"{root.context.trace_id:032x}" not in (TRACE, "0" * 32)


def test_a_refused_request_is_a_trace_without_phases(server: Running, spans) -> None:
    assert server.speak(voice="nobody").status_code == 400
    found = spans()
    assert found["POST /v1/audio/speech"].attributes["http.response.status_code"] == 400
    assert not found.keys() & set(PHASES)


def test_a_failed_request_says_why(server: Running, spans) -> None:
    with pytest.raises(httpx2.RemoteProtocolError, match="incomplete"):
        server.speak("Hi there.", endless=True)
    speech = spans()["speech"]
    assert speech.status.status_code == StatusCode.ERROR
    assert speech.attributes["error.type"] == "runaway"


def test_a_client_that_leaves_ends_its_trace(server: Running, spans) -> None:
    body = {"input": "x" * 900, "response_format": "pcm"}
    with server.http.stream("POST", "/v1/audio/speech", json=body) as answer:
        next(answer.iter_raw(100))
    speech = spans()["speech"]
    assert speech.attributes["rhapsode.finish_reason"] in ("aborted", "stop")
    assert speech.status.status_code == StatusCode.UNSET


def test_all_speeches_of_a_batch_and_of_a_websocket_belong_to_one_trace(server: Running, spans, memory) -> None:
    items = {"items": [{"input": "One."}, {"input": "Two."}]}
    assert server.http.post("/v1/audio/speech/batch", json=items).status_code == 200
    root = spans("POST /v1/audio/speech/batch")["POST /v1/audio/speech/batch"]
    below = [span for span in memory.get_finished_spans() if span.name == "speech"]
    assert [span.parent.span_id for span in below] == [root.context.span_id] * 2
    memory.clear()
    assert server.converse("Hello there. And again.", 8)
    session = spans("WEBSOCKET /v1/audio/speech/stream")["WEBSOCKET /v1/audio/speech/stream"]
    below = [span for span in memory.get_finished_spans() if span.name == "speech"]
    assert below
    assert {span.parent.span_id for span in below} == {session.context.span_id}


def test_probes_and_metrics_are_not_traced(server: Running, spans, memory) -> None:
    for path in ("/health", "/ready", "/metrics"):
        server.http.get(path)
    server.speak()
    spans()
    assert {span.attributes.get("http.route") for span in memory.get_finished_spans()} == {None, "/v1/audio/speech"}


def test_through_an_edge_it_is_one_trace(server: Running, spans, memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rhapsode.edge.edge.open_traces", lambda config: Traces(config, SimpleSpanProcessor(memory)))
    with edge_before(Servers({"a": server.url})) as edge:
        answer = edge.http.post("/v1/audio/speech", json={"input": "Hi."}, headers={"traceparent": SAMPLED})
        assert answer.status_code == 200
        spans()
        time.sleep(0.2)
        of_trace = [span for span in memory.get_finished_spans() if f"{span.context.trace_id:032x}" == TRACE]
    servers = [span for span in of_trace if span.kind == SpanKind.SERVER]
    assert len(servers) == 2
    at_replica, at_edge = sorted(servers, key=lambda span: f"{span.parent.span_id:016x}" == PARENT)
    assert at_replica.parent.span_id == at_edge.context.span_id
    (speech,) = [span for span in of_trace if span.name == "speech"]
    assert speech.parent.span_id == at_replica.context.span_id


# --- on the wire ---


def test_a_collector_gets_the_spans_and_the_log_names_the_trace(tmp_path) -> None:
    with collecting() as collector:
        asked = {"endpoint": collector.url, "service": "speech-of-a-test"}
        settings = {"traces": asked, "log_format": "json", "engine_process": True}
        with running("dummy", tmp_path, limits=LIMITS, server=settings) as server:
            body, headers = {"input": "Hello there."}, {"traceparent": SAMPLED}
            assert server.http.post("/v1/audio/speech", json=body, headers=headers).status_code == 200
        received = collector.wait_for(lambda spans: any(span.name == "speech" for span in spans), timeout_s=1)
        assert collector.paths == {"/v1/traces"}
        assert collector.services == {"speech-of-a-test"}
        of_trace = {span.name: span for span in received if span.trace_id.hex() == TRACE}
        assert of_trace.keys() == {"POST /v1/audio/speech", "speech", *PHASES}
        assert of_trace["POST /v1/audio/speech"].parent_span_id.hex() == PARENT
        assert of_trace["first audio"].parent_span_id == of_trace["speech"].span_id
        lines = [json.loads(line) for line in server.log if line.startswith("{")]
        (line,) = [line for line in lines if line.get("route") == "/v1/audio/speech"]
        assert line["trace_id"] == TRACE


def test_a_collector_that_is_not_there_harms_nobody(tmp_path) -> None:
    with running("dummy", tmp_path, limits=LIMITS, server={"traces": "http://127.0.0.1:9"}) as server:
        for _ in range(3):
            assert server.speak().status_code == 200
        begun_s = time.monotonic()
    assert time.monotonic() - begun_s < 8
    assert "Traceback" not in "".join(server.log)


# --- off ---


def test_without_an_address_nothing_is_imported_and_nobody_is_asked(tmp_path) -> None:
    code = (
        "import sys; from rhapsode.config import Deployment; from rhapsode.serve.app import create_app;"
        "app = create_app(Deployment(model='dummy'));"
        "print(app.state.service.traces, *[name for name in sys.modules if name.startswith('opentelemetry.sdk')],"
        "*[m.cls.__name__ for m in app.user_middleware if m.cls.__name__ == 'Traced'])"
    )
    assert python(code, tmp_path).split() == ["None"]


def test_without_the_extra_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace.export", None)
    with pytest.raises(MissingDependency, match=re.escape(how_to_install("otel"))):
        open_traces(TracesConfig(endpoint="http://127.0.0.1:9"))


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://c:4318", "http://c:4318/v1/traces"),
        ("http://c:4318/", "http://c:4318/v1/traces"),
        ("https://c/otlp/v1/traces", "https://c/otlp/v1/traces"),
    ],
)
def test_the_path_of_the_collector_may_be_left_out(monkeypatch: pytest.MonkeyPatch, given: str, url: str) -> None:
    opened = open_traces(TracesConfig(endpoint=given))
    assert opened is not None
    (processor,) = opened._provider._active_span_processor._span_processors
    assert processor.span_exporter._endpoint == url
    opened.close()


# --- the phases of a request that ended early ---


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, [("queue", 0.5), ("prepare", 2.0)]),
        ({"prepared_s": 0.7}, [("queue", 0.5), ("prepare", 0.7), ("first frame", 2.0)]),
        ({"first_audio_s": 1.0}, [("queue", 0.5), ("first audio", 1.0), ("rest", 2.0)]),
    ],
)
def test_the_phase_in_which_a_request_ended_is_the_last(known: dict[str, float], expected) -> None:
    times = {"first_audio_s": None, **known}
    outcome = Outcome("a", FinishReason.ABORTED, 0.0, 0, queued_s=0.5, total_s=2.0, **times)
    found = list(phases(outcome))
    assert [(name, end_s) for name, _, end_s in found] == expected
    assert all(a[2] == b[1] for a, b in pairwise(found))
