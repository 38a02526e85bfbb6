"""MOSS-TTS-Nano over HTTP: stereo in every format, every mode, voices that are uploaded, and its own options."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import numpy as np
import pytest
from websockets.sync.client import connect

from e2e.serve.running import Running, in_thread
from rhapsode.audio.decode import decode
from rhapsode.audio.encode import encode
from rhapsode.types import Clip
from tiny.moss_tts_nano import SAMPLE_RATE, Tiny, reference_audio, write

FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
TINY = Tiny(patch=960, last_codes=0)  # frames of 40 ms; it ends where it is told to
FRAMES, FRAME_S = 12, 0.04
SAMPLE = encode(Clip(reference_audio(5 * TINY.hop), SAMPLE_RATE), "wav")
DATA_URL = f"data:audio/wav;base64,{base64.b64encode(SAMPLE).decode()}"
SAY = {"seed": 1, "max_new_tokens": FRAMES}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("moss")
    write(folder / "tiny", TINY)
    # In float64, so that what is said twice is the same to the bit, however it was cut into chunks.
    settings = {"dtype": "float64", "limits": {"max_concurrency": 4, "max_positions": 1024}, "threads": 1}
    with in_thread(str(folder / "tiny"), folder, **settings) as started:
        yield started


def ask(server: Running, response_format: str = "pcm", **fields) -> httpx2.Response:
    answer = server.speak(response_format=response_format, **{**SAY, **fields})
    assert answer.status_code == 200, answer.text
    return answer


def heard(answer: httpx2.Response, response_format: str) -> Clip:
    channels, rate = int(answer.headers["X-Channels"]), int(answer.headers["X-Sample-Rate"])
    if response_format != "pcm":
        clip = decode(answer.content, mono=False)
        assert (clip.channels, clip.sample_rate) == (channels, rate)
        return clip
    return Clip(np.frombuffer(answer.content, "<i2").reshape(-1, channels).T.astype(np.float32) / 32768, rate)


def difference(clip: Clip) -> float:
    """How much the channels differ, as a part of how loud they are."""
    left, right = clip.samples
    return float((left - right).std() / clip.samples.std())


@pytest.mark.parametrize("response_format", FORMATS)
def test_stereo_in_every_format_streamed_and_whole(server: Running, response_format: str) -> None:
    wish = {"channels": 2, "sample_rate": SAMPLE_RATE}
    answers = [ask(server, response_format, stream=stream, **wish) for stream in (True, False)]
    streamed, whole = (heard(answer, response_format) for answer in answers)
    for clip in (streamed, whole):
        assert (clip.channels, clip.sample_rate) == (2, SAMPLE_RATE)
        assert clip.duration_s == pytest.approx(FRAMES * FRAME_S, abs=0.1)
        assert difference(clip) > 0.3
    if response_format in ("flac", "wav", "pcm"):
        np.testing.assert_array_equal(streamed.samples, whole.samples)


@pytest.mark.parametrize("response_format", FORMATS)
def test_formats_are_stereo_by_default_but_pcm_is_mono(server: Running, response_format: str) -> None:
    clip = heard(ask(server, response_format), response_format)
    assert clip.channels == (1 if response_format == "pcm" else 2)
    assert clip.sample_rate == (24_000 if response_format == "pcm" else SAMPLE_RATE)


@pytest.mark.parametrize("response_format", FORMATS)
def test_mono_on_request(server: Running, response_format: str) -> None:
    assert heard(ask(server, response_format, channels=1), response_format).channels == 1


def test_mono_is_the_mean_of_both_channels(server: Running) -> None:
    wish = {"sample_rate": SAMPLE_RATE, "stream": False}
    mono, stereo = (heard(ask(server, "wav", channels=n, **wish), "wav").samples for n in (1, 2))
    both_inside = np.abs(stereo).max(axis=0) < 0.99  # samples beyond full scale are clipped, each channel by itself
    assert np.abs(stereo.mean(axis=0) - mono[0])[both_inside].max() <= 1.01 / 32768


def test_speed_keeps_two_channels(server: Running) -> None:
    clip = heard(ask(server, "wav", speed=1.5), "wav")
    assert clip.duration_s == pytest.approx(FRAMES * FRAME_S / 1.5, abs=0.01)
    assert difference(clip) > 0.3


@pytest.mark.parametrize(("wish", "channels"), [({}, 1), ({"channels": 2}, 2)])
def test_events_are_mono_unless_stereo_is_asked_for(server: Running, wish: dict, channels: int) -> None:
    answer = ask(server, "wav", stream_format="sse", **wish)
    events = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]
    data = b"".join(base64.b64decode(event["audio"]) for event in events if "audio" in event)
    assert answer.headers["X-Channels"] == str(channels)
    assert decode(data, mono=False).channels == channels


@pytest.mark.parametrize(("wish", "channels"), [({}, 2), ({"channels": 1}, 1), ({"response_format": "pcm"}, 1)])
def test_a_socket_says_how_many_channels_come(server: Running, wish: dict, channels: int) -> None:
    with connect(server.socket_url, proxy=None) as socket:
        socket.send(json.dumps({"type": "session.config", **SAY, **wish}))
        socket.send(json.dumps({"type": "input.text", "text": "Hello there."}))
        socket.send(json.dumps({"type": "input.done"}))
        told = json.loads(socket.recv(timeout=20))
        assert (told["type"], told["channels"]) == ("audio.start", channels)


def test_a_batch_says_so_too(server: Running) -> None:
    items = [{"input": "One."}, {"input": "Two.", "channels": 1}]
    found = server.http.post("/v1/audio/speech/batch", json={**SAY, "response_format": "wav", "items": items}).json()
    for result, channels in zip(found["results"], (2, 1), strict=True):
        assert result["channels"] == channels
        assert decode(base64.b64decode(result["audio_data"]), mono=False).channels == channels


def test_an_uploaded_voice_speaks_in_every_mode(server: Running) -> None:
    form = {"name": "Ada", "consent": "the speaker agrees", "text": "the ref"}
    stored = server.http.post("/v1/audio/voices", data=form, files={"audio_sample": ("a.wav", SAMPLE, "audio/wav")})
    assert stored.status_code == 201, stored.text
    modes = {
        "plain": ask(server).content,
        "clone": ask(server, voice="Ada", cloning="reference").content,
        "continuation": ask(server, voice="Ada").content,
        "few codebooks": ask(server, voice="Ada", nq=1).content,
    }
    assert len(set(modes.values())) == len(modes)
    assert modes["clone"] == ask(server, ref_audio=DATA_URL).content
    assert modes["continuation"] == ask(server, ref_audio=DATA_URL, ref_text="the ref").content
    assert modes["continuation"] == ask(server, prompt_audio=DATA_URL, prompt_text="the ref").content
    assert server.http.delete("/v1/audio/voices/Ada").status_code == 200


def test_both_channels_of_a_reference_count(server: Running) -> None:
    one_side = encode(Clip(np.repeat(reference_audio(5 * TINY.hop)[:1], 2, axis=0), SAMPLE_RATE), "wav")
    other = f"data:audio/wav;base64,{base64.b64encode(one_side).decode()}"
    assert ask(server, ref_audio=DATA_URL).content != ask(server, ref_audio=other).content


def test_its_options_and_its_channels_are_in_the_description_of_the_model(server: Running) -> None:
    model = server.http.get("/v1/models").json()["data"][0]
    assert (model["channels"], model["sample_rate"]) == (2, SAMPLE_RATE)
    assert {"cloning", "max_text_tokens", "nq", "text_temperature"} <= set(model["options"])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"channels": 3}, "channels"),
        ({"channels": "2"}, "channels"),
        ({"nq": 9}, "3 codebooks"),
        ({"cloning": "reference"}, "reference audio"),
        ({"voice": "nobody"}, "nobody"),
        ({"prompt_audio": DATA_URL}, "transcript"),
        ({"ref_audio": DATA_URL, "prompt_audio": DATA_URL, "prompt_text": "a"}, "not both"),
        ({"ref_audio": [DATA_URL, DATA_URL]}, "one reference"),
        ({"speaker_embedding": [0.1] * 8}, "embedding"),
    ],
)
def test_what_cannot_be_served_is_400(server: Running, fields: dict, words: str) -> None:
    answer = server.speak(**{**SAY, **fields})
    assert answer.status_code == 400
    assert words in answer.text


def test_min_p_leaves_only_what_is_nearly_as_likely_as_the_best(server: Running) -> None:
    wishes: tuple[dict, ...] = ({}, {"min_p": 0.0}, {"min_p": 1.0}, {"temperature": 0})
    free, off, strict, greedy = (ask(server, text_temperature=0, **wish).content for wish in wishes)
    assert free == off != strict == greedy


@pytest.mark.parametrize("value", [-0.1, 1.5, "0.1", True])
def test_a_wrong_min_p_is_told(server: Running, value: object) -> None:
    answer = server.speak(**SAY, min_p=value)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "min_p")
