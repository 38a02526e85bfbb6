"""From prompts to a report: spoken, checked, transcribed, judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rhapsode.bench.progress import progress
from rhapsode.bench.quality import normalise, sound
from rhapsode.bench.quality.judges import Judge
from rhapsode.bench.quality.prompts import SpokenPrompt
from rhapsode.bench.quality.recogniser import Recogniser
from rhapsode.bench.quality.speaker import Speaker, Spoken, reference_of
from rhapsode.bench.quality.words import OUTLIER, corpus, rates
from rhapsode.bench.report import Run, compose
from rhapsode.bench.stats import rounded
from rhapsode.errors import RhapsodeError


@dataclass(frozen=True)
class QualityPlan:
    prompts: tuple[SpokenPrompt, ...]
    prompts_from: str
    language: str = "en"
    seed: int = 0
    save_to: Path | None = None
    """A folder for what was said, to be listened to."""


@dataclass
class Item:
    """One prompt's way through."""

    prompt: SpokenPrompt
    seed: int
    heard: str | None = None
    error: str | None = None
    detail: str = ""
    spoken: Spoken | None = None
    clipped: bool = False
    scores: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        spoken = self.spoken
        return {
            "id": self.prompt.id,
            "text": self.prompt.text,
            "seed": self.seed,
            "heard": self.heard,
            "error": self.error,
            "detail": self.detail,
            "audio_s": rounded(spoken.clip.duration_s) if spoken else None,
            "clipped": self.clipped,
            "scores": {name: rounded(value) for name, value in self.scores.items()},
        }


def measure(
    plan: QualityPlan, speaker: Speaker, recogniser: Recogniser, judges: Sequence[Judge], notes: Sequence[str] = ()
) -> dict[str, Any]:
    items = [Item(prompt, plan.seed + i) for i, prompt in enumerate(plan.prompts)]
    with progress("speaking and listening", len(items)) as advance:
        for item in items:
            _examine(item, plan, speaker, recogniser, judges)
            advance(item.prompt.text[:40])
    config = {
        **speaker.config(),
        "prompts": plan.prompts_from,
        "language": plan.language,
        "recogniser": recogniser.name,
        "normaliser": normalise.NAME if plan.language.startswith("en") else "case and punctuation",
        "judges": [judge.name for judge in judges],
    }
    return compose("quality", config, plan.seed, [_run(items, plan.language)], notes)


def _examine(item: Item, plan: QualityPlan, speaker: Speaker, recogniser: Recogniser, judges: Sequence[Judge]) -> None:
    """Whatever goes wrong with one prompt is counted, and the others go on."""
    try:
        item.spoken = speaker.speak(item.prompt, item.seed)
        clip = item.spoken.clip
        if plan.save_to is not None:
            _save(item, plan.save_to)
        sound.check(clip)
    except sound.Unsound as error:
        item.error = error.kind
        return
    except RhapsodeError as error:
        item.error, item.detail = error.code, error.message
        return
    item.clipped = sound.is_clipped(clip.samples)
    item.heard = recogniser.transcribe(clip, plan.language)  # a deaf recogniser ends the run: it would all be wrong
    found = rates(item.prompt.text, item.heard, plan.language)
    item.scores |= {
        "wer": found.wer,
        "cer": found.cer,
        "rtf": item.spoken.total_s / clip.duration_s,
        "first_audio_ms": item.spoken.first_audio_s * 1e3,
    }
    for judge in judges:
        score = judge.score(clip, reference_of(item.prompt))
        if score is not None:
            item.scores[judge.metric] = score


def _run(items: Sequence[Item], language: str) -> Run:
    good = [item for item in items if item.error is None]
    whole = corpus([(item.prompt.text, item.heard or "") for item in good], language) if good else None
    metrics = dict.fromkeys(name for item in good for name in item.scores)
    facts: dict[str, Any] = {
        "samples_scored": len(good),
        "wer": rounded(whole.wer) if whole else None,
        "cer": rounded(whole.cer) if whole else None,
        "outliers": [item.prompt.id for item in good if item.scores["wer"] > OUTLIER],
        "clipped": sum(item.clipped for item in items),
        "errors": dict(Counter(item.error for item in items if item.error)),
        "audio_s": rounded(sum(item.spoken.clip.duration_s for item in good if item.spoken)),
        "items": [item.as_dict() for item in items],
    }
    samples = {name: [item.scores[name] for item in good if name in item.scores] for name in metrics}
    return Run("all prompts", samples, facts)


def _save(item: Item, folder: Path) -> None:
    from rhapsode.audio.clip import Audio

    assert item.spoken is not None
    name = "".join(char if char.isalnum() or char in "-_" else "-" for char in item.prompt.id)
    Audio(item.spoken.clip.samples, item.spoken.clip.sample_rate).save(folder / f"{name}.wav")
