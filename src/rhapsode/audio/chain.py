"""The interface of streaming transforms, and several of them in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from rhapsode.types import Samples


class Transform(Protocol):
    """A streaming step from samples to samples: `write` returns what is ready, `close` returns the rest."""

    def write(self, samples: Samples) -> Samples: ...

    def close(self) -> Samples: ...


class Chain:
    """Transforms applied one after the other, as one transform."""

    def __init__(self, first: Transform, *rest: Transform) -> None:
        self._first, self._rest = first, rest

    def write(self, samples: Samples) -> Samples:
        samples = self._first.write(samples)
        for step in self._rest:
            samples = step.write(samples)
        return samples

    def close(self) -> Samples:
        tail = self._first.close()
        for step in self._rest:
            tail = np.concatenate((step.write(tail), step.close()), axis=1)
        return tail
