"""What should never have been sent: each gets its 4xx, in one shape, with words that say what would be right."""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress

import openai
import pytest

from e2e.serve.running import Running, in_thread

JSON = {"Content-Type": "application/json"}


def refused(answer, status: int = 400) -> dict:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"].endswith((".", "?"))
    return error


def post(server: Running, body: bytes, **headers: str):
    return server.http.post("/v1/audio/speech", content=body, headers={**JSON, **headers})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"{'input': 'x'}",
        b'{"input": "x"}}',
        b'{"input": "\xff\xfe"}',
        b"\xff\xfe{\x00}\x00",
        b'{"input": "\\ud800"}',
        b'{"input": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b"[" * 100_000,
        b'{"input": "x", "speed": NaN}',
        b'{"input": "x", "speed": Infinity}',
        b'{"input": "x", "speed": 1e400}',
        b'{"input": "x", "seed": -1}',
        b'{"input": "x", "seed": ' + b"9" * 5000 + b"}",
        b'{"input": "x", "top_k": 99999999999999999999}',
        b'{"input": "x", "max_new_tokens": 1e30}',
        b'{"input": "x", "speaker_embedding": [NaN]}',
        b'{"input": "x", "speaker_embedding": [1e999]}',
    ],
)
def test_a_body_that_makes_no_sense_is_400(dummy: Running, body: bytes) -> None:
    refused(post(dummy, body))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": " \n\t"}, "input"),
        ({"input": 7}, "input"),
        ({"input": None}, "input"),
        ({"input": ["x"]}, "input"),
        ({"text": "x"}, "text"),
        ({"messages": []}, "messages"),
        ({"input": None, "messages": [{"role": "assistant", "content": "x"}]}, "messages"),
        ({"speed": 0.1}, "speed"),
        ({"speed": 5}, "speed"),
        ({"speed": "fast"}, "speed"),
        ({"speed": True}, "speed"),
        ({"sample_rate": 7}, "sample_rate"),
        ({"sample_rate": 44_100, "response_format": "opus"}, "sample_rate"),
        ({"sample_rate": 24000.5}, "sample_rate"),
        ({"response_format": "ogg"}, "response_format"),
        ({"response_format": ""}, "response_format"),
        ({"stream": "yes"}, "stream"),
        ({"stream": False, "stream_format": "sse"}, "stream"),
        ({"stream_format": "websocket"}, "stream_format"),
        ({"voice": 3}, "voice"),
        ({"voice": {"name": "x"}}, "voice.id"),
        ({"voice": "high", "speaker": "low"}, "speaker"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"endless": "yes"}, "endless"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"ref_text": "only words"}, "ref_text"),
        ({"ref_audio": "data:audio/wav;base64,AAAA"}, "ref_audio"),
        ({"speaker_embedding": []}, "speaker_embedding"),
        ({"speaker_embedding": [0.5]}, "speaker_embedding"),
        ({"references": [{"text": "x"}]}, "references"),
    ],
)
def test_a_wrong_field_is_named(dummy: Running, fields: dict, param: str) -> None:
    assert refused(dummy.http.post("/v1/audio/speech", json={"input": "Hello.", **fields}))["param"] == param


@pytest.mark.parametrize(
    ("field", "nearest"),
    [("inptu", "input"), ("respose_format", "response_format"), ("endles", "endless"), ("voices", "voice")],
)
def test_an_unknown_field_gets_the_nearest_known_one(dummy: Running, field: str, nearest: str) -> None:
    error = refused(dummy.speak(**{field: 1}))
    assert (error["code"], error["param"]) == ("unknown_parameter", field)
    assert f"did you mean '{nearest}'?" in error["message"]


def test_options_of_another_family_are_unknown_here(dummy: Running, hibari: Running) -> None:
    assert refused(dummy.speak(pause_s=1.0))["code"] == "unknown_parameter"
    assert hibari.speak("Hello.", pause_s=1.0).status_code == 200
    assert "between 0 and 10" in refused(hibari.speak("Hello.", pause_s=11.0))["message"]


def test_an_unknown_voice_gets_a_list_of_those_that_exist(dummy: Running) -> None:
    error = refused(dummy.speak(voice="nobody"))
    assert error["code"] == "unknown_voice"
    assert "low, high" in error["message"]


def test_openai_s_client_raises_what_it_raises_for_openai(dummy: Running) -> None:
    speech = dummy.openai.audio.speech
    with pytest.raises(openai.BadRequestError, match="nothing to say"):
        speech.create(model="tts-1", voice="alloy", input="")
    with pytest.raises(openai.NotFoundError, match="not served here"):
        speech.create(model="gpt-7", voice="alloy", input="Hello.")
    with pytest.raises(openai.BadRequestError, match="there is no voice"):
        speech.create(model="tts-1", voice="nobody", input="Hello.")


@pytest.mark.parametrize("model", ["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15", "dummy"])
def test_openai_s_model_names_are_served(dummy: Running, model: str) -> None:
    assert dummy.speak("Hi.", model=model).status_code == 200


def test_a_text_that_is_too_long_is_413(dummy: Running) -> None:
    assert refused(dummy.speak("x" * 5001), 413)["code"] == "text_too_long"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_is_not_json_is_415(dummy: Running, kind: str) -> None:
    answer = dummy.http.post("/v1/audio/speech", content=b'{"input": "x"}', headers={"Content-Type": kind})
    refused(answer, 415)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/v1/audio/speech", 405),
        ("PUT", "/v1/models", 405),
        ("GET", "/v1/audio/speech/unknown", 404),
        ("GET", "/v1/models/unknown", 404),
        ("DELETE", "/v1/audio/voices/unknown", 404),
        ("DELETE", "/v1/audio/voices/..%2f..%2fetc%2fpasswd", 404),
    ],
)
def test_nothing_else_is_here(dummy: Running, method: str, path: str, status: int) -> None:
    answer = dummy.http.request(method, path)
    refused(answer, status)
    assert answer.headers["x-request-id"]


# --- how much is read ---


def test_a_body_that_says_it_is_too_large_is_413_before_it_is_read(dummy: Running) -> None:
    with socket.create_connection(("127.0.0.1", dummy.port), timeout=10) as raw:
        head = "POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        raw.sendall(f"{head}Content-Length: 99999999999\r\n\r\n".encode())
        assert raw.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_chunked_body_is_counted_while_it_comes(dummy: Running) -> None:
    def endless():
        for _ in range(64):
            yield b" " * 65_536

    answer = dummy.http.post("/v1/audio/speech", content=endless(), headers=JSON)
    assert refused(answer, 413)["code"] == "body_too_large"


def test_a_client_that_leaves_in_the_middle_of_its_body_harms_nobody(dummy: Running) -> None:
    with socket.create_connection(("127.0.0.1", dummy.port), timeout=10) as raw:
        head = "POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        raw.sendall(f'{head}Content-Length: 1000\r\n\r\n{{"input": '.encode())
    dummy.settle()
    assert dummy.speak().status_code == 200


@pytest.fixture
def impatient(tmp_path) -> Iterator[Running]:
    limits = {"max_concurrency": 2, "max_positions": 512}
    server = {"receive_timeout_s": 0.5, "max_connections": 8}
    with in_thread("dummy", tmp_path, limits=limits, server=server) as started:
        yield started


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /v1/aud",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: 99\r\n\r\n{",
    ],
)
def test_a_request_that_is_never_completed_is_closed(impatient: Running, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=10) as raw:
        raw.sendall(sent)
        with suppress(ConnectionResetError):
            assert raw.recv(100) == b""
    impatient.settle()


def test_a_request_that_comes_a_byte_at_a_time_is_closed(impatient: Running) -> None:
    def drip(raw: socket.socket) -> None:
        for _ in range(100):
            raw.sendall(b"P")
            time.sleep(0.05)

    address = ("127.0.0.1", impatient.port)
    with (
        socket.create_connection(address, timeout=10) as raw,
        pytest.raises((ConnectionResetError, BrokenPipeError)),
    ):
        drip(raw)


def test_connections_that_do_nothing_leave_descriptors_for_the_others(impatient: Running) -> None:
    idle = [socket.socket() for _ in range(20)]
    for raw in idle:
        with suppress(ConnectionResetError):
            raw.connect(("127.0.0.1", impatient.port))
    time.sleep(0.2)
    ended = 0
    for raw in idle:
        raw.setblocking(False)
        try:
            ended += raw.recv(1) == b""
        except (ConnectionResetError, BrokenPipeError):
            ended += 1
        except BlockingIOError:
            pass
        raw.close()
    assert ended >= 20 - 8
    time.sleep(0.2)
    assert impatient.speak().status_code == 200


def test_what_is_not_http_is_told_so(dummy: Running) -> None:
    with socket.create_connection(("127.0.0.1", dummy.port), timeout=10) as raw:
        raw.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not http at all\r\n\r\n")
        assert raw.recv(4096).startswith(b"HTTP/1.1 400")


# --- voices that are not ---


def wav(data_bytes: int, rate: int = 16_000, claimed: int | None = None) -> bytes:
    claimed = data_bytes if claimed is None else claimed
    sizes = (16, 1, 1, rate, rate * 2, 2, 16)
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + claimed, b"WAVE", b"fmt ", *sizes, b"data", claimed)
    return head + bytes(data_bytes)


def upload(server: Running, audio: bytes = b"", name: str = "Ada", consent: str | None = "yes", **fields):
    form = {"name": name, **({"consent": consent} if consent is not None else {}), **fields}
    return server.http.post("/v1/audio/voices", data=form, files={"audio_sample": ("a.wav", audio)})


@pytest.mark.parametrize(
    "audio",
    [b"", b"not audio", b"RIFF", wav(0), b"\x00" * 5000, wav(200, rate=1), b"#EXTM3U\n/etc/passwd\n"],
)
def test_audio_that_cannot_be_decoded_is_400(cloning_dummy: Running, audio: bytes) -> None:
    assert refused(upload(cloning_dummy, audio))["param"] == "audio_sample"


def test_audio_that_unpacks_to_far_too_much_is_400(cloning_dummy: Running) -> None:
    from rhapsode.audio.encode import encode
    from rhapsode.audio.samples import silence
    from rhapsode.types import Clip

    bomb = encode(Clip(silence(1, 48_000 * 600), 48_000), "flac")  # ten minutes of nothing
    assert len(bomb) < 500_000
    assert "too long" in refused(upload(cloning_dummy, bomb))["message"]


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..", "a/b", "a\\b", ".hidden", "", " ", "x" * 200, "a\x00b", "\u202ex"]
)
def test_a_name_that_could_be_a_path_or_a_trick_is_400(cloning_dummy: Running, name: str) -> None:
    assert refused(upload(cloning_dummy, wav(64_000), name))["param"] == "name"


def test_an_upload_needs_consent(cloning_dummy: Running) -> None:
    assert refused(upload(cloning_dummy, wav(64_000), consent=None))["param"] == "consent"
    assert refused(upload(cloning_dummy, wav(64_000), consent=""))["param"] == "consent"


def test_a_form_that_is_cut_off_is_400(cloning_dummy: Running) -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nAda\r\n--x\r\nContent-Dispo'
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    refused(cloning_dummy.http.post("/v1/audio/voices", content=form, headers=kind))


@pytest.mark.parametrize(
    "kind", ["multipart/form-data", "multipart/form-data; boundary=", 'multipart/form-data; boundary=""']
)
def test_a_form_without_a_boundary_is_400(cloning_dummy: Running, kind: str) -> None:
    refused(cloning_dummy.http.post("/v1/audio/voices", content=b"whatever", headers={"Content-Type": kind}))


@pytest.mark.parametrize("embedding", ["[", "[1,2", "{}", '["a"]', "[NaN]", "[]", "[" * 10_000, "[1e999]"])
def test_an_embedding_that_is_none_is_400(cloning_dummy: Running, embedding: str) -> None:
    form = {"name": "Ada", "consent": "yes", "speaker_embedding": embedding}
    refused(send_form(cloning_dummy, form))


def send_form(server: Running, fields: dict[str, str]):
    parts = "".join(f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items())
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    return server.http.post("/v1/audio/voices", content=f"{parts}--x--\r\n".encode(), headers=kind)


def test_a_form_field_nobody_knows_is_400(cloning_dummy: Running) -> None:
    error = refused(upload(cloning_dummy, wav(64_000), nmae="x"))
    assert "did you mean 'name'?" in error["message"]


def test_an_upload_that_is_too_large_is_refused(cloning_dummy: Running) -> None:
    assert upload(cloning_dummy, wav(1_100_000)).status_code in (400, 413)
    assert upload(cloning_dummy, wav(2_100_000)).status_code == 413


def test_no_refusal_leaves_a_voice_behind(cloning_dummy: Running) -> None:
    assert [v for v in cloning_dummy.http.get("/v1/audio/voices").json()["voices"] if v["kind"] == "uploaded"] == []


@pytest.mark.parametrize("charset", ["punycode", "idna", "utf-7", "unicode_escape", "zip", "nonsense", "x" * 1000])
def test_a_form_in_an_odd_character_set_is_400(dummy: Running, charset: str) -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\n\xff-Ada\r\n--x--\r\n'
    kind = {"Content-Type": f"multipart/form-data; boundary=x; charset={charset}"}
    assert "UTF-8" in refused(dummy.http.post("/v1/audio/voices", content=form, headers=kind))["message"]


def test_a_form_may_say_that_it_is_utf_8(dummy: Running) -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nAda\r\n--x--\r\n'
    kind = {"Content-Type": 'multipart/form-data; boundary=x; charset="UTF-8"'}
    assert refused(dummy.http.post("/v1/audio/voices", content=form, headers=kind))["param"] == "consent"


@pytest.mark.parametrize("name", ["default", "Default", "LOW", "low", "ｌｏｗ", "High "])
def test_a_voice_cannot_be_named_like_a_preset_or_the_default(dummy: Running, name: str) -> None:
    error = refused(send_form(dummy, {"name": name, "consent": "yes", "speaker_embedding": "[1, 2]"}))
    assert error["param"] == "name"
    assert "choose another name" in error["message"]


def test_of_a_long_name_of_a_field_little_is_sent_back(dummy: Running) -> None:
    long = "x" * 1_000_000
    for path, body in (
        ("/v1/audio/speech", {"input": "x", long: 1}),
        ("/v1/audio/speech", {"input": "x", "references": [{long: 1}]}),
        ("/v1/audio/voices", {"name": "x", "consent": "y", long: 1}),
    ):
        answer = dummy.http.post(path, json=body)
        assert refused(answer)["code"] == "unknown_parameter"
        assert len(answer.content) < 2000


# --- nothing to say ---

NOTHING = ["🎉", "👩\u200d🚀🎉", "\u200b\u200d\u2060", "...", "?!", "\u00ad", "❤\ufe0f", "\u202e"]


@pytest.mark.parametrize("text", NOTHING)
def test_text_without_a_letter_or_digit_is_400(dummy: Running, text: str) -> None:
    error = refused(dummy.speak(text))
    assert error["param"] == "input"
    assert "no letter and no digit" in error["message"]


def test_text_without_a_letter_or_digit_may_be_silence(tmp_path) -> None:
    limits = {"max_concurrency": 2, "max_positions": 512}
    with in_thread("dummy", tmp_path, limits=limits, server={"unspeakable": "silence"}) as server:
        for text in NOTHING:
            answer = server.speak(text, response_format="pcm", sample_rate=16_000)
            assert answer.status_code == 200
            assert len(answer.content) > 1000
            assert not any(answer.content)
        whole = server.speak("🎉", response_format="wav", stream=False)
        assert whole.headers["x-finish-reason"] == "stop"
        assert whole.content.startswith(b"RIFF")
        ended = server.http.get(f"/v1/audio/speech/{whole.headers['x-request-id']}").json()
        assert (ended["status"], ended["delivered"]) == ("finished", True)
        refused(server.speak(""))
        server.settle()
