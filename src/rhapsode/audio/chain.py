"""Streaming steps from samples to samples, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from rhapsode.types import Samples


class Transform(Protocol):
    """A streaming step: `write` returns what is ready, `close` returns the rest."""

    def write(self, samples: Samples) -> Samples: ...

    def close(self) -> Samples: ...


class Chain:
    """Applies transforms one after the other. An empty chain changes nothing."""

    def __init__(self, *steps: Transform) -> None:
        self._steps = steps

    def write(self, samples: Samples) -> Samples:
        for step in self._steps:
            samples = step.write(samples)
        return samples

    def close(self, last: Samples) -> Samples:
        """Takes the last samples, closes every transform, and returns all remaining samples."""
        for step in self._steps:
            last = np.concatenate((step.write(last), step.close()), axis=1)
        return last
