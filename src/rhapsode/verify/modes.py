"""Makes one request for each way in which a checkpoint can speak."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rhapsode.tts import TTS
from rhapsode.types import Clip, ModelInfo, Reference, SpeechRequest, Voice

SENTENCES = {
    "en": "The quick brown fox jumps over the lazy dog.",
    "zh": "今天天气很好，我们一起去公园散步吧。",
    "de": "Der Fluss fliesst jeden Tag an der alten Mühle vorbei.",
    "fr": "La rivière coule chaque jour devant le vieux moulin.",
    "es": "El río pasa todos los días junto al viejo molino.",
    "ja": "今日は天気がいいので、公園を散歩しましょう。",
    "ko": "오늘은 날씨가 좋아서 공원을 산책하고 싶습니다.",
}
REFERENCE_TEXT = "This is a sample of my voice."


@dataclass(frozen=True)
class SpokenMode:
    """One way to speak: its name, and the request for it."""

    name: str
    request: SpeechRequest


def sentence_for(info: ModelInfo) -> tuple[str, str]:
    """Returns a language that the checkpoint speaks and a sentence in it."""
    languages = info.languages or ("en",)
    code = "en" if "en" in languages else next((one for one in languages if one in SENTENCES), "en")
    return code, SENTENCES[code]


def needs_reference(info: ModelInfo) -> bool:
    return info.takes_recordings


def spoken_reference() -> Reference:
    """Returns a recording to clone: a sentence that the package's own voice speaks."""
    with TTS(limits={"max_concurrency": 1}) as voice:
        return Reference(voice.speak(REFERENCE_TEXT, seed=1), REFERENCE_TEXT)


def modes(info: ModelInfo, tts: TTS, reference: Reference | None, seed: int) -> Iterator[SpokenMode]:
    """Yields a request for every ability of a checkpoint."""
    can, (_, text) = info.can, sentence_for(info)

    def mode(name: str, voice: Voice, instructions: str | None = None, text_open: bool = False) -> SpokenMode:
        request = SpeechRequest(text, voice, instructions=instructions, seed=seed, text_open=text_open)
        return SpokenMode(name, request)

    reference = reference if info.takes_recordings else None
    usual = Voice()
    if not info.default_voice:
        usual = Voice(embedding=_any_speaker(info)) if reference is None else Voice(references=(reference,))
    if info.default_voice:
        yield mode("default voice", usual)
    if info.voices:
        yield mode(f"preset {info.voices[-1]}", Voice(name=info.voices[-1]))
    if can.instructions:
        yield mode("instructions", usual, instructions="Calm and clear.")
    if can.design:
        yield mode("description", Voice(description="An old man with a deep voice."))
    if can.clone and reference is not None:
        yield mode("clone", Voice.cloned(reference.audio))
        if reference.text:
            yield mode("clone with transcript", Voice(references=(reference,)))
    if can.continuation and reference is not None and reference.text:
        yield mode("continuation", Voice(continued=reference))
    if can.embedding and reference is not None:
        yield mode("embedding", Voice(embedding=tts.engine.embed(_mono(reference.audio))))
    elif can.embedding:
        yield mode("embedding", Voice(embedding=_any_speaker(info)))
    if can.text_stream:
        yield mode("text in pieces", usual, text_open=True)


def _any_speaker(info: ModelInfo) -> tuple[float, ...] | None:
    """Returns a speaker embedding of norm 1, for a checkpoint that cannot compute one from a recording."""
    size = info.embedding_size
    return (size**-0.5,) * size if size else None


def _mono(clip: Clip) -> Clip:
    return Clip(clip.samples.mean(axis=0, keepdims=True), clip.sample_rate)
