"""Speech that says nothing, for text without a letter or digit: a model would make something up."""

from __future__ import annotations

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
    """Returns a moment of silence, complete from the start."""
    speech = Speech(request_id, spec.sample_rate, spec.channels, _Nobody(), max_unread_s=2 * SILENCE_S)
    speech.push(AudioChunk(silence(spec.channels, round(SILENCE_S * spec.sample_rate)), spec.sample_rate))
    speech.end(Outcome(request_id, FinishReason.STOP, SILENCE_S, 0, 0.0, 0.0, 0.0), None)
    return speech
