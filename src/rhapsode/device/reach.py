"""The context that a streaming worker needs around the frames it works on, and the window of frames that it gets."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Reach:
    """What a streaming worker declares about its input: the context it needs, and the block size."""

    lookahead: int = 0
    """Frames after the last one it works on that the worker must see. At the end of a segment there are fewer."""
    lookbehind: int = 0
    """Frames before the first one that the worker reads again, because it cannot carry them as state."""
    granularity: int = 1
    """The worker works on whole blocks of this many frames. The first and last block of a segment may be shorter."""
    incremental: bool = False
    """The worker keeps the look-ahead that it has seen as state, so it gets every frame once: the first window of a
    segment has `due + lookahead` frames, and each later one the `due` frames that follow those."""
    unheard: int = 0
    """The last frames of a segment: others need them as context, but what is made of them is not heard. There are at
    most `lookahead` of them, so that none is heard before it is known to be one of the last."""

    def __post_init__(self) -> None:
        if self.unheard > self.lookahead:
            raise ValueError(f"{self.unheard} frames cannot be unheard with a look-ahead of {self.lookahead}")
        if self.incremental and (self.lookbehind or self.granularity > 1):
            raise ValueError("an incremental worker re-reads no frames and works on single frames")

    @property
    def plain(self) -> bool:
        """Whether the worker needs no context and no blocks: it works on every frame of a window."""
        return self == Reach()

    @property
    def context(self) -> int:
        """How many frames of a window are only context."""
        return self.lookbehind + self.lookahead


@dataclass(frozen=True)
class Window:
    """The frames of one launch: context before, frames to work on, context after.

    Some may be absent: context beyond either end of a segment, and the missing frames of a short first or last block.
    A worker computes as if absent frames did not exist; what it returns for them is discarded. Later windows of an
    incremental worker have only the last `due` of these frames: the worker has seen the others.
    """

    frames: Tensor  # [B, lookbehind + due + lookahead, *frame_shape]
    due: int
    reach: Reach
    present: Tensor | None = None  # [B, lookbehind + due + lookahead] bool; None: all frames are present

    @classmethod
    def of(cls, frames: Tensor) -> Window:
        """Makes a window without context: all of these frames are due."""
        return cls(frames, frames.shape[1], Reach())

    @property
    def center(self) -> Tensor:
        """The frames to work on, `[B, due, *frame_shape]`."""
        return self.frames[:, self.reach.lookbehind : self.reach.lookbehind + self.due]

    def to(self, device: torch.device) -> Window:
        """Returns the same window on another device, where the next stage runs."""
        if self.frames.device == device:
            return self
        present = None if self.present is None else self.present.to(device)
        return Window(self.frames.to(device), self.due, self.reach, present)
