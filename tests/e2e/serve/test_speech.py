"""The speech route, through OpenAI's own client: every format, whole and streamed, and what goes wrong."""

import base64
import json

import httpx2
import numpy as np
import pytest

from e2e.serve.running import LETTER_BYTES, LETTER_S, Running, heard
from hearing import packets
from rhapsode.audio.loudness import integrated_loudness

TEXT = "The quick brown fox jumps over the lazy dog. " * 2
FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
TELEPHONY = ("mulaw", "alaw", "wav_mulaw", "wav_alaw", "l16", "opus_packets")
LOSSLESS = ("pcm", "wav", "flac", "mulaw", "l16")
ENCODER_DELAY_S = {"mp3": 0.11, "aac": 0.11, "opus": 0.03, "opus_packets": 0.03}
MEDIA = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
    "mulaw": "audio/PCMU",
    "alaw": "audio/PCMA",
    "wav_mulaw": "audio/wav",
    "l16": "audio/L16;rate=24000;channels=1",
    "opus_packets": "audio/x-opus-packets",
}


def whole(server: Running, **wishes) -> bytes:
    extra = wishes.pop("extra_body", {})
    wish = {"model": "tts-1", "voice": "alloy", "input": TEXT, **wishes}
    return server.openai.audio.speech.create(**wish, extra_body={"stream": False, **extra}).read()


def streamed(server: Running, **wishes) -> list[bytes]:
    wish = {"model": "tts-1", "voice": "alloy", "input": TEXT, **wishes}
    with server.openai.audio.speech.with_streaming_response.create(**wish) as response:
        return [part for part in response.iter_bytes() if part]


def check_duration(data: bytes, response_format: str, expected_s: float) -> None:
    longer_s = ENCODER_DELAY_S.get(response_format, 0.0)
    assert -LETTER_S < heard(data, response_format).duration_s - expected_s < longer_s + LETTER_S


@pytest.mark.parametrize("response_format", FORMATS + TELEPHONY)
def test_every_format_comes_whole(dummy: Running, response_format: str) -> None:
    data = whole(dummy, response_format=response_format)
    check_duration(data, response_format, len(TEXT.strip()) * LETTER_S)
    assert np.abs(heard(data, response_format).samples).max() > 0.05  # it is no silence of that length


@pytest.mark.parametrize("response_format", FORMATS + TELEPHONY)
def test_every_format_streams(dummy: Running, response_format: str) -> None:
    parts = streamed(dummy, response_format=response_format)
    assert len(parts) > 1
    check_duration(b"".join(parts), response_format, len(TEXT.strip()) * LETTER_S)


@pytest.mark.parametrize("response_format", FORMATS)
def test_hibari_speaks_every_format(hibari: Running, response_format: str) -> None:
    wish = {"response_format": response_format, "extra_body": {"seed": 3}}
    spoken_s = heard(whole(hibari, **wish), response_format).duration_s
    assert 4 < spoken_s < 9
    check_duration(b"".join(streamed(hibari, **wish)), response_format, spoken_s)


@pytest.mark.parametrize(
    ("response_format", "speed"),
    [
        *((name, 1.0) for name in LOSSLESS),
        *(("pcm", speed) for speed in (1.5, 0.7)),
        *(pytest.param(name, speed, marks=pytest.mark.slow) for name in LOSSLESS[1:] for speed in (1.5, 0.7)),
    ],
)
def test_streamed_equals_whole_sample_for_sample(dummy: Running, response_format: str, speed: float) -> None:
    wish = {"response_format": response_format, "speed": speed, "extra_body": {"seed": 5}}
    in_one_piece = heard(whole(dummy, **wish), response_format)
    in_pieces = heard(b"".join(streamed(dummy, **wish)), response_format)
    assert in_one_piece.sample_rate == in_pieces.sample_rate
    assert np.array_equal(in_one_piece.samples, in_pieces.samples)
    assert abs(in_one_piece.duration_s - len(TEXT.strip()) * LETTER_S / speed) < LETTER_S


def test_speech_is_as_loud_as_asked_streamed_or_whole(dummy: Running) -> None:
    wish = {"response_format": "wav", "extra_body": {"seed": 5, "loudness": -16}}
    in_one_piece = heard(whole(dummy, **wish), "wav")
    assert np.array_equal(in_one_piece.samples, heard(b"".join(streamed(dummy, **wish)), "wav").samples)
    assert abs(integrated_loudness(in_one_piece.samples, in_one_piece.sample_rate) + 16) < 1.5
    refused = dummy.speak(loudness=-5)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "loudness")


def test_hibari_streamed_equals_whole(hibari: Running) -> None:
    wish = {"response_format": "wav", "speed": 1.2, "extra_body": {"seed": 5}}
    assert np.array_equal(
        heard(whole(hibari, **wish), "wav").samples, heard(b"".join(streamed(hibari, **wish)), "wav").samples
    )


@pytest.mark.parametrize(
    "response_format",
    ["mp3", "pcm", *(pytest.param(one, marks=pytest.mark.slow) for one in ("opus", "aac", "flac", "wav"))],
)
def test_the_first_bytes_come_before_the_last_frame_is_made(dummy: Running, response_format: str) -> None:
    with dummy.openai.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input="x" * 400, response_format=response_format
    ) as response:
        request_id = response.headers["X-Request-Id"]
        parts = response.iter_bytes()
        next(parts)
        assert dummy.http.get(f"/v1/audio/speech/{request_id}").json()["status"] == "running"
        assert sum(map(len, parts)) > 0
    ended = dummy.http.get(f"/v1/audio/speech/{request_id}").json()
    assert (ended["status"], ended["delivered"]) == ("finished", True)


# --- what the answer says of itself ---


def test_mp3_is_the_default(dummy: Running) -> None:
    answer = dummy.speak()
    assert answer.headers["content-type"] == "audio/mpeg"
    assert "content-length" not in answer.headers
    assert heard(answer.content, "mp3").duration_s > 0.2


@pytest.mark.parametrize(("response_format", "media_type"), MEDIA.items())
def test_headers_say_what_it_is(dummy: Running, response_format: str, media_type: str) -> None:
    answer = dummy.speak(response_format=response_format, stream=False)
    assert answer.headers["content-type"] == media_type
    assert answer.headers["x-channels"] == "1"
    assert answer.headers["x-finish-reason"] == "stop"
    assert int(answer.headers["content-length"]) == len(answer.content)
    if response_format not in ("pcm", "l16"):
        assert heard(answer.content, response_format).sample_rate in (int(answer.headers["x-sample-rate"]), 48_000)


def test_pcm_is_24_khz_whatever_the_model(dummy: Running) -> None:
    answer = dummy.speak("x" * 25, response_format="pcm")
    assert answer.headers["x-sample-rate"] == "24000"
    assert abs(len(answer.content) / 2 / 24_000 - 25 * LETTER_S) < 0.001


@pytest.mark.parametrize("response_format", [*FORMATS, "l16"])
def test_the_sample_rate_can_be_chosen(dummy: Running, response_format: str) -> None:
    answer = dummy.speak("x" * 25, response_format=response_format, sample_rate=48_000)
    assert answer.headers["x-sample-rate"] == "48000"
    clip = heard(answer.content, response_format, 48_000)
    assert clip.sample_rate == 48_000
    assert -LETTER_S < clip.duration_s - 25 * LETTER_S < 0.13


@pytest.mark.parametrize("response_format", ["mulaw", "alaw", "wav_mulaw"])
def test_the_telephone_has_8_khz(dummy: Running, response_format: str) -> None:
    answer = dummy.speak("x" * 25, response_format=response_format)
    assert answer.headers["x-sample-rate"] == "8000"
    assert abs(heard(answer.content, response_format).duration_s - 25 * LETTER_S) < 0.001
    refused = dummy.speak(response_format=response_format, sample_rate=16_000)
    assert refused.status_code == 400
    assert "8000" in refused.json()["error"]["message"]


def test_an_event_has_one_packet(dummy: Running) -> None:
    told = events(dummy, input="x" * 10, response_format="opus_packets", seed=1)
    carried = [base64.b64decode(event["audio"]) for event in told if event["type"] == "speech.audio.delta"]
    assert carried == packets(dummy.speak("x" * 10, response_format="opus_packets", seed=1).content)
    assert len(carried) == 41  # 800 ms, and 6.5 ms of the encoder's delay


def test_a_streamed_wav_says_that_its_length_is_unknown_and_a_whole_one_says_it(dummy: Running) -> None:
    stream, complete = (dummy.speak(response_format="wav", stream=s).content for s in (True, False))
    assert stream[4:8] == stream[40:44] == b"\xff\xff\xff\xff"
    assert int.from_bytes(complete[40:44], "little") == len(complete) - 44


def test_a_request_keeps_the_id_its_client_chose(dummy: Running) -> None:
    answer = dummy.http.post("/v1/audio/speech", json={"input": "Hi."}, headers={"X-Request-Id": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    assert dummy.http.get("/v1/audio/speech/mine-1").json()["finish_reason"] == "stop"


def test_an_id_that_makes_no_sense_is_replaced(dummy: Running) -> None:
    answer = dummy.http.post("/v1/audio/speech", json={"input": "Hi."}, headers={"X-Request-Id": "a b\tc"})
    assert answer.headers["x-request-id"].startswith("req-")


# --- server-sent events ---


def events(server: Running, **fields) -> list[dict]:
    with server.http.stream("POST", "/v1/audio/speech", json={"stream_format": "sse", **fields}) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        lines = [line for line in answer.iter_lines() if line.startswith("data:")]
    return [json.loads(line.removeprefix("data:")) for line in lines]


def test_events_carry_the_same_bytes(dummy: Running) -> None:
    told = events(dummy, input=TEXT, response_format="pcm", seed=1)
    assert [event["type"] for event in told[:-1]] == ["speech.audio.delta"] * (len(told) - 1)
    assert len(told) > 2
    joined = b"".join(base64.b64decode(event["audio"]) for event in told[:-1])
    assert joined == dummy.speak(TEXT, response_format="pcm", seed=1).content
    assert told[-1]["type"] == "speech.audio.done"
    assert told[-1]["usage"]["output_tokens"] == len(TEXT.strip())
    assert told[-1]["usage"]["total_tokens"] == told[-1]["usage"]["input_tokens"] + len(TEXT.strip())


def test_what_livekit_sends_is_answered_as_livekit_reads_it(dummy: Running) -> None:
    told = events(
        dummy,
        input="Hello.",
        model="gpt-4o-mini-tts",
        voice="ash",
        response_format="mp3",
        speed=1.0,
        instructions="Warm.",
    )
    audio = b"".join(base64.b64decode(e["audio"]) for e in told if e["type"] == "speech.audio.delta")
    assert heard(audio, "mp3").duration_s > 0.1


def test_an_error_before_the_first_audio_has_a_status_even_with_events(dummy: Running) -> None:
    assert dummy.speak("", stream_format="sse").status_code == 400


def test_an_error_midway_is_an_event(dummy: Running) -> None:
    told = events(dummy, input="x" * 100, response_format="pcm", endless=True)
    assert told[0]["type"] == "speech.audio.delta"
    assert told[-1]["type"] == "error"
    assert told[-1]["error"]["code"] == "runaway"


def test_an_error_midway_breaks_a_raw_stream_and_is_remembered(dummy: Running) -> None:
    with dummy.openai.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input="x" * 100, response_format="pcm", extra_body={"endless": True}
    ) as response:
        request_id = response.headers["X-Request-Id"]
        with pytest.raises(httpx2.RemoteProtocolError, match="incomplete"):
            list(response.iter_bytes())
    ended = dummy.http.get(f"/v1/audio/speech/{request_id}").json()
    assert (ended["status"], ended["error"]["code"], ended["delivered"]) == ("failed", "runaway", False)


def test_a_whole_request_that_runs_away_is_never_returned_as_if_it_were_fine(dummy: Running) -> None:
    answer = dummy.speak("x" * 100, endless=True, stream=False)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "runaway")


# --- spellings, and what the user set ---


@pytest.mark.parametrize(
    "spelling",
    [
        {"input": "Say it."},
        {"text": "Say it."},
        {"messages": [{"role": "user", "content": "Say it."}]},
        {"messages": [{"role": "assistant", "content": "No."}, {"role": "user", "content": [{"text": "Say it."}]}]},
    ],
)
def test_text_may_be_spelt_three_ways(dummy: Running, spelling: dict) -> None:
    common = {"response_format": "pcm", "seed": 2}
    expected = dummy.speak("Say it.", **common).content
    assert dummy.http.post("/v1/audio/speech", json={**common, **spelling}).content == expected


@pytest.mark.parametrize(
    "voice", [{"voice": "high"}, {"speaker": "high"}, {"voice": {"id": "high"}}, {"voice": "HIGH"}]
)
def test_a_voice_may_be_spelt_several_ways(dummy: Running, voice: dict) -> None:
    common = {"response_format": "pcm", "seed": 2}
    assert dummy.speak(**common, **voice).content == dummy.speak(**common, voice="high").content
    assert dummy.speak(**common, **voice).content != dummy.speak(**common, voice="low").content


def test_openai_names_always_mean_the_same_preset(dummy: Running) -> None:
    common = {"response_format": "pcm", "seed": 2}
    listed = {v["id"]: v for v in dummy.http.get("/v1/audio/voices").json()["voices"]}
    for name in ("alloy", "ash", "shimmer"):
        meant = dummy.speak(**common, voice=listed[name]["alias_of"]).content
        assert dummy.speak(**common, voice=name).content == meant


def test_a_null_is_as_good_as_nothing(dummy: Running) -> None:
    common = {"response_format": "pcm", "seed": 2}
    nulls = {"voice": None, "speed": None, "temperature": None, "stream": None, "instructions": None, "endless": None}
    assert dummy.speak(**common, **nulls).content == dummy.speak(**common).content


def test_only_what_the_user_set_overrides_the_family(dummy: Running) -> None:
    common = {"response_format": "pcm"}
    greedy = {dummy.speak(**common, temperature=0).content for _ in range(3)}
    drawn = {dummy.speak(**common).content for _ in range(3)}
    assert (len(greedy), len(drawn)) == (1, 3)


def test_the_most_frames_may_be_set(dummy: Running) -> None:
    answer = dummy.speak("x" * 50, max_new_tokens=10, response_format="pcm", sample_rate=16_000, stream=False)
    assert answer.headers["x-finish-reason"] == "length"
    assert len(answer.content) == 10 * LETTER_BYTES


# --- a batch ---


def test_a_batch_has_results_and_errors_per_item(dummy: Running) -> None:
    items = [
        {"input": "One."},
        {"input": ""},
        {"input": "Three.", "response_format": "flac", "speed": 2.0},
        {"inptu": "x"},
    ]
    answer = dummy.http.post("/v1/audio/speech/batch", json={"items": items, "response_format": "wav", "voice": "low"})
    body = answer.json()
    assert (body["total"], body["succeeded"], body["failed"]) == (4, 2, 2)
    one, two, three, four = body["results"]
    assert abs(heard(base64.b64decode(one["audio_data"]), "wav").duration_s - 4 * LETTER_S) < LETTER_S
    assert abs(heard(base64.b64decode(three["audio_data"]), "flac").duration_s - 6 * LETTER_S / 2) < LETTER_S
    assert (one["media_type"], three["media_type"]) == ("audio/wav", "audio/flac")
    assert two["status"] == "error"
    assert "did you mean 'input'?" in four["error"]["message"]
    assert dummy.http.get(f"/v1/audio/speech/{one['request_id']}").json()["delivered"]


@pytest.mark.parametrize("items", [[], [{"input": "x"}] * 33, "x", [1], None])
def test_a_batch_of_the_wrong_size_is_refused(dummy: Running, items) -> None:
    assert dummy.http.post("/v1/audio/speech/batch", json={"items": items}).status_code == 400
