"""Bodies that are made to stop the server: each is answered at once, with little memory, and nobody else waits."""

import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from string import ascii_letters

import pytest
from websockets.sync.client import connect

from e2e.serve.running import Running, in_thread, running
from rhapsode.config import DEFAULT_MODEL
from tiny.dummy import write as write_dummy
from tiny.qwen3_tts import Tiny, write
from unit.audio.matroska import endless

MIB = 2**20
CPU_S, GROWTH_BYTES = 1.0, 100 * MIB
JSON = {"Content-Type": "application/json"}
SPEECH, BATCH, VOICES = "/v1/audio/speech", "/v1/audio/speech/batch", "/v1/audio/voices"


def filled(start: str, piece: str, end: str, size: int) -> bytes:
    """A body of about this many bytes."""
    return (start + piece * (size // len(piece.encode())) + end).encode()


def names(size: int) -> bytes:
    return ("{" + ",".join(f'"a{number}":1' for number in range(size // 11)) + "}").encode()


BODIES = {
    "marks as text": (SPEECH, '{"input": "a', "\u0315\u0300", '"}'),
    "marks as a voice": (SPEECH, '{"input": "x", "voice": "a', "\u0315\u0300", '"}'),
    "marks as a speaker": (SPEECH, '{"input": "x", "speaker": "a', "\u0315\u0300", '"}'),
    "a long text": (SPEECH, '{"input": "', "word ", '"}'),
    "a long reference text": (SPEECH, '{"input": "x", "ref_audio": "Ada", "ref_text": "', "word ", '"}'),
    "a long message": (SPEECH, '{"messages": [{"role": "user", "content": "', "\u0315\u0300", '"}]}'),
    "a list as text": (SPEECH, '{"input": [', "[],", "1]}"),
    "numbers as references": (SPEECH, '{"input": "x", "ref_audio": [', "1,", "1]}"),
    "numbers as messages": (SPEECH, '{"messages": [', "1,", "1]}"),
    "numbers as parts": (SPEECH, '{"messages": [{"role": "user", "content": [', "1,", "1]}]}"),
    "strings as an embedding": (SPEECH, '{"input": "x", "speaker_embedding": [', '"",', '""]}'),
    "nested lists": (SPEECH, '{"input": ', "[", "}"),
    "numbers as items": (BATCH, '{"items": [', "1,", "1]}"),
    "lists as items": (BATCH, '{"items": [', "[],", "1]}"),
    "lists in an item": (BATCH, '{"items": [{"input": [', "[],", "1]}]}"),
    "empty items": (BATCH, '{"items": [', "{},", "{}]}"),
    "strings as a voice's embedding": (VOICES, '{"name": "a", "consent": "b", "speaker_embedding": [', '"",', '""]}'),
    "marks as a voice's name": (VOICES, '{"consent": "b", "name": "a', "\u0315\u0300", '"}'),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    with running("dummy", tmp_path_factory.mktemp("hostile")) as started:
        yield started


@pytest.fixture(scope="module")
def cloning(tmp_path_factory) -> Iterator[Running]:
    """A server that takes references, and so reads large bodies."""
    checkpoint = tmp_path_factory.mktemp("tiny-base")
    write(checkpoint, Tiny(kind="base", eos_gain=1.4))
    limits = {"max_concurrency": 4, "max_positions": 512}
    with running(str(checkpoint), tmp_path_factory.mktemp("cloning"), limits=limits) as started:
        yield started


@pytest.fixture(scope="module")
def own_voice(tmp_path_factory) -> Iterator[Running]:
    """The voice in the package, which reads its text as phonemes."""
    with running(DEFAULT_MODEL, tmp_path_factory.mktemp("own-voice"), limits={"max_concurrency": 4}) as started:
        yield started


class Cost:
    """The CPU time and the memory that the server has used since."""

    def __init__(self, server: Running) -> None:
        self._server = server
        self._started = self._now()

    def _now(self) -> tuple[float, float]:
        return self._server.metric("process_cpu_seconds_total"), self._server.metric("process_resident_memory_bytes")

    def check(self) -> None:
        cpu_s, resident = (now - then for now, then in zip(self._now(), self._started, strict=True))
        assert cpu_s < CPU_S
        assert resident < GROWTH_BYTES
        self._server.check_callbacks()


def check_refused(server: Running, path: str, body: bytes) -> None:
    cost = Cost(server)
    answer = server.http.post(path, content=body, headers=JSON)
    assert 400 <= answer.status_code < 500, answer.text[:200]
    assert len(answer.content) < 4096
    assert answer.json()["error"]["message"]
    cost.check()


@pytest.mark.parametrize(("path", "start", "piece", "end"), BODIES.values(), ids=BODIES)
def test_a_body_of_a_megabyte_is_refused_at_once(server: Running, path: str, start: str, piece: str, end: str) -> None:
    check_refused(server, path, filled(start, piece, end, MIB))


@pytest.mark.slow
@pytest.mark.parametrize(("path", "start", "piece", "end"), BODIES.values(), ids=BODIES)
def test_a_body_of_eight_megabytes_is_refused_at_once(
    cloning: Running, path: str, start: str, piece: str, end: str
) -> None:
    check_refused(cloning, path, filled(start, piece, end, 8 * MIB))


@pytest.mark.parametrize("path", [SPEECH, BATCH, VOICES])
def test_a_hundred_thousand_unknown_fields_are_refused_at_once(server: Running, path: str) -> None:
    check_refused(server, path, names(MIB))


def test_an_embedding_of_a_form_is_bounded(server: Running) -> None:
    cost = Cost(server)
    form = {"name": "Ada", "consent": "yes", "speaker_embedding": "[" + '"",' * 300_000 + "1]"}
    assert server.http.post(VOICES, files={key: (None, value) for key, value in form.items()}).status_code == 400
    cost.check()


@pytest.mark.parametrize(
    "message",
    [
        filled('{"type": "session.config", "speaker_embedding": [', '"",', '""]}', MIB),
        filled('{"type": "session.config", "ref_audio": [', "1,", "1]}", MIB),
        filled('{"type": "session.config", "voice": "a', "\u0315\u0300", '"}', MIB),
        filled('{"type": "input.text", "text": "a', "\u0315\u0300", '"}', MIB),
        filled('{"type": "input.text", "text": [', "[],", "1]}", MIB),
        filled('{"type": "', "x", '"}', MIB),
        filled("", "[", "", MIB),
        names(MIB),
    ],
    ids=lambda message: message[:40].decode("utf-8", "ignore"),
)
def test_a_message_of_a_megabyte_is_refused_at_once(server: Running, message: bytes) -> None:
    cost = Cost(server)
    with connect(server.socket_url, proxy=None) as socket:
        socket.send(message.decode())
        answer = socket.recv(timeout=20)
        while json.loads(answer)["type"] != "error":
            answer = socket.recv(timeout=20)
        assert len(answer) < 4096
    cost.check()


def test_text_with_many_marks_is_spoken_with_few_of_them(server: Running) -> None:
    cost = Cost(server)
    answer = server.speak("a" + "\u0315\u0300" * 9_000, response_format="pcm", sample_rate=16_000)
    assert answer.status_code == 200
    assert len(answer.content) == 2560 * 30
    cost.check()


HYPHENS = " ".join("-".join(random.Random(n).choices(ascii_letters, k=30)) for n in range(70))
MARKS = ["".join(random.Random(number).choices("\u0300\u0301\u0302", k=24)) for number in range(256)]
LEXICON = dict.fromkeys(MARKS, "y" * 300)


@pytest.mark.parametrize(
    "body",
    [
        {"input": HYPHENS[:512], "language": "en"},
        {"input": HYPHENS[:2_000], "language": "en"},
        {"input": "@a " * 170, "language": "en"},
        {"input": "a", "lexicon": LEXICON},
        {"segments": [{"input": "1", "pause_s": 0}] * 200, "lexicon": LEXICON},
        {"input": "\u200b" * 1_000 + "1 " * 500},
    ],
    ids=["words of many parts", "a long text of them", "handles", "a lexicon", "a dialogue", "no letter"],
)
def test_text_that_is_hard_to_read_holds_up_nobody(own_voice: Running, body: dict) -> None:
    body |= {"normalise": True, "response_format": "pcm"}
    with ThreadPoolExecutor(1) as clients, own_voice.http.stream("POST", SPEECH, json=body) as answer:
        assert answer.status_code == 200
        assert clients.submit(own_voice.http.get, "/health").result(timeout=20).status_code == 200
        assert next(answer.iter_bytes())
    own_voice.settle()
    own_voice.check_callbacks()


@pytest.mark.slow
def test_audio_that_takes_minutes_to_decode_is_stopped_and_holds_up_nobody(tmp_path) -> None:
    slow = endless(6_000_000, "A_PCM/INT/LIT", b"\x00" * 2)

    def upload(number: int) -> int:
        form = {"name": f"Voice {number}", "consent": "yes"}
        return server.http.post(VOICES, data=form, files={"audio_sample": ("a.mkv", slow + bytes(number))}).status_code

    with (
        in_thread(write_dummy(tmp_path / "dummy"), tmp_path, server={"max_decode_cpu_s": 0.5}) as server,
        ThreadPoolExecutor(4) as clients,
    ):
        uploads = [clients.submit(upload, number) for number in range(4)]
        started_s = time.monotonic()
        while not all(upload.done() for upload in uploads):
            assert server.http.get(VOICES).status_code == 200  # which reads files, in a thread
            assert server.speak("Hi.").status_code == 200
        assert {upload.result() for upload in uploads} == {400}
        assert time.monotonic() - started_s < 60
