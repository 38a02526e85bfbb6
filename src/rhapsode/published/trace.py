"""What a model made of one text: its frames and its waveform, to compare two implementations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhapsode.models.registry import Model
from rhapsode.tts import TTS
from rhapsode.types import SpeechRequest

FRAMES = 24
"""The most frames of a comparison: what differs, differs early."""


@dataclass(frozen=True)
class SpeechTrace:
    """One utterance, step by step."""

    wave: NDArray[np.float32]
    """Mono samples."""
    sample_rate: int
    frames: NDArray[Any] | None
    """What the talker made, one row per step; None for models without frames."""
    took_s: float = 0.0

    @property
    def duration_s(self) -> float:
        return len(self.wave) / self.sample_rate


class FrameRecorder:
    """Keeps the frames that a talker makes. Its engine must run one request at a time, without graphs."""

    def __init__(self, tts: TTS, model: Model) -> None:
        workers = tts.engine.pipeline.workers
        self._frames: list[NDArray[Any]] = []
        self._over = False
        self._has_talker = False
        for stage in model.spec.pipeline:
            if stage.kind == "frame":
                self._has_talker = True
                worker = workers[stage.name]
                for name in ("step", "first_step"):
                    if hasattr(worker, name):
                        setattr(worker, name, self._recorded(getattr(worker, name)))

    def speak(self, tts: TTS, request: SpeechRequest) -> SpeechTrace:
        """Speaks a request and returns what was made."""
        import time

        self._frames.clear()
        self._over = False
        started_s = time.perf_counter()
        audio = tts.speak(request)
        took_s = time.perf_counter() - started_s
        frames = np.stack(self._frames) if self._frames else None
        return SpeechTrace(audio.samples.mean(axis=0), audio.sample_rate, frames if self._has_talker else None, took_s)

    def _recorded(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*given: Any, **named: Any) -> Any:
            made = step(*given, **named)
            if not self._over:
                if bool(made.emitted[0]):
                    self._frames.append(made.frames[0].detach().to("cpu").clone().numpy())
                self._over = bool(made.stopped[0])
            return made

        return recorded
