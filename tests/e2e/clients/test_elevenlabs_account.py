"""Voices, dialogues and accounts of ElevenLabs, with ElevenLabs' own client; and errors in its shape everywhere."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

import httpx2
import numpy as np
import pytest

from e2e.clients.test_elevenlabs import connected
from e2e.serve.running import LETTER_BYTES, Running, heard, in_thread
from rhapsode.audio.encode import encode
from rhapsode.serve.elevenlabs.premade import PREMADE
from rhapsode.types import Clip

pytest.importorskip("elevenlabs", reason="the client is not installed: pip install elevenlabs")

from elevenlabs import DialogueInput
from elevenlabs.client import ElevenLabs
from elevenlabs.core import ApiError

QUICK_STARTS = ["21m00Tcm4TlvDq8ikWAM", "JBFqnCBsd6RMkjVDRZzb"]
CONSENT = {"consent": "recorded by the speaker, 2026-11-01"}
PCM = "pcm_16000"


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[ElevenLabs]:
    with connected(server) as client:
        yield client


@pytest.fixture(scope="module")
def cloner(cloning: Running) -> Iterator[ElevenLabs]:
    with connected(cloning) as client:
        yield client


def recording(seconds: float = 2.0, rate: int = 16_000) -> BytesIO:
    noise = np.random.default_rng(1).uniform(-0.3, 0.3, (1, round(seconds * rate))).astype(np.float32)
    return BytesIO(encode(Clip(noise, rate), "wav"))


# --- cloning ---


@pytest.mark.parametrize("rates", [(16_000,), (16_000, 24_000)], ids=["one recording", "two"])
def test_a_voice_is_cloned_spoken_listed_and_deleted(cloner: ElevenLabs, cloning: Running, rates: tuple) -> None:
    made = cloner.voices.ivc.create(
        name="Ada",
        files=[recording(rate=rate) for rate in rates],
        description="A test.",
        labels={"age": "old", **CONSENT},
    )
    assert made.requires_verification is False
    stored = next(v for v in cloning.http.get("/v1/audio/voices").json()["voices"] if v["id"] == made.voice_id)
    assert (stored["consent"], stored["duration_s"]) == (CONSENT["consent"], pytest.approx(2.0 * len(rates), abs=0.01))
    voice = cloner.voices.get(made.voice_id)
    assert (voice.name, voice.category) == ("Ada", "cloned")
    assert cloner.user.subscription.get().voice_slots_used == 1
    assert b"".join(cloner.text_to_speech.convert(made.voice_id, text="Hi.", output_format=PCM))
    assert cloner.voices.delete(made.voice_id).status == "ok"
    with pytest.raises(ApiError) as refused:
        cloner.voices.delete(made.voice_id)
    assert (refused.value.status_code, refused.value.body["detail"]["status"]) == (404, "not_found")


def test_a_voice_needs_the_consent_of_its_owner(cloner: ElevenLabs) -> None:
    for labels in ({}, {"consent": " "}, {"age": "old"}):
        with pytest.raises(ApiError) as refused:
            cloner.voices.ivc.create(name="Ada", files=[recording()], labels=labels)
        assert refused.value.status_code == 400
        assert "labels" in refused.value.body["detail"]["message"]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"name": "default"}, 400),
        ({"name": "low"}, 400),
        ({"name": "../x"}, 400),
        ({"files": []}, 400),
        ({"files": [BytesIO(b"not audio")]}, 400),
        ({"files": [recording(5), recording(5)]}, 400),
        ({"files": [recording(8, 48_000)] * 2}, 400),
        ({"files": [recording(1)] * 26}, 400),
        ({"labels": "["}, 400),
        ({"labels": "[" * 50_000}, 400),
    ],
)
def test_a_form_that_makes_no_voice_is_refused_in_their_shape(
    cloner: ElevenLabs, given: dict[str, Any], status: int
) -> None:
    form = {"name": "Bob", "files": [recording()], "labels": CONSENT, **given}
    with pytest.raises(ApiError) as refused:
        cloner.voices.ivc.create(**form)
    assert refused.value.status_code == status, refused.value.body
    assert refused.value.body["detail"]["message"].endswith(".")


@pytest.mark.parametrize(
    "form",
    [
        [("name", "A"), ("name", "B")],
        [("name", "")],
        [("name", "A"), ("labels", '{"consent": "\\ud800"}')],
        [("name", "A"), ("consent", "")],
        [("name", "A"), ("labels", "5")],
        [("name", "A"), ("labels", '{"consent": ["x"]}')],
        [(f"field{number}", "x") for number in range(9)],
        [("name", "x" * 2**21)],
    ],
)
def test_fields_of_a_form_that_make_no_sense_are_no_bug(cloning: Running, form: list[tuple[str, str]]) -> None:
    parts = [(name, (None, value)) for name, value in form]
    answer = cloning.http.post("/v1/voices/add", files=[*parts, ("files", ("a.wav", recording(), "audio/wav"))])
    assert answer.status_code == 400, answer.text
    assert answer.json()["detail"].keys() == {"status", "message"}


def test_a_model_that_does_not_clone_says_so(client: ElevenLabs) -> None:
    with pytest.raises(ApiError) as refused:
        client.voices.ivc.create(name="Ada", files=[recording()], labels=CONSENT)
    assert refused.value.status_code == 400


# --- dialogues ---


@pytest.mark.parametrize("method", ["convert", "stream"])
def test_a_dialogue_is_spoken_by_all_of_its_voices(client: ElevenLabs, server: Running, method: str) -> None:
    inputs = [DialogueInput(text="Hello.", voice_id="low"), DialogueInput(text="Hi.", voice_id=QUICK_STARTS[1])]
    speak = getattr(client.text_to_dialogue, method)
    spoken = b"".join(speak(inputs=inputs, output_format=PCM, model_id="eleven_v3", seed=3))
    segments = [{"voice": "low", "input": "Hello."}, {"voice": "high", "input": "Hi."}]
    ours = {"response_format": "pcm", "sample_rate": 16_000, "seed": 3, "channels": 1}
    assert spoken == server.http.post("/v1/audio/speech", json={"segments": segments, **ours}).content
    assert len(spoken) > 9 * LETTER_BYTES
    clip = heard(b"".join(speak(inputs=inputs)), "mp3")
    assert clip.duration_s == pytest.approx(len(spoken) / 32_000, abs=0.1)


@pytest.mark.parametrize(
    ("inputs", "status", "code"),
    [
        ([], 400, "invalid_value"),
        ([{"text": "Hi.", "voice_id": "nobody"}], 404, "voice_not_found"),
        ([{"text": 5, "voice_id": "low"}], 400, "invalid_value"),
        ([{"text": "Hi."}], 400, "invalid_value"),
        ([{"text": "", "voice_id": "low"}], 400, "invalid_value"),
        ([{"text": "Hi.", "voice_id": "low"}] * 10_000, 400, "body_too_complex"),
        ([{"text": "Hi.", "voice_id": "low"}] * 1000, 400, "invalid_value"),
        ([{"text": "Hi.", "voice_id": f"{i}"} for i in range(100)], 400, "invalid_value"),
        ([{"text": "x" * 1500, "voice_id": "low"}] * 2, 413, "text_too_long"),
        ({"text": "Hi."}, 400, "invalid_value"),
        ("Hi.", 400, "invalid_value"),
        (None, 400, "invalid_value"),
        ([[[]]] * 100, 400, "invalid_value"),
    ],
)
def test_a_dialogue_that_makes_no_sense_is_refused(server: Running, inputs: Any, status: int, code: str) -> None:
    answer = server.http.post("/v1/text-to-dialogue", json={"inputs": inputs})
    assert (answer.status_code, answer.json()["detail"]["status"]) == (status, code), answer.text


# --- accounts ---


def test_an_account_has_no_limit_but_that_of_voices(client: ElevenLabs) -> None:
    user = client.user.get()
    subscription = client.user.subscription.get()
    assert (user.user_id, user.subscription.tier) == ("rhapsode", "self-hosted")
    assert subscription.character_limit - subscription.character_count > 10**9
    assert (subscription.status, subscription.voice_limit) == ("active", 1000)
    assert subscription.can_use_instant_voice_cloning is False


# --- quick starts ---


def test_the_ids_of_quick_starts_stand_for_presets_in_a_fixed_order(client: ElevenLabs, server: Running) -> None:
    presets = list(server.http.get("/v1/models").json()["data"][0]["voices"])

    def said(voice: str) -> bytes:
        return b"".join(client.text_to_speech.convert(voice, text="Hi.", seed=1, output_format=PCM))

    by_preset = [said(preset) for preset in presets]
    assert len(set(by_preset)) == len(presets)
    assert [said(voice) for voice in PREMADE] == [by_preset[i % len(presets)] for i in range(len(PREMADE))]
    assert PREMADE[: len(QUICK_STARTS)] == tuple(QUICK_STARTS)
    described = client.voices.get(QUICK_STARTS[1])
    assert (described.voice_id, described.name) == (QUICK_STARTS[1], presets[1])


def test_aliases_and_uploads_go_before_the_voices_of_quick_starts(tmp_path, cloning: Running) -> None:
    small = {"max_concurrency": 2, "max_positions": 512}
    aliases = {"voice_aliases": {QUICK_STARTS[0]: "high"}}
    with in_thread("dummy", tmp_path, limits=small, server=aliases) as server, connected(server) as client:
        said = [
            b"".join(client.text_to_speech.convert(voice, text="Hi.", seed=1, output_format=PCM))
            for voice in (QUICK_STARTS[0], "high", "low")
        ]
    assert said[0] == said[1] != said[2]
    with connected(cloning) as client:
        made = client.voices.ivc.create(name=QUICK_STARTS[0], files=[recording()], labels=CONSENT)
        assert client.voices.get(QUICK_STARTS[0]).voice_id == made.voice_id
        client.voices.delete(made.voice_id)


# --- errors ---


def shape_of(answer: Any) -> tuple[int, set[str]]:
    return answer.status_code, set(answer.json()["detail"])


def test_errors_of_all_their_routes_have_their_shape(server: Running) -> None:
    right, http = {"status", "message"}, server.http
    key = {"xi-api-key": "none"}
    assert shape_of(http.get("/v1/history", headers=key)) == (404, right)
    assert shape_of(http.put("/v1/voices/low")) == (405, right)
    assert shape_of(http.get("/v1/text-to-speech/low")) == (405, right)
    assert shape_of(http.delete("/v1/user")) == (405, right)
    assert shape_of(http.get("/v1/text-to-dialogue")) == (405, right)
    assert shape_of(http.get("/v1/user/nobody")) == (404, right)
    assert shape_of(http.get("/v2/voices", params={"page_size": "many"})) == (400, right)
    large = b'{"inputs": [' + b" " * 5_000_000 + b"]}"
    for path in ("/v1/text-to-dialogue", "/v1/text-to-speech/low"):
        assert shape_of(http.post(path, content=large, headers={"Content-Type": "application/json"})) == (413, right)
        assert shape_of(http.post(path, content=b"{}", headers={"Content-Type": "text/plain"})) == (415, right)
        deep = b'{"inputs": ' + b"[" * 100_000
        assert shape_of(http.post(path, content=deep, headers={"Content-Type": "application/json"})) == (400, right)
        lone = json.dumps({"text": "\ud800", "inputs": [{"text": "\udfff", "voice_id": "\ud800"}]})
        assert shape_of(http.post(path, content=lone, headers={"Content-Type": "application/json"})) == (400, right)
    assert shape_of(http.post("/v1/voices/add", json={})) == (415, right)
    assert "error" in http.get("/v1/audio/nothing", headers=key).json()


def test_a_full_queue_and_a_missing_key_have_their_shape(tmp_path) -> None:
    narrow = {"max_concurrency": 1, "max_queue": 1, "max_positions": 1024}
    settings, sleepy = {"api_keys": ["sk-1"]}, {"graphs": False, "options": {"frame_sleep_s": 0.002}}
    with in_thread("dummy", tmp_path, limits=narrow, server=settings, **sleepy) as server:
        for method, path in (("GET", "/v1/user"), ("POST", "/v1/voices/add"), ("POST", "/v1/text-to-dialogue/stream")):
            assert shape_of(server.http.request(method, path)) == (401, {"status", "message"})
        long = {"inputs": [{"text": "x" * 300, "voice_id": "low"}]}

        def ask() -> httpx2.Response:
            url = f"{server.url}/v1/text-to-dialogue"
            return httpx2.post(url, json=long, headers={"xi-api-key": "sk-1"}, trust_env=False, timeout=60)

        with ThreadPoolExecutor(4) as threads:
            answers = [asked.result() for asked in [threads.submit(ask) for _ in range(4)]]
        assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429]
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert shape_of(refused) == (429, {"status", "message"})
        assert int(refused.headers["retry-after"]) >= 1
