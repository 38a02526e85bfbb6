"""The settings of a run of `rhapsode bench engine`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rhapsode.bench.engine.subject import MeasuredModel
from rhapsode.config import Deployment, resolve
from rhapsode.types import Voice

CHARS_PER_S = 15
USUAL_FRAME_HZ = 12.5
BYTES_PER_TOKEN = 4
MIN_CHARS, SPARE_POSITIONS, USUAL_POSITIONS = 16, 64, 512


@dataclass(frozen=True)
class EnginePlan:
    """Rounds of each batch size, with a fixed number of frames, eager, with graphs, or both in turn."""

    batches: tuple[int, ...] = (1, 8, 32)
    frames: int = 52
    eager_frames: int | None = None
    """Frames of eager rounds on a GPU, where a step takes hundreds of milliseconds; `None`: 8."""
    rounds: int = 3
    seed: int = 0
    device: str = "auto"
    dtype: str = "auto"
    weights: str | None = None
    """As `weights` of a deployment; `None`: as the deployment file says."""
    mode: str = "auto"
    """`eager`, `graphs`, or `both` in turn; `auto` means `both`."""
    max_positions: int | None = None
    bandwidth: float | None = None
    """Bytes per second; `None`: it is measured."""
    voice: Voice = field(default_factory=Voice)
    options: dict[str, Any] = field(default_factory=dict)
    """The family's options of every request."""
    language: str | None = None
    config: Path | None = None

    def modes(self) -> tuple[str, ...]:
        return ("graphs", "eager") if self.mode in ("auto", "both") else (self.mode,)

    def frames_in(self, mode: str, device_type: str) -> int:
        if mode == "eager" and device_type == "cuda":
            return min(self.frames, self.eager_frames or 8)
        return self.frames

    def chars(self, subject: MeasuredModel) -> int:
        """Returns the length of a text that takes about this many frames to speak."""
        chars = round(self.frames * CHARS_PER_S / (subject.spec.frame_hz or USUAL_FRAME_HZ))
        return max(MIN_CHARS, chars // BYTES_PER_TOKEN if subject.byte_tokens else chars)

    def positions(self, subject: MeasuredModel) -> int:
        """Returns the positions of a slot. On a GPU attention reads all of them, so they influence the result."""
        needed = self.chars(subject) + SPARE_POSITIONS + self.frames
        return self.max_positions or max(USUAL_POSITIONS, -(-needed // 64) * 64)

    def deployment(self, subject: MeasuredModel, mode: str) -> Deployment:
        most = max(self.batches)
        flags: dict[str, Any] = {
            "model": subject.name,
            "device": self.device,
            "dtype": self.dtype,
            "graphs": mode == "graphs",
            "limits": {"max_concurrency": most, "max_queue": most, "max_positions": self.positions(subject)},
        }
        if subject.weights == "random":
            flags["random_weights"] = True
        if self.weights is not None:
            flags["weights"] = self.weights
        return resolve(self.config, env={}, flags=flags)
