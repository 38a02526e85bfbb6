"""Speech that no engine makes: silence for text without a letter or digit, and phrases from the cache."""

from __future__ import annotations

from collections.abc import Sequence

from rhapsode.audio.samples import silence
from rhapsode.engine import Speech
from rhapsode.models.base import ModelSpec
from rhapsode.types import AudioChunk, FinishReason, Outcome

SILENCE_S = 0.2


class _Nobody:
    """Controls of a request that no engine runs."""

    def append(self, request_id: str, text: str, final: bool = False) -> None: ...

    def abort(self, request_id: str) -> None: ...


def silent_speech(request_id: str, spec: ModelSpec) -> Speech:
    """Returns a moment of silence, for text from which a model would invent speech."""
    quiet = silence(spec.channels, round(SILENCE_S * spec.sample_rate))
    return finished_speech(request_id, [AudioChunk(quiet, spec.sample_rate)])


def finished_speech(request_id: str, chunks: Sequence[AudioChunk], frames: int = 0) -> Speech:
    """Returns speech that is complete from the start."""
    audio_s = sum(chunk.duration_s for chunk in chunks)
    speech = Speech(request_id, chunks[0].sample_rate, chunks[0].channels, _Nobody(), max_unread_s=audio_s)
    for chunk in chunks:
        speech.push(chunk)
    speech.end(Outcome(request_id, FinishReason.STOP, audio_s, frames, 0.0, 0.0, 0.0), None)
    return speech
