"""The WebSocket: text in as it is written, audio out as it is spoken; stopped at any moment."""

import base64
import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from e2e.serve.running import LETTER_BYTES, LETTER_S, Running, heard, in_thread, running
from hearing import OPUS_DELAY, decoded

PCM = {"type": "session.config", "response_format": "pcm", "sample_rate": 16_000, "seed": 4}
DONE = {"type": "input.done"}


class Talk:
    """One connection, and what has been heard over it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    def send(self, *messages: dict) -> None:
        for message in messages:
            self._socket.send(json.dumps(message))

    def text(self, *texts: str) -> None:
        self.send(*({"type": "input.text", "text": text} for text in texts))

    def next(self, timeout_s: float = 20) -> dict | bytes:
        message = self._socket.recv(timeout=timeout_s)
        return message if isinstance(message, bytes) else json.loads(message)

    def until(self, kind: str) -> tuple[list[dict], bytes]:
        """Everything up to a message of this kind: what was told, and the audio between."""
        told, audio = [], b""
        while not told or told[-1]["type"] != kind:
            message = self.next()
            if isinstance(message, bytes):
                audio += message
            else:
                told.append(message)
        return told, audio

    def ends(self) -> int:
        """How the server closed."""
        with pytest.raises(ConnectionClosed) as closed:
            self.until("nothing of the kind")
        assert closed.value.rcvd
        return closed.value.rcvd.code


@contextmanager
def talk(server: Running, **options) -> Iterator[Talk]:
    with connect(server.socket_url, proxy=None, **options) as socket:
        yield Talk(socket)


def kinds(told: list[dict]) -> list[str]:
    return [message["type"] for message in told]


def test_text_becomes_audio(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send(PCM)
        conversation.text("Hello ", "there.")
        conversation.send(DONE)
        told, audio = conversation.until("session.done")
    assert kinds(told) == ["audio.start", "audio.done", "session.done"]
    assert told[0] | {"format": "pcm", "sample_rate": 16_000, "channels": 1, "utterance_index": 0} == told[0]
    assert told[-1] == {"type": "session.done", "utterance_index": 0, "total_sentences": 1}
    assert len(audio) == len("Hello there.") * LETTER_BYTES
    assert audio == dummy.speak("Hello there.", response_format="pcm", sample_rate=16_000, seed=4).content


def test_text_is_appended_to_the_running_request(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send(PCM)
        conversation.text("Hello")
        first = conversation.next()
        assert isinstance(first, dict)
        heard_bytes = 0
        while heard_bytes < 5 * LETTER_BYTES:  # all of the first word is out, though the utterance goes on
            heard_bytes += len(conversation.next())
        conversation.text(" there.")
        conversation.send(DONE)
        told, audio = conversation.until("session.done")
    assert kinds(told) == ["audio.done", "session.done"]
    assert heard_bytes + len(audio) == len("Hello there.") * LETTER_BYTES
    assert told[0]["request_id"] == first["request_id"]


@pytest.mark.parametrize("response_format", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
def test_every_format_comes_over_the_socket(dummy: Running, response_format: str) -> None:
    text = "A sentence that takes a second or so to say."
    with talk(dummy) as conversation:
        conversation.send({**PCM, "response_format": response_format, "speed": 1.25, "sample_rate": 24_000})
        conversation.text(text)
        conversation.send(DONE)
        told, audio = conversation.until("session.done")
    assert told[0]["format"] == response_format
    assert -LETTER_S < heard(audio, response_format).duration_s - len(text) * LETTER_S / 1.25 < 0.13


def test_each_message_is_one_opus_packet(dummy: Running) -> None:
    text = "A sentence that takes a second or so to say."
    with talk(dummy) as conversation:
        conversation.send({**PCM, "response_format": "opus_packets", "sample_rate": 48_000})
        conversation.text(text)
        conversation.send(DONE)
        messages = []
        while not (isinstance(message := conversation.next(), dict) and message["type"] == "session.done"):
            messages.append(message)
    assert messages[0]["format"] == "opus_packets"
    carried = [message for message in messages if isinstance(message, bytes)]
    spoken = round(len(text) * LETTER_S * 48_000)
    assert len(carried) == -(-(spoken + OPUS_DELAY) // 960)
    for packet in carried:
        assert decoded("libopus", [packet], 48_000, 1).shape == (1, 960)


def test_telephony_comes_over_the_socket(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send({"type": "session.config", "response_format": "mulaw"})
        conversation.text("Hello there.")
        conversation.send(DONE)
        told, audio = conversation.until("session.done")
    assert (told[0]["format"], told[0]["sample_rate"]) == ("mulaw", 8_000)
    assert len(audio) == round(12 * LETTER_S * 8_000)


def test_audio_may_come_as_json(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send({**PCM, "audio_transport": "base64"})
        conversation.text("Hello there.")
        conversation.send(DONE)
        told, audio = conversation.until("session.done")
    chunks = [message for message in told if message["type"] == "audio.chunk"]
    assert audio == b""
    assert [chunk["chunk_id"] for chunk in chunks] == list(range(len(chunks)))
    assert sum(len(base64.b64decode(chunk["audio_b64"])) for chunk in chunks) == 12 * LETTER_BYTES


def test_several_utterances_share_a_connection_and_the_session_may_change_between(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send(PCM)
        conversation.text("One.")
        conversation.send(DONE)
        conversation.text("Two two.")
        conversation.send(DONE)
        first, second = conversation.until("session.done"), conversation.until("session.done")
        conversation.send({**PCM, "type": "session.update", "response_format": "wav"})
        assert conversation.next() == {"type": "session.updated"}
        conversation.text("Three.")
        conversation.send(DONE)
        told, audio = conversation.until("session.done")
    assert (len(first[1]), len(second[1])) == (4 * LETTER_BYTES, 8 * LETTER_BYTES)
    assert [message["utterance_index"] for message in told] == [2, 2, 2]
    assert audio.startswith(b"RIFF")


def test_a_flush_says_what_there_is(hibari: Running) -> None:
    with talk(hibari) as conversation:
        conversation.send({"type": "session.config", "response_format": "pcm"})
        conversation.text("No full stop here")
        conversation.send({"type": "input.flush"})
        told, audio = conversation.until("audio.done")
        assert len(audio) / 2 / 24_000 > 0.5
        conversation.text("and on it goes.")
        conversation.send(DONE)
        told, audio = conversation.until("session.done")
    assert told[-1]["total_sentences"] == 2
    assert len(audio) / 2 / 24_000 > 0.5


def test_hibari_begins_to_speak_before_the_text_is_complete(hibari: Running) -> None:
    with talk(hibari) as conversation:
        conversation.send({"type": "session.config", "response_format": "pcm"})
        conversation.text("This is the first sentence. ", "And this ")
        assert conversation.next()["type"] == "audio.start"
        assert isinstance(conversation.next(), bytes)
        conversation.text("is the second one.")
        conversation.send(DONE)
        conversation.until("session.done")


def test_sentences_may_be_files_of_their_own(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send({**PCM, "response_format": "wav", "split_granularity": "sentence", "stream_audio": False})
        conversation.text("One is here. Two is", " there. Three")
        conversation.send(DONE)
        files, told = [], []
        while not told or told[-1]["type"] != "session.done":
            message = conversation.next()
            (files if isinstance(message, bytes) else told).append(message)
    assert [heard(file, "wav").samples.shape[1] * 2 // LETTER_BYTES for file in files] == [12, 13, 5]
    assert [m["sentence_text"] for m in told if m["type"] == "audio.start"] == [
        "One is here.",
        "Two is there.",
        "Three",
    ]
    assert told[-1]["total_sentences"] == 3


def test_settings_count_for_the_utterances_after_them(dummy: Running) -> None:
    """Also while the one before is still spoken."""
    settings = [{**PCM, "audio_transport": "base64"}, {"type": "session.config", "response_format": "wav"}]
    with talk(dummy) as conversation:
        for one in settings:
            conversation.send(one, {"type": "input.text", "text": "Hello there."}, DONE)
        first, silence = conversation.until("session.done")
        second, audio = conversation.until("session.done")
    assert [told[0]["format"] for told in (first, second)] == ["pcm", "wav"]
    assert {message["type"] for message in first} > {"audio.chunk"}
    assert silence == b""
    assert heard(audio, "wav").duration_s == pytest.approx(12 * LETTER_S)


def test_what_vllm_omni_s_clients_send_works_without_a_session(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send({"type": "input.text", "text": "Hello."}, {"type": "input.done"})
        told, audio = conversation.until("session.done")
        assert told[0]["format"] == "wav"
        assert heard(audio, "wav").duration_s == pytest.approx(6 * LETTER_S)
        conversation.send({"type": "session.close"})
        assert conversation.ends() == 1000


def test_an_empty_utterance_is_over_at_once(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.text("  ")
        conversation.send(DONE)
        assert conversation.next() == {"type": "session.done", "utterance_index": 0, "total_sentences": 0}


def test_a_cancel_ends_an_utterance_midway_and_the_next_one_is_whole(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send(PCM)
        conversation.text("x" * 900)
        conversation.send(DONE)
        started = conversation.next()
        conversation.next()
        conversation.send({"type": "input.cancel"})
        _, audio = conversation.until("session.cancelled")
        assert len(audio) < 900 * LETTER_BYTES
        ended = dummy.http.get(f"/v1/audio/speech/{started['request_id']}").json()
        assert ended["status"] == "aborted"
        conversation.text("Still here.")
        conversation.send(DONE)
        _, audio = conversation.until("session.done")
    assert len(audio) == 11 * LETTER_BYTES
    dummy.settle()


def test_a_cancel_with_nothing_to_cancel_is_answered(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send({"type": "session.cancel"})
        assert conversation.next()["type"] == "session.cancelled"


@pytest.mark.parametrize(
    "message",
    [
        "not json",
        "[]",
        '{"type": "input.txet", "text": "x"}',
        '{"type": 5}',
        '{"type": "input.text"}',
        '{"type": "input.text", "text": 5}',
        '{"type": "input.text", "text": "x", "extra": 1}',
        '{"type": "session.config", "voice": "nobody"}',
        '{"type": "session.config", "speed": 99}',
        '{"type": "session.config", "vioce": "low"}',
        '{"type": "session.config", "word_timestamps": "yes"}',
        "[" * 50_000,
        b"\x00\x01",
    ],
)
def test_a_message_that_makes_no_sense_is_answered_and_forgotten(dummy: Running, message: str | bytes) -> None:
    with talk(dummy) as conversation:
        conversation._socket.send(message)
        told = conversation.next()
        assert told["type"] == "error"
        assert told["error"]["type"] == "invalid_request_error"
        conversation.text("Hello.")
        conversation.send(DONE)
        assert conversation.until("session.done")[1]


def test_a_text_that_is_too_long_ends_its_utterance_only(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send(PCM)
        conversation.text("x" * 3000, "x" * 3000)
        told, _ = conversation.until("error")
        assert told[-1]["error"]["code"] == "text_too_long"
        conversation.text("Hello.")
        conversation.send(DONE)
        assert len(conversation.until("session.done")[1]) == 6 * LETTER_BYTES


def test_a_failing_utterance_is_told_and_the_next_one_speaks(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send({**PCM, "endless": True, "split_granularity": "sentence"})
        conversation.text("Hello.")
        conversation.send(DONE)
        told, _ = conversation.until("session.done")
        assert [m["error"]["code"] for m in told if m["type"] == "error"] == ["runaway"]
        conversation.send(PCM)
        conversation.text("Hello.")
        conversation.send(DONE)
        assert len(conversation.until("session.done")[1]) == 6 * LETTER_BYTES


def test_the_session_is_not_changed_in_the_middle_of_an_utterance(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send(PCM)
        conversation.text("Hello")
        conversation.send(PCM)
        assert "between utterances" in conversation.until("error")[0][-1]["message"]


def test_a_client_that_leaves_midway_frees_its_slot(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send(PCM)
        conversation.text("x" * 900)
        conversation.send(DONE)
        request_id = conversation.next()["request_id"]
    dummy.settle()
    assert dummy.http.get(f"/v1/audio/speech/{request_id}").json()["status"] == "aborted"


def test_silence_and_too_many_connections_have_limits(tmp_path) -> None:
    limits = {"config_s": 0.3, "idle_s": 0.6, "most": 1}
    small = {"max_concurrency": 2, "max_positions": 512}
    with in_thread("dummy", tmp_path, limits=small, server={"socket": limits, "api_keys": ["sk-1"]}) as server:
        key = {"additional_headers": {"Authorization": "Bearer sk-1"}}
        with pytest.raises(InvalidStatus) as refused, talk(server):
            pass
        assert refused.value.response.status_code == 401
        with talk(server, **key) as conversation:
            with pytest.raises(InvalidStatus) as refused, talk(server, **key):
                pass
            assert refused.value.response.status_code == 429
            assert conversation.next()["error"]["code"] == "timeout"
            assert conversation.ends() == 1008
        server.http.headers["Authorization"] = "Bearer sk-1"
        server.settle()
        browser = {"subprotocols": ["realtime", "openai-insecure-api-key.sk-1"]}
        with talk(server, **browser) as conversation:
            conversation.send(PCM)
            conversation.text("An utterance that is never finished")
            started_s = time.monotonic()
            told, _ = conversation.until("error")
            assert told[-1]["error"]["code"] == "timeout"
            assert 0.5 < time.monotonic() - started_s < 15
            assert conversation.ends() == 1008
        server.settle()


def test_half_a_character_in_sentence_mode_keeps_the_socket_open(dummy: Running) -> None:
    with talk(dummy) as conversation:
        conversation.send({**PCM, "split_granularity": "sentence"})
        conversation.text("One \ud800is here. ", "Two \udfff is there.")
        conversation.send(DONE)
        told, audio = conversation.until("session.done")
    assert [m["sentence_text"] for m in told if m["type"] == "audio.start"] == ["One is here.", "Two is there."]
    assert audio


def test_an_utterance_of_emoji_is_over_at_once(dummy: Running) -> None:
    for config in (PCM, {**PCM, "split_granularity": "sentence"}):
        with talk(dummy) as conversation:
            conversation.send(config)
            conversation.text("🎉", " 🎉. ", "...")
            conversation.send(DONE)
            assert conversation.next() == {"type": "session.done", "utterance_index": 0, "total_sentences": 0}


@pytest.mark.slow
def test_clients_that_leave_while_they_cancel_are_no_bug(tmp_path) -> None:
    with running("dummy", tmp_path, limits={"max_concurrency": 4, "max_positions": 1024}) as server:
        for _ in range(15):
            with talk(server) as conversation:
                conversation.send(PCM)
                conversation.text("x" * 900)
                conversation.next()
                conversation.send({"type": "input.cancel"})
                raw = conversation._socket.socket
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                raw.close()
        server.settle()
        assert "Traceback" not in "".join(server.log)
