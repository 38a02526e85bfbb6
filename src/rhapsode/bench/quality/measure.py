"""Speaks prompts, checks, transcribes and scores the audio, and composes the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from rhapsode.bench.progress import progress
from rhapsode.bench.quality import comparable, normalise, sound
from rhapsode.bench.quality.judges import Judge
from rhapsode.bench.quality.prompts import SpokenPrompt
from rhapsode.bench.quality.recogniser import Recogniser
from rhapsode.bench.quality.synthesizer import SynthesisResult, Synthesizer, reference_of
from rhapsode.bench.quality.words import OUTLIER, corpus, rates
from rhapsode.bench.report import Run, compose
from rhapsode.bench.stats import rounded
from rhapsode.errors import RhapsodeError
from rhapsode.types import Clip

WORST = 10


@dataclass(frozen=True)
class QualityPlan:
    prompts: tuple[SpokenPrompt, ...]
    prompts_from: str
    language: str = "en"
    seed: int = 0
    save_to: Path | None = None
    """A folder for the audio."""
    modes: tuple[str, ...] = ("streamed",)
    at_once: int = 8
    """Concurrent prompts in the mode `batched`."""


@dataclass
class Item:
    """One prompt and what is known of it so far."""

    prompt: SpokenPrompt
    seed: int
    mode: str
    heard: str | None = None
    error: str | None = None
    detail: str = ""
    result: SynthesisResult | None = None
    clipped: bool = False
    scores: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.prompt.id,
            "kind": self.prompt.kind,
            "text": self.prompt.text,
            "seed": self.seed,
            "heard": self.heard,
            "error": self.error,
            "detail": self.detail,
            "audio_s": rounded(self.result.clip.duration_s) if self.result else None,
            "clipped": self.clipped,
            "scores": {name: rounded(value) for name, value in self.scores.items()},
        }


def measure(
    plan: QualityPlan,
    synthesizer: Synthesizer,
    recogniser: Recogniser | None,
    judges: Sequence[Judge],
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Makes one run for each mode. Without a recogniser only the sound is checked and scored."""
    runs = []
    with progress("speaking and transcribing", len(plan.prompts) * len(plan.modes)) as advance:
        for mode in plan.modes:
            items = [Item(prompt, plan.seed + i, mode) for i, prompt in enumerate(plan.prompts)]
            at_once = plan.at_once if mode == "batched" else 1
            with ThreadPoolExecutor(at_once) as pool:
                for start in range(0, len(items), at_once):
                    group = items[start : start + at_once]
                    list(pool.map(lambda item: speak_item(item, plan, synthesizer), group))
                    for item in group:
                        score_item(item, plan, recogniser, judges, reference_of(item.prompt))
                        advance(item.prompt.text[:40])
            runs.append(_run(mode, items, plan.language))
    config = {
        **synthesizer.config(),
        "prompts": plan.prompts_from,
        "language": plan.language,
        "at_once": plan.at_once,
        "recogniser": recogniser.name if recogniser else "none",
        "normaliser": normalise.NAME if plan.language.startswith("en") else "case and punctuation",
        "comparable": vars(comparable.rule_of(plan.language)),
        "judges": [judge.name for judge in judges],
    }
    return compose("quality", config, plan.seed, runs, notes)


def speak_item(item: Item, plan: QualityPlan, synthesizer: Synthesizer) -> None:
    """Speaks one prompt. An error is counted, and the other prompts go on."""
    try:
        item.result = synthesizer.speak(item.prompt, item.seed, item.mode)
        if plan.save_to is not None:
            _save(item, plan.save_to)
        sound.check(item.result.clip, normalise.normalise(item.prompt.text, plan.language))
    except sound.Unsound as error:
        item.error = error.kind
    except RhapsodeError as error:
        item.error, item.detail = error.code, error.message


def score_item(
    item: Item,
    plan: QualityPlan,
    recogniser: Recogniser | None,
    judges: Sequence[Judge],
    reference: Clip | None,
) -> None:
    """Transcribes and scores a prompt that was spoken without an error."""
    if item.error is not None or item.result is None:
        return
    clip = item.result.clip
    item.clipped = sound.is_clipped(clip.samples)
    if recogniser is not None:
        item.heard = recogniser.transcribe(clip, plan.language)  # its errors end the run
        found = rates(item.prompt.text, item.heard, plan.language)
        item.scores |= {"wer": found.wer, "cer": found.cer}
        others = comparable.rate([(item.prompt.text, item.heard)], plan.language)
        item.scores |= {} if others is None else {"comparable": others}
    item.scores |= {
        "rtf": item.result.total_s / clip.duration_s,
        "first_audio_ms": item.result.first_audio_s * 1e3,
    }
    for judge in judges:
        score = judge.score(clip, reference)
        if score is not None:
            item.scores[judge.metric] = score


def _run(mode: str, items: Sequence[Item], language: str) -> Run:
    good = [item for item in items if item.error is None]
    metrics = dict.fromkeys(name for item in good for name in item.scores)
    wrong = [item for item in good if item.scores.get("wer")]
    facts: dict[str, Any] = {
        **figures(items, language),
        "kinds": {
            kind: figures([item for item in items if item.prompt.kind == kind], language)
            for kind in dict.fromkeys(item.prompt.kind for item in items)
            if kind
        },
        "outliers": [item.prompt.id for item in wrong if item.scores["wer"] > OUTLIER],
        "worst": [item.prompt.id for item in sorted(wrong, key=lambda item: -item.scores["wer"])[:WORST]],
        "clipped": sum(item.clipped for item in items),
        "audio_s": rounded(sum(item.result.clip.duration_s for item in good if item.result)),
        "items": [item.as_dict() for item in items],
    }
    samples = {name: [item.scores[name] for item in good if name in item.scores] for name in metrics}
    return Run(mode, samples, facts)


def figures(items: Sequence[Item], language: str) -> dict[str, Any]:
    """Returns the figures that are reported for all prompts and for each kind of prompt."""
    good = [item for item in items if item.error is None]
    heard = [(item.prompt.text, item.heard) for item in good if item.heard is not None]
    whole = corpus(heard, language) if heard else None
    others = comparable.rate(heard, language) if heard else None
    means = {
        metric: [item.scores[metric] for item in good if metric in item.scores]
        for metric in ("similarity", "mos", "dnsmos")
    }
    return {
        "samples_scored": len(good),
        "errors": dict(Counter(item.error for item in items if item.error)),
        "wer": rounded(whole.wer) if whole else None,
        "cer": rounded(whole.cer) if whole else None,
        "comparable": None if others is None else rounded(others),
        "means": {metric: rounded(fmean(scores)) for metric, scores in means.items() if scores},
    }


def _save(item: Item, folder: Path) -> None:
    from rhapsode.audio.clip import Audio

    assert item.result is not None
    name = "".join(char if char.isalnum() or char in "-_" else "-" for char in f"{item.prompt.id}-{item.mode}")
    Audio(item.result.clip.samples, item.result.clip.sample_rate).save(folder / f"{name}.wav")
