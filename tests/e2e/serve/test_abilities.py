"""Every ability a server announces works, and every other is refused: for each kind of checkpoint."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.serve.kinds import KINDS, SLOW, served
from e2e.serve.running import Running
from rhapsode.audio.encode import encode
from rhapsode.models.registry import families
from rhapsode.serve.request.effect import FRAMES, NEEDS
from rhapsode.types import Clip, Sampling
from tiny import qwen3_tts

USUAL_SAMPLES, SAMPLES = 6_000, {"chatterbox": 125_000}
"""Of a recording at 24 kHz; by the beginning of a kind's name, where its models need a longer one."""
NAMED = {"name": "Zoe", "consent": "the speaker agrees"}
SPEECH, VOICES = "/v1/audio/speech", "/v1/audio/voices"


class Announced:
    """A server, and what it says of itself."""

    def __init__(self, server: Running, kind: str) -> None:
        self.server = server
        samples = SAMPLES.get(kind.partition(" ")[0], USUAL_SAMPLES)
        self.sample = encode(Clip(qwen3_tts.reference_audio(samples)[None], 24_000), "wav")
        self.data_url = f"data:audio/wav;base64,{base64.b64encode(self.sample).decode()}"
        self.model = server.http.get("/v1/models").json()["data"][0]
        body = server.http.get("/openapi.json").json()["paths"][SPEECH]["post"]["requestBody"]
        self.fields = body["content"]["application/json"]["schema"]["properties"]
        upload = server.http.get("/openapi.json").json()["paths"][VOICES].get("post")
        schema = upload["requestBody"]["content"]["application/json"]["schema"] if upload else {"properties": {}}
        self.uploads = set(schema["properties"])
        self.size = self.model["embedding_size"] or 8

    def can(self, ability: str) -> bool:
        return ability in self.model["capabilities"]

    def speak(self, **fields: Any) -> tuple[int, dict[str, Any]]:
        """The status, and the error if there is one."""
        short = {"max_new_tokens": 2} if self.model["frame_hz"] else {}
        whole = {"response_format": "pcm", "stream": False, "seed": 3, **short}  # some draws end at once
        answer = self.server.speak("Yes.", **{**self.needed(fields), **whole, **fields})
        assert answer.status_code in (200, 400, 503), answer.text
        return answer.status_code, {} if answer.status_code == 200 else answer.json()["error"]

    def needed(self, fields: dict[str, Any]) -> dict[str, Any]:
        """A voice, where a checkpoint has none of its own."""
        named = {"ref_audio", "references", "speaker_embedding", "voice"} & fields.keys()
        if self.model["default_voice"] or named:
            return {}
        return {"ref_audio": self.data_url} if self.can("clone") else {"speaker_embedding": [0.1] * self.size}

    def beside(self) -> dict[str, Any]:
        """What this checkpoint needs beside a reference."""
        given = {"reference_tokens": [1, 2, 3, 4], "speaker_embedding": [0.1] * self.size}
        return {name: given[name] for name in self.model["reference_needs"]}

    def check(self, announced: bool, param: str, **fields: Any) -> None:
        status, error = self.speak(**fields)
        assert status == (200 if announced else 400), (fields.keys(), announced, error)
        assert announced or error["param"] in (param, "voice"), error
        assert (param in self.fields) == announced, f"{param} in OpenAPI"


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW else []) for kind in KINDS]
)
def announced(request, tmp_path_factory) -> Iterator[Announced]:
    with served(request.param, tmp_path_factory.mktemp("kind")) as server:
        yield Announced(server, request.param)


def test_abilities(announced: Announced) -> None:
    probes = {
        "ref_audio": {"ref_audio": announced.data_url, **announced.beside()},
        "prompt_audio": {"prompt_audio": announced.data_url, "prompt_text": "the ref"},
        "speaker_embedding": {"speaker_embedding": [0.1] * announced.size},
    }
    for field, fields in probes.items():
        able = announced.can(NEEDS[field]) or (field == "ref_audio" and bool(announced.beside()))
        announced.check(able, field, **fields)
        status, error = announced.speak(**fields)
        assert status == 200 or "it can do:" in error["message"]
    status, _ = announced.speak(instructions="calm")
    assert status == 200  # spoken without them, where the checkpoint takes none: OpenAI's users always send them
    assert ("instructions" in announced.fields) == announced.can("instructions")
    several = announced.model["references"]
    if several:
        references = [{"audio": announced.data_url, "text": "the ref"}]
        assert announced.speak(references=references * min(several, 2), **announced.beside())[0] == 200
        assert announced.speak(references=references * (several + 1), **announced.beside())[0] == 400


def test_what_a_reference_needs_is_announced_and_needed(announced: Announced) -> None:
    beside = announced.beside()
    assert not (beside and announced.can("clone"))
    for name in beside:
        fewer = {other: value for other, value in beside.items() if other != name}
        status, error = announced.speak(ref_audio=announced.data_url, **fewer)
        assert (status, error["param"]) == (400, "ref_audio")
        assert f"'{name}'" in error["message"]
        assert ".onnx" in error["message"]


def test_voices(announced: Announced) -> None:
    voices = announced.model["voices"]
    assert bool(voices) == announced.can("presets")
    for voice in voices[:2]:
        assert announced.speak(voice=voice)[0] == 200, voice
    status, error = announced.speak(voice="nobody at all")
    assert (status, error["param"]) == (400, "voice")
    listed = announced.server.http.get(VOICES).json()["voices"]
    absent = [one["id"] for one in listed if one.get("to_download")]
    assert absent == announced.model["voices_to_download"]
    for voice in [one["id"] for one in listed if one["id"] not in absent][:4]:
        assert announced.speak(voice=voice)[0] == 200, voice
    for voice in absent:
        status, error = announced.speak(voice=voice)
        assert (status, error["param"]) == (503, "voice")
        assert "could not be reached" in error["message"]
    # OpenAI's clients always name a voice: each of their names is a preset, else the voice of the model's own.
    status, error = announced.speak(voice="alloy")
    assert (status, error.get("param")) == ((200, None) if announced.model["default_voice"] else (400, "voice"))
    assert announced.speak(voice="default")[0] == (200 if announced.model["default_voice"] else 400)


def test_uploads(announced: Announced) -> None:
    form = {**NAMED, "text": "the ref"}
    sample = {"audio_sample": ("a.wav", announced.sample, "audio/wav")}
    answer = announced.server.http.post(VOICES, data=form, files=sample)
    able = announced.can("clone") or announced.can("continuation")
    assert answer.status_code == (201 if able else 400), answer.text
    assert ("audio_sample" in announced.uploads) == able
    assert ("speaker_embedding" in announced.uploads) == announced.can("embedding")
    if able:
        assert announced.speak(voice="Zoe")[0] == 200
        assert announced.server.http.delete(f"{VOICES}/Zoe").status_code == 200
    else:
        message = answer.json()["error"]["message"]
        assert all(f"'{name}'" in message for name in announced.beside())
        assert announced.beside() or "Checkpoints that can: " in message
    given = announced.server.http.post(VOICES, json={**NAMED, "speaker_embedding": [0.1] * announced.size})
    assert given.status_code == (201 if announced.can("embedding") else 400), given.text
    if given.status_code == 201:
        assert announced.speak(voice="Zoe")[0] == 200
        assert announced.server.http.delete(f"{VOICES}/Zoe").status_code == 200


def test_languages(announced: Announced) -> None:
    languages = announced.model["languages"]
    for language in languages[:2]:
        assert announced.speak(language=language)[0] == 200, language
    assert announced.speak(language="auto")[0] == 200
    if not languages:  # it takes all there are
        assert announced.speak(language="German")[0] == announced.speak(language="bn")[0] == 200
    for language in ("de" if languages and "de" not in languages else "xx", "xx", "klingon", "en-US"):
        status, error = announced.speak(language=language)
        assert (status, error["param"]) == (400, "language")


def test_sampling_and_frames(announced: Announced) -> None:
    every = vars(Sampling(temperature=0.5, top_k=5, top_p=0.9, repetition_penalty=1.1, min_p=0.1))
    assert None not in every.values()
    assert set(announced.model["sampling"]) <= every.keys()
    for name, value in every.items():
        announced.check(name in announced.model["sampling"], name, **{name: value})
    for name in FRAMES:
        announced.check(announced.model["frame_hz"] is not None, name, **{name: 2})


def test_options(announced: Announced) -> None:
    spec = families()[0][announced.model["family"]]
    announced_options, every = announced.model["options"], vars(spec.options())
    assert announced_options.keys() <= every.keys()
    for name, value in every.items():
        given = {"nq": 1, "cloning": None}.get(name, value)
        if (given is not None and not isinstance(given, float)) or name not in announced_options:
            announced.check(name in announced_options, name, **{name: False if given is None else given})


def test_an_unknown_field_is_answered_with_fields_that_it_takes(announced: Announced) -> None:
    status, error = announced.speak(zzzzzzzz=1)
    known = error["message"].partition("known: ")[2].rstrip(".").split(", ")
    assert (status, error["param"], set(known)) == (400, "zzzzzzzz", set(announced.fields))


def test_an_option_of_another_family_is_answered_with_that_family(announced: Announced) -> None:
    """`scene` is an option of Higgs v2, and `enforce_min_length` of CosyVoice3."""
    for name, owner in (("scene", "higgs-v2"), ("enforce_min_length", "cosyvoice3")):
        if announced.model["family"] != owner:
            status, error = announced.speak(**{name: "a kitchen"})
            assert (status, error["param"]) == (400, name)
            assert error["message"] == f"there is no field '{name}': it is an option of {owner}."


def test_an_embedding_of_another_size_is_the_embedding_s_fault(announced: Announced) -> None:
    if announced.can("embedding") and announced.model["embedding_size"]:
        status, error = announced.speak(speaker_embedding=[0.1] * (announced.size + 1))
        assert (status, error["param"]) == (400, "speaker_embedding")
        assert f"{announced.size} finite numbers; got {announced.size + 1}" in error["message"]


def test_what_it_says_of_itself_is_what_the_checkpoint_is(announced: Announced) -> None:
    model = announced.model
    if model["languages"] == ["en"]:
        assert "languages" not in model["summary"]
    assert ("cloning" in model["summary"] or "cloned" in model["summary"]) <= announced.can("clone")
    assert ("description" in model["summary"]) <= announced.can("design")
