"""The interface of an acoustic model to the aligner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class FrameBlocks(NamedTuple):
    """A model processes audio in blocks; after each block it knows all frames but the last `look_ahead` ones."""

    size: int
    """Frames of a block."""
    look_ahead: int
    """Frames that the model hears after a frame before it emits the letter of that frame."""

    @property
    def delay(self) -> int:
        """The most frames that must be heard after a frame before its letter is known."""
        return self.look_ahead + self.size - 1

    def left(self, frames: int) -> int:
        """Returns how many more frames become known until the end of a block, once `frames` are known; 0 at its end."""
        return -(frames + self.look_ahead) % self.size


FRAME_BY_FRAME = FrameBlocks(1, 0)


class Acoustic(Protocol):
    """A CTC model over letters, for many streams at once."""

    @property
    def rate(self) -> int:
        """The sample rate of its input."""

    @property
    def frame_s(self) -> float:
        """The length of a frame in seconds."""

    @property
    def blocks(self) -> FrameBlocks:
        """The blocks in which it computes frames."""

    @property
    def late(self) -> int:
        """How many frames after its sound begins the model emits a letter, in running speech."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """The meaning of each output column: the blank, a space, and letters."""

    @property
    def language(self) -> str:
        """The code of the language that it knows."""

    def open(self) -> Any:
        """Returns a new stream; its `finish` ends the audio and returns the remaining frames."""

    def feed_many(self, heard: Sequence[tuple[Any, Floats]]) -> list[Floats]:
        """Feeds mono samples to several streams; returns the frames that are certain now, `[frames, symbols]` each."""
