"""Speaks one prompt, and measures what is heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhapsode.bench.quality.judges import Judge
from rhapsode.bench.quality.measure import Item, QualityPlan, score_item, speak_item
from rhapsode.bench.quality.prompts import SpokenPrompt
from rhapsode.bench.quality.recogniser import Recogniser
from rhapsode.bench.quality.synthesizer import SynthesisResult, listen
from rhapsode.published.voices import ModeVoices
from rhapsode.tts import TTS
from rhapsode.types import Clip

QUIET_DB = -40.0
"""A piece of 20 ms this far below the loudest one is silence."""
PIECE_S = 0.02
PART = "\n"
"""Stands between what the two voices of a dialogue say."""


@dataclass(frozen=True)
class SpeechJudges:
    """What hears the samples."""

    recogniser: Recogniser | None
    judges: Sequence[Judge] = ()


class ModeSpeaker:
    """Speaks prompts in the modes of a checkpoint. It is the synthesizer that `bench quality` takes."""

    modes: tuple[str, ...] = ()

    def __init__(self, tts: TTS, voices: ModeVoices, answers: Mapping[str, str]) -> None:
        """`answers`: for each prompt the text with which a second voice answers in a dialogue."""
        self._tts, self._voices, self._answers = tts, voices, answers

    def said(self, prompt: SpokenPrompt, mode: str) -> SpokenPrompt:
        """Returns a prompt with all that is said in a mode."""
        return replace(prompt, text=f"{prompt.text}{PART}{self._answers[prompt.id]}") if mode == "dialogue" else prompt

    def speak(self, prompt: SpokenPrompt, seed: int, mode: str) -> SynthesisResult:
        return listen(self._tts, self._voices.request(mode, prompt, prompt.text.split(PART), seed))

    def close(self) -> None:
        """Does nothing: the model belongs to the caller."""

    def config(self) -> dict[str, Any]:
        return {}


def measure_sample(
    speaker: ModeSpeaker,
    prompt: SpokenPrompt,
    mode: str,
    plan: QualityPlan,
    heard_by: SpeechJudges,
    reference: Clip | None,
) -> dict[str, Any]:
    """Returns the scores of a prompt in one mode, or its error."""
    item = Item(speaker.said(prompt, mode), plan.seed, mode)
    speak_item(item, plan, speaker)
    judges = heard_by.judges if reference is not None else [j for j in heard_by.judges if j.metric != "similarity"]
    score_item(item, plan, heard_by.recogniser, judges, reference)
    if item.result is not None and item.error is None:
        clip = item.result.clip
        item.scores["silence"] = silent_share(clip)
        length = _length_ratio(clip, prompt, reference)
        item.scores |= {} if length is None else {"length": length}
    return item.as_dict()


def silent_share(clip: Clip) -> float:
    """Returns which part of a clip is silence, by pieces of 20 ms."""
    mono = clip.samples.mean(axis=0)
    size = max(1, round(PIECE_S * clip.sample_rate))
    pieces = mono[: len(mono) // size * size].reshape(-1, size)
    if not len(pieces):
        return 0.0
    level = np.sqrt((pieces.astype(np.float64) ** 2).mean(axis=1))
    return float((level < level.max() * 10 ** (QUIET_DB / 20)).mean())


def _length_ratio(clip: Clip, prompt: SpokenPrompt, reference: Clip | None) -> float | None:
    """Returns the length of a clip relative to a person's: to the same text, else to the pace of the reference."""
    if prompt.spoken is not None:
        from rhapsode.audio.decode import decode

        return clip.duration_s / max(decode(prompt.spoken).duration_s, 1e-3)
    if reference is None or not prompt.reference_text or prompt.reference is None:
        return None
    pace = len(prompt.reference_text.encode()) / max(_spoken_s(reference), 1e-3)
    return float(_spoken_s(clip) * pace / max(len(prompt.text.encode()), 1))


def _spoken_s(clip: Clip) -> float:
    return clip.duration_s * (1 - silent_share(clip))


def item_of(result: dict[str, Any], mode: str) -> Item:
    """Returns a measured prompt again, as `bench quality` keeps it, from what was written."""
    prompt = SpokenPrompt(result["id"], result["text"], kind=result["kind"])
    return Item(
        prompt,
        result["seed"],
        mode,
        heard=result["heard"],
        error=result["error"],
        detail=result["detail"],
        clipped=result["clipped"],
        scores=dict(result["scores"]),
    )
