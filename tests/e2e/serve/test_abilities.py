"""Every ability a server announces works, and every other is refused: for each kind of checkpoint."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.serve.running import Running, in_thread
from rhapsode.audio.encode import encode
from rhapsode.models.cosyvoice3.reference import SPEAKER, SPEECH_TOKENIZER
from rhapsode.models.registry import families
from rhapsode.serve.request.effect import FRAMES, NEEDS
from rhapsode.types import Clip, Sampling
from tiny import (
    cosyvoice3,
    dummy,
    fish_s2_pro,
    higgs,
    moss_tts_nano,
    onnx_model,
    qwen3_tts,
    voxcpm2,
    voxtral_tts,
    weights,
)

SAMPLE = encode(Clip(qwen3_tts.reference_audio(6_000)[None], 24_000), "wav")
DATA_URL = f"data:audio/wav;base64,{base64.b64encode(SAMPLE).decode()}"
SPEECH, VOICES = "/v1/audio/speech", "/v1/audio/voices"


def qwen(**recipe: Any) -> Callable[[Path], Any]:
    return lambda folder: qwen3_tts.write(folder, qwen3_tts.Tiny(**recipe))


def cosyvoice(folder: Path) -> None:
    """With stand-ins of the networks that encode references, as published."""
    cosyvoice3.write(folder, cosyvoice3.TinyCosyVoice(end_gain=3.0))
    onnx_model.speaker(folder / SPEAKER, weights.spread("speaker.matrix", (80, cosyvoice3.EMBEDDING), 1.0, 0))
    onnx_model.speech_tokenizer(folder / SPEECH_TOKENIZER, cosyvoice3.CODES)


KINDS: dict[str, Callable[[Path], Any] | None] = {
    "rhapsode-nano": None,
    "dummy": None,
    "dummy that clones": dummy.write,
    "qwen3-tts Base": qwen(kind="base"),
    "qwen3-tts CustomVoice 0.6B": qwen(size="0b6"),
    "qwen3-tts CustomVoice 1.7B": qwen(),
    "qwen3-tts VoiceDesign": qwen(kind="voice_design"),
    "voxcpm2": lambda folder: voxcpm2.write(folder, voxcpm2.Tiny(stop_shift=10.0, layers=(1, 1, 1))),
    "voxtral-tts": lambda folder: voxtral_tts.write(folder, voxtral_tts.Tiny(steps=1)),
    "voxtral-tts with an encoder": lambda folder: voxtral_tts.write(folder, voxtral_tts.Tiny(steps=1, encoder=True)),
    "fish-s2-pro": fish_s2_pro.write,
    "higgs-v2": lambda folder: higgs.write(folder, higgs.Tiny()),
    "higgs-v3": lambda folder: higgs.write(folder, higgs.Tiny(generation=3)),
    "moss-tts-nano": moss_tts_nano.write,
    "cosyvoice3": cosyvoice,
}


class Announced:
    """A server, and what it says of itself."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.model = server.http.get("/v1/models").json()["data"][0]
        body = server.http.get("/openapi.json").json()["paths"][SPEECH]["post"]["requestBody"]
        self.fields = body["content"]["application/json"]["schema"]["properties"]
        paths = server.http.get("/openapi.json").json()["paths"]
        self.uploads = "post" in paths[VOICES]

    def can(self, ability: str) -> bool:
        return ability in self.model["capabilities"]

    def speak(self, **fields: Any) -> tuple[int, dict[str, Any]]:
        """The status, and the error if there is one."""
        short = {"max_new_tokens": 2} if self.model["frame_hz"] else {}
        whole = {"response_format": "pcm", "stream": False, **short}
        answer = self.server.speak("Yes.", **{**self.needed(fields), **whole, **fields})
        assert answer.status_code in (200, 400), answer.text
        return answer.status_code, {} if answer.status_code == 200 else answer.json()["error"]

    def needed(self, fields: dict[str, Any]) -> dict[str, Any]:
        """A voice, where a checkpoint has none of its own."""
        named = {"ref_audio", "references", "speaker_embedding", "voice"} & fields.keys()
        return {} if self.model["default_voice"] or named else {"ref_audio": DATA_URL}

    def check(self, announced: bool, param: str, **fields: Any) -> None:
        status, error = self.speak(**fields)
        assert status == (200 if announced else 400), (fields.keys(), announced, error)
        assert announced or error["param"] in (param, "voice"), error
        assert (param in self.fields) == announced, f"{param} in OpenAPI"


@pytest.fixture(scope="module", params=KINDS)
def announced(request, tmp_path_factory) -> Iterator[Announced]:
    write, folder = KINDS[request.param], tmp_path_factory.mktemp("kind")
    model = request.param
    if write is not None:
        model = str(folder / "checkpoint")
        Path(model).mkdir()
        write(Path(model))
    limits = {"max_concurrency": 2, "max_positions": 4096, "real_time": False}
    with in_thread(model, folder, limits=limits, graphs=False, threads=1) as server:
        yield Announced(server)


def test_abilities(announced: Announced) -> None:
    size = announced.model["embedding_size"] or 8
    probes = {
        "ref_audio": {"ref_audio": DATA_URL},
        "prompt_audio": {"prompt_audio": DATA_URL, "prompt_text": "the ref"},
        "speaker_embedding": {"speaker_embedding": [0.1] * size},
        "instructions": {"instructions": "calm"},
    }
    for field, fields in probes.items():
        ability = NEEDS[field]
        announced.check(announced.can(ability), field, **fields)
        status, error = announced.speak(**fields)
        assert status == 200 or "it can do:" in error["message"]
    several = announced.model["references"]
    if several:
        references = [{"audio": DATA_URL, "text": "the ref"}]
        assert announced.speak(references=references * min(several, 2))[0] == 200
        assert announced.speak(references=references * (several + 1))[0] == 400


def test_voices(announced: Announced) -> None:
    voices = announced.model["voices"]
    assert bool(voices) == announced.can("presets")
    for voice in voices[:2]:
        assert announced.speak(voice=voice)[0] == 200, voice
    status, error = announced.speak(voice="nobody at all")
    assert (status, error["param"]) == (400, "voice")
    listed = announced.server.http.get(VOICES).json()["voices"]
    for voice in [one["id"] for one in listed][:4]:
        assert announced.speak(voice=voice)[0] == 200, voice
    assert announced.speak(voice="default")[0] == (200 if announced.model["default_voice"] else 400)


def test_uploads(announced: Announced) -> None:
    form = {"name": "Zoe", "consent": "the speaker agrees", "text": "the ref"}
    sample = {"audio_sample": ("a.wav", SAMPLE, "audio/wav")}
    answer = announced.server.http.post(VOICES, data=form, files=sample)
    able = announced.can("clone") or announced.can("continuation")
    assert answer.status_code == (201 if able else 400), answer.text
    assert announced.uploads == (able or announced.can("embedding"))
    if able:
        assert announced.speak(voice="Zoe")[0] == 200
        assert announced.server.http.delete(f"{VOICES}/Zoe").status_code == 200
    else:
        assert "Checkpoints that can: " in answer.json()["error"]["message"]


def test_languages(announced: Announced) -> None:
    languages = announced.model["languages"]
    for language in languages[:2]:
        assert announced.speak(language=language)[0] == 200, language
    others = [code for code in ("de", "xx") if code not in languages] if languages else []
    for language in others:
        status, error = announced.speak(language=language)
        assert (status, error["param"]) == (400, "language")


def test_sampling_and_frames(announced: Announced) -> None:
    for name, value in vars(Sampling(0.5, 5, 0.9, 1.1)).items():
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


def test_what_it_says_of_itself_is_what_the_checkpoint_is(announced: Announced) -> None:
    model = announced.model
    if model["languages"] == ["en"]:
        assert "languages" not in model["summary"]
    assert ("cloning" in model["summary"] or "cloned" in model["summary"]) <= announced.can("clone")
    assert ("description" in model["summary"]) <= announced.can("design")
