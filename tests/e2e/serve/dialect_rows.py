"""What clients of other servers send and read: each row is a test, and a line of the table in docs/clients.md."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from websockets.exceptions import InvalidStatus

from e2e.serve.other_client import SPEECH, VOICES, OtherClient, frames, kinds, receive, sse
from rhapsode.audio.decode import decode
from rhapsode.audio.encode import encode
from rhapsode.types import Clip
from tiny.dummy import EMBEDDING_SIZE
from tiny.qwen3_tts import reference_audio

SAMPLE = encode(Clip(reference_audio(24_000)[None], 24_000), "wav")
DATA_URL = f"data:audio/wav;base64,{base64.b64encode(SAMPLE).decode()}"
SAME, TRANSLATED = "same", "translated"
TWO = "Hello there. How are you?"
CONFIG = {"type": "session.config", "voice": "high", "response_format": "pcm", "stream_audio": True}
SENTENCES = {**CONFIG, "split_granularity": "sentence"}


@dataclass(frozen=True)
class DialectRow:
    dialect: str
    asks: str
    """What a client sends or reads, as the table says it."""
    verdict: str
    check: Callable[[OtherClient], None]
    needs_words: bool = False


ROWS: list[DialectRow] = []


def row(dialects: str, asks: str, verdict: str, *, needs_words: bool = False):
    def add(check: Callable[[OtherClient], None]) -> Callable[[OtherClient], None]:
        ROWS.extend(DialectRow(dialect, asks, verdict, check, needs_words) for dialect in dialects.split(", "))
        return check

    return add


VLLM, SGLANG, KOKORO = "vllm-omni", "sglang-omni", "kokoro-fastapi"
OMNI = f"{VLLM}, {SGLANG}"

# --- POST /v1/audio/speech of vLLM-Omni and SGLang-Omni ---


@row(OMNI, "`POST /v1/audio/speech` with `input` alone: a whole WAV file with its true length", TRANSLATED)
def whole_wav(c: OtherClient) -> None:
    answer = c.speak()
    told, real = frames(answer.content)
    assert told == real > 0
    assert answer.headers["content-type"] == "audio/wav"
    assert int(answer.headers["content-length"]) == len(answer.content)


@row(OMNI, "`response_format`: wav, mp3, flac, pcm, aac, opus", SAME)
def formats(c: OtherClient) -> None:
    for name in ("mp3", "flac", "opus", "aac"):
        assert decode(c.speak(response_format=name).content).duration_s > 0.3
    assert len(c.speak(response_format="pcm").content) > 1000


@row(OMNI, '`voice`, in any case, or as `{"id": ...}`; `voice: "default"`', SAME)
def voices_by_name(c: OtherClient) -> None:
    one, other = (c.speak(voice=voice, seed=1, response_format="pcm").content for voice in ("high", "HIGH"))
    assert one == other != c.speak(voice="low", seed=1, response_format="pcm").content
    assert c.speak(voice={"id": "high"}, seed=1, response_format="pcm").content == one
    c.speak(voice="default")


@row(OMNI, '`language: "English"` or `"Auto"`, `speed`, `seed`', SAME)
def plain_fields(c: OtherClient) -> None:
    c.speak(language="English", speed=1.5, seed=7)
    c.speak(language="Auto", speed=1.0)


@row(OMNI, "fields that are unknown here, and fields that are null", TRANSLATED)
def odd_fields(c: OtherClient) -> None:
    nulls = dict.fromkeys(("voice", "instructions", "ref_audio", "x_vector_only_mode", "max_new_tokens", "stream"))
    answer = c.speak(**nulls, ambient_sound="rain", duration_seconds=3.0, ref_audio_2="x", stage_params={"a": {"b": 1}})
    assert answer.headers["x-ignored-fields"] == "ambient_sound, duration_seconds, ref_audio_2, stage_params"
    assert "x-ignored-fields" not in c.speak().headers


@row(OMNI, "`ref_audio` with `ref_text`, also beside a `voice`: clones", TRANSLATED)
def clones(c: OtherClient) -> None:
    plain = c.speak(voice="low", seed=1, response_format="pcm").content
    cloned = c.speak(voice="low", ref_audio=DATA_URL, ref_text="Words.", seed=1, response_format="pcm").content
    assert cloned != plain
    assert cloned == c.speak(ref_audio=DATA_URL, ref_text="Words.", seed=1, response_format="pcm").content


@row(OMNI, '`task_type: "Base"`: on every checkpoint that clones', TRANSLATED)
def base_task(c: OtherClient) -> None:
    fields = {"ref_audio": DATA_URL, "seed": 1, "response_format": "pcm"}
    assert c.speak(task_type="Base", **fields).content == c.speak(**fields).content


@row(OMNI, '`task_type: "VoiceDesign"` beside a `voice`: the name does not count', TRANSLATED)
def design_task(c: OtherClient) -> None:
    c.speak(task_type="VoiceDesign", voice="Vivian", instructions="A warm voice.")


@row(OMNI, '`references: [{"audio_path": ..., "text": ...}]`', SAME)
def references(c: OtherClient) -> None:
    fields = {"seed": 1, "response_format": "pcm"}
    given = c.speak(references=[{"audio_path": DATA_URL, "text": "Words."}], **fields).content
    assert given == c.speak(ref_audio=DATA_URL, ref_text="Words.", **fields).content


@row(OMNI, "`speaker_embedding`, as numbers or as a list of one such list", TRANSLATED)
def embeddings(c: OtherClient) -> None:
    numbers = [0.1] * EMBEDDING_SIZE
    fields = {"voice": "low", "seed": 1, "response_format": "pcm"}
    assert (
        c.speak(speaker_embedding=numbers, **fields).content == c.speak(speaker_embedding=[numbers], **fields).content
    )


@row(
    VLLM,
    "`stream: true`: events `speech.audio.delta`, `speech.audio.done` with `usage.input_token_details`",
    TRANSLATED,
)
def openai_events(c: OtherClient) -> None:
    events = sse(c.speak(stream=True, response_format="pcm"))
    names = [name for name, _ in events]
    assert names == ["speech.audio.delta"] * (len(names) - 1) + ["speech.audio.done"]
    assert all(json.loads(data)["type"] == name for name, data in events)
    assert {json.loads(data)["response_format"] for _, data in events[:-1]} == {"pcm"}
    assert sum(len(base64.b64decode(json.loads(data)["audio"])) for _, data in events[:-1]) > 1000
    usage = json.loads(events[-1][1])["usage"]
    assert usage["input_token_details"] == {"text_tokens": usage["input_tokens"], "audio_tokens": 0}
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


@row(OMNI, '`stream: true` with `stream_format: "audio"`: plain bytes as they are made', SAME)
def raw_stream(c: OtherClient) -> None:
    answer = c.speak(stream=True, stream_format="audio", response_format="pcm")
    assert answer.headers["content-type"].startswith("audio/pcm")
    assert "content-length" not in answer.headers
    assert len(answer.content) > 1000


@row(VLLM, '`stream_format: "sse"` without `stream`', TRANSLATED)
def events_alone(c: OtherClient) -> None:
    assert sse(c.speak(stream_format="sse", response_format="pcm"))[-1][0] == "speech.audio.done"


@row(VLLM, "`ref_audio` as a list: a reference each", TRANSLATED)
def listed_recordings(c: OtherClient) -> None:
    fields = {"ref_text": "Words.", "seed": 1, "response_format": "pcm"}
    assert c.speak(ref_audio=[DATA_URL], **fields).content == c.speak(ref_audio=DATA_URL, **fields).content


@row(VLLM, "`sample_rate`", SAME)
def sample_rates(c: OtherClient) -> None:
    assert c.speak(sample_rate=16_000).headers["x-sample-rate"] == "16000"


@row(VLLM, "`X-VLLM-OMNI-INPUT-TOKENS` and the other counts of a whole file: characters and frames", TRANSLATED)
def counts_in_headers(c: OtherClient) -> None:
    for more in ({}, {"response_format": "mp3"}):
        headers = c.speak(**more).headers
        names = ("input", "output", "total", "input-text", "input-audio")
        given, made, total, text, audio = (int(headers[f"x-vllm-omni-{name}-tokens"]) for name in names)
        assert (given, text, audio) == (len("Hello there."), given, 0)
        assert total == given + made > given
    streamed = c.speak(stream=True, response_format="pcm").headers
    assert not [name for name in streamed if name.startswith("x-vllm-omni")]


@row(VLLM, "`extra_params`: fields of the model", TRANSLATED)
def extra_params(c: OtherClient) -> None:
    fields = {"seed": 1, "response_format": "pcm"}
    assert c.speak(extra_params={"speed": 2.0}, **fields).content == c.speak(speed=2.0, **fields).content


@row(VLLM, "`word_timestamps: true`: the audio, and words in `X-Word-Timestamps`", TRANSLATED, needs_words=True)
def words_in_header(c: OtherClient) -> None:
    answer = c.speak(word_timestamps=True)
    words = json.loads(answer.headers["x-word-timestamps"])
    assert [word["word"] for word in words] == ["Hello", "there"]
    assert all(word.keys() == {"word", "start_ms", "end_ms"} and word["start_ms"] < word["end_ms"] for word in words)
    assert frames(answer.content)[0] > 0
    assert answer.headers["content-type"] == "audio/wav"


@row(VLLM, "more words than 4096 bytes: `X-Word-Timestamps-Omitted`", TRANSLATED, needs_words=True)
def words_omitted(c: OtherClient) -> None:
    answer = c.ask("POST", SPEECH, json={"input": "Hello there. " * 50, "word_timestamps": True})
    assert "x-word-timestamps" not in answer.headers
    assert answer.headers["x-word-timestamps-omitted"] == "true"


# --- events of SGLang-Omni ---


@row(SGLANG, "`stream: true`: `audio.speech.chunk` with `index` and a whole WAV file each, usage, `[DONE]`", TRANSLATED)
def sglang_events(c: OtherClient) -> None:
    datas = [data for _, data in sse(c.speak(stream=True, voice="default"))]
    assert datas[-1] == "[DONE]"
    chunks = [json.loads(data) for data in datas[:-1]]
    assert [chunk["index"] for chunk in chunks] == list(range(len(chunks)))
    assert {chunk["object"] for chunk in chunks} == {"audio.speech.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    for chunk in chunks[:-1]:
        told, real = frames(base64.b64decode(chunk["audio"]["data"]))
        assert told == real > 0
        assert (chunk["audio"]["format"], chunk["audio"]["mime_type"]) == ("wav", "audio/wav")
        assert chunk["audio"]["sample_rate"] > 0
        assert chunk["finish_reason"] is None
    last = chunks[-1]
    assert (last["audio"], last["finish_reason"]) == (None, "stop")
    assert last["usage"].keys() == {"prompt_tokens", "completion_tokens", "total_tokens"}


@row(SGLANG, "`stream: true` with pcm: plain samples, with `X-Sample-Rate`, `X-Channels`, `X-Bit-Depth`", TRANSLATED)
def sglang_samples(c: OtherClient) -> None:
    answer = c.speak(stream=True, response_format="pcm")
    assert answer.headers["content-type"].startswith("audio/pcm")
    described = [answer.headers[f"x-{name}"] for name in ("sample-rate", "channels", "bit-depth")]
    assert described == ["24000", "1", "16"]
    assert len(answer.content) > 1000


@row(
    SGLANG,
    '`stream_format: "sse"`: events without names, `speech.audio.delta`, then `speech.audio.done` with `usage` and '
    "`finish_reason`; no `[DONE]`",
    TRANSLATED,
)
def sglang_pcm_events(c: OtherClient) -> None:
    answer = c.speak(stream=True, response_format="pcm", stream_format="sse")
    assert answer.headers["x-bit-depth"] == "16"
    names, datas = zip(*sse(answer), strict=True)
    assert set(names) == {""}
    *deltas, done = map(json.loads, datas)
    assert {tuple(delta) for delta in deltas} == {("type", "audio")}
    audio = b"".join(base64.b64decode(delta["audio"]) for delta in deltas)
    assert len(audio) > 1000
    assert len(audio) % 2 == 0
    assert (done["type"], done["finish_reason"]) == ("speech.audio.done", "stop")
    assert done["usage"].keys() == {"input_tokens", "output_tokens", "total_tokens"}


@row(
    SGLANG,
    "`X-SGLang-Omni-Speech-Id` of a stream of samples, and `GET /v1/audio/speech/{id}`: its `finish_reason`; "
    "`usage` is null",
    TRANSLATED,
)
def sglang_outcome(c: OtherClient) -> None:
    answer = c.speak(stream=True, response_format="pcm")
    name = answer.headers["x-sglang-omni-speech-id"]
    assert c.ask("GET", f"{SPEECH}/{name}").json() == {"request_id": name, "finish_reason": "stop", "usage": None}
    assert isinstance(c.ask("GET", f"{SPEECH}/nothing", 404).json()["detail"], str)


@row(SGLANG, "`X-Finish-Reason` of a whole file", SAME)
def sglang_finish(c: OtherClient) -> None:
    assert c.speak().headers["x-finish-reason"] == "stop"


@row(
    SGLANG,
    "`X-Prompt-Tokens`, `X-Completion-Tokens`, `X-SGLang-Omni-Input-Tokens` and the other counts of a whole file: "
    "characters and frames",
    TRANSLATED,
)
def sglang_counts(c: OtherClient) -> None:
    headers = c.speak().headers
    given, made, total = (int(headers[f"x-sglang-omni-{name}-tokens"]) for name in ("input", "output", "total"))
    assert (headers["x-prompt-tokens"], headers["x-completion-tokens"]) == (str(given), str(made))
    assert given == len("Hello there.")
    assert total == given + made > given


@row(
    SGLANG,
    "`references` with `data` or `base64` and `media_type`, or with `audio_path`, `ref_audio`, `audio`; `vq_codes`",
    TRANSLATED,
)
def inline_reference(c: OtherClient) -> None:
    fields = {"seed": 1, "response_format": "pcm"}
    wanted = c.speak(ref_audio=DATA_URL, ref_text="Words.", **fields).content
    data = base64.b64encode(SAMPLE).decode()
    for name in ("data", "base64"):
        for kind in ({"media_type": "audio/wav"}, {}):
            one = {name: data, **kind, "audio": None, "vq_codes": [1], "text": "Words."}
            assert c.speak(references=[one], **fields).content == wanted
    for name in ("audio_path", "ref_audio", "audio"):
        assert c.speak(references=[{name: DATA_URL, "text": "Words."}], **fields).content == wanted
    assert c.speak(400, references=[{"recording": DATA_URL, "text": "Words."}]).json()["error"]["message"]


@row(
    SGLANG,
    "`token_count`, `duration_tokens`, on a model that takes no length: ignored, and named in `X-Ignored-Fields` (only "
    "MOSS-TTS takes one there, which is no family here)",
    TRANSLATED,
)
def target_length(c: OtherClient) -> None:
    assert c.speak(token_count=120, duration_tokens=120).headers["x-ignored-fields"] == "token_count, duration_tokens"


# --- batches ---


@row(
    VLLM,
    "`POST /v1/audio/speech/batch`: results in order, a failed one with `error` as a text, `usage` of each",
    TRANSLATED,
)
def vllm_batch(c: OtherClient) -> None:
    items = [{"input": "One."}, {"input": " "}, {"input": "Three.", "voice": "low", "ref_audio": DATA_URL}]
    body = c.ask("POST", f"{SPEECH}/batch", json={"items": items, "voice": "high", "odd": 1}).json()
    assert [result["status"] for result in body["results"]] == ["success", "error", "success"]
    assert isinstance(body["results"][1]["error"], str)
    assert (body["total"], body["succeeded"], body["failed"]) == (3, 2, 1)
    assert body["results"][0]["media_type"] == "audio/wav"
    assert frames(base64.b64decode(body["results"][0]["audio_data"]))[0] > 0
    assert body["results"][0]["usage"]["input_token_details"]["text_tokens"] == 4


@row(
    SGLANG,
    "`POST /v1/audio/speech/batch`: results in order, WAV by default, a failed one with an error object",
    TRANSLATED,
)
def sglang_batch(c: OtherClient) -> None:
    items = [{"input": "One.", "token_count": 5}, {"input": " "}]
    body = c.ask("POST", f"{SPEECH}/batch", json={"items": items, "voice": "default"}).json()
    assert [result["status"] for result in body["results"]] == ["success", "error"]
    assert (body["results"][0]["media_type"], body["results"][0]["format"]) == ("audio/wav", "wav")
    error = body["results"][1]["error"]
    assert (error["type"], error["code"], error["param"]) == ("BadRequestError", 400, "items.1.input")
    items = [{"input": "One.", "response_format": "flac"}, {"input": "Two."}]
    body = c.ask("POST", f"{SPEECH}/batch", json={"items": items}).json()
    assert [result["format"] for result in body["results"]] == ["flac", "wav"]


# --- the WebSocket ---


@row(
    VLLM,
    "WebSocket: `audio.start`, PCM, `audio.done` with `total_bytes` and `error`, `session.done`; closed by "
    "`session.close`, or when idle",
    TRANSLATED,
)
def vllm_socket(c: OtherClient) -> None:
    with c.socket() as socket:
        for message in (SENTENCES, {"type": "input.text", "text": TWO}, {"type": "input.done"}):
            socket.send(json.dumps(message))
        events = receive(socket, "session.done")
        socket.send(json.dumps({"type": "session.close"}))
        assert list(socket) == []
        assert socket.close_code == 1000
    assert kinds(events) == ["audio.start", "bytes", "audio.done"] * 2 + ["session.done"]
    starts = [event for event in events if not isinstance(event, bytes) and event["type"] == "audio.start"]
    assert [start["sentence_index"] for start in starts] == [0, 1]
    assert [start["sentence_text"] for start in starts] == ["Hello there.", "How are you?"]
    assert starts[0]["format"] == "pcm"
    assert starts[0]["sample_rate"] == 24_000
    done = [event for event in events if not isinstance(event, bytes) and event["type"] == "audio.done"]
    assert sum(event["total_bytes"] for event in done) == sum(len(e) for e in events if isinstance(e, bytes)) > 0
    assert [(event["sentence_index"], event["error"]) for event in done] == [(0, False), (1, False)]
    assert events[-1]["total_sentences"] == 2


@row(VLLM, "utterance after utterance on one connection, each with its own `session.config`", TRANSLATED)
def utterances(c: OtherClient) -> None:
    with c.socket() as socket:
        for config in ({**SENTENCES, "ref_audio": DATA_URL}, {**SENTENCES, "response_format": "wav"}):  # none waits
            for message in (config, {"type": "input.text", "text": TWO}, {"type": "input.done"}):
                socket.send(json.dumps(message))
        first, second = receive(socket, "session.done"), receive(socket, "session.done")
    for at, (events, form) in enumerate(((first, "pcm"), (second, "wav"))):
        told = [event for event in events if isinstance(event, dict)]
        assert {event["utterance_index"] for event in told} == {at}
        starts = [event for event in told if event["type"] == "audio.start"]
        assert [(start["sentence_index"], start["format"]) for start in starts] == [(0, form), (1, form)]
        assert told[-1]["total_sentences"] == 2


@row(
    VLLM,
    '`split_granularity`: `"none"` (by default: one piece of audio for each `input.done`), `"sentence"`, `"clause"`',
    TRANSLATED,
)
def vllm_granularity(c: OtherClient) -> None:
    for split, pieces in ((None, 1), ("none", 1), ("sentence", 2), ("clause", 2)):
        config = {**CONFIG, "split_granularity": split}
        events = c.session(config, {"type": "input.text", "text": TWO}, {"type": "input.done"})
        assert events[-1]["total_sentences"] == pieces
        assert kinds(events).count("audio.done") == pieces


@row(VLLM, "WebSocket without `stream_audio`: one whole file for each `audio.start`, WAV by default", TRANSLATED)
def whole_sentences(c: OtherClient) -> None:
    config = {"type": "session.config", "split_granularity": "sentence"}
    events = c.session(config, {"type": "input.text", "text": TWO}, {"type": "input.done"})
    files = [event for event in events if isinstance(event, bytes)]
    assert len(files) == 2
    assert all(told == real > 0 for told, real in map(frames, files))


@row(SGLANG, "WebSocket: PCM by default, whole for each sentence; closed after `session.done`", TRANSLATED)
def sglang_defaults(c: OtherClient) -> None:
    with c.socket() as socket:
        for message in ({"type": "session.config"}, {"type": "input.text", "text": TWO}, {"type": "input.done"}):
            socket.send(json.dumps(message))
        events = receive(socket, "session.done")
        assert list(socket) == []  # the server closes
        assert socket.close_code == 1000
    starts = [event for event in events if isinstance(event, dict) and event["type"] == "audio.start"]
    assert [(start["format"], start["sentence_index"]) for start in starts] == [("pcm", 0), ("pcm", 1)]
    assert sum(isinstance(event, bytes) for event in events) == 2
    assert events[0]["session_id"] == events[-1]["session_id"] != ""
    assert [start["id"] for start in starts] == [f"{events[-1]['session_id']}-{at}" for at in (0, 1)]


@row(
    OMNI,
    "`input.commit`: the text so far is spoken, then `input.committed` with its `commit_id`; the session goes on",
    TRANSLATED,
)
def commits(c: OtherClient) -> None:
    with c.socket() as socket:
        socket.send(json.dumps(SENTENCES))
        found = []
        for at, text in enumerate((TWO, "", "Bye")):
            if text:
                socket.send(json.dumps({"type": "input.text", "text": text}))
            socket.send(json.dumps({"type": "input.commit", "commit_id": f"c{at}"}))
            found.append(receive(socket, "input.committed"))
        socket.send(json.dumps({"type": "input.done"}))
        last = receive(socket, "session.done")
    told = [(e["segment_index"], e["segment_sentences"], e["total_sentences"]) for e in (part[-1] for part in found)]
    assert told == [(0, 2, 2), (1, 0, 2), (2, 1, 3)]
    assert {part[-1].get("session_id") for part in found} == {last[-1].get("session_id")}
    named = [(e["commit_id"], e["sentence_index"], e["chars_committed"]) for e in (part[-1] for part in found)]
    assert named == [("c0", 0, len(TWO)), ("c1", 1, 0), ("c2", 2, 3)]
    start = next(event for event in found[2] if isinstance(event, dict) and event["type"] == "audio.start")
    assert start["sentence_index"] == 2
    assert last[-1]["total_sentences"] == 3


@row(OMNI, '`split_granularity: "clause"`: a piece of audio for each clause', TRANSLATED)
def clauses(c: OtherClient) -> None:
    config = {**CONFIG, "split_granularity": "clause"}
    text = "First this, then that; and so on. At 1,000:00."
    for pieces in ([text], re.findall(r"\s?\w+|\W", text)):  # whole, and token by token
        given = [{"type": "input.text", "text": piece} for piece in pieces]
        events = c.session(config, *given, {"type": "input.done"})
        starts = [event for event in events if isinstance(event, dict) and event["type"] == "audio.start"]
        said = [start["sentence_text"] for start in starts]
        assert said == ["First this,", "then that;", "and so on.", "At 1,000:00."]


@row(
    VLLM,
    '`streaming_mode`: `"token_level"`, `"sentence_commit"` (of its main branch): audio while it is made, without '
    "`stream_audio`; by token, also while the text arrives",
    TRANSLATED,
)
def streaming_modes(c: OtherClient) -> None:
    pieces = ["Hello there, ", "this is a text ", "that comes bit by bit. ", "And goes on."]
    config = {"type": "session.config", "voice": "high", "streaming_mode": "token_level", "response_format": "pcm"}
    with c.socket() as socket:
        socket.send(json.dumps(config))
        for piece in pieces:
            socket.send(json.dumps({"type": "input.text", "text": piece}))
        early = receive(socket, "audio.start")  # before the text has ended
        while not isinstance(early[-1], bytes):
            early.append(socket.recv(timeout=30))
        socket.send(json.dumps({"type": "input.done"}))
        events = [*early, *receive(socket, "session.done")]
    told = [event for event in events if isinstance(event, dict) and event["type"] == "audio.start"]
    assert "".join(event["sentence_text"] for event in told[:1]).startswith("Hello there")
    assert "ignored_fields" not in told[0]
    with c.socket() as socket:
        socket.send(json.dumps({**config, "streaming_mode": "sentence_commit"}))
        for at, text in enumerate(("First one. With two.", " Second.")):
            socket.send(json.dumps({"type": "input.text", "text": text}))
            socket.send(json.dumps({"type": "input.commit", "commit_id": f"sentence-{at}"}))
            events = receive(socket, "input.committed")
            assert kinds(events) == ["audio.start", "bytes", "audio.done", "input.committed"]
            assert (events[-1]["commit_id"], events[-1]["sentence_index"]) == (f"sentence-{at}", at)
            assert sum(isinstance(event, bytes) for event in events) > 1 - at


@row(VLLM, "other values of `streaming_mode` and fields of a configuration that mean nothing here", TRANSLATED)
def odd_configuration(c: OtherClient) -> None:
    config = {**CONFIG, "streaming_mode": "full", "non_streaming_mode": None, "task_type": "Base", "odd": [1]}
    events = c.session(config, {"type": "input.text", "text": "Hi."}, {"type": "input.done"})
    assert kinds(events) == ["audio.start", "bytes", "audio.done", "session.done"]
    assert events[0]["ignored_fields"] == ["streaming_mode", "odd"]


@row(VLLM, "a configuration with `voice` and `ref_audio`: clones", TRANSLATED)
def cloned_session(c: OtherClient) -> None:
    said = []
    for more in ({}, {"ref_audio": DATA_URL, "ref_text": "Words."}):
        config = {**CONFIG, "seed": 1, **more}
        events = c.session(config, {"type": "input.text", "text": "Hi."}, {"type": "input.done"})
        said.append(b"".join(event for event in events if isinstance(event, bytes)))
    assert said[0] != said[1]


@row(
    VLLM,
    "`word_timestamps: true` over the WebSocket: `audio.chunk` with `audio_b64`, `chunk_id`, times, sample rate; "
    "the last one of a sentence has no audio, and `timestamps`",
    TRANSLATED,
    needs_words=True,
)
def words_over_socket(c: OtherClient) -> None:
    config = {"type": "session.config", "response_format": "pcm", "stream_audio": True, "word_timestamps": True}
    config["split_granularity"] = "sentence"
    events = c.session(config, {"type": "input.text", "text": TWO}, {"type": "input.done"})
    assert events[0]["word_timestamps"] is True
    chunks = [event for event in events if event["type"] == "audio.chunk"]
    first = [chunk for chunk in chunks if chunk["sentence_index"] == 0]
    assert [chunk["chunk_id"] for chunk in first] == list(range(len(first)))
    assert {chunk["timestamps"] for chunk in first[:-1]} == {None}
    words = first.pop()["timestamps"]
    assert [word["word"] for word in words] == ["Hello", "there"]
    size = 0
    for chunk in first:
        assert (chunk["start_ms"], chunk["chunk_start_ms"]) == (round(size / 48, 3), round(size / 48))
        size += len(base64.b64decode(chunk["audio_b64"]))
        assert chunk["chunk_end_ms"] == round(size / 48)
    done = next(event for event in events if event["type"] == "audio.done")
    assert done["total_bytes"] == size > 0
    assert words[-1]["end_ms"] <= size / 48


@row(
    VLLM,
    "`word_timestamps: true` without `stream_audio`, or in another format, which is an error there: `audio.chunk` with "
    "whole files",
    TRANSLATED,
    needs_words=True,
)
def words_of_whole_files(c: OtherClient) -> None:
    for form in ("wav", "mp3", "pcm"):
        config = {"type": "session.config", "word_timestamps": True, "response_format": form}
        events = c.session(config, {"type": "input.text", "text": TWO}, {"type": "input.done"})
        assert kinds(events) == ["audio.start", "audio.chunk", "audio.chunk", "audio.done", "session.done"]
        start, whole, last, done = events[:-1]
        assert (start["word_timestamps"], start["format"], whole["timestamps"]) == (True, form, None)
        size = len(base64.b64decode(whole["audio_b64"]))
        assert (last["audio_b64"], done["total_bytes"]) == ("", size)
        assert [word["word"] for word in last["timestamps"]] == ["Hello", "there", "How", "are", "you"]
        assert 0 < last["timestamps"][-1]["end_ms"] <= last["chunk_end_ms"] == round(1000 * done["audio_s"])


@row(OMNI, "a message that is wrong: an `error` with a `message`; the session goes on", SAME)
def wrong_messages(c: OtherClient) -> None:
    with c.socket() as socket:
        for raw in ("{", "[1]", json.dumps({"type": "nonsense"}), json.dumps({"type": "input.text", "text": 7})):
            socket.send(raw)
            event = json.loads(socket.recv(timeout=10))
            assert event["type"] == "error"
            assert event["message"]
        socket.send(json.dumps({"type": "input.done"}))
        assert receive(socket, "session.done")[-1]["total_sentences"] == 0


@row(SGLANG, "WebSocket: fields inside `session`; answered by `session.configured`; then as vLLM-Omni's", TRANSLATED)
def sglang_socket(c: OtherClient) -> None:
    session = {"voice": "default", "response_format": "pcm", "stream_audio": True, "split_granularity": "sentence"}
    config = {"type": "session.config", "session": {**session, "stage_params": {}}}
    events = c.session(config, {"type": "input.text", "text": TWO}, {"type": "input.done"})
    assert kinds(events) == ["session.configured", *["audio.start", "bytes", "audio.done"] * 2, "session.done"]
    wanted = {"response_format": "pcm", "stream_audio": True, "split_granularity": "sentence"}
    named = {"session_id": events[-1]["session_id"]}
    assert events[0] == {"type": "session.configured", **named, **wanted, "ignored_fields": ["stage_params"]}


# --- voices ---


def upload(c: OtherClient, name: str, **more: str) -> dict:
    form = {"name": name, "consent": "recording 7", **more}
    sample = {"audio_sample": ("a.wav", SAMPLE, "audio/wav")}
    return c.ask("POST", VOICES, data=form, files=sample).json()


def uploaded(c: OtherClient) -> dict[str, dict]:
    return {voice["name"]: voice for voice in c.ask("GET", VOICES).json()["uploaded_voices"]}


@row(OMNI, "`GET /v1/audio/voices`: `voices` as names, `uploaded_voices` with what is known of each", TRANSLATED)
def listed_voices(c: OtherClient) -> None:
    body = c.ask("GET", VOICES).json()
    assert {"default", "low", "high"} <= set(body["voices"])
    assert "alloy" not in body["voices"]
    assert isinstance(body["uploaded_voices"], list)


@row(SGLANG, "`GET /v1/audio/voices?names_only=true`: `uploaded_voice_names`", TRANSLATED)
def uploaded_names(c: OtherClient) -> None:
    upload(c, "Mia")
    assert c.ask("GET", VOICES, params={"names_only": "true"}).json() == {"uploaded_voice_names": ["Mia"]}
    assert "voices" in c.ask("GET", VOICES, params={"names_only": "false"}).json()
    c.ask("DELETE", f"{VOICES}/Mia")


@row(SGLANG, "`cache_stats` in `GET /v1/audio/voices`: numbers, all 0", TRANSLATED)
def cache_stats(c: OtherClient) -> None:
    assert set(c.ask("GET", VOICES).json()["cache_stats"].values()) == {0}


@row(
    OMNI,
    "`POST /v1/audio/voices` with `ref_text`, `speaker_description`: `success`, `voice`, or the voice's fields bare",
    TRANSLATED,
)
def uploads(c: OtherClient) -> None:
    answer = upload(c, "Ada", ref_text="Words.", speaker_description="Warm.", odd="1")
    assert answer["success"] is True
    kept = uploaded(c)["Ada"]
    assert answer == {"success": True, "voice": kept, **kept}
    assert (kept["consent"], kept["ref_text"], kept["speaker_description"]) == ("recording 7", "Words.", "Warm.")
    assert (kept["mime_type"], kept["embedding_source"]) == ("audio/wav", "audio")
    assert kept["file_size"] == len(SAMPLE)
    assert kept["created_at"] > 1_700_000_000
    c.speak(voice="ada", task_type="Base")
    c.ask("DELETE", f"{VOICES}/Ada")
    bare = upload(c, "Ida")
    assert not {"ref_text", "speaker_description"} & bare["voice"].keys()
    c.ask("DELETE", f"{VOICES}/Ida")


@row(OMNI, "an upload under a name that is taken: replaces the voice, with a `warning`", TRANSLATED)
def replaced(c: OtherClient) -> None:
    assert "warning" not in upload(c, "Eve", speaker_description="old")
    assert "Eve" in upload(c, "Eve", speaker_description="new")["warning"]
    assert uploaded(c)["Eve"]["speaker_description"] == "new"
    c.ask("DELETE", f"{VOICES}/Eve")
    assert "Eve" not in uploaded(c)


@row(VLLM, "`speaker_embedding` as a voice: `embedding_source` is `direct`, with `embedding_dim`", TRANSLATED)
def embedded_voice(c: OtherClient) -> None:
    numbers = json.dumps([0.1] * EMBEDDING_SIZE)
    form = {"name": "Eli", "consent": "recording 7", "speaker_embedding": numbers}
    c.ask("POST", VOICES, files={name: (None, value) for name, value in form.items()})
    kept = uploaded(c)["Eli"]
    assert (kept["embedding_source"], kept["embedding_dim"]) == ("direct", EMBEDDING_SIZE)
    assert kept["mime_type"] == "application/x-safetensors"
    c.ask("DELETE", f"{VOICES}/Eli")


@row(VLLM, "`DELETE /v1/audio/voices/{name}`: `success` with `message`, or 404 with `error`", TRANSLATED)
def vllm_deleted(c: OtherClient) -> None:
    upload(c, "Bob B")
    answer = c.ask("DELETE", f"{VOICES}/Bob B").json()
    assert (answer["success"], "Bob B" in answer["message"]) == (True, True)
    missing = c.ask("DELETE", f"{VOICES}/nobody", 404).json()
    assert missing["success"] is False
    assert (missing["error"]["type"], missing["error"]["code"]) == ("NotFoundError", 404)


@row(SGLANG, "`DELETE /v1/audio/voices/{name}`: `success` with `message`, or 404 with `error` as a text", TRANSLATED)
def deleted(c: OtherClient) -> None:
    upload(c, "Bob B")
    answer = c.ask("DELETE", f"{VOICES}/Bob B").json()
    assert (answer["success"], "Bob B" in answer["message"]) == (True, True)
    missing = c.ask("DELETE", f"{VOICES}/nobody", 404).json()
    assert missing["success"] is False
    assert isinstance(missing["error"], str)


# --- errors, and the rest of vLLM-Omni ---


@row(VLLM, 'errors: `{"error": {message, type, param, code}}` with the status as `code`', TRANSLATED)
def vllm_errors(c: OtherClient) -> None:
    error = c.speak(400, input=" ").json()["error"]
    assert (error["type"], error["code"]) == ("BadRequestError", 400)
    unknown = c.speak(404, model="xxx").json()["error"]
    assert (unknown["type"], unknown["code"], unknown["param"]) == ("NotFoundError", 404, "model")
    assert c.speak(400, voice="nobody").json()["error"]["code"] == 400


@row(SGLANG, 'errors: `{"error": {message, type, param, code}}`; `error_type`, `param`, `code` in events', TRANSLATED)
def sglang_errors(c: OtherClient) -> None:
    error = c.speak(400, voice="nobody").json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["param"], error["code"]) == ("BadRequestError", "voice", 400)
    error = c.speak(404, model="xxx").json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", "model", "model_not_found")
    with c.socket() as socket:
        socket.send(json.dumps({"type": "session.config", "voice": 7}))
        event = json.loads(socket.recv(timeout=10))
    assert (event["error_type"], event["code"], event["param"]) == ("BadRequestError", 400, "voice")


@row(VLLM, "`GET /version`, `GET /health`, `GET /v1/models`", TRANSLATED)
def about_server(c: OtherClient) -> None:
    assert c.ask("GET", "/version").json().keys() == {"version"}
    health = c.http.get("/health")
    assert health.status_code == (503 if "broken" in health.text else 200)  # a model of the tests' cluster
    assert c.ask("GET", "/v1/models").json()["data"][0]["object"] == "model"


@row(
    VLLM,
    "`POST /v1/chat/completions` with audio, `POST /v1/audio/generate`",
    "not there, because they are other products (a chat, sound from a description): a 404 that says so",
)
def other_products(c: OtherClient) -> None:
    for path in ("/v1/chat/completions", "/v1/audio/generate"):
        error = c.ask("POST", path, 404, json={"model": "x", "messages": []}).json()["error"]
        assert "another product" in error["message"]
        assert error["code"] == 404


@row(
    SGLANG,
    "`POST /v1/chat/completions`, `POST /generate`",
    "not there, because they are other products (a chat, generation for training): a 404 that says so",
)
def other_products_of_sglang(c: OtherClient) -> None:
    for path in ("/v1/chat/completions", "/generate"):
        error = c.ask("POST", path, 404, json={"model": "x", "messages": []}).json()["error"]
        assert "another product" in error["message"]


@row(OMNI, "WebSocket `/v1/realtime`", "not there, because it is another product (a conversation): refused")
def realtime(c: OtherClient) -> None:
    with pytest.raises(InvalidStatus), c.socket("/v1/realtime"):
        raise AssertionError


# --- Kokoro-FastAPI ---


@row(KOKORO, "`POST /v1/audio/speech`: mp3, streamed; `stream: false` is whole", SAME)
def kokoro_speech(c: OtherClient) -> None:
    answer = c.speak(model="kokoro", voice="af_heart")
    assert answer.headers["content-type"] == "audio/mpeg"
    assert "content-length" not in answer.headers
    whole = c.speak(model="tts-1", voice="af_heart", stream=False, response_format="wav")
    assert frames(whole.content)[0] == frames(whole.content)[1] > 0


@row(
    KOKORO,
    '`model: "kokoro"`, `"tts-1"`, `"tts-1-hd"`, `"gpt-4o-mini-tts"`, in `GET /v1/models`, `GET /v1/models/kokoro`',
    TRANSLATED,
)
def kokoro_models(c: OtherClient) -> None:
    names = {model["id"] for model in c.ask("GET", "/v1/models").json()["data"]}
    assert {"kokoro", "tts-1", "tts-1-hd", "gpt-4o-mini-tts"} <= names
    for name in ("kokoro", "tts-1-hd"):
        c.speak(model=name)
    model = c.ask("GET", "/v1/models/kokoro").json()
    assert (model["id"], model["object"]) == ("kokoro", "model")


@row(
    KOKORO,
    "voices such as `af_heart`: the voice `heart`, if there is one; otherwise always the same other one",
    TRANSLATED,
)
def kokoro_voices(c: OtherClient) -> None:
    def say(voice: str) -> bytes:
        return c.speak(voice=voice, seed=1, response_format="pcm").content

    assert say("bm_low") == say("low") != say("high")
    assert say("af_bella") == say("af_bella")
    assert say("af_bella") in (say("low"), say("high"))


@row(KOKORO, "a mix of one voice: `af_heart(2)`, `af_heart+af_heart`", TRANSLATED)
def kokoro_single_mix(c: OtherClient) -> None:
    fields = {"seed": 1, "response_format": "pcm"}
    assert c.speak(voice="af_low(2)", **fields).content == c.speak(voice="low", **fields).content
    assert c.speak(voice="af_low + af_low(0.5)", **fields).content == c.speak(voice="low", **fields).content


@row(KOKORO, "a mix of uploaded voices, `a(2)+b(1)`, by a model that takes a `speaker_embedding`", TRANSLATED)
def kokoro_mix(c: OtherClient) -> None:
    def say(voice: str) -> bytes:
        return c.speak(voice=voice, seed=1, response_format="pcm").content

    for at, name in enumerate(("Kim", "Lee")):
        numbers = [0.1 + 0.5 * at + 0.01 * i for i in range(EMBEDDING_SIZE)]
        c.ask("POST", VOICES, 201, json={"name": name, "consent": "yes", "speaker_embedding": numbers})
    try:
        assert len({say("Kim(2)+Lee(1)"), say("Kim+Lee"), say("Kim"), say("Lee")}) == 4
        assert say("Kim(2)+Lee(2)") == say("Kim+Lee")
        assert c.speak(voice="Kim+low").headers["x-ignored-fields"] == "voice"  # a preset has no numbers
        c.ask("POST", VOICES, 201, json={"name": "af_lee", "consent": "yes", "speaker_embedding": numbers})
        assert say("Kim-af_lee") not in (say("Kim+Lee"), say("Kim"))
        c.ask("DELETE", f"{VOICES}/af_lee")
    finally:
        for name in ("Kim", "Lee"):
            c.ask("DELETE", f"{VOICES}/{name}")


@row(
    KOKORO,
    "mixes of presets: `af_heart(2)+af_sky(1)`, `af_heart-af_sky`, also in the turns of a dialogue, by Kokoro; by a "
    "model whose presets are no numbers the heaviest voice speaks, and `X-Ignored-Fields` names `voice`",
    TRANSLATED,
)
def kokoro_mixes(c: OtherClient) -> None:
    fields = {"seed": 1, "response_format": "pcm"}
    wanted = c.speak(voice="low", **fields).content
    for mix in ("af_low(2)+af_high(1)", "af_high(1)+af_low(1.5)", "af_low-af_high", "af_low+af_high-af_high(0.5)"):
        answer = c.speak(voice=mix, **fields, odd=1)
        assert answer.content == wanted
        assert answer.headers["x-ignored-fields"] == "odd, voice"
    turns = {"turns": [{"voice": "af_low(2)+af_high", "text": "Hello."}], "stream": False, "response_format": "wav"}
    assert c.ask("POST", "/dev/dialogue", json=turns).headers["x-ignored-fields"] == "voice"
    for wrong in ("a++b", "a(", "a(-1)", "a(x)", "a(nan)", "+", "", "+".join("abcdefghij"), "a+../../b"):
        c.speak(400, voice=wrong)


@row(
    KOKORO,
    "`POST /v1/audio/voices/combine`: a 403, as there by default, which says to speak with the mix itself",
    TRANSLATED,
)
def kokoro_combination(c: OtherClient) -> None:
    detail = c.ask("POST", f"{VOICES}/combine", 403, json="af_low+af_high").json()["detail"]
    assert detail["error"] == "permission_denied"


@row(KOKORO, "`lang_code`, `normalization_options.normalize`, `ssml`", TRANSLATED)
def kokoro_text(c: OtherClient) -> None:
    answer = c.speak(lang_code="a", normalization_options={"normalize": True})
    assert "x-ignored-fields" not in answer.headers
    c.ask("POST", SPEECH, json={"input": "<speak>Hi.</speak>", "ssml": True, "allow_voice_tags": False})


@row(
    KOKORO,
    "`ssml` with `<voice>`, and with elements that mean nothing here; `POST /dev/ssml`: SSML as a text with tags",
    TRANSLATED,
)
def kokoro_ssml(c: OtherClient) -> None:
    fields = {"voice": "af_low", "seed": 1, "response_format": "pcm", "allow_voice_tags": True}
    document = '<speak>One. <voice name="af_high">Two.</voice> <emphasis>Three.</emphasis></speak>'
    tags = c.ask("POST", "/dev/ssml", json={"text": document, "voice": "af_low"}).json()
    assert tags == {"text": "One. [voice:af_high] Two. [voice:af_low] Three."}
    said = [
        c.ask("POST", SPEECH, json={"input": text, **more, **fields}).content
        for text, more in ((document, {"ssml": True}), (tags["text"], {}))
    ]
    assert said[0] == said[1]
    c.ask("POST", SPEECH, 400, json={"input": "<speak>One", "ssml": True, **fields})
    assert c.ask("POST", "/dev/ssml", json={"text": "No document."}).json() == {"text": "No document."}


@row(KOKORO, "`GET /dev/ssml`, `/debug/*`", "not there, because they are pages about that server itself: a 404")
def kokoro_inside(c: OtherClient) -> None:
    for path in ("/dev/ssml", "/debug/threads", "/debug/system"):
        c.ask("GET", path, 404)


@row(
    KOKORO,
    "`normalization_options` for URLs, mail, telephone numbers, units, symbols and `(s)`: where one is false, these "
    "stay as they are written",
    TRANSLATED,
)
def kokoro_options(c: OtherClient) -> None:
    def say(text: str, **options: bool) -> bytes:
        fields = {"seed": 1, "response_format": "pcm"}
        answer = c.ask("POST", SPEECH, json={"input": text, "normalization_options": options, **fields})
        assert "x-ignored-fields" not in answer.headers
        return answer.content

    texts = {
        "url_normalization": "See https://example.com/a now.",
        "email_normalization": "Ask jane@example.com now.",
        "phone_normalization": "Call (415) 555-2671 now.",
        "unit_normalization": "A file of 10KB.",
        "replace_remaining_symbols": "Tom & Jerry.",
        "optional_pluralization_normalization": "One apple(s).",
    }
    for name, text in texts.items():
        on, off = (say(text, normalize=True, **{name: wanted}) for wanted in (True, False))
        assert on != off, name
        assert on == say(text, normalize=True), name
    answer = c.speak(normalization_options={"odd": True, "url_normalization": "x"})
    named = ("normalization_options.odd", "normalization_options.url_normalization")
    assert answer.headers["x-ignored-fields"] == ", ".join(named)


@row(KOKORO, "`[pause:1.5s]` in a text: silence of this length", TRANSLATED)
def kokoro_pauses(c: OtherClient) -> None:
    def size(text: str) -> float:
        answer = c.ask("POST", SPEECH, json={"input": text, "seed": 1, "response_format": "wav", "stream": False})
        return frames(answer.content)[0] / int(answer.headers["x-sample-rate"])

    assert abs(size("Yes. [pause:1.5s] No & no.") - size("Yes.  No & no.") - 1.5) < 0.3
    assert abs(size("[Pause:0.5s]Yes.[pause:1s]") - size("Yes.") - 1.5) < 0.3


@row(
    KOKORO,
    "`allow_voice_tags`: `[voice:af_low]`, with mixes, and `[rate:1.5]`; an unknown voice is a 400. Otherwise tags are "
    "text",
    TRANSLATED,
)
def kokoro_tags(c: OtherClient) -> None:
    def say(text: str, status: int = 200, **more: object) -> bytes:
        body = {"input": text, "voice": "af_low", "seed": 1, "response_format": "pcm", "loudness": -20, **more}
        return c.ask("POST", SPEECH, status, json=body).content

    tagged = {"allow_voice_tags": True}
    plain = say("One. Two.")
    assert len({plain, say("One. [voice:af_high] Two.", **tagged), say("One. [voice:af_high] Two.")}) == 3
    assert say("One. [voice: af_high] Two. [voice:low]", **tagged) == say("One. [VOICE:high] Two.", **tagged)
    assert say("[voice:af_high] One. Two.", **tagged) == say("[voice:high(2)] One. Two.", **tagged)
    assert len(say("[rate:2] One. Two.", **tagged)) < 0.7 * len(plain)
    say("One. [voice:not_a_voice] Two.", 400, **tagged)
    say("One. [voice:not_a_voice] Two.")
    say("One. [voice:af_high(2)+af_low] Two.", **tagged)


@row(KOKORO, "`voice_aliases`: names of the request's own, for voices and mixes, with a `rate`", TRANSLATED)
def kokoro_aliases(c: OtherClient) -> None:
    fields = {"seed": 1, "response_format": "pcm"}
    aliases = {"Narrator": "af_low", "hasty": {"voice": "high", "rate": 2.0}, "both": "af_low(2)+af_low"}
    for name, same in (
        ("narrator", {"voice": "low"}),
        ("HASTY", {"voice": "high", "speed": 2.0}),
        ("both", {"voice": "low"}),
    ):
        assert c.speak(voice=name, voice_aliases=aliases, **fields).content == c.speak(**same, **fields).content
    turns = {
        "turns": [{"voice": "Narrator", "text": "Hi."}, {"voice": "hasty", "text": "Oh."}],
        "voice_aliases": aliases,
    }
    c.ask("POST", "/dev/dialogue", json=turns)
    c.speak(400, voice="other", voice_aliases=aliases)
    for wrong in ({"a": 1}, {"a": {"voice": "low", "rate": 9}}, ["a"], {"a": {"rate": 1}}):
        assert c.speak(400, voice="low", voice_aliases=wrong).json()["detail"]["message"]


@row(
    KOKORO,
    "`[word](/sounds/)` in an English text without other tags, by a model that takes phonemes (Kokoro); otherwise the "
    "word is spoken as it is written",
    TRANSLATED,
)
def kokoro_sounds(c: OtherClient) -> None:
    fields = {"seed": 1, "response_format": "pcm"}
    said = c.ask("POST", SPEECH, json={"input": "In [Worcester](/wˈʊstəɹ/).", **fields}).content
    assert said == c.ask("POST", SPEECH, json={"input": "In Worcester.", **fields}).content


@row(KOKORO, "`GET /health`: `status` is `healthy`", TRANSLATED)
def kokoro_health(c: OtherClient) -> None:
    answer = c.http.get("/health")
    assert answer.status_code == 503 or answer.json() == {"status": "healthy"}  # a model of the tests' cluster


@row(
    KOKORO,
    "`POST /dev/unload`: a 403, as there by default; `GET /v1/download/{file}`: a 404, as there for a file that is "
    "gone",
    TRANSLATED,
)
def kokoro_operations(c: OtherClient) -> None:
    assert c.ask("POST", "/dev/unload", 403).json()["detail"]["error"] == "permission_denied"
    assert c.ask("GET", "/v1/download/a.wav", 404).json()["detail"]["error"] == "not_found"


@row(KOKORO, "`volume_multiplier`: samples are multiplied by it; loud ones are limited, not clipped", TRANSLATED)
def kokoro_volume(c: OtherClient) -> None:
    def level(**fields: float) -> float:
        audio = np.frombuffer(c.speak(seed=1, response_format="pcm", **fields).content, "<i2")
        return float(np.abs(audio.astype(float)).mean())

    assert abs(level(volume_multiplier=0.5) / level() - 0.5) < 0.01
    assert level(volume_multiplier=3) > 1.2 * level(volume_multiplier=1.0)
    for wrong in (-1, 11, "loud"):
        c.speak(400, volume_multiplier=wrong)


@row(
    KOKORO,
    "`return_download_link`, with `download_format` and `return_timing`: `X-Download-Status` is `unavailable`, as "
    "there if a file cannot be written (nothing that was spoken is stored here)",
    TRANSLATED,
)
def kokoro_download(c: OtherClient) -> None:
    assert "x-ignored-fields" not in c.speak(return_download_link=False, return_timing=False).headers
    answer = c.speak(return_download_link=True, download_format="wav")
    assert answer.headers["x-download-status"] == "unavailable"
    assert answer.headers["x-ignored-fields"] == "return_download_link, download_format"


@row(
    KOKORO,
    "`POST /dev/captioned_speech`: lines of JSON with `audio`, `audio_format`, `timestamps`",
    TRANSLATED,
    needs_words=True,
)
def kokoro_captions(c: OtherClient) -> None:
    body = {"model": "kokoro", "input": "Hello there.", "voice": "af_heart", "response_format": "wav"}
    answer = c.ask("POST", "/dev/captioned_speech", json=body)
    assert answer.headers["content-type"] == "application/json"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert {line["audio_format"] for line in lines} == {"audio/wav"}
    words = [word for line in lines for word in line["timestamps"]]
    assert [word["word"] for word in words] == ["Hello", "there"]
    assert words[0]["start_time"] < words[0]["end_time"] <= words[1]["start_time"]
    assert b"".join(base64.b64decode(line["audio"]) for line in lines).startswith(b"RIFF")


@row(KOKORO, "the same with `stream: false`: one JSON object", TRANSLATED, needs_words=True)
def kokoro_whole_captions(c: OtherClient) -> None:
    body = {"input": "Hello there.", "response_format": "wav", "stream": False}
    answer = c.ask("POST", "/dev/captioned_speech", json=body).json()
    assert answer.keys() == {"audio", "audio_format", "timestamps"}
    assert frames(base64.b64decode(answer["audio"]))[0] > 0
    assert [word["word"] for word in answer["timestamps"]] == ["Hello", "there"]
    answer = c.ask("POST", "/dev/captioned_speech", json={**body, "return_timestamps": False}).json()
    assert frames(base64.b64decode(answer["audio"]))[0] > 0
    assert answer["timestamps"] == []


@row(KOKORO, "the same with `allow_voice_tags`: the `voice` of each word", TRANSLATED, needs_words=True)
def kokoro_voices_of_words(c: OtherClient) -> None:
    text = "Hello there. [voice:af_high] [pause:0.5s] Good bye."
    body = {"input": text, "voice": "af_low", "allow_voice_tags": True, "response_format": "wav"}
    whole = c.ask("POST", "/dev/captioned_speech", json={**body, "stream": False}).json()["timestamps"]
    lines = [json.loads(line) for line in c.ask("POST", "/dev/captioned_speech", json=body).text.splitlines()]
    for words in (whole, [word for line in lines for word in line["timestamps"]]):
        told = [(word["word"], word["voice"]) for word in words]
        assert told == [("Hello", "af_low"), ("there", "af_low"), ("Good", "af_high"), ("bye", "af_high")]


@row(KOKORO, "the same for a text whose words cannot be found: no `timestamps`", TRANSLATED, needs_words=True)
def kokoro_wordless_captions(c: OtherClient) -> None:
    body = {"input": "Привет.", "response_format": "wav"}
    whole = c.ask("POST", "/dev/captioned_speech", json={**body, "stream": False}).json()
    lines = [json.loads(line) for line in c.ask("POST", "/dev/captioned_speech", json=body).text.splitlines()]
    assert frames(base64.b64decode(whole["audio"]))[0] > 0
    assert all(line["timestamps"] == [] for line in (whole, *lines))


@row(KOKORO, "`POST /dev/phonemize`: English as phonemes; with espeak-ng, five languages more", TRANSLATED)
def kokoro_phonemes(c: OtherClient) -> None:
    answer = c.ask("POST", "/dev/phonemize", json={"text": "Hello 2 words.", "language": "a"}).json()
    assert answer == {"phonemes": "həlˈO tˈu wˈɜɹdz.", "tokens": []}
    british = c.ask("POST", "/dev/phonemize", json={"text": "Hello words.", "language": "b"}).json()
    assert british["phonemes"] == "həlˈQ wˈɜːdz."
    assert c.ask("POST", "/dev/phonemize", 400, json={"text": "", "language": "a"}).json()["detail"]["message"]
    c.ask("POST", "/dev/phonemize", 400, json={"text": "Hola.", "language": "j"})
    c.ask("POST", "/dev/phonemize", 400, json={"text": "Hola.", "language": 7})


@row(
    KOKORO,
    "`POST /dev/generate_from_phonemes`: WAV, by a model that takes phonemes (Kokoro); any other says so in a 400",
    TRANSLATED,
)
def kokoro_from_phonemes(c: OtherClient) -> None:
    body = {"phonemes": "həlˈO", "voice": "af_heart"}
    answer = c.ask("POST", "/dev/generate_from_phonemes", 400, json=body)
    assert "lexicon" in answer.json()["detail"]["message"]


@row(KOKORO, "`POST /dev/dialogue`: `turns` with `voice` and `text`, `pause_between_turns`", TRANSLATED)
def kokoro_dialogue(c: OtherClient) -> None:
    turns = [{"voice": "af_low", "text": "Who is there?"}, {"voice_id": "high", "text": "It is me."}]
    body = {"turns": turns, "pause_between_turns": 0.5, "response_format": "wav", "stream": False}
    short = c.ask("POST", "/dev/dialogue", json={**body, "pause_between_turns": 0.0})
    long = c.ask("POST", "/dev/dialogue", json=body)
    rate = int(long.headers["x-sample-rate"])
    assert abs(frames(long.content)[0] - frames(short.content)[0] - 0.5 * rate) < 0.2 * rate


@row(KOKORO, "`GET /v1/audio/voices`: `voices` as `{id, name}`; `?legacy=true` as names", TRANSLATED)
def kokoro_listed(c: OtherClient) -> None:
    voices = c.ask("GET", VOICES).json()["voices"]
    assert {"id": "low", "name": "low"} in voices
    assert "low" in c.ask("GET", VOICES, params={"legacy": "true"}).json()["voices"]


@row(KOKORO, 'errors: `{"detail": {error, message, type}}`', TRANSLATED)
def kokoro_errors(c: OtherClient) -> None:
    detail = c.speak(400, voice="nobody").json()["detail"]
    assert detail.keys() == {"error", "message", "type"}
    assert detail["type"] == "invalid_request_error"


# --- what their example clients send, body by body ---


@row(
    VLLM,
    "the bodies of its example clients: a preset, instructions, every `task_type`, batches, `extra_params`",
    TRANSLATED,
)
def vllm_examples(c: OtherClient) -> None:
    common = {"voice": "LOW", "response_format": "wav"}
    cloned = {**common, "task_type": "Base", "ref_audio": DATA_URL}
    bodies = [
        common,
        {**common, "instructions": "Speak with excitement"},
        {**common, "task_type": "VoiceDesign", "instructions": "A warm, friendly female voice"},
        {**common, "task_type": "CustomVoice", "language": "English", "max_new_tokens": 64},
        {**cloned, "ref_text": "This is the reference transcript"},
        {**cloned, "x_vector_only_mode": True},
        {**common, "task_type": "Base", "speaker_embedding": [0.01] * EMBEDDING_SIZE},
        {"response_format": "wav", "extra_params": {"seed": 3}, "language": "French"},
        {"response_format": "pcm", "max_new_tokens": 300, "seed": 42},
        {"voice": "default", "response_format": "wav", "ref_audio": DATA_URL},
    ]
    for body in bodies:
        content = c.speak(**body).content
        assert len(content) > 1000 if body["response_format"] == "pcm" else frames(content)[0] > 1000
    shared = {**cloned, "ref_text": "Words.", "items": [{"input": "First sentence."}, {"input": "Second sentence."}]}
    answer = c.ask("POST", f"{SPEECH}/batch", json=shared).json()
    assert (answer["total"], answer["succeeded"], answer["failed"]) == (2, 2, 0)
    assert [(result["index"], result["status"]) for result in answer["results"]] == [(0, "success"), (1, "success")]


@row(
    VLLM,
    'the configurations of its WebSocket clients: `speaker`, `language: "Auto"`, `x_vector_only_mode`; word by word',
    TRANSLATED,
)
def vllm_example_sessions(c: OtherClient) -> None:
    common = {"speaker": "Low", "language": "Auto", "response_format": "wav", "speed": 1.0}
    cloned = {"ref_audio": DATA_URL, "ref_text": "Words."}
    configs = [
        {**common, "task_type": "CustomVoice"},
        {**common, "task_type": "VoiceDesign", "instructions": "A cheerful young female voice"},
        {**common, "task_type": "Base", **cloned, "x_vector_only_mode": True},
        {**cloned, "response_format": "wav", "split_granularity": "sentence", "max_new_tokens": 400},
    ]
    words = [{"type": "input.text", "text": word} for word in ("Hello ", "there. ", "How ", "are ", "you?")]
    for config in configs:
        events = c.session({"type": "session.config", **config}, *words, {"type": "input.done"})
        pieces = 2 if "split_granularity" in config else 1
        assert kinds(events) == ["audio.start", "bytes", "audio.done"] * pieces + ["session.done"]
        assert not any(event["error"] for event in events if isinstance(event, dict) and event["type"] == "audio.done")


@row(
    SGLANG,
    "the bodies of its documents: references with a text, sampling, `max_new_tokens`, `initial_codec_chunk_frames`",
    TRANSLATED,
)
def sglang_examples(c: OtherClient) -> None:
    cloned = {"references": [{"audio_path": DATA_URL, "text": "Words."}]}
    for body in (
        {},
        {"voice": "default", **cloned},
        {"voice": "default", **cloned, "temperature": 0.8, "top_k": 50, "max_new_tokens": 1024},
        {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 2048},
        {"task_type": "VoiceDesign", "instructions": "A warm, natural young adult voice."},
        {**cloned, "language": "Chinese", "initial_codec_chunk_frames": 8},
    ):
        assert frames(c.speak(**body).content)[0] > 1000
    answer = c.speak(voice="default", **cloned, stream=True, response_format="pcm")
    assert answer.headers["x-sample-rate"] == "24000"
    events = [data for _, data in sse(c.speak(**cloned, stream=True, response_format="wav"))]
    audio = [json.loads(data)["audio"] for data in events[:-1]]
    assert all(frames(base64.b64decode(one["data"]))[0] > 0 for one in audio if one)


@row(
    KOKORO,
    "the bodies of its examples: formats, speeds, voices of the list, unknown ones of Kokoro's, mixes",
    TRANSLATED,
)
def kokoro_examples(c: OtherClient) -> None:
    for form in ("mp3", "opus", "aac", "flac", "wav"):
        answer = c.speak(model="kokoro", voice="af_bella", response_format=form, speed=1.0)
        assert decode(answer.content).duration_s > 0.3
    for speed in (0.25, 1.0, 4.0):
        c.speak(model="kokoro", voice="af_heart", response_format="wav", speed=speed, stream=True)
    listed = c.ask("GET", VOICES).json()["voices"]
    for voice in (*(one["id"] for one in listed[:3]), "af_bella+af_irulan", "af_sky(0.3)+af_nicole(0.7)"):
        assert len(c.speak(model="kokoro", voice=voice, response_format="pcm").content) > 1000
    turns = [{"voice": "af_bella", "text": "Fine."}, {"voice": "not_a_real_voice", "text": "Nope."}]
    c.ask("POST", "/dev/dialogue", 400, json={"model": "kokoro", "turns": turns, "response_format": "wav"})


def table(dialect: str) -> str:
    """The lines of the table in docs/clients.md."""
    lines = [f"| {one.asks} | {one.verdict} |" for one in ROWS if one.dialect == dialect]
    return "\n".join(["| what a client sends or reads | here |", "|---|---|", *lines])
