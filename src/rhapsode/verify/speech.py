"""Speaks a sentence in every mode, and checks the audio."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rhapsode.bench.quality import normalise, sound
from rhapsode.bench.quality.recogniser import Recogniser
from rhapsode.errors import MissingDependency, RhapsodeError
from rhapsode.tts import TTS
from rhapsode.types import Clip, FinishReason, ModelInfo, Reference
from rhapsode.verify.finding import CheckResult, Verdict
from rhapsode.verify.modes import SpokenMode, modes, sentence_for

BROKEN = ("empty", "nan", "silent")
"""Kinds of unsound audio that are failures whatever the weights are; audio of a wrong length is only a warning."""
MOST_WRONG = 0.5
"""The share of wrong words above which speech counts as not understood."""


def check_speech(
    tts: TTS, reference: Reference | None, recogniser: Recogniser | None, seed: int
) -> Iterator[CheckResult]:
    """Yields one result for every mode of a checkpoint."""
    info = tts.engine.info
    for mode in modes(info, tts, reference, seed):
        yield _speak(mode, tts, info, recogniser)


def _speak(mode: SpokenMode, tts: TTS, info: ModelInfo, recogniser: Recogniser | None) -> CheckResult:
    language, text = sentence_for(info)
    started_s = time.perf_counter()
    try:
        clip, finish_reason = _listen(mode, tts)
    except RhapsodeError as error:
        return CheckResult(mode.name, "failed", f"{error.code}: {error.message}")
    factor = (time.perf_counter() - started_s) / max(clip.duration_s, 1e-3)
    peak = float(np.abs(clip.samples).max(initial=0.0))
    facts = [f"{clip.duration_s:.2f} s, real-time factor {factor:.2f}, peak {peak:.2f}"]
    problems = list(_problems(clip, text, language, factor, finish_reason))
    if recogniser is not None and not any(verdict == "failed" for verdict, _ in problems):
        heard, verdict = _understand(recogniser, clip, text, language)
        facts.append(heard)
        problems += [(verdict, "not understood")] if verdict != "ok" else []
    worst: Verdict = "failed" if any(v == "failed" for v, _ in problems) else "warning" if problems else "ok"
    return CheckResult(mode.name, worst, "; ".join([*(what for _, what in problems), *facts]))


def _listen(mode: SpokenMode, tts: TTS) -> tuple[Clip, FinishReason | None]:
    request = mode.request
    words = request.text
    if request.text_open:
        request = replace(request, text="")
    with tts.stream(request) as stream:
        if request.text_open:
            for word in words.split(" "):
                stream.append(f"{word} ")
            stream.finish_text()
        pieces = [chunk.samples for chunk in stream]
        outcome = stream.outcome
    samples = np.concatenate(pieces, axis=1) if pieces else np.zeros((1, 0), np.float32)
    return Clip(samples, stream.sample_rate), outcome.finish_reason if outcome else None


def _problems(
    clip: Clip, text: str, language: str, factor: float, finish_reason: FinishReason | None
) -> Iterator[tuple[Verdict, str]]:
    try:
        sound.check(clip, normalise.normalise(text, language))
    except sound.Unsound as error:
        yield ("failed" if error.kind in BROKEN else "warning"), error.kind
    if finish_reason is FinishReason.LENGTH:
        yield "warning", "cut at the longest length"
    if clip.samples.size and sound.is_clipped(clip.samples):
        yield "warning", "clipped"
    if factor > 1:
        yield "warning", "slower than real time"


def _understand(recogniser: Recogniser, clip: Clip, text: str, language: str) -> tuple[str, Verdict]:
    heard = recogniser.transcribe(clip, language)
    try:
        from rhapsode.bench.quality.words import rates

        wrong = rates(text, heard, language).wer
    except MissingDependency:
        return f"heard '{heard}'", "ok"
    return f"heard '{heard}' ({wrong:.0%} wrong)", "warning" if wrong > MOST_WRONG else "ok"
