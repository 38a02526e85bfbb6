"""VoxCPM2 over HTTP: every format, every mode, voices that are uploaded, and its own options."""

import base64
from collections.abc import Iterator

import pytest

from e2e.serve.running import Running, heard, in_thread
from rhapsode.audio.encode import encode
from rhapsode.types import Clip
from tiny.voxcpm2 import OUT_RATE, SAMPLE_RATE, Tiny, reference_audio, write

FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
PATCH_S, PATCHES = 0.16, 6
SAMPLE, OTHER = (encode(Clip(reference_audio(6_000, seed)[None], SAMPLE_RATE), "wav") for seed in (0, 1))
DATA_URL, OTHER_URL = (f"data:audio/wav;base64,{base64.b64encode(data).decode()}" for data in (SAMPLE, OTHER))
SAY = {"seed": 1, "max_len": PATCHES, "inference_timesteps": 2}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("voxcpm2")
    write(folder / "tiny", Tiny(stop_shift=10.0, layers=(1, 1, 1)))
    # In float64, so that what is said twice is the same to the bit, however it was cut into chunks.
    settings = {"dtype": "float64", "limits": {"max_concurrency": 8, "max_positions": 512}, "threads": 1}
    with in_thread(str(folder / "tiny"), folder, **settings) as started:
        yield started


def say(server: Running, response_format: str = "pcm", **fields) -> bytes:
    answer = server.speak(response_format=response_format, **{**SAY, **fields})
    assert answer.status_code == 200, answer.text
    return answer.content


@pytest.mark.parametrize("response_format", FORMATS)
def test_every_format_at_48_khz(server: Running, response_format: str) -> None:
    rate = {"sample_rate": OUT_RATE} if response_format == "pcm" else {}  # without a header, 24 kHz is expected
    streamed, whole = (say(server, response_format, stream=stream, **rate) for stream in (True, False))
    for data in (streamed, whole):
        clip = heard(data, response_format, OUT_RATE)
        assert clip.sample_rate == OUT_RATE
        assert clip.duration_s == pytest.approx(PATCHES * PATCH_S, abs=0.12)
        assert abs(clip.samples).max() > 0.01
    if response_format == "pcm":
        assert streamed == whole
        assert len(whole) == 2 * round(PATCHES * PATCH_S * OUT_RATE)


@pytest.mark.slow
def test_an_uploaded_voice_speaks_in_every_mode(server: Running) -> None:
    form = {"name": "Ada", "consent": "the speaker agrees", "text": "the ref"}
    stored = server.http.post("/v1/audio/voices", data=form, files={"audio_sample": ("a.wav", SAMPLE, "audio/wav")})
    assert stored.status_code == 201, stored.text
    modes = {
        "plain": say(server),
        "design": say(server, instructions="An old man"),
        "reference": say(server, voice="Ada", cloning="reference"),
        "control": say(server, voice="Ada", instructions="whispering"),
        "continuation": say(server, voice="Ada"),
        "both": say(server, voice="Ada", cloning="both"),
    }
    assert len(set(modes.values())) == len(modes)
    assert modes["continuation"] == say(server, ref_audio=DATA_URL, ref_text="the ref")
    assert modes["continuation"] == say(server, prompt_audio=DATA_URL, prompt_text="the ref")
    assert modes["continuation"] == say(server, prompt_audio="Ada")  # with the text it was uploaded with
    assert modes["both"] == say(server, voice="Ada", prompt_audio=DATA_URL, prompt_text="the ref")
    assert modes["reference"] == say(server, ref_audio=DATA_URL)
    assert modes["design"] == say(server, input="(An old man)Hello there.")
    two_clips = say(server, ref_audio=DATA_URL, prompt_audio=OTHER_URL, prompt_text="the ref")
    assert two_clips not in modes.values()
    assert server.http.delete("/v1/audio/voices/Ada").status_code == 200


def test_its_options_are_fields_of_the_api(server: Running) -> None:
    usual = say(server)
    assert usual != say(server, cfg_value=3.0)
    assert usual != say(server, inference_timesteps=4)
    assert len(say(server, max_len=2)) * PATCHES == len(usual) * 2
    options = server.http.get("/v1/models").json()["data"][0]["options"]
    assert {"cfg_value", "inference_timesteps", "min_len", "max_len", "cloning"} <= set(options)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"inference_timesteps": 11}, "max_timesteps"),
        ({"cfg_value": 99.0}, "cfg_value"),
        ({"cloning": "both"}, "reference audio"),
        ({"cloning": "never"}, "cloning"),
        ({"voice": "nobody"}, "nobody"),
        ({"prompt_text": "the ref"}, "prompt_audio"),
        ({"prompt_audio": DATA_URL}, "transcript"),
        ({"prompt_audio": "/etc/passwd", "prompt_text": "the ref"}, "prompt_audio"),
        ({"prompt_audio": DATA_URL, "prompt_text": "the ref", "instructions": "sadly"}, "instructions"),
        ({"prompt_audio": DATA_URL, "prompt_text": "the ref", "cloning": "both"}, "cloning"),
        ({"speaker_embedding": [0.1] * 8}, "embedding"),
    ],
)
def test_what_cannot_be_served_is_400(server: Running, fields: dict, words: str) -> None:
    answer = server.speak(**{**SAY, **fields})
    assert answer.status_code == 400
    assert words in answer.text
