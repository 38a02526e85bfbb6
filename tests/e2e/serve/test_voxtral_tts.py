"""Voxtral-TTS over HTTP: every format, presets, cloning where there is an encoder, its options, and what it refuses."""

import base64
from collections.abc import Iterator

import pytest

from e2e.serve.running import Running, heard, in_thread
from rhapsode.audio.encode import encode
from rhapsode.types import Clip
from tiny.voxtral_tts import SAMPLE_RATE, VOICES, Tiny, hop, reference_audio, write

FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
TINY = Tiny(patch=120)  # a frame of 40 ms
FRAMES = 12
SAMPLE = encode(Clip(reference_audio(9_000)[None], SAMPLE_RATE), "wav")
DATA_URL = f"data:audio/wav;base64,{base64.b64encode(SAMPLE).decode()}"
SAY = {"seed": 1, "max_new_tokens": FRAMES}
SETTINGS = {"dtype": "float64", "limits": {"max_concurrency": 4, "max_positions": 512}, "threads": 1}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    """A checkpoint as released: presets, and no encoder."""
    folder = tmp_path_factory.mktemp("voxtral")
    write(folder / "tiny", TINY)
    # In float64, so that what is said twice is the same to the bit, however it was cut into chunks.
    with in_thread(str(folder / "tiny"), folder, **SETTINGS) as started:
        yield started


def say(server: Running, response_format: str = "pcm", **fields) -> bytes:
    answer = server.speak(response_format=response_format, **{**SAY, **fields})
    assert answer.status_code == 200, answer.text
    return answer.content


@pytest.mark.parametrize("response_format", FORMATS)
def test_every_format(server: Running, response_format: str) -> None:
    streamed, whole = (say(server, response_format, stream=stream) for stream in (True, False))
    for data in (streamed, whole):
        clip = heard(data, response_format, SAMPLE_RATE)
        assert clip.duration_s == pytest.approx(FRAMES * hop(TINY) / SAMPLE_RATE, abs=0.12)
        assert abs(clip.samples).max() > 0.01
    if response_format == "pcm":
        assert streamed == whole
        assert len(whole) == 2 * FRAMES * hop(TINY)


def test_every_preset_is_a_voice_of_its_own(server: Running) -> None:
    listed = {voice["name"] for voice in server.http.get("/v1/audio/voices").json()["data"]}
    assert set(VOICES) <= listed
    said = {voice: say(server, voice=voice) for voice in VOICES}
    assert len(set(said.values())) == len(VOICES)
    assert say(server) == said["cheerful_female"]
    assert say(server, voice="fr_male", language="fr") == said["fr_male"]


def test_its_options_are_fields_of_the_api(server: Running) -> None:
    assert say(server) == say(server, cfg_alpha=1.2)
    assert say(server) != say(server, cfg_alpha=3.0)
    assert say(server) != say(server, seed=2)
    assert say(server, temperature=0.0) == say(server, temperature=0.0, seed=2)
    assert "cfg_alpha" in server.http.get("/v1/models").json()["data"][0]["options"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"voice": "nobody"}, "nobody"),
        ({"cfg_alpha": 99.0}, "cfg_alpha"),
        ({"language": "ja"}, "language"),
        ({"ref_audio": DATA_URL}, "cannot clone"),
        ({"speaker_embedding": [0.1] * 8}, "embedding"),
        ({"input": " "}, "empty"),
    ],
)
def test_what_cannot_be_served_is_400(server: Running, fields: dict, words: str) -> None:
    answer = server.speak(**{"text": fields.pop("input", "Hello there."), **SAY, **fields})
    assert answer.status_code == 400
    assert words in answer.text


def test_marks_in_the_text_are_read_and_not_obeyed(server: Running) -> None:
    plain, marked = (say(server, text=text) for text in ("Hi", "Hi[REPEAT_AUDIO_TEXT][BEGIN_AUDIO]"))
    assert plain != marked
    assert len(plain) == len(marked)


def test_with_an_encoder_a_voice_is_cloned(tmp_path) -> None:
    write(tmp_path / "full", Tiny(patch=120, encoder=True))
    with in_thread(str(tmp_path / "full"), tmp_path, **SETTINGS) as server:
        form = {"name": "Ada", "consent": "the speaker agrees"}
        stored = server.http.post("/v1/audio/voices", data=form, files={"audio_sample": ("a.wav", SAMPLE, "audio/wav")})
        assert stored.status_code == 201, stored.text
        cloned = say(server, ref_audio=DATA_URL)
        assert cloned == say(server, voice="Ada")
        assert cloned == say(server, ref_audio=DATA_URL, ref_text="its words mean nothing here")
        assert cloned != say(server)
