"""What the aligner needs of an acoustic model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Acoustic(Protocol):
    """A CTC model over letters, for many streams at once."""

    @property
    def rate(self) -> int:
        """Samples per second that it takes."""

    @property
    def frame_s(self) -> float:
        """Seconds of a frame."""

    @property
    def delay_s(self) -> float:
        """Audio after a frame that must come before its log probabilities do, at most."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """The blank, a space, and letters."""

    @property
    def language(self) -> str:
        """The code of the language that it knows."""

    def open(self) -> Any:
        """Returns a new stream; its `finish` ends the audio and returns the remaining frames."""

    def feed_many(self, heard: Sequence[tuple[Any, Floats]]) -> list[Floats]:
        """Feeds mono samples to several streams; returns the frames that are certain now, `[frames, symbols]` each."""
