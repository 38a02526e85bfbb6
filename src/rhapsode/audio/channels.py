"""Changes the number of channels: stereo to mono, or mono to stereo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rhapsode.audio.samples import layout_of, shaped, silence

if TYPE_CHECKING:
    from rhapsode.types import Samples


class Remix:
    """A streaming change of the number of channels: mono is the mean of both channels, stereo has mono on both."""

    def __init__(self, from_channels: int, to_channels: int) -> None:
        layout_of(from_channels)
        layout_of(to_channels)
        self._from, self._to = from_channels, to_channels

    def write(self, samples: Samples) -> Samples:
        samples = shaped(samples, self._from)
        if self._from == self._to:
            return samples
        if self._to == 1:
            mixed: Samples = samples.mean(axis=0, keepdims=True, dtype=np.float32)
            return mixed
        return np.repeat(samples, self._to, axis=0)

    def close(self) -> Samples:
        return silence(self._to)
