"""The modes in which a checkpoint is measured, and the request for each prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rhapsode.bench.quality.prompts import SpokenPrompt
from rhapsode.bench.quality.synthesizer import reference_of
from rhapsode.errors import InvalidRequest, did_you_mean
from rhapsode.models.base import ModelSpec
from rhapsode.tts import TTS
from rhapsode.types import ModelInfo, Reference, Segment, SpeechRequest, Voice
from rhapsode.verify.modes import REFERENCE_TEXT

MODES = ("presets", "clone", "design", "dialogue")
DESCRIPTION = "A woman of middle age with a warm, clear voice, who speaks calmly."


@dataclass(frozen=True)
class ModeVoices:
    """What a checkpoint speaks with."""

    spec: ModelSpec
    info: ModelInfo
    reference: Reference | None
    """The voice of prompts that bring none."""
    answering: Reference | None = None
    """The second voice of a dialogue, for checkpoints without presets."""

    def modes(self) -> tuple[str, ...]:
        """Returns the modes that the checkpoint has."""
        info = self.info
        has = {
            "presets": info.default_voice or bool(info.voices),
            "clone": info.takes_recordings,
            "design": info.can.design,
            "dialogue": not self.spec.one_voice and len(self._speakers(None)) > 1,
        }
        return tuple(mode for mode in MODES if has[mode])

    def chosen(self, wish: str) -> tuple[str, ...]:
        """Returns the modes of a list; `auto` is all that the checkpoint has."""
        has = self.modes()
        if wish == "auto":
            return has
        names = tuple(dict.fromkeys(part.strip() for part in wish.split(",")))
        for name in names:
            if name not in has:
                raise InvalidRequest(
                    f"--mode takes auto or some of {', '.join(has)} for {self.info.title}, not '{name}': "
                    f"{did_you_mean(name, has)}"
                )
        return names

    def request(self, mode: str, prompt: SpokenPrompt, parts: Sequence[str], seed: int) -> SpeechRequest:
        """Returns the request for a prompt; in a dialogue, two voices say its parts."""
        if mode == "dialogue":
            segments = tuple(Segment(part, voice) for part, voice in zip(parts, self._speakers(prompt), strict=False))
            return SpeechRequest("", segments=segments, seed=seed)
        return SpeechRequest(prompt.text, self.voice(mode, prompt), seed=seed)

    def voice(self, mode: str, prompt: SpokenPrompt | None = None) -> Voice:
        if mode == "clone":
            reference = self.reference_of(prompt)
            return Voice() if reference is None else Voice(references=(reference,))
        if mode == "design":
            return Voice(description=DESCRIPTION)
        if self.info.default_voice or not self.info.voices:
            return self.usual()
        return Voice(name=self.info.voices[0])

    def usual(self) -> Voice:
        """Returns a voice with which the checkpoint speaks, whatever it can do."""
        if self.info.default_voice:
            return Voice()
        if self.info.voices:
            return Voice(name=self.info.voices[0])
        return Voice() if self.reference is None else Voice(references=(self.reference,))

    def reference_of(self, prompt: SpokenPrompt | None) -> Reference | None:
        """Returns the recording that a prompt is spoken after."""
        clip = None if prompt is None else reference_of(prompt)
        return self.reference if clip is None or prompt is None else Reference(clip, prompt.reference_text)

    def _speakers(self, prompt: SpokenPrompt | None) -> Sequence[Voice]:
        presets = [Voice(name=name) for name in self.info.voices[:2]]
        if len(presets) > 1 or not self.info.takes_recordings or self.answering is None:
            return presets
        return [self.voice("clone", prompt), Voice(references=(self.answering,))]


def spoken_references() -> tuple[Reference, Reference]:
    """Returns two recordings to clone: a sentence that two presets of the packaged voice speak."""
    with TTS(limits={"max_concurrency": 1}) as voice:
        first, second = (
            Reference(voice.speak(REFERENCE_TEXT, name, seed=1), REFERENCE_TEXT) for name in voice.voices[:2]
        )
    return first, second
