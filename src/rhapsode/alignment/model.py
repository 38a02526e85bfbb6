"""What the aligner needs of an acoustic model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class FrameBlocks(NamedTuple):
    """A model hears audio in blocks; after each block it knows all frames but the last ones."""

    size: int
    """Frames of a block."""
    look_ahead: int
    """Frames that it hears past a frame before it names its letter."""

    @property
    def delay(self) -> int:
        """Frames after a frame that must be heard before its letter is known, at most."""
        return self.look_ahead + self.size - 1

    def left(self, frames: int) -> int:
        """Returns how many more frames come with the block with which this many are known."""
        return -(frames + self.look_ahead) % self.size


FRAME_BY_FRAME = FrameBlocks(1, 0)


class Acoustic(Protocol):
    """A CTC model over letters, for many streams at once."""

    @property
    def rate(self) -> int:
        """Samples per second that it takes."""

    @property
    def frame_s(self) -> float:
        """Seconds of a frame."""

    @property
    def blocks(self) -> FrameBlocks:
        """Which frames it computes at once."""

    @property
    def late(self) -> int:
        """Frames by which it names a letter after its sound begins, in running speech."""

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
