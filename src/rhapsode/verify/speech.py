"""Speaks a sentence in every mode, and checks the audio."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rhapsode.bench.quality import normalise, sound
from rhapsode.bench.quality.recogniser import Recogniser
from rhapsode.engine import StageFailed
from rhapsode.errors import GenerationFailed, MissingDependency, RhapsodeError
from rhapsode.tts import TTS
from rhapsode.types import Clip, FinishReason, ModelInfo, Reference, SpeechRequest
from rhapsode.verify.finding import CheckResult, Verdict
from rhapsode.verify.modes import SpokenMode, modes, sentence_for

BROKEN = ("empty", "nan", "silent")
"""Kinds of unsound audio that are failures whatever the weights are; audio of a wrong length is only a warning."""
MORE_SEEDS = 2
"""How many more seeds a sentence gets that was not spoken: with one of them empty audio may be chance."""
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
    try:
        clip, finish_reason, took_s, problems = _listen_patiently(mode.request, tts)
    except RhapsodeError as error:
        return CheckResult(mode.name, "failed", f"{error.code}: {error.message}")
    factor = took_s / max(clip.duration_s, 1e-3)
    peak = float(np.abs(clip.samples).max(initial=0.0))
    facts = [f"{clip.duration_s:.2f} s, real-time factor {factor:.2f}, peak {peak:.2f}"]
    problems += _problems(clip, text, language, factor, finish_reason)
    if recogniser is not None and not any(verdict == "failed" for verdict, _ in problems):
        heard, verdict = _understand(recogniser, clip, text, language)
        facts.append(heard)
        problems += [(verdict, "not understood")] if verdict != "ok" else []
    worst: Verdict = "failed" if any(v == "failed" for v, _ in problems) else "warning" if problems else "ok"
    return CheckResult(mode.name, worst, "; ".join([*(what for _, what in problems), *facts]))


def _listen_patiently(
    request: SpeechRequest, tts: TTS
) -> tuple[Clip, FinishReason | None, float, list[tuple[Verdict, str]]]:
    """Returns the speech, how it ended and how long it took, with a warning for every seed that made none.

    A server starts although its warm-up sentence is not spoken; for a checkpoint, too, one such seed is no failure.
    """
    problems: list[tuple[Verdict, str]] = []
    while True:
        started_s = time.perf_counter()
        try:
            return *_listen(request, tts), time.perf_counter() - started_s, problems
        except StageFailed:
            raise
        except GenerationFailed as error:
            if len(problems) == MORE_SEEDS:
                raise
            problems.append(("warning", f"{error.code} with seed {request.seed}"))
            request = replace(request, seed=(request.seed or 0) + 1)


def _listen(request: SpeechRequest, tts: TTS) -> tuple[Clip, FinishReason | None]:
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
