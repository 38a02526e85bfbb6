"""Damaged bodies, forms and messages: each is answered at once, by speech or by a 4xx, and none is a server error."""

import json
import time
from collections.abc import Iterator

import httpx2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from e2e.serve.running import Running, running
from fuzzing import damaged, damaged_bytes, fuzzed, values
from rhapsode.audio.encode import encode
from rhapsode.types import Clip
from tiny.qwen3_tts import HIDDEN, Tiny, write

SPEECH, BATCH, VOICES = "/v1/audio/speech", "/v1/audio/speech/batch", "/v1/audio/voices"
HANG_S = 60  # of wall time, on a machine that does other work; the CPU time of one answer has the limit below
CPU_S, GROWTH_BYTES = 1.0, 100 * 2**20
TONE = encode(Clip((0.3 * np.sin(np.arange(8000) * 0.1)).astype(np.float32)[None], 16_000), "wav")
EMBEDDING = [0.1] * HIDDEN
SAY = {"input": "Hello.", "response_format": "wav", "seed": 3, "max_new_tokens": 2, "stream": True, "speed": 1.0}
VALID = {
    SPEECH: [
        SAY,
        {**SAY, "voice": {"id": "low"}, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "repetition_penalty": 1.1},
        {**SAY, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi."}]}], "stream_format": "sse"},
        {**SAY, "ref_audio": ["data:audio/wav;base64,AAAA"], "ref_text": ["Hi."], "speaker_embedding": EMBEDDING},
        {
            **SAY,
            "references": [{"audio": "Ada", "text": "Hi."}],
            "language": "en",
            "sample_rate": 24_000,
            "channels": 2,
        },
    ],
    BATCH: [{"items": [SAY, SAY], "response_format": "mp3"}],
    VOICES: [{"name": "Ada", "consent": "yes", "speaker_embedding": EMBEDDING, "text": "Hi."}],
}
MESSAGES = [
    {"type": "session.config", "response_format": "pcm", "audio_transport": "base64", "split_granularity": "sentence"},
    {"type": "session.update", "voice": "low", "stream_audio": False},
    {"type": "input.text", "text": "Hello. "},
    {"type": "input.text", "text": "\ud83c"},
    {"type": "input.flush"},
    {"type": "input.done"},
    {"type": "input.cancel"},
]


@pytest.fixture(scope="module")
def cloning(tmp_path_factory) -> Iterator[Running]:
    """A server with a tiny checkpoint of a real family, which takes references and embeddings."""
    checkpoint = tmp_path_factory.mktemp("tiny-base")
    write(checkpoint, Tiny(kind="base", eos_gain=1.4))
    limits = {"max_concurrency": 4, "max_positions": 512, "max_text_chars": 2000}
    server = {"fetch": {"enabled": False}, "max_voices": 5, "socket": {"most": 8}}
    with running(str(checkpoint), tmp_path_factory.mktemp("fuzzed"), limits=limits, server=server) as started:
        yield started


@pytest.fixture(params=["dummy", "cloning"])
def server(request) -> Iterator[Running]:
    """Checks in the end that nothing was left behind: no traceback, no memory, no request."""
    started: Running = request.getfixturevalue(request.param)
    started.speak("Warm up.", max_new_tokens=2)
    logged, resident = len(started.log), started.metric("process_resident_memory_bytes")
    yield started
    started.settle()
    assert "Traceback" not in "".join(started.log[logged:])
    assert started.metric("process_resident_memory_bytes") - resident < GROWTH_BYTES
    assert started.speak("Still here.", max_new_tokens=2).status_code in (200, 400)  # 400: it needs a voice


def check(server: Running, send) -> int:
    """Returns the status of an answer, which is never an error of the server."""
    cpu_s, started_s = server.metric("process_cpu_seconds_total"), time.monotonic()
    answer: httpx2.Response = send()
    took_s = time.monotonic() - started_s
    assert answer.status_code < 500, (answer.status_code, answer.text[:500])
    if answer.status_code >= 400:
        assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
        assert len(answer.content) < 4096
        assert took_s < CPU_S or server.metric("process_cpu_seconds_total") - cpu_s < CPU_S
    assert took_s < HANG_S
    return answer.status_code


def as_json(body) -> bytes:
    try:
        return json.dumps(body).encode("utf-8", "surrogatepass")
    except ValueError:  # an integer of more digits than Python prints
        return repr(body).encode("utf-8", "surrogatepass")[:1000]


@pytest.mark.parametrize("path", VALID)
def test_a_damaged_body_is_spoken_or_refused(server: Running, path: str) -> None:
    seen = set()

    @fuzzed(60)
    @given(body=st.sampled_from(VALID[path]).flatmap(damaged) | values())
    def attempt(body) -> None:
        headers = {"Content-Type": "application/json"}
        seen.add(check(server, lambda: server.http.post(path, content=as_json(body), headers=headers)))

    attempt()
    assert 400 in seen


@pytest.mark.parametrize("path", VALID)
def test_damaged_bytes_of_a_body_are_spoken_or_refused(server: Running, path: str) -> None:
    @fuzzed(40)
    @given(data=st.data())
    def attempt(data) -> None:
        body = data.draw(damaged_bytes(as_json(data.draw(st.sampled_from(VALID[path])))))
        kind = data.draw(st.sampled_from(["application/json", "application/x+json; charset=utf-16", "text/plain", ""]))
        check(server, lambda: server.http.post(path, content=body, headers={"Content-Type": kind}))

    attempt()


def form(fields: dict[str, bytes], boundary: bytes = b"xyz") -> bytes:
    parts = b""
    for name, value in fields.items():
        file = b'; filename="a.wav"\r\nContent-Type: audio/wav' if name == "audio_sample" else b""
        parts += b'--%s\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n' % (boundary, name.encode(), file)
        parts += value + b"\r\n"
    return parts + b"--%s--\r\n" % boundary


def test_a_damaged_form_is_stored_or_refused(server: Running) -> None:
    whole = form({"name": b"Ada", "consent": b"yes", "text": b"Hi.", "audio_sample": TONE})
    assert len(whole) - len(TONE) < 500
    kinds = ["multipart/form-data; boundary=xyz", "multipart/form-data", 'multipart/form-data; boundary="x y"']

    @fuzzed(80)
    @given(body=damaged_bytes(whole, within=500), kind=st.sampled_from(kinds[:1] * 6 + kinds))
    def attempt(body: bytes, kind: str) -> None:
        status = check(server, lambda: server.http.post(VOICES, content=body, headers={"Content-Type": kind}))
        if status == 201:
            for voice in server.http.get(VOICES).json()["data"]:
                if voice["kind"] == "uploaded":
                    assert server.http.delete(f"{VOICES}/{voice['id']}").status_code == 200

    attempt()


def test_any_sequence_of_messages_leaves_the_socket_usable_or_closed(server: Running) -> None:
    message = st.sampled_from(MESSAGES) | st.sampled_from(MESSAGES).flatmap(damaged)

    @fuzzed(25)
    @given(sent=st.lists(message, min_size=1, max_size=8), ends=st.sampled_from(["close", "leave", "done"]))
    def attempt(sent: list, ends: str) -> None:
        with connect(server.socket_url, proxy=None, open_timeout=HANG_S, close_timeout=HANG_S) as socket:
            try:
                for one in sent:
                    socket.send(as_json(one).decode("utf-8", "replace"))
                if ends == "done":
                    socket.send('{"type": "input.cancel"}')
                    while '"session.cancelled"' not in str(socket.recv(timeout=HANG_S)):
                        pass
                if ends == "close":
                    socket.send('{"type": "session.close"}')
                    while True:
                        socket.recv(timeout=HANG_S)
            except ConnectionClosed:
                assert socket.close_code == 1000

    attempt()
